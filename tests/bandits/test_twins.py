"""HELBA's plaintext twins against exact HELBA on the same history."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from helba.bandits import make_policy

from .play import linear_settings, play

twins = pytest.mark.parametrize(
    ("profile", "bonus"),
    [("fast", "quadratic"), ("fast", "sqrt"), ("paper", "quadratic"), ("paper", "sqrt")],
)


@twins
@pytest.mark.parametrize("arms", [2, 5, 16])
def test_twin_plays_as_exact_helba_outside_certified_ties(profile, bonus, arms):
    decisions = []
    for seed in range(3):
        settings = linear_settings(dim=4, arms=arms, horizon=120, profile=profile, bonus=bonus)
        play("helba", settings, seed=seed, watch=lambda p, *_: decisions.append(p.decision))
    assert all(d.agrees or d.tie for d in decisions)
    assert all(d.loss <= d.tolerance for d in decisions)
    # not vacuous: most rounds are no ties, so there the agreement is a real demand
    assert np.mean([d.tie for d in decisions]) < 0.2


@twins
def test_twin_agrees_on_the_toy_problem(toy_settings, profile, bonus):
    settings = replace(toy_settings, profile=profile, bonus=bonus)
    rng, decisions = np.random.default_rng(5), []
    contexts, theta = rng.uniform(-1, 1, (4, 2, 2)), np.array([0.6, -0.8])
    policy = make_policy("helba", settings=settings)
    for _ in range(130):
        x = contexts[rng.integers(4)]
        arm = policy.select(x)
        policy.update(x[arm], float(x[arm] @ theta + 0.5 * rng.standard_normal()))
        decisions.append(policy.decision)
    assert all(d.agrees or d.tie for d in decisions)
    assert np.mean([d.tie for d in decisions]) < 0.1


@twins
def test_model_keeps_residual_and_estimate_error(profile, bonus):
    """The certificates that the regret bound uses, against numpy and scikit-learn."""
    settings = linear_settings(dim=5, horizon=300, profile=profile, bonus=bonus)
    history, checked = [], 0

    policy = make_policy("helba", settings=settings)
    from .play import rounds

    for contexts, _, rewards in rounds(settings, seed=4):
        arm = policy.select(contexts)
        policy.update(contexts[arm], float(rewards[arm]))
        history.append((contexts[arm], float(rewards[arm])))
        if policy.model.samples == len(history):
            x, r = map(np.array, zip(*history, strict=True))
            design = np.eye(5) + x.T @ x
            lower = np.linalg.cholesky(design)
            residual = np.linalg.norm(lower.T @ policy.model.inverse @ lower - np.eye(5), 2)
            oracle = Ridge(alpha=1.0, fit_intercept=False).fit(x, r).coef_
            off = np.linalg.norm(lower.T @ (policy.model.estimate - oracle))
            assert residual <= policy.model.residual
            assert off <= policy.model.estimate_error + 1e-10
            checked += 1
    assert checked == policy.updates > 20


def test_quadratic_bonus_has_no_more_regret_than_sqrt_and_oful():
    regret = {
        name: np.mean([play(name, linear_settings(dim=2, arms=2), seed=s)[1] for s in range(8)])
        for name in ("helba", "helba-sqrt", "oful")
    }
    assert regret["helba"] <= regret["helba-sqrt"]
    assert regret["helba"] <= regret["oful"]


def test_public_schedule_updates_by_growth_alone(toy_settings):
    settings = replace(toy_settings, schedule="public")
    policy = make_policy("helba", settings=settings)
    rng = np.random.default_rng(0)
    for _ in range(130):
        x = rng.uniform(-1, 1, (2, 2))
        policy.update(x[policy.select(x)], 0.3)
    assert policy.updates == 32  # erratum 16
    assert policy.updates <= policy.update_bound()
    assert policy.regret_bound() is None


def test_estimate_error_of_the_paper_profile_obeys_its_corollary(toy_settings):
    """Cor. distance_approx_ols: ||w - theta_t||_V <= t^(-1/2), for rewards in [-1, 1]."""
    settings = replace(toy_settings, profile="paper", bonus="sqrt", reward_max=1.0)
    policy = make_policy("helba", settings=settings)
    rng, updates = np.random.default_rng(1), 0
    for t in range(1, 131):
        x = rng.uniform(-1, 1, (2, 2))
        policy.update(x[policy.select(x)], float(rng.uniform(-1, 1)))
        if policy.updates > updates:
            updates = policy.updates
            off = policy.model.estimate - policy.model.exact_estimate
            assert np.sqrt(off @ policy.design @ off) <= t**-0.5
