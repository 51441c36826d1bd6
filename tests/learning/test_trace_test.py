"""The update test: one bit, trace >= C, right wherever the trace is past the stated resolution."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.learning import update as steps
from helba.learning.plan import OPENERS, Batch
from helba.learning.update_certificate import UpdateTerms
from helba.learning.update_plan import UpdatePlan
from helba.ring import DEVIATIONS
from tests.learning.driving import (
    History,
    draw_reports,
    make_plan,
    make_settings,
    make_world,
    run_schedule,
)

BACKENDS = ["simulate", pytest.param("openfhe", marks=pytest.mark.ckks)]
SMALL = {1: 9, 2: 9, 5: 10, 8: 10}


def make_small(dim, *, backend="simulate", opener="users", **others):
    told = make_settings(dim, **({"schedule": "trace", "growth": 1.0} | others))
    return make_world(told, backend=backend, opener=opener, log2_ring_dim=SMALL[dim])


def terms_of(unseen, *, untested=None):
    return steps.TestTerms(
        batch=0, unseen=unseen, untested=unseen if untested is None else untested
    )


def measure_trace(world, learned, sums):
    """Tr(A S) with the A that the test has, and exact sums."""
    plan = world.plan
    unit = (plan.settings.length / plan.rounding.peak) ** 2 / plan.settings.ridge
    return float(np.trace(world.read_test(learned.test) @ sums[:-1, :-1])) * unit


def draw_near(rng, world, learned, *, unseen, goal):
    """Sums of reports whose trace is about `goal`: contexts as long as that needs, or None."""
    reports = draw_reports(rng, world.plan, unseen, kind=rng.choice(["spread", "mixed"]))
    found = measure_trace(world, learned, reports.T @ reports)
    factor = np.sqrt(goal / found)
    contexts = np.rint(reports[:, :-1] * factor).astype(np.int64)
    if np.linalg.norm(contexts, axis=1).max() > world.plan.rounding.peak:
        return None
    reports[:, :-1] = contexts
    return reports.T @ reports


def check_both_sides(world, learned, rng, *, unseen, untested=None):
    """Just past the resolution on either side of C the bit is right, whatever the noise."""
    terms, plan = terms_of(unseen, untested=untested), world.plan
    band = plan.test_resolution(unseen=unseen, untested=terms.untested)
    assert band < plan.settings.trace_threshold
    decided = 0
    for side in (-1.0, 1.0):
        past = 1.02 * band + 0.002 * plan.settings.trace_threshold  # contexts are rounded
        goal = plan.settings.trace_threshold + side * past
        sums = draw_near(rng, world, learned, unseen=unseen, goal=goal)
        if sums is None:
            continue
        trace = measure_trace(world, learned, sums)
        growth = world.encrypt_sum(sums, reports=unseen, rng=rng)
        ran = world.test(learned, growth, terms)
        assert abs(ran.values[0] - trace) <= band
        if abs(trace - plan.settings.trace_threshold) > band:
            decided += 1
            assert ran.result == (trace >= plan.settings.trace_threshold)
    return decided


# -- either side of C


@given(seed=st.integers(0, 2**32), dim=st.sampled_from([1, 2, 5, 8]), unseen=st.integers(2, 60))
@settings(max_examples=60)
def test_trace_past_the_resolution_is_told_from_the_threshold(seed, dim, unseen):
    world = make_small(dim, ratio=2.0)
    check_both_sides(world, world.begin(), np.random.default_rng(seed), unseen=unseen)


@given(seed=st.integers(0, 2**32), unseen=st.integers(5, 60))
@settings(max_examples=20)
def test_trace_of_a_learned_inverse_is_told_from_the_threshold(seed, unseen):
    world, learned = make_learned()
    check_both_sides(world, learned, np.random.default_rng(seed), unseen=unseen)


@lru_cache(maxsize=1)
def make_learned():
    """A model after three updates."""
    world = make_small(2, opener="authority", ratio=2.0)
    *_, last = run_schedule(world, updates=3, seed=3)
    return world, last.ran.result


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("dim", [2, 8])
def test_trace_is_told_from_the_threshold_on_both_backends(dim, opener, backend):
    world = make_small(dim, backend=backend, opener=opener, ratio=2.0)
    rng, learned = np.random.default_rng(dim), world.begin()
    decided = [check_both_sides(world, learned, rng, unseen=unseen) for unseen in (3, 20)]
    assert sum(decided) >= 3


@pytest.mark.parametrize("opener", OPENERS)
def test_opened_value_is_the_trace(opener):
    """Far from C as well: the largest trace that the terms allow does not go around."""
    world = make_small(2, opener=opener)
    learned, peak = world.begin(), world.plan.rounding.peak
    for unseen in (1, 7, 300):
        reports = np.tile([peak, 0, 0], (unseen, 1))
        ran = world.test(
            learned, world.encrypt_sum(reports.T @ reports, reports=unseen), terms_of(unseen)
        )
        band = world.plan.test_resolution(unseen=unseen, untested=unseen)
        assert ran.values[0] == pytest.approx(unseen, abs=band)
        if unseen > 1:  # one has the trace of C, and may go either way
            assert ran.result is True


# -- the largest batch


@pytest.mark.parametrize("opener", OPENERS)
def test_largest_batch_that_is_tested_resolves_a_quarter_of_the_threshold(opener):
    world = make_small(2, opener=opener, ratio=2.0)
    plan, rng = world.plan, np.random.default_rng(9)
    unseen = plan.most_tested
    assert 100 < unseen <= plan.most_unseen
    assert plan.test_resolution(unseen=unseen, untested=1) <= 0.25 * plan.settings.trace_threshold
    learned = world.begin()
    decided = check_both_sides(world, learned, rng, unseen=unseen, untested=1)
    assert decided == 2


@pytest.mark.parametrize("opener", OPENERS)
def test_resolution_gets_coarser_with_every_report(opener):
    plan = make_plan(make_settings(2, arms=2, schedule="trace"), opener=opener)
    counts = [1, 2, 10, 100, 1000, plan.most_unseen]
    fine = [plan.test_resolution(unseen=count, untested=1) for count in counts]
    assert fine == sorted(fine)
    coarse = [plan.test_resolution(unseen=count, untested=count) for count in counts]
    assert all(one >= other for one, other in zip(coarse, fine, strict=True))


# -- the resolution


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("unseen", [1, 50])
def test_resolution_is_nine_deviations_of_what_is_compared(unseen, opener):
    """Neither too small nor vacuous: the spread of many tests of the same trace."""
    world = make_small(2, opener=opener)
    reports = draw_reports(np.random.default_rng(unseen), world.plan, unseen, kind="spread")
    growth = world.encrypt_sum(reports.T @ reports, reports=unseen)
    learned = world.begin()
    trace = measure_trace(world, learned, reports.T @ reports)
    found = np.array([world.test(learned, growth, terms_of(unseen)).values[0] for _ in range(60)])
    deviation = world.plan.test_resolution(unseen=unseen, untested=unseen) / DEVIATIONS
    assert 0.7 * deviation < np.std(found) < 1.4 * deviation
    assert abs(found.mean() - trace) < deviation


def test_noise_of_the_opener_decides_no_more_than_the_resolution():
    """The circuit's limit is C, in the units of what is opened, to one unit."""
    plan = make_plan(make_settings(8, arms=8, schedule="trace"))
    for unseen, untested in ((1, 1), (100, 3), (100, 100)):
        test = steps.TestPlan(plan, steps.TestTerms(batch=0, unseen=unseen, untested=untested))
        noise = plan.test_noise(unseen=unseen, untested=untested)
        assert test.deviation == 2.0**20 * noise
        band = plan.test_resolution(unseen=unseen, untested=untested)
        scale = test.scale * 2.0**52 / plan.parameters.moduli[1]
        assert band * scale == pytest.approx(DEVIATIONS * test.deviation)


# -- structural ties


@pytest.mark.parametrize("backend", BACKENDS)
def test_threshold_on_a_structural_tie_is_decided_by_noise_and_beside_it_never(backend):
    """At lambda = L = 1 a unit context has trace 1: C = 1 is a tie, 0.9 and 1.1 are not."""
    bits = {}
    for threshold in (0.9, 1.0, 1.1):
        world = make_small(2, backend=backend, trace_threshold=threshold)
        assert world.plan.test_resolution(unseen=1, untested=1) < 0.1
        sums = History(world.plan).add(np.array([[world.plan.rounding.peak, 0, 0]]))
        growth, learned = world.encrypt_sum(sums, reports=1), world.begin()
        bits[threshold] = {world.test(learned, growth, terms_of(1)).result for _ in range(40)}
    assert bits == {0.9: {True}, 1.0: {False, True}, 1.1: {False}}


# -- what an update makes of a test


@pytest.mark.parametrize("opener", OPENERS)
def test_update_counts_a_test_that_said_no_with_its_resolution(opener):
    plan = make_plan(make_settings(8, arms=8, schedule="trace"), opener=opener)
    batch = Batch(number=1, samples=1000, residual=1e-3, estimate_error=0.0)
    step = plan.ratio * 1.001

    def bound(unseen, untested):
        terms = UpdateTerms(before=batch, samples=1000 + unseen, untested=untested)
        return UpdatePlan(plan, terms).trace

    assert bound(100, 100) == pytest.approx(100 * step)
    band = plan.test_resolution(unseen=99, untested=99)
    assert bound(100, 1) == pytest.approx(plan.settings.trace_threshold + band + step)
    assert bound(1, 0) <= step  # fewer reports than C: their count bounds the trace
