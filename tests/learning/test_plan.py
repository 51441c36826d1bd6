"""The plan on shares: bits, grid, schedule and bounds are what it says, for all sizes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.garbling.circuits.check import build_report_check
from helba.lab.play.twin import restore_contexts
from helba.learning.plan import NOISE_FACTOR, OPENERS, Batch, make_shares_plan
from helba.learning.score import COMBINATIONS, SHARE_BITS_MOST, feature_sizes
from helba.learning.update_certificate import UpdateTerms
from helba.learning.update_plan import UpdatePlan
from tests.garbling.parties import evaluate_clear
from tests.learning.driving import draw_reports, make_plan, make_settings, next_update

SIZES = [(1, 2), (2, 2), (8, 8), (16, 16), (5, 50), (32, 4)]


@st.composite
def any_plan(draw, schedules=("trace", "public")):
    """A plan of any settings, for a few sizes."""
    dim, arms = draw(st.sampled_from(SIZES))
    settings_ = make_settings(
        dim,
        arms=arms,
        horizon=draw(st.sampled_from([1, 100, 10_000, 1_000_000])),
        ratio=draw(st.sampled_from([0.01, 1.0, 30.0])),
        schedule=draw(st.sampled_from(schedules)),
        length=draw(st.sampled_from([0.1, 1.0, 7.0])),
        reward_max=draw(st.sampled_from([0.5, 4.5])),
    )
    return make_plan(settings_, opener=draw(st.sampled_from(OPENERS)))


@pytest.fixture(scope="module", autouse=True)
def _plan_all_sizes():
    """Once, before examples are drawn: a plan takes seconds for some sizes."""
    for dim, arms in SIZES:
        for opener in OPENERS:
            make_plan(make_settings(dim, arms=arms), opener=opener)


# -- bits and grid


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize(("dim", "arms"), SIZES)
def test_unit_of_the_model_moves_scores_by_less_than_the_resolution(dim, arms, opener):
    """One unit in every entry, in both of two scores, over the range of a score."""
    plan = make_plan(make_settings(dim, arms=arms), opener=opener)
    rng, peak = np.random.default_rng(dim), plan.rounding.peak
    contexts = rng.normal(size=(400, dim))
    contexts[0] = 1.0  # the worst one
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    features = plan.rounding.make_features(plan.rounding.round_contexts(contexts))
    moved = np.abs(features).sum(axis=1).max()
    assert moved >= 0.99 * peak * feature_sizes(dim)
    assert 2 * moved / 2.0**plan.score_bits <= 0.75e-4


@pytest.mark.parametrize("opener", OPENERS)
def test_bits_and_grid_follow_from_the_sizes_alone(opener):
    """What `make_plan` of these tests relies on."""
    for others in ({"ratio": 30.0}, {"length": 7.0, "reward_max": 0.5}, {"horizon": 1}):
        settings_ = make_settings(1, arms=2, schedule="trace", **others)
        assert make_plan(settings_, opener=opener) == make_shares_plan(settings_, opener=opener)


@given(seed=st.integers(0, 2**32), dim=st.integers(1, 64))
def test_sizes_of_features_are_bounded_and_reached(seed, dim):
    rng = np.random.default_rng(seed)
    contexts = np.vstack([np.ones(dim), np.eye(dim)[0], rng.normal(size=(20, dim))])
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    first, second = np.triu_indices(dim)
    sizes = np.abs(contexts).sum(axis=1) + np.abs(contexts[:, first] * contexts[:, second]).sum(1)
    assert sizes.max() <= feature_sizes(dim) * (1 + 1e-12)
    assert sizes[0] == pytest.approx(feature_sizes(dim))


@given(plan=any_plan())
@settings(max_examples=40)
def test_grid_carries_the_score_above_all_errors(plan):
    grid, (first, middle) = plan.grid, plan.parameters.moduli[:2]
    assert grid.error < 2.0 ** (grid.low_bits - 1)
    assert plan.score_bits <= grid.score_bits == grid.bits - grid.low_bits - 1
    assert grid.bits <= SHARE_BITS_MOST < math.log2(first)
    unit = Fraction(grid.feature_multiple * grid.model_multiple << grid.bits, first * middle)
    off = abs(unit / 2**grid.low_bits - 1)
    assert off * 2**plan.score_bits < Fraction(1, 4)  # what the largest score makes of it
    # features and model stay integers that two primes carry
    assert 2.0**plan.score_bits * grid.feature_multiple * grid.model_multiple < first * middle / 2
    assert plan.rounding.peak * grid.feature_multiple < first * middle / 2


@given(plan=any_plan(), seed=st.integers(0, 2**32))
@settings(max_examples=40)
def test_grid_was_chosen_for_honest_asks_of_all_lanes(plan, seed):
    """Norm of an ask's integers, and of random sums of them, against what the plan allows."""
    rng, rounding, s = np.random.default_rng(seed), plan.rounding, plan.settings
    contexts = rng.normal(size=(s.arms, s.dim)) ** 3  # some along an axis
    if seed % 3 == 0:
        contexts = np.eye(s.dim)[rng.integers(0, s.dim, s.arms)]
    contexts *= s.length / np.linalg.norm(contexts, axis=1, keepdims=True)
    ask = rounding.make_features(rounding.round_contexts(contexts)).astype(float)
    assert np.linalg.norm(ask) <= plan.ask_norm * rounding.peak
    limit = 2.0 ** (plan.checked_bits - 1)
    checked = ask.reshape(-1)
    if ask.size > COMBINATIONS:
        checked = rng.choice([-1.0, 0.0, 0.0, 1.0], (50, ask.size)) @ checked
    assert np.abs(checked).max() < limit


def test_random_sums_find_long_asks():
    """A vector of sqrt(8) limits passes all sums with probability 2^-38 at most: none does."""
    settings_ = make_settings(5, arms=50)
    plan = make_plan(settings_, opener="authority")
    rng, numbers = np.random.default_rng(0), 50 * plan.rounding.features
    assert numbers > COMBINATIONS
    limit = 2.0 ** (plan.checked_bits - 1)
    longest = plan.ask_norm * plan.rounding.peak
    assert longest == pytest.approx(math.sqrt(8.0) * limit)
    for few in (1, 4, 100, numbers):
        forged = np.zeros(numbers)
        forged[:few] = 1.001 * longest / math.sqrt(few)
        sums = rng.choice([-1.0, 0.0, 0.0, 1.0], (200, COMBINATIONS, few)) @ forged[:few]
        assert (np.abs(sums).max(axis=1) > limit).all()


# -- schedule


def test_growth_counts_reports_and_gives_32_updates_in_130():
    plan = make_plan(make_settings(2, horizon=130, growth=0.1))
    batch, due = plan.first_batch, []
    for samples in range(1, 131):
        oracle = samples >= Fraction(11, 10) * max(1, batch.samples) and samples > batch.samples
        assert plan.growth_due(batch, samples=samples) == oracle
        if oracle:
            due.append(samples)
            batch = Batch(
                number=batch.number + 1, samples=samples, residual=0.0, estimate_error=0.0
            )
    assert len(due) == 32
    assert due[:6] == [2, 3, 4, 5, 6, 7]
    assert due[-1] == 127


@pytest.mark.parametrize("growth", [0.1, 0.3, 0.07, 1.0])
def test_growth_is_read_as_the_decimal_it_was_written_as(growth):
    """In doubles 1.1 * 10 is above 11."""
    plan = make_plan(make_settings(2, growth=growth))
    for samples in (10, 100, 1000):
        batch = Batch(number=1, samples=samples, residual=0.0, estimate_error=0.0)
        exact = math.ceil((1 + Fraction(str(growth))) * samples)
        assert not plan.growth_due(batch, samples=exact - 1)
        assert plan.growth_due(batch, samples=exact)
        assert plan.last_report(batch) == min(exact, plan.settings.horizon)


@given(plan=any_plan(), samples=st.integers(0, 10**6))
@settings(max_examples=40)
def test_sum_that_is_full_makes_an_update_due(plan, samples):
    batch = Batch(number=1, samples=samples, residual=0.0, estimate_error=0.0)
    assert plan.growth_due(batch, samples=samples + plan.most_unseen)
    assert not plan.growth_due(batch, samples=samples)
    # integers of a full sum wrap around shares with a probability of 2^-37 or less
    largest = plan.most_unseen * plan.sum_scale
    assert largest * 2 / plan.parameters.share_modulus < 2.0**-37


@given(plan=any_plan(), share=st.floats(0.0, 1.0), new=st.floats(0.0, 1.0))
@settings(max_examples=60)
def test_updates_that_are_due_can_be_certified(plan, share, new):
    """Any number of reports up to the horizon, as many of them new as a batch may have."""
    samples = max(1, round(share * plan.settings.horizon))
    untested = max(1, round(new * min(samples, plan.most_unseen, plan.most_untested)))
    before = Batch(number=1, samples=samples - untested, residual=0.01, estimate_error=0.0)
    update = UpdatePlan(plan, UpdateTerms(before=before, samples=samples, untested=untested))
    assert update.residual < 0.01


def test_batches_are_as_large_as_sums_allow_unless_the_ridge_is_small():
    full = make_plan(make_settings(8, horizon=10**6)).most_unseen
    assert full >= 8000
    small = make_plan(make_settings(8, arms=8, horizon=10**6, ratio=30.0))
    assert small.most_unseen == small.most_untested < 100


def test_updates_are_as_many_as_the_plan_counts_with():
    """Of the public schedule, whose updates follow from counts alone."""
    for growth in (0.1, 1.0):
        plan = make_plan(make_settings(2, horizon=200_000, growth=growth))
        batch, number = plan.first_batch, 0
        while batch.samples < 200_000:
            samples = next_update(plan, batch).terms.samples
            number += 1
            batch = Batch(number=number, samples=samples, residual=0.0, estimate_error=0.0)
            assert number <= plan.most_updates(samples)
        assert number >= 0.7 * plan.most_updates(200_000)


# -- bounds of the problem


@given(plan=any_plan(), seed=st.integers(0, 2**32))
@settings(max_examples=40)
def test_reports_add_at_most_the_ratio(plan, seed):
    """Eigenvalues of V/lambda of rounded contexts, the longest ones included."""
    reports = draw_reports(np.random.default_rng(seed), plan, 30, kind="collinear")
    contexts = restore_contexts(plan.rounding, reports[:, :-1])
    design = contexts.T @ contexts / plan.settings.ridge
    assert (contexts**2).sum(axis=1).max() / plan.settings.ridge <= plan.ratio
    assert 1.0 + np.linalg.eigvalsh(design)[-1] <= plan.condition(30)
    assert plan.ratio <= 1.05 * plan.settings.length**2 / plan.settings.ridge


@pytest.mark.parametrize("dim", [1, 2, 8, 32])
def test_reports_that_pass_the_check_of_leading_bits_add_at_most_the_ratio(dim):
    """Contexts that are made as long as the circuit lets them pass."""
    plan = make_plan(make_settings(dim, arms=dict(SIZES)[dim]), opener="authority")
    rounding, leading = plan.rounding, plan.leading_bits
    magnitude = rounding.peak.bit_length()
    length = rounding.peak * (1.0 + rounding.slack) / (1 << (magnitude - leading))
    circuit = build_report_check(
        dim,
        bits=32,
        limit=rounding.peak,
        reward_limit=rounding.peak,
        leading_bits=leading,
        bound=int(length**2) + 1,
    )
    rng = np.random.default_rng(dim)
    contexts = rng.normal(size=(3000, dim))
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    contexts *= rounding.peak * rng.uniform(0.97, 1.05, (3000, 1))
    low = (1 << (magnitude - leading)) - 1
    forged = np.rint(contexts).astype(np.int64)
    forged[::2] = np.sign(forged[::2]) * (np.abs(forged[::2]) | low)  # what the check overlooks
    reports = np.column_stack([np.clip(forged, -rounding.peak, rounding.peak), np.zeros(3000, int)])
    masks = rng.integers(0, 1 << 32, reports.shape, dtype=np.uint64)
    own = (reports.view(np.uint64) + masks) & np.uint64((1 << 32) - 1)
    passed = evaluate_clear(circuit, evaluator=own, garbler=masks)[1][:, 0]
    assert passed.any()
    added = (restore_contexts(rounding, reports[passed, :-1]) ** 2).sum(axis=1)
    assert added.max() <= plan.ratio * plan.settings.ridge
    honest = np.linalg.norm(reports[:, :-1], axis=1) <= rounding.peak
    assert passed[honest].all()


@given(plan=any_plan())
@settings(max_examples=40)
def test_weights_bound_every_score_by_the_range(plan):
    """|w| and |A| at their bounds, along one context: the score fills its bits, and no more."""
    batch = Batch(number=3, samples=50, residual=0.01, estimate_error=0.1)
    weights, s = plan.weigh(batch), plan.settings
    linear = weights.estimate_bound * s.length * (1.0 + plan.rounding.slack)
    quadratic = weights.gamma / 2.0 * 1.01 * plan.ratio
    assert 0.9 * weights.span <= linear + quadratic <= weights.span
    assert weights.span * weights.unit == pytest.approx(2.0**plan.score_bits)
    assert weights.estimate_bound >= s.parameter_bound + weights.radius / math.sqrt(s.ridge) * 0.999


# -- layouts


@given(plan=any_plan())
@settings(max_examples=40)
def test_layouts_have_the_plans_sizes(plan):
    s, degree = plan.settings, plan.parameters.ring_dim
    assert plan.matrix.shape == (2 * s.dim, s.dim, s.dim)
    assert plan.lanes >= 1
    if plan.opener == "users":
        assert plan.automorphism == plan.outer.step
        assert (plan.lanes, plan.group) == (1, 1)
    else:
        assert plan.gram.shape == (s.dim + 1, plan.group, s.dim + 1)
        assert plan.automorphism is None
        assert plan.group * (s.dim + 1) ** 2 <= degree
        assert plan.lanes == max(1, degree // (s.arms * plan.rounding.features))
    assert plan.sum_places.shape == (s.dim + 1, s.dim + 1)


# -- tests


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("dim", [2, 8, 16])
def test_update_test_resolves_a_hundredth_of_the_threshold_after_a_report(dim, opener):
    plan = make_plan(make_settings(dim, arms=dim, schedule="trace"), opener=opener)
    assert plan.test_resolution(unseen=1, untested=1) <= 0.01 * plan.settings.trace_threshold


@given(plan=any_plan(schedules=("trace",)), unseen=st.integers(1, 8000))
@settings(max_examples=40)
def test_update_tests_are_made_while_they_resolve_a_quarter_of_the_threshold(plan, unseen):
    fine = plan.test_resolution(unseen=unseen, untested=1) <= 0.25 * plan.settings.trace_threshold
    assert fine == (unseen <= plan.most_tested) or unseen > plan.most_unseen


def test_public_schedule_has_no_tests():
    assert make_plan(make_settings(8, schedule="public")).most_tested == 0


def test_opener_adds_a_million_times_the_certified_noise():
    assert NOISE_FACTOR >= 2.0**20


# -- refusals


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"dim": 65}, "dim must be at most 64 on shares, got 65"),
        ({"dim": 2, "arms": 257}, "arms must be at most 256 on shares, got 257"),
        ({"dim": 2, "bonus": "sqrt"}, "bonus must be quadratic on shares, got sqrt"),
    ],
)
@pytest.mark.parametrize("opener", OPENERS)
def test_sizes_that_shares_do_not_carry_are_refused_in_words(opener, given_, message):
    with pytest.raises(InvalidInput) as caught:
        make_shares_plan(make_settings(**given_), opener=opener)
    assert message in str(caught.value)


@pytest.mark.slow
def test_scores_that_no_share_carries_are_refused_in_words():
    with pytest.raises(InvalidInput) as caught:
        make_shares_plan(make_settings(32, arms=128), opener="authority")
    assert "arms and dim must be fewer" in str(caught.value)
    assert "got 128 and 32" in str(caught.value)


def test_openers_are_named():
    with pytest.raises(InvalidInput, match=r"opener must be .*users.*authority.*nobody"):
        make_shares_plan(make_settings(2), opener="nobody")


@pytest.mark.parametrize("security", [128, 192, 256])
def test_plans_exist_at_every_security_level(security):
    plan = make_plan(make_settings(8, arms=8), security=security)
    assert plan.parameters.security == security
    assert plan.parameters.ring_dim == (1 << 13 if security == 128 else 1 << 14)
