import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.reference.numerics.argmax import (
    argmax_levels,
    argmax_tolerance,
    choose_method,
    comparison_vector,
    disclosure,
    product_arm_limit,
)
from helba.reference.numerics.monotone import best_monotone_composition
from helba.reference.numerics.sign import best_composition
from tests.sweep import sweep

RIPPLED = best_composition(resolution=2.0**-6, degrees=(7, 7, 7))
MONOTONE = best_monotone_composition(resolution=2.0**-6, degrees=(7, 7, 7))
FINE = best_composition(resolution=2.0**-12, degrees=(15, 15, 15, 7))

signs = st.sampled_from([RIPPLED, MONOTONE, FINE])
methods = st.sampled_from(["product", "sum"])


def score_vectors(rng, arms, scale):
    """Spread scores, clustered ones, and ties with one arm far off: where argmax is hard."""
    kind = rng.integers(3)
    if kind == 0:
        return rng.uniform(0, scale, arms)
    width = scale * 10.0 ** rng.uniform(-9, -1)
    scores = rng.uniform(0, width, arms)
    if kind == 2:
        far = rng.random(arms) < 0.5
        scores[far] -= (scale - width) * rng.random(int(far.sum()))
    return scores


@settings(max_examples=sweep(300, long=1200))
@given(
    sign=signs,
    method=methods,
    arms=st.integers(2, 24),
    log_noise=st.floats(-11, -3),
    seed=st.integers(0, 2**32 - 1),
)
def test_chosen_arm_is_within_the_tolerance(sign, method, arms, log_noise, seed):
    rng, scale, noise = np.random.default_rng(seed), 40.0, 10.0**log_noise
    scores = score_vectors(rng, arms, scale)
    result = comparison_vector(scores, sign=sign, scale=scale, method=method, noise=noise)
    # the worst noise there is: every arm but the best pushed up, the best pushed down
    pushed = result.value + noise
    pushed[np.argmax(scores)] -= 2 * noise
    for b in (pushed, result.value + noise * rng.choice([-1, 1], arms)):
        assert scores.max() - scores[np.argmax(b)] <= result.certificate.error


@pytest.mark.parametrize("method", ["product", "sum"])
@pytest.mark.parametrize("arms", [2, 3, 8])
def test_monotone_tolerance_is_not_vacuous(method, arms):
    """All arms tied but one better by tolerance/K: the noise still hides it (the factor is K)."""
    noise = 1e-5
    tolerance = argmax_tolerance(sign=MONOTONE, arms=arms, scale=1.0, method=method, noise=noise)
    scores = np.zeros(arms)
    scores[0] = tolerance / arms
    b = comparison_vector(scores, sign=MONOTONE, scale=1.0, method=method).value
    assert 0 < b[0] - b[1] < 2 * noise


def test_rippled_tolerance_is_far_below_the_resolution():
    tolerance = argmax_tolerance(sign=RIPPLED, arms=16, scale=1.0, method="sum", noise=1e-6)
    assert 0 < tolerance < RIPPLED.resolution / 4


def test_ripples_do_cost_a_tolerance_past_two_arms():
    """62 arms on a falling flank of P turn a near tie around, with no noise at all."""
    grid = np.linspace(RIPPLED.resolution, 1.0, 200_001)
    flank = grid[np.argmin(np.diff(RIPPLED(grid)))]
    tie = 1e-6
    scores = np.concatenate([[0.0, -tie], np.full(62, -flank)])
    result = comparison_vector(scores, sign=RIPPLED, scale=1.0, method="sum")
    assert np.argmax(result.value) == 1
    assert tie <= result.certificate.error < RIPPLED.resolution


def test_noise_drowns_the_product_past_its_limit():
    limit = product_arm_limit(sign=MONOTONE, noise=1e-6)
    assert 15 <= limit <= 20
    finite = argmax_tolerance(sign=MONOTONE, arms=limit, scale=1.0, method="product", noise=1e-6)
    gone = argmax_tolerance(sign=MONOTONE, arms=limit + 1, scale=1.0, method="product", noise=1e-6)
    assert math.isfinite(finite)
    assert math.isinf(gone)


def test_product_really_fails_past_its_limit_where_the_sum_does_not():
    """Design's measurement: noise 1e-6, K = 32, the product agrees in about half the rounds."""
    rng, agreed = np.random.default_rng(0), {"product": 0, "sum": 0}
    for _ in range(200):
        scores = rng.uniform(0, 0.02, 32)
        for method in agreed:
            b = comparison_vector(scores, sign=MONOTONE, scale=1.0, method=method).value
            noisy = b + rng.uniform(-1e-6, 1e-6, 32)
            agreed[method] += int(np.argmax(noisy) == np.argmax(scores))
    assert agreed["product"] < 160
    assert agreed["sum"] >= 198


def test_method_follows_the_noise():
    assert choose_method(sign=RIPPLED, arms=2, noise=1e-6) == "product"
    assert choose_method(sign=RIPPLED, arms=64, noise=1e-6) == "sum"
    limit = product_arm_limit(sign=MONOTONE, noise=16e-6)
    assert limit < product_arm_limit(sign=MONOTONE, noise=1e-6)
    assert choose_method(sign=MONOTONE, arms=limit, noise=1e-6) == "product"
    assert choose_method(sign=MONOTONE, arms=limit + 1, noise=1e-6) == "sum"  # the margin


@pytest.mark.parametrize("arms", [2, 3, 9])
def test_tolerance_is_where_the_sign_reaches_what_the_proof_needs(arms):
    """P at the tolerance equals the value that docs/theory.md derives, written out again."""
    noise, e = 1e-6, RIPPLED.error
    by_sum = argmax_tolerance(sign=RIPPLED, arms=arms, scale=1.0, method="sum", noise=noise)
    needed = (arms - 2) * e + 2 * (arms - 1) * noise
    assert float(RIPPLED(by_sum)) == pytest.approx(needed, rel=1e-4)
    product = argmax_tolerance(sign=RIPPLED, arms=arms, scale=1.0, method="product", noise=noise)
    growth = (1 + 2 * e) ** (arms - 2)
    needed = (growth - 1 + 2.0**arms * noise) / (growth + 1)
    assert float(RIPPLED(product)) == pytest.approx(needed, rel=1e-4)


def test_monotone_sign_serves_past_its_resolution():
    """Much noise needs a gap beyond the resolution; a monotone P reaches it all the same."""
    noise = 0.3
    tolerance = argmax_tolerance(sign=MONOTONE, arms=2, scale=1.0, method="sum", noise=noise)
    assert MONOTONE.resolution < tolerance < 1.0
    assert float(MONOTONE(tolerance)) == pytest.approx(2 * noise, rel=1e-4)


def test_sign_not_proven_to_rise_falls_back_to_its_resolution():
    """Saturated stages blur the first ripple in float64, and the proof fails."""
    saturated = best_composition(resolution=0.25, degrees=(15, 15))
    assert not saturated.rising
    tolerance = argmax_tolerance(sign=saturated, arms=5, scale=8.0, method="sum", noise=1e-6)
    assert tolerance == 2.0
    assert RIPPLED.rising
    assert MONOTONE.rising


def test_sum_shows_the_order_and_product_does_not():
    for arms, method, shown in ((3, "sum", True), (2, "sum", False), (3, "product", False)):
        stated = disclosure(sign=RIPPLED, arms=arms, scale=1.0, method=method)
        assert stated.shows_order == shown


@settings(max_examples=300)
@given(sign=signs, method=methods, arms=st.integers(2, 8), seed=st.integers(0, 2**32 - 1))
def test_entries_beyond_the_resolution_reveal_only_the_ripple(sign, method, arms, seed):
    rng, scale = np.random.default_rng(seed), 10.0
    gap = scale * sign.resolution
    room = scale - gap * (arms - 1)
    cuts = np.sort(rng.uniform(0, room, arms)) + gap * np.arange(arms)
    stated = disclosure(sign=sign, arms=arms, scale=scale, method=method)
    assert stated.revealed_below == pytest.approx(gap)
    b = comparison_vector(cuts, sign=sign, scale=scale, method=method).value
    order = np.arange(arms)
    ideal = order / (arms - 1) if method == "sum" else (order == arms - 1).astype(float)
    assert np.abs(b - ideal).max() <= stated.ripple + 1e-12


def test_disclosure_is_not_vacuous():
    """The ripple bound is reached within a factor of two over many gaps."""
    stated = disclosure(sign=RIPPLED, arms=2, scale=1.0, method="sum")
    gaps = np.linspace(RIPPLED.resolution, 1.0, 4001)
    seen = np.abs((1 + RIPPLED(gaps)) / 2 - 1).max()
    assert stated.ripple / 2 <= seen <= stated.ripple


def test_flooding_bounds_the_advantage():
    stated = disclosure(sign=RIPPLED, arms=2, scale=1.0, method="sum")
    assert stated.advantage(flood=1e-9) == 1.0
    assert stated.advantage(flood=100 * stated.ripple) == pytest.approx(0.04)
    wide = disclosure(sign=RIPPLED, arms=2, scale=1.0, method="sum", slots=16)
    assert wide.advantage(flood=100 * stated.ripple) == pytest.approx(0.32)


def test_levels_count_the_tree_of_products():
    assert argmax_levels(sign=RIPPLED, arms=2, method="product") == 9
    assert argmax_levels(sign=RIPPLED, arms=8, method="product") == 12
    assert argmax_levels(sign=RIPPLED, arms=9, method="product") == 13
    assert argmax_levels(sign=RIPPLED, arms=64, method="sum") == 9


def test_scores_past_the_scale_are_refused():
    with pytest.raises(InvalidInput, match="spread of the scores must be at most the scale, 1"):
        comparison_vector(np.array([0.0, 2.0]), sign=RIPPLED, scale=1.0, method="sum")
