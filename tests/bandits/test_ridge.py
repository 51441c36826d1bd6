import numpy as np
import pytest
from sklearn.linear_model import Ridge

from helba.bandits.ridge import RankOneRidge
from helba.lab.algorithm import make_policy

from .play import linear_settings, play, rounds


def test_rank_one_ridge_agrees_with_scikit_learn_and_numpy():
    rng = np.random.default_rng(0)
    contexts, rewards = rng.normal(size=(3000, 12)), rng.normal(size=3000)
    model = RankOneRidge(dim=12, ridge=0.7)
    for count, (x, r) in enumerate(zip(contexts, rewards, strict=True), start=1):
        model.add(x, r)
        if count in (1, 5, 255, 256, 257, 1000, 2999, 3000):
            design = 0.7 * np.eye(12) + contexts[:count].T @ contexts[:count]
            oracle = Ridge(alpha=0.7, fit_intercept=False).fit(contexts[:count], rewards[:count])
            np.testing.assert_allclose(model.estimate, oracle.coef_, atol=1e-10, rtol=0)
            np.testing.assert_allclose(model.inverse, np.linalg.inv(design), atol=1e-10, rtol=0)
            volume = np.linalg.slogdet(design)[1] - 12 * np.log(0.7)
            np.testing.assert_allclose(model.log_determinant, volume, atol=1e-10, rtol=0)


def test_estimate_of_oful_is_ridge_regression():
    policy, _, history = play("oful", linear_settings(horizon=300), seed=2)
    contexts, rewards = map(np.array, zip(*history, strict=True))
    oracle = Ridge(alpha=1.0, fit_intercept=False).fit(contexts, rewards)
    np.testing.assert_allclose(policy.model.estimate, oracle.coef_, atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", ["rsoful", "rsoful-tr"])
def test_rarely_switching_rules_fire_when_they_should(name):
    """Switch exactly when det V has doubled, or the trace in the frozen metric has reached 1."""
    settings = linear_settings(horizon=300)
    policy = make_policy(name, settings=settings)
    V = frozen = np.eye(3)
    trace = 0.0
    for contexts, _, rewards in rounds(settings, seed=5):
        arm = policy.select(contexts)
        x, updates = contexts[arm], policy.updates
        policy.update(x, float(rewards[arm]))
        V = V + np.outer(x, x)
        trace += x @ np.linalg.inv(frozen) @ x
        ratio = np.linalg.det(V) / np.linalg.det(frozen)
        due = trace >= 1.0 if name == "rsoful-tr" else ratio >= 2.0
        assert (policy.updates > updates) == due
        if due:
            frozen, trace = V, 0.0
    assert policy.updates > 5


def test_rank_one_ridge_stays_exact_under_a_tiny_ridge():
    """Sherman-Morrison alone would be off by 1e-3 here; fresh factorisations restore the digits."""
    rng = np.random.default_rng(0)
    model, design, response = RankOneRidge(dim=4, ridge=1e-10), 1e-10 * np.eye(4), np.zeros(4)
    for count in range(1, 301):
        x, r = rng.normal(size=4), rng.normal()
        model.add(x, r)
        design += np.outer(x, x)
        response += r * x
        if count in (20, 40, 100, 255, 300):
            exact = np.linalg.inv(design)
            assert np.abs(model.inverse - exact).max() <= 1e-10 * np.abs(exact).max()
            np.testing.assert_allclose(
                model.estimate, np.linalg.solve(design, response), atol=1e-10, rtol=0
            )


def test_rarely_switching_models_are_ridge_regression_at_the_switch():
    for name in ("rsoful", "rsoful-tr"):
        seen = {}

        def watch(policy, _contexts, _arm, seen=seen):
            seen.setdefault(policy.updates, (policy.model.samples, policy.frozen.estimate))

        _, _, history = play(name, linear_settings(horizon=300), seed=2, watch=watch)
        contexts, rewards = map(np.array, zip(*history, strict=True))
        assert len(seen) > 3
        for updates, (samples, estimate) in seen.items():
            if updates:
                oracle = Ridge(alpha=1.0, fit_intercept=False)
                oracle.fit(contexts[:samples], rewards[:samples])
                np.testing.assert_allclose(estimate, oracle.coef_, atol=1e-10, rtol=0)
