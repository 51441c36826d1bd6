import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helba.bandits.bounds import (
    batch_regret_bound,
    growth_bound,
    quadratic_regret_bound,
    switch_bound,
    trace_growth_bound,
)
from helba.bandits.radius import confidence_radius, potential, quadratic_weight
from helba.errors import InvalidInput
from helba.reference.twin.bounds import paper_batch_bound, paper_profile_bound, paper_regret_bound
from helba.reference.twin.depth import paper_depths
from helba.reference.twin.radius import paper_index_range, paper_radius, quadratic_range, root_range

from .play import linear_settings, play, rounds


def test_radius_holds_with_its_probability():
    """||theta_hat - theta||_V <= beta at every time, in all but a share delta of runs."""
    settings = linear_settings(dim=3, horizon=200, delta=0.1)
    broken = 0
    for seed in range(60):
        theta = np.random.default_rng(seed).normal(size=3)
        theta /= np.linalg.norm(theta)
        V, g = np.eye(3), np.zeros(3)
        for n, (contexts, _, rewards) in enumerate(rounds(settings, seed=seed)):
            off = np.linalg.solve(V, g) - theta
            if math.sqrt(off @ V @ off) > confidence_radius(settings, samples=n):
                broken += 1
                break
            V += np.outer(contexts[0], contexts[0])
            g += rewards[0] * contexts[0]
    assert broken / 60 <= 0.1


def test_radius_is_not_vacuous():
    """A fifth of the radius is exceeded in most runs, so it is within a factor of five."""
    settings = linear_settings(dim=3, horizon=200, noise=0.5)
    broken = 0
    for seed in range(30):
        theta = np.random.default_rng(seed).normal(size=3)
        theta /= np.linalg.norm(theta)
        V, g, worst = np.eye(3), np.zeros(3), 0.0
        for n, (contexts, _, rewards) in enumerate(rounds(settings, seed=seed)):
            off = np.linalg.solve(V, g) - theta
            worst = max(worst, math.sqrt(off @ V @ off) / confidence_radius(settings, samples=n))
            V += np.outer(contexts[0], contexts[0])
            g += rewards[0] * contexts[0]
        broken += worst > 0.2
    assert broken >= 15


def test_formulas_are_those_of_the_theory():
    """Written out once more, with numbers that no two factors share."""
    s = linear_settings(
        dim=3, horizon=700, length=2.0, parameter_bound=1.5, noise=0.4, ridge=0.5, delta=0.02
    )
    volume = 3 * math.log(1 + 50 * 4 / (0.5 * 3))
    beta = 1.5 * math.sqrt(0.5) + 0.4 * math.sqrt(2 * math.log(50) + volume)
    assert confidence_radius(s, samples=50) == pytest.approx(beta)
    union = 3 * math.log((1 + 4 * 40 / 0.5) * math.pi**2 * 45**2 / (6 * 0.02))
    printed = 1.5 * math.sqrt(0.5) + 0.4 * math.sqrt(union)
    assert paper_radius(s, round=45, batch_start=40) == pytest.approx(printed + 40**-0.5)
    off = paper_radius(s, round=45, batch_start=40, estimate_error=0.7)
    assert off == pytest.approx(printed + 0.7)
    assert quadratic_weight(s, radius=beta, last_round=50) == pytest.approx(
        beta * math.sqrt(50 / (2 * volume))
    )
    x = np.array([[1.0, 0.0, 0.0], [0.0, -2.0, 0.0]])
    h, d = 2 / math.sqrt(0.5), math.sqrt(5)
    for gamma in (0.1, 30.0):
        second = min(beta * h, beta**2 / (2 * gamma * 0.8))
        stated = 1.5 * d + beta * h + gamma * 1.2 * h**2 / 2 + second
        found = quadratic_range(s, x, radius=beta, gamma=gamma, residual=0.2)
        assert found == pytest.approx(stated)
    found = root_range(s, x, radius=beta, width=5.0, residual=0.2)
    assert found == pytest.approx(1.5 * d + 2 * beta * h / math.sqrt(0.8) + 5.0)
    spread = 2 / 45 + 2 * math.sqrt(2 + 1 / math.sqrt(0.5)) + math.sqrt(0.01)
    low, high = paper_index_range(s, radius=beta, round=45, floor=0.01)
    assert (low, high) == pytest.approx((-3.0, 3.0 + 2 * beta * spread))


def test_regret_bounds_are_those_of_the_theorems():
    s = linear_settings(dim=3, horizon=10**7, length=2.0, ridge=0.5, noise=0.4)
    T, gamma = 10**7, potential(s, 10**7)
    beta = confidence_radius(s, samples=T) + 0.3
    kappa, e, c_bar = 8 / math.log(9), 0.1, 2.5
    factor = 1 + math.sqrt(1.1 / 0.9)
    classic = factor * beta * math.sqrt(T * 3.5 * kappa * gamma / 2)
    clipped = factor * beta * math.sqrt(T * 3.5 * gamma / (2 * math.log(2)))
    clipped += 4.0 * gamma / (2 * math.log(2))
    bound = batch_regret_bound(
        s, trace_growth=c_bar, residual=e, tolerance_sum=5.0, estimate_error=0.3
    )
    assert bound == pytest.approx(5.0 + min(classic, clipped))
    beta = paper_radius(s, round=T, batch_start=T) + 1.0
    c_bar = 1.0 + 0.25 + 1.1 * 2 / math.sqrt(4.5)
    clipped = 2 * beta * math.sqrt(T * (1 + c_bar) * gamma / (2 * math.log(2)))
    clipped += 4.0 * gamma / (2 * math.log(2))
    floors = beta * (2.1 * (1 + math.log(T)) + 2)
    bound = paper_profile_bound(s, band=0.25, estimate_error=0.5, tolerance_sum=6.0)
    assert bound == pytest.approx(6.0 + floors + clipped)


def test_trace_growth_and_switches_count_band_and_residual(toy_settings):
    volume = potential(toy_settings, 130) / 2
    found = switch_bound(toy_settings, band=0.25, residual=0.5)
    assert found == pytest.approx(volume / math.log(1.5))
    assert trace_growth_bound(toy_settings, band=0.2, residual=0.5) == pytest.approx(2.4)


def test_tuned_radius_scales_but_for_the_error_of_the_estimate():
    settings = linear_settings(radius_scale=0.5)
    full = confidence_radius(replace(settings, radius_scale=1.0), samples=10)
    tuned = confidence_radius(settings, samples=10, estimate_error=0.1)
    assert tuned == pytest.approx(0.5 * full + 0.1)


@given(st.integers(1, 10_000), st.integers(1, 8))
def test_paper_radius_is_at_least_the_valid_one(samples, dim):
    """Erratum 14: for d = 1 the printed one is not."""
    settings = linear_settings(dim=dim)
    start = max(1, samples)
    assert paper_radius(settings, round=start, batch_start=start) >= confidence_radius(
        settings, samples=samples
    )


@given(st.integers(1, 100_000))
def test_time_over_potential_increases(t):
    settings = linear_settings()
    assert (t + 1) / potential(settings, t + 1) >= t / potential(settings, t)


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 10.0), st.floats(0.5, 50.0))
def test_quadratic_range_bounds_the_spread_of_the_index(seed, ridge, gamma):
    """For any V, any estimate within the radius and any inverse within the residual."""
    rng = np.random.default_rng(seed)
    settings = linear_settings(dim=3, arms=6, ridge=ridge, length=2.0)
    x = rng.normal(size=(6, 3))
    x *= 2.0 * rng.random((6, 1)) / np.linalg.norm(x, axis=1)[:, None]
    V = ridge * np.eye(3)
    past = rng.normal(size=(rng.integers(0, 5), 3))
    V += past.T @ past
    lower = np.linalg.cholesky(V)
    beta, e = 2.5, 0.1
    direction = rng.normal(size=3)
    theta = rng.normal(size=3)
    theta /= np.linalg.norm(theta)
    w = theta + beta * np.linalg.solve(lower.T, direction / np.linalg.norm(direction))
    wobble = rng.normal(size=(3, 3))
    wobble = e * (wobble + wobble.T) / np.linalg.norm(wobble + wobble.T, 2)
    half = np.linalg.inv(lower)
    A = half.T @ (np.eye(3) + wobble) @ half
    index = x @ w + gamma / 2 * np.einsum("ij,jk,ik->i", x, A, x)
    bound = quadratic_range(settings, x, radius=beta, gamma=gamma, residual=e)
    assert index.max() - index.min() <= bound * (1 + 1e-9)


@pytest.mark.parametrize(
    "name", ["oful", "rsoful", "rsoful-tr", "helba", "helba-sqrt", "helba-paper"]
)
def test_regret_bound_holds_where_it_says_something(name):
    settings = linear_settings(dim=2, arms=8, horizon=3000, noise=0.1, reward_max=2.0)
    policy, regret, _ = play(name, settings, seed=0)
    bound = policy.regret_bound()
    assert regret <= bound < 2 * settings.horizon  # 2 S L T bounds any policy
    assert policy.updates <= policy.update_bound() < settings.horizon or name == "oful"


def test_clipped_form_serves_where_the_ridge_is_small(toy_settings):
    """Erratum 12: lambda = 1 < L^2 = 30.25; the classical form is far worse there."""
    long = replace(toy_settings, horizon=10**7)
    kappa = 30.25 / math.log(31.25)
    bound = quadratic_regret_bound(long, trace_growth=1.0)
    beta = confidence_radius(long, samples=long.horizon)
    rate = beta * math.sqrt(long.horizon * potential(long, long.horizon))
    assert bound < rate * (2 + kappa)
    assert bound < 2 * 5.5 * long.horizon


def test_bounds_grow_like_the_root_of_the_horizon():
    for bound in (quadratic_regret_bound, batch_regret_bound):
        short = bound(linear_settings(horizon=10**6), trace_growth=2.0)
        long = bound(linear_settings(horizon=10**8), trace_growth=2.0)
        assert 10 <= long / short <= 10 * 2


def test_quadratic_bound_is_that_of_the_theorem():
    settings = linear_settings(horizon=10**6)
    beta = confidence_radius(settings, samples=10**6)
    rate = beta * math.sqrt(10**6 * potential(settings, 10**6))
    kappa = 1 / math.log(2)
    stated = rate * ((2 - 0.1) / 0.9 + 1.05 * 3.0 * kappa / 2) + 7.0
    weight = quadratic_weight(settings, radius=beta, last_round=10**6)
    gamma = potential(settings, 10**6)
    clipped = rate * 1.9 / 0.9 + gamma / (2 * math.log(2)) * max(2, 3.15 * weight) + 7.0
    bound = quadratic_regret_bound(settings, trace_growth=2.0, residual=0.1, tolerance_sum=7.0)
    assert bound == pytest.approx(min(stated, clipped))


def test_bounds_refuse_a_tuned_radius():
    with pytest.raises(InvalidInput, match="radius_scale"):
        quadratic_regret_bound(linear_settings(radius_scale=0.3), trace_growth=1.0)


def test_batch_bounds_are_those_of_the_proofs(toy_settings):
    volume = 2 * math.log(1 + 30.25 * 130 / 2)
    assert switch_bound(toy_settings) == pytest.approx(volume / math.log(2))
    assert growth_bound(toy_settings) == pytest.approx(math.log(130) / math.log(1.1))
    base = 0.75 + 1 - 0.55 / math.sqrt(31.25)
    printed = 1 + volume / math.log(base) + math.log(130) / math.log(1.1)
    assert paper_batch_bound(toy_settings) == pytest.approx(printed)
    assert math.isinf(paper_batch_bound(replace(toy_settings, trace_threshold=0.2)))


def test_lag_and_residual_enter_the_trace_bound(toy_settings):
    assert trace_growth_bound(toy_settings, residual=0.5, lag=2) == pytest.approx(2 + 2 * 30.25)


def test_paper_theorem_says_when_it_does_not_apply(toy_settings):
    assert not paper_regret_bound(toy_settings).applies
    assert paper_regret_bound(replace(toy_settings, ridge=31.0, reward_max=1.0)).applies
    assert not paper_regret_bound(replace(toy_settings, ridge=31.0, reward_max=4.0)).applies


def test_paper_depths_at_130_are_those_of_erratum_10(toy_settings):
    rows = {row.step: row for row in paper_depths(toy_settings, round=130)}
    assert rows["inverse"].iterations == 16
    assert rows["inverse"].levels == 32
    assert rows["root"].iterations == 24
    assert 48 <= rows["root"].levels <= 72
    assert rows["NewComp"].iterations == 22
    assert rows["amax"].iterations == 9
    assert rows["amax"].levels + rows["NewComp"].levels > 60
    assert rows["index: x^T A x"].levels == 3
    assert rows["trace test"].levels == 3 + 2 * rows["trace test"].iterations
    assert rows["total"].levels == 3 + 32 + 48 + 19 + 44 > 140
