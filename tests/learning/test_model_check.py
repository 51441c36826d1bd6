"""The check of a new model: good ones pass, and each of its four values finds what it is for.

A disturbance comes with a twin: without the range that finds it, the wrong model is adopted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest

from helba.learning.model_check import CHECK_BITS, COPY_LIMIT, INVERSE_LIMIT, ModelCheck
from helba.learning.plan import NOISE_FACTOR, OPENERS
from helba.learning.update import Learned
from helba.learning.update_certificate import UpdateTerms
from helba.learning.update_plan import UpdatePlan
from tests.learning.driving import (
    INVERSE_SCALE,
    TEST_SCALE,
    History,
    add_to,
    draw_reports,
    make_plan,
    make_settings,
    make_world,
    read_weights,
    run_schedule,
    walk_schedule,
)

BACKENDS = ["simulate", pytest.param("openfhe", marks=pytest.mark.ckks)]
DIM = 3
INVERSE, REFINEMENT, NORM, COPIES = range(4)


class LooseCheck(ModelCheck):
    """A check that holds one of the values to no range."""

    def __init__(self, update: UpdatePlan, *, free: int) -> None:
        super().__init__(update)
        self._free = free

    @cached_property
    def values(self):
        """All values; one of them may be anything."""
        values = list(super().values)
        most = 2.0**60 / values[self._free].scale
        values[self._free] = replace(values[self._free], low=-most, high=most)
        return tuple(values)


class Case:
    """An update that is ready to run, with rewards or without."""

    def __init__(self, *, backend="simulate", opener="users", rewards=True, reports=6) -> None:
        settings = make_settings(DIM, growth=1.0)
        self.world = make_world(settings, backend=backend, opener=opener, log2_ring_dim=9)
        self.plan, self.history = self.world.plan, History(self.world.plan)
        made = draw_reports(np.random.default_rng(0), self.plan, reports, kind="spread")
        if not rewards:
            made[:, -1] = 0
        self.sums = self.history.add(made)
        terms = UpdateTerms(before=self.plan.first_batch, samples=reports, untested=reports)
        self.update = UpdatePlan(self.plan, terms)

    def run(self, *, wrong=None, free=None):
        """Run the update, disturbed by `wrong`, without the range of the value `free`."""
        check = None if free is None else LooseCheck(self.update, free=free)
        growth = self.world.encrypt_sum(self.sums, reports=self.history.samples)
        return self.world.update(self.world.begin(), growth, self.update, wrong=wrong, check=check)

    def outside(self, ran):
        """The numbers of the values that lie out of their ranges."""
        ranges = ModelCheck(self.update).values
        pairs = enumerate(zip(ran.values, ranges, strict=True))
        return [i for i, (value, each) in pairs if not each.low <= value <= each.high]

    def copies(self, amount, *, only=None):
        """Add to an entry on the diagonal of X, in all its copies or in one."""
        update, world = self.update, self.world
        found = {
            "rows": (update.layout.row_places[:DIM], (0, 0), INVERSE_SCALE),
            "columns": (update.layout.column_places, (0, 0), INVERSE_SCALE),
            "test": (self.plan.trace_right, (0, 0), TEST_SCALE),
            "model": (self.plan.inner(1).model_places, DIM, update.model_inverse_scale),
        }
        return {
            "inverse": {
                name: add_to(world, arrangement, index, amount, scale=scale)
                for name, (arrangement, index, scale) in found.items()
                if only in (None, name)
            }
        }

    def estimate(self, amount, name):
        """Add to an entry of w, where it is subtracted from g or where it is refined."""
        places = {"column": self.update.column, "again": self.update.first_results}[name]
        scale = {"column": 2.0**52, "again": self.update.estimate_scale}[name]
        return {"estimate": {name: add_to(self.world, places, 0, amount, scale=scale)}}


# -- what passes


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("opener", OPENERS)
def test_good_model_passes_with_all_values_in_their_ranges(opener, backend):
    case = Case(backend=backend, opener=opener)
    ran = case.run()
    assert isinstance(ran.result, Learned)
    assert case.outside(ran) == []


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("ratio", [1.0, 30.0])
def test_values_of_good_models_are_what_they_are_defined_as(opener, ratio):
    """Tr((I - V X)^2), r^T X r, |w|^2 and 0, each within its noise of what numpy has."""
    world = make_world(make_settings(DIM, growth=1.0, ratio=ratio), opener=opener, log2_ring_dim=9)
    for done in run_schedule(world, updates=6):
        check, settings = ModelCheck(done.update), world.plan.settings
        rows = world.read_rows(done.ran.result.rows)
        rest = np.eye(DIM) - done.history.design / settings.ridge @ rows
        w, _ = read_weights(world, done.ran.result, done.update)
        unit = settings.reward_max * settings.length / settings.ridge
        expected = (np.trace(rest @ rest), None, (w @ w) / unit**2, 0.0)
        for value, exact, each in zip(done.ran.values, expected, check.values, strict=True):
            assert each.low <= value <= each.high
            if exact is not None:
                # the opener's noise, half of which is what a range allows; units of the model
                assert abs(value - exact) <= -each.low + 1e-6 * (1.0 + abs(exact))


# -- what is found


@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_inverse_in_all_copies_is_found_by_its_residual(backend):
    case = Case(backend=backend, rewards=False)
    wrong = case.copies(0.3)
    ran = case.run(wrong=wrong)
    assert ran.result is None
    assert case.outside(ran) == [INVERSE]
    adopted = case.run(wrong=wrong, free=INVERSE).result
    inverse = case.world.read_rows(adopted.rows) / case.plan.settings.ridge
    assert case.history.measure_residual(inverse) > 2.0 * INVERSE_LIMIT


@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_estimate_is_found_by_its_refinement(backend):
    case = Case(backend=backend)
    wrong = case.estimate(0.1, "column")
    ran = case.run(wrong=wrong)
    assert ran.result is None
    assert case.outside(ran) == [REFINEMENT]
    adopted = case.run(wrong=wrong, free=REFINEMENT).result
    w, _ = read_weights(case.world, adopted, case.update)
    assert case.history.measure_estimate(w) > 100.0 * case.update.estimate_error


@pytest.mark.parametrize("backend", BACKENDS)
def test_long_estimate_is_found_by_its_norm(backend):
    case = Case(backend=backend)
    wrong = case.estimate(1.2 * case.update.estimate_bound, "again")
    ran = case.run(wrong=wrong)
    assert ran.result is None
    assert case.outside(ran) == [NORM]
    adopted = case.run(wrong=wrong, free=NORM).result
    w, _ = read_weights(case.world, adopted, case.update)
    assert np.linalg.norm(w) > case.update.weights.estimate_bound


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["rows", "test", "model"])
def test_copy_that_differs_is_found_by_random_signs(name, backend):
    case = Case(backend=backend, rewards=False)
    wrong = case.copies(-1.0 if name == "model" else 1.0, only=name)
    ran = case.run(wrong=wrong)
    assert ran.result is None
    assert case.outside(ran) == [COPIES]
    adopted = case.run(wrong=wrong, free=COPIES).result
    world = case.world
    _, model = read_weights(world, adopted, case.update)
    copies = {
        "rows": world.read_rows(adopted.rows),
        "columns": world.read_columns(adopted.columns),
        "test": world.read_test(adopted.test),
        "model": model,
    }
    differing = [key for key in copies if np.abs(copies[key] - copies["columns"]).max() > 0.5]
    assert differing == [name]


def test_columns_that_differ_are_found_by_the_residual_too():
    """The residual is made of the columns; signs compare the other copies with them."""
    case = Case(rewards=False)
    ran = case.run(wrong=case.copies(1.0, only="columns"))
    assert ran.result is None
    assert case.outside(ran) == [INVERSE, COPIES]


def test_disturbances_below_what_the_check_resolves_pass():
    """So that the tests above do not see anything but the amount."""
    case = Case(rewards=False)
    assert case.run(wrong=case.copies(1e-3)).result is not None
    assert case.run(wrong=case.copies(1e-3, only="test")).result is not None


# -- ranges and noise


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize(("dim", "ratio"), [(2, 1.0), (8, 30.0), (16, 0.01)])
def test_ranges_fit_the_circuit_and_see_what_they_promise(dim, ratio, opener):
    plan = make_plan(make_settings(dim, arms=dim, ratio=ratio, growth=1.0), opener=opener)
    for update in walk_schedule(plan):
        check = ModelCheck(update)
        unit = 2.0**CHECK_BITS / plan.parameters.moduli[0]
        for value in check.values:
            assert value.low < 0.0 < value.high
            assert max(-value.low, value.high) * value.scale * unit < 2.0 ** (CHECK_BITS - 1)
        inverse, refinement, norm, copies = check.values
        limit = max(INVERSE_LIMIT, 2.0 * np.sqrt(dim) * update.residual)
        assert limit <= np.sqrt(inverse.high) <= 2.0 * limit
        assert 2.0 * update.refinement_limit <= refinement.high <= 3.0 * update.refinement_limit
        assert update.estimate_bound <= np.sqrt(norm.high) <= 1.05 * update.estimate_bound
        assert copies.low == pytest.approx(-copies.high)
        # a copy that went around the modulus makes a number that may be any: one in a hundred fits
        assert copies.high >= COPY_LIMIT
        assert (copies.high - copies.low) * copies.scale < 0.01 * plan.parameters.moduli[0]


@pytest.mark.parametrize("opener", OPENERS)
def test_deviations_are_the_noise_factor_times_the_noise(opener):
    plan = make_plan(make_settings(8, arms=8, growth=1.0), opener=opener)
    for update in walk_schedule(plan):
        check = ModelCheck(update)
        assert check.deviations == tuple(NOISE_FACTOR * each.noise for each in check.values)
        assert min(each.noise for each in check.values) > 0.0


def test_openers_noise_has_the_stated_deviation():
    """The copies' difference is 0 but for noise: its spread over many updates."""
    case = Case(rewards=False)
    found = np.array([case.run().values for _ in range(40)])
    check = ModelCheck(case.update)
    stated = check.deviations[COPIES] / check.values[COPIES].scale
    assert 0.6 * stated < np.std(found[:, COPIES]) < 1.5 * stated
