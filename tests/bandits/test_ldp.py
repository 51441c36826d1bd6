import math

import numpy as np
import pytest
from scipy.stats import norm

from helba.bandits.ldp import LdpOful, gaussian_deviation

from .play import linear_settings, play


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_gaussian_deviation_meets_the_privacy_profile_exactly(epsilon, delta):
    s = gaussian_deviation(epsilon=epsilon, delta=delta)
    spent = norm.cdf(0.5 / s - epsilon * s) - math.exp(epsilon) * norm.cdf(-0.5 / s - epsilon * s)
    assert spent == pytest.approx(delta, rel=1e-6)
    if epsilon <= 1:  # the classical mechanism needs more
        assert s <= math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def test_sensitivity_of_a_report_is_within_what_the_noise_is_scaled_to():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 20_000, 3))
    x *= 2.0 / np.linalg.norm(x, axis=1)[:, None]
    y *= 2.0 / np.linalg.norm(y, axis=1)[:, None]
    r, q = 3.0 * rng.choice([-1, 1], (2, 20_000, 1))
    rows, columns = np.triu_indices(3)
    matrix = (x[:, rows] * x[:, columns] - y[:, rows] * y[:, columns]) / (math.sqrt(2) * 2.0**2)
    vector = (r * x - q * y) / (2 * 3.0 * 2.0)
    worst = np.sqrt((matrix**2).sum(axis=1) + (vector**2).sum(axis=1)).max()
    assert 0.7 * math.sqrt(2) <= worst <= math.sqrt(2)


def test_noise_is_scaled_to_the_sensitivity():
    policy = LdpOful(linear_settings(length=2.0, reward_max=3.0), seed=0)
    deviation = math.sqrt(2) * gaussian_deviation(epsilon=1.0, delta=1e-5)
    assert policy.matrix_noise == pytest.approx(deviation * math.sqrt(2) * 4.0)
    assert policy.vector_noise == pytest.approx(deviation * 2 * 3.0 * 2.0)


def test_reports_carry_the_stated_noise_and_are_symmetric():
    policy = LdpOful(linear_settings(), seed=0)
    reports = [policy.report(np.zeros(3), 0.0) for _ in range(4000)]
    matrices = np.array([m for m, _ in reports])
    vectors = np.array([v for _, v in reports])
    np.testing.assert_array_equal(matrices, matrices.transpose(0, 2, 1))
    assert matrices[:, 0, 1].std() == pytest.approx(policy.matrix_noise, rel=0.05)
    assert matrices[:, 1, 1].std() == pytest.approx(policy.matrix_noise, rel=0.05)
    assert vectors[:, 2].std() == pytest.approx(policy.vector_noise, rel=0.05)


def test_shift_and_radius_are_those_of_the_derivation():
    """After n reports, from the sums of the reports alone."""
    settings = linear_settings(length=1.0, noise=0.3, delta=0.05)
    policy, n, d = LdpOful(settings, seed=0), 25, 3
    sums = []
    real = policy.report
    policy.report = lambda *a: sums.append(real(*a)) or sums[-1]
    for _ in range(n):
        policy.update(np.array([0.5, 0.1, -0.3]), 0.2)
    share = 0.05 * 2 / (math.pi**2 * n**2)
    spread = math.sqrt(math.log(2 / share))
    P = policy.matrix_noise * math.sqrt(n) * (2 * math.sqrt(d) + 2 * spread)
    p = policy.vector_noise * math.sqrt(n) * (math.sqrt(d) + math.sqrt(2) * spread)
    design = sum(m for m, _ in sums) + (2 * P + 1.0) * np.eye(d)
    np.testing.assert_allclose(policy.inverse, np.linalg.inv(design), rtol=1e-9)
    volume = d * math.log(1 + n / (d * (P + 1)))
    width = 0.3 * math.sqrt(2 * math.log(1 / share) + volume)
    assert policy.radius == pytest.approx(width + p / math.sqrt(P + 1) + math.sqrt(3 * P + 1))


def test_radius_holds_under_privacy_noise():
    settings = linear_settings(horizon=150)
    for seed in range(5):
        theta = np.random.default_rng(seed).normal(size=3)
        theta /= np.linalg.norm(theta)

        def watch(policy, _contexts, _arm, theta=theta):
            off = policy.estimate - theta
            assert math.sqrt(off @ np.linalg.inv(policy.inverse) @ off) <= policy.radius * 1.0001

        play("ldp", settings, seed=seed, watch=watch)


def test_privacy_costs_regret_and_a_generous_budget_less():
    tight, loose = (
        np.mean(
            [
                play("ldp", linear_settings(horizon=600, privacy_epsilon=e), seed=s)[1]
                for s in range(3)
            ]
        )
        for e in (0.5, 1e4)
    )
    assert loose < tight
