"""Updates on shares: sums, inverse, estimate and model are numpy's, within what the plan states.

`assert_certified` compares each new model with exact sums of the same reports: the inverse and the
estimate within their certificates, the copies with each other, the model with the inverse.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from helba.garbling import build_report_check
from helba.learning.exchange import Stack
from helba.learning.plan import INVERSE_ERROR, OPENERS, Batch
from helba.learning.round import encrypt_report, fold_report
from helba.learning.score import RESOLUTION
from helba.learning.update_certificate import UpdateTerms
from helba.learning.update_plan import UpdatePlan
from helba.ring import DEVIATIONS
from tests.learning.driving import (
    INVERSE_SCALE,
    History,
    Updated,
    assert_certified,
    draw_reports,
    make_plan,
    make_settings,
    make_world,
    next_update,
    read_weights,
    run_schedule,
    walk_schedule,
)
from tests.sweep import in_soak, sweep

BACKENDS = ["simulate", pytest.param("openfhe", marks=pytest.mark.ckks)]
SMALL = {2: 9, 8: 10}  # dimension: log2 of the smallest ring that takes an update in one block
FEW_UNITS = 16  # of the grid, in an entry of the model


def make_small(dim, *, backend="simulate", opener="users", **others):
    settings = make_settings(dim, **({"growth": 1.0} | others))
    return make_world(settings, backend=backend, opener=opener, log2_ring_dim=SMALL[dim])


def update_once(world, *, seed=0, reports=5):
    """One update from the first model: its plan, what came of it, and the reports."""
    history, rng = History(world.plan), np.random.default_rng(seed)
    sums = history.add(draw_reports(rng, world.plan, reports))
    terms = UpdateTerms(before=world.plan.first_batch, samples=reports, untested=reports)
    update = UpdatePlan(world.plan, terms)
    growth = world.encrypt_sum(sums, reports=reports, rng=rng)
    return update, world.update(world.begin(), growth, update), history


# -- sums of reports


def read_sums(world, ciphertext):
    """The integer sums of p p^T that stand in a ciphertext, and how far from integers they are."""
    unit = world.plan.report_multiple**2 / world.plan.parameters.moduli[2]
    found = world.read(Stack({0: ciphertext}), world.plan.sum_places, scale=unit)
    return np.rint(found).astype(np.int64), np.abs(found - np.rint(found)).max()


def build_check(plan, *, reports):
    """The circuit that a fold waits for."""
    rounding, leading = plan.rounding, plan.leading_bits
    length = rounding.peak * (1.0 + rounding.slack)
    length /= 1 << (rounding.peak.bit_length() - leading)
    return build_report_check(
        plan.settings.dim,
        bits=96,
        limit=rounding.peak,
        reward_limit=rounding.peak,
        leading_bits=leading,
        bound=int(length**2) + 1,
        reports=reports,
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dim", [2, 8])
def test_fold_of_shares_gives_the_exact_sums(dim, backend):
    world = make_small(dim, backend=backend, opener="authority")
    count = min(5, world.plan.group)
    reports = draw_reports(np.random.default_rng(dim), world.plan, count)
    ran = world.fold(reports, circuit=build_check(world.plan, reports=count))
    sums, apart = read_sums(world, ran.result)
    assert (sums == reports.T @ reports).all()
    unit = world.plan.report_multiple**2 / world.plan.parameters.moduli[2]
    assert apart <= DEVIATIONS * world.plan.sum_noise(count) / unit


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dim", [2, 8])
def test_encrypted_reports_sum_up_to_the_exact_sums(dim, backend):
    world = make_small(dim, backend=backend)
    ring, plan = world.ring, world.plan
    reports = draw_reports(np.random.default_rng(dim), plan, 5)
    folds = [fold_report(ring, plan, encrypt_report(ring, plan, report)) for report in reports]
    sums, apart = read_sums(world, ring.sum(folds))
    assert (sums == reports.T @ reports).all()
    unit = plan.report_multiple**2 / plan.parameters.moduli[2]
    assert apart <= DEVIATIONS * plan.sum_noise(5) / unit


@pytest.mark.parametrize("opener", OPENERS)
def test_sums_that_a_test_encrypts_at_once_are_exact(opener):
    """So that jumping over a batch is the same as folding it."""
    world = make_small(2, opener=opener)
    reports = draw_reports(np.random.default_rng(1), world.plan, 300)
    sums, _ = read_sums(world, world.encrypt_sum(reports.T @ reports, reports=300))
    assert (sums == reports.T @ reports).all()


@pytest.mark.parametrize(("place", "amount"), [(0, 1.01), (1, -1.01), (2, 1.01)])
def test_fold_with_a_report_out_of_range_gives_nothing(place, amount):
    world = make_small(2, opener="authority")
    reports = draw_reports(np.random.default_rng(3), world.plan, 4)
    reports[2, place] = round(amount * world.plan.rounding.peak)
    ran = world.fold(reports, circuit=build_check(world.plan, reports=4))
    assert ran.result is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_update_learns_from_folded_reports(backend):
    """From users' own ciphertexts to a certified model, nothing encrypted by the test itself."""
    world = make_small(2, backend=backend)
    ring, plan, history = world.ring, world.plan, History(world.plan)
    reports = draw_reports(np.random.default_rng(4), plan, 3)
    history.add(reports)
    growth = ring.sum([fold_report(ring, plan, encrypt_report(ring, plan, p)) for p in reports])
    terms = UpdateTerms(before=plan.first_batch, samples=3, untested=3)
    update = UpdatePlan(plan, terms)
    ran = world.update(world.begin(), growth, update)
    assert_certified(world, ran, history, update)


# -- updates


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("dim", [2, 8])
def test_first_model_is_the_identity_in_all_copies(dim, opener):
    world = make_small(dim, opener=opener)
    learned, plan = world.begin(), world.plan
    near = world.fresh_error / INVERSE_SCALE
    one = np.eye(dim)
    assert world.read_rows(learned.rows) == pytest.approx(one, abs=near)
    assert world.read_columns(learned.columns) == pytest.approx(one, abs=near)
    assert world.read_test(learned.test) == pytest.approx(one, abs=2.0**10 * near)
    design = world.read(learned.design, plan.matrix.row_places[:dim])
    assert design == pytest.approx(one, abs=world.fresh_error / plan.design_scale)
    entries = world.read_model(learned.model)
    weights, settings = plan.weigh(learned.batch), plan.settings
    unit = weights.gamma / 2.0 * settings.length**2 / settings.ridge * weights.unit
    diagonal = one[np.triu_indices(dim)] * round(unit / plan.rounding.peak)
    assert (np.rint(entries) == np.append(np.zeros(dim), diagonal)).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("dim", [2, 8])
def test_updates_keep_their_certificates(dim, opener, backend):
    world = make_small(dim, backend=backend, opener=opener)
    done = list(run_schedule(world, updates=2, seed=dim))
    assert [each.update.after.number for each in done] == [1, 2]


@pytest.mark.ckks
@pytest.mark.parametrize(("dim", "opener"), [(2, "users"), (8, "authority")])
def test_update_keeps_its_certificates_at_128_bits(dim, opener):
    world = make_world(make_settings(dim), backend="openfhe", opener=opener)
    assert world.plan.parameters.security == 128
    update, ran, history = update_once(world)
    assert_certified(world, ran, history, update)


@pytest.mark.parametrize("dim", [17, 32])
def test_updates_in_blocks_keep_their_certificates(dim):
    """From d = 17 on a product of matrices takes several polynomials at N = 2^13."""
    world = make_world(make_settings(dim, growth=1.0))
    assert max(world.plan.matrix.grid) > 1
    assert len(list(run_schedule(world, updates=2, seed=dim))) == 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dim", [2, 8])
@pytest.mark.parametrize("kind", ["spread", "collinear"])
def test_updates_of_a_small_ridge_keep_their_certificates(dim, kind, backend):
    """lambda = L^2/30; contexts in all directions, and within 1e-3 of one."""
    world = make_small(dim, backend=backend, ratio=30.0, growth=3.0)
    done = list(run_schedule(world, updates=2, kind=kind))
    assert done[-1].history.samples == 16
    values = np.linalg.eigvalsh(done[-1].history.design)
    assert kind == "spread" or values[-1] > 100.0 * values[0]


@pytest.mark.parametrize("dim", [2, 8])
def test_model_has_the_integers_of_numpys_model(dim):
    """The same Newton steps in doubles, from the decrypted inverse before; a few units apart."""
    world = make_small(dim)
    first, second = run_schedule(world, updates=2, seed=dim)
    plan, settings, update = world.plan, world.plan.settings, second.update
    V = second.history.design / settings.ridge
    g = second.history.response / settings.ridge
    X = world.read_rows(first.ran.result.rows)
    for scale in update.warm.scales:
        X = scale * X @ (2.0 * np.eye(dim) - scale * V @ X)
    w = X @ g
    w = w + X @ (g - V @ w)
    weights, peak = update.weights, plan.rounding.peak
    linear = w * settings.length * weights.unit / peak
    quadratic = (weights.gamma * X - np.diag(np.diag(X)) * weights.gamma / 2.0)[
        np.triu_indices(dim)
    ]
    quadratic = quadratic * settings.length**2 / settings.ridge * weights.unit / peak
    expected = np.rint(np.append(linear, quadratic))
    assert np.abs(expected).max() > 1000 * FEW_UNITS
    entries = np.rint(world.read_model(second.ran.result.model))
    assert np.abs(entries - expected).max() <= FEW_UNITS


def measure_scores(world, update, ran):
    """How far scores by the model's integers are from those of w and X before, over the range."""
    settings, weights, d = world.plan.settings, update.weights, update.dim
    w, inverse = read_weights(world, ran.result, update)
    exact = world.read(ran.steps["model"]["norm"], world.plan.inner(1).model_places[:d])
    exact = exact * settings.reward_max * settings.length / settings.ridge
    rows = world.read_rows(ran.result.rows)
    contexts = np.random.default_rng(5).normal(size=(200, d))
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    quadratic = ((contexts @ (inverse - rows)) * contexts).sum(axis=1) / settings.ridge
    off = contexts @ (w - exact) + weights.gamma / 2.0 * quadratic
    return np.abs(off).max() / weights.span


@pytest.mark.parametrize("backend", BACKENDS)
def test_model_scores_are_within_the_plans_resolution(backend):
    world = make_small(8, backend=backend)
    update, ran, _ = update_once(world, reports=6)
    assert measure_scores(world, update, ran) <= update.resolution / 2.0
    assert update.resolution <= 1.1e-4


def test_resolution_counts_the_openers_noise_where_it_is_most_of_it():
    (done,) = run_stretch(1_000_000, updates=1)
    assert done.update.resolution > 10.0 * RESOLUTION
    found = measure_scores(make_stretched(), done.update, done.ran)
    assert RESOLUTION / 2.0 < found <= done.update.resolution / 2.0


def test_reopened_inverse_is_symmetrised():
    """Even where a disturbance of the product was not."""
    world = make_small(8)
    for done in run_schedule(world, updates=2, kind="collinear"):
        rows = world.read_rows(done.ran.result.rows)
        assert np.abs(rows - rows.T).max() <= 2.0 * world.fresh_error / INVERSE_SCALE


# -- cold starts


@pytest.mark.parametrize("backend", BACKENDS)
def test_cold_start_needs_nothing_of_the_old_inverse(backend):
    """An inverse that is wrong everywhere: a warm start is rejected, a cold one is certified."""
    world = make_small(2, backend=backend)
    plan, d = world.plan, 2
    *_, last = run_schedule(world, updates=2)
    learned, history = last.ran.result, last.history
    broken = replace(
        learned,
        rows=world.encrypt(5.0 * np.ones((d, d)), plan.matrix.row_places[:d], scale=INVERSE_SCALE),
        columns=world.encrypt(
            5.0 * np.ones((d, d)), plan.matrix.column_places, scale=INVERSE_SCALE
        ),
    )
    sums = history.add(draw_reports(np.random.default_rng(7), plan, 3))
    growth = world.encrypt_sum(sums, reports=3)
    terms = UpdateTerms(before=learned.batch, samples=history.samples, untested=3)
    assert world.update(broken, growth, UpdatePlan(plan, terms)).result is None
    cold = UpdatePlan(plan, replace(terms, cold=True))
    assert_certified(world, world.update(broken, growth, cold), history, cold)
    assert cold.trace == history.samples * plan.ratio


# -- Newton's steps


def count_steps(high, *, low=1.0):
    """Steps of r -> r^2/(2 - r^2) to the aim, from eigenvalues in [low, high]: an oracle."""
    residual, steps = (high - low) / (high + low), 0
    while residual > INVERSE_ERROR or not steps:
        residual, steps = residual**2 / (2.0 - residual**2), steps + 1
    return steps


@pytest.mark.parametrize("ratio", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("unseen", [1, 10, 100])
def test_newton_takes_as_few_scaled_steps_as_the_spectrum_needs(ratio, unseen):
    plan = make_plan(make_settings(8, ratio=ratio))
    batch = Batch(number=1, samples=100, residual=1e-5, estimate_error=0.0)
    terms = UpdateTerms(before=batch, samples=100 + unseen, untested=unseen)
    update = UpdatePlan(plan, terms)
    # the last step is not scaled back, which may leave a little more than the centred residual
    least = count_steps(1.0 + unseen * ratio)
    assert least <= update.steps <= least + 1
    assert update.residual <= 1.1 * INVERSE_ERROR


def test_newton_takes_three_steps_at_equal_ridge_and_five_at_a_thirtieth():
    for ratio, steps in ((1.0, 3), (30.0, 5)):
        plan = make_plan(make_settings(8, ratio=ratio, schedule="trace"))
        batch = Batch(number=1, samples=100, residual=INVERSE_ERROR, estimate_error=0.0)
        terms = UpdateTerms(before=batch, samples=105, untested=1)
        assert UpdatePlan(plan, terms).steps == steps


def test_update_reopens_once_for_every_step_but_the_last():
    for reports in (1, 40):
        update, ran, _ = update_once(make_small(2), reports=reports)
        newton = [step for step in ran.steps if step.startswith("newton")]
        assert newton == [f"newton {number}" for number in range(1, update.steps)]
    assert update.steps > 3


@pytest.mark.parametrize("samples", [10, 1000, 6000])
def test_scaled_matrix_stays_within_its_reach(samples):
    """Entries of s V X for the worst designs: all new reports along one new direction."""
    plan, rng = make_plan(make_settings(8, ratio=30.0)), np.random.default_rng(samples)
    unseen = samples // 2
    batch = Batch(number=1, samples=samples - unseen, residual=1e-3, estimate_error=0.0)
    update = UpdatePlan(plan, UpdateTerms(before=batch, samples=samples, untested=unseen))
    for _ in range(20):
        old, new = rng.normal(size=(2, 8))
        old, new = old / np.linalg.norm(old), new / np.linalg.norm(new)
        V = np.eye(8) + plan.ratio * (samples - unseen) * np.outer(old, old)
        X = np.linalg.inv(V)
        M = (V + plan.ratio * unseen * np.outer(new, new)) @ X * update.warm.scales[0]
        assert np.abs(M).max() <= update.reach
        assert np.linalg.eigvals(M).real.max() <= 2.0


# -- many updates


@pytest.mark.parametrize("opener", OPENERS)
def test_schedule_to_ten_thousand_reports_keeps_its_certificates(opener):
    world = make_small(8, opener=opener)
    done = list(run_schedule(world))
    assert done[-1].history.samples == 10_000
    assert max(each.residual for each in done) < 0.01


@pytest.mark.slow
@pytest.mark.ckks
@pytest.mark.parametrize("opener", OPENERS)
def test_design_error_does_not_accumulate_over_many_updates(opener):
    """Fresh encryptions add up like their squares, and the inverse forgets what was before."""
    world = make_small(8, backend="openfhe", opener=opener)
    plan, ridge = world.plan, world.plan.settings.ridge
    residuals, updates = [], sweep(24, long=100)
    for done in run_schedule(world, updates=updates, most=3, kind="spread"):
        residuals.append(done.residual)
    design = world.read(done.ran.result.design, plan.matrix.row_places[:8])
    off = np.abs(design - done.history.design / ridge).max()
    assert done.update.after.number == updates
    assert off <= plan.design_error(done.history.samples) / plan.settings.dim
    assert max(residuals[-10:]) <= 1.5 * max(residuals[:10])


def make_stretched():
    return make_world(make_settings(32, horizon=1_001_000, ratio=30.0))


def run_stretch(samples, *, updates):
    """Updates of the public schedule from so many reports on; d = 32, L^2/lambda = 30, T = 10^6.

    They begin with an inverse as bad as an update may leave it, and sums with all folds' errors.
    """
    world = make_stretched()
    plan, ridge = world.plan, world.plan.settings.ridge
    rng, history = np.random.default_rng(samples), History(plan)
    history.add(draw_reports(rng, plan, 50), times=samples // 50)
    batch = Batch(number=99, samples=samples, residual=INVERSE_ERROR, estimate_error=0.0)
    values, vectors = np.linalg.eigh(history.design / ridge)
    allowed = 1.0 + rng.uniform(-1.0, 1.0, 32) * INVERSE_ERROR
    inverse = (vectors * (allowed / values)) @ vectors.T
    learned = world.learn_at_once(history, batch, inverse=inverse, rng=rng)
    for _ in range(updates):
        update = next_update(plan, learned.batch)
        assert update.residual < 0.01
        sums = history.add(draw_reports(rng, plan, update.terms.unseen))
        growth = world.encrypt_sum(sums, reports=update.terms.unseen, rng=rng)
        ran = world.update(learned, growth, update)
        residual = assert_certified(world, ran, history, update)
        yield Updated(update=update, ran=ran, history=history, residual=residual)
        learned = ran.result


@pytest.mark.parametrize("samples", [1_000, 1_000_000])
def test_update_after_a_million_reports_of_a_small_ridge_keeps_its_certificates(samples):
    (done,) = run_stretch(samples, updates=1)
    assert done.residual < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("samples", [1_000, in_soak(10_000), in_soak(100_000), 1_000_000])
def test_inverse_stays_good_up_to_a_million_reports_of_a_small_ridge(samples):
    """Stretches of the schedule, whose updates at such a ridge are a hundred thousand."""
    residuals = [done.residual for done in run_stretch(samples, updates=20)]
    assert max(residuals) < 0.01
    assert max(residuals[-5:]) <= 2.0 * max(residuals[:5])


@pytest.mark.parametrize(
    ("dim", "ratio", "horizon", "growth"),
    [(32, 1.0, 10**6, 1.0), (32, 30.0, 10**4, 0.1), (8, 30.0, 10**5, 1.0), (2, 0.01, 10**6, 1.0)],
)
def test_every_update_of_the_public_schedule_is_stated_below_a_hundredth(
    dim, ratio, horizon, growth
):
    plan = make_plan(make_settings(dim, ratio=ratio, horizon=horizon, growth=growth))
    updates = list(walk_schedule(plan))
    assert max(update.residual for update in updates) < 0.01
    assert all(update.terms.unseen <= plan.most_unseen for update in updates)


@pytest.mark.parametrize("samples", [1, 10, 10**3, 10**4, 10**5, 10**6])
def test_updates_up_to_a_million_reports_of_a_small_ridge_are_stated_below_a_hundredth(samples):
    """d = 32, L^2/lambda = 30, on paper: an update after any number of reports."""
    plan = make_plan(make_settings(32, horizon=10**6, ratio=30.0))
    unseen = min(samples, plan.most_unseen)
    batch = Batch(
        number=1, samples=samples - unseen, residual=2 * INVERSE_ERROR, estimate_error=0.0
    )
    update = UpdatePlan(plan, UpdateTerms(before=batch, samples=samples, untested=unseen))
    assert update.residual < 0.01
    assert math.isfinite(update.estimate_error)
