"""HELBA's plaintext twins against exact HELBA on the same history."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from helba.bandits.bounds import growth_bound, switch_bound
from helba.errors import RunFailed
from helba.lab.algorithm import make_policy

from .play import linear_settings, play, rounds

twins = pytest.mark.parametrize(
    ("profile", "bonus"),
    [(profile, bonus) for profile in ("ciphertext", "paper") for bonus in ("quadratic", "sqrt")],
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


def test_trace_rule_makes_most_updates_when_growth_is_slow():
    """With eta = 1 the trace rule decides; the profile `ciphertext` hears of it one round late."""
    for profile, lag in (("ciphertext", 1), ("paper", 0)):
        settings = linear_settings(dim=3, horizon=200, growth=1.0, profile=profile, bonus="sqrt")
        policy = make_policy("helba", settings=settings)
        passed_at, trace, by_trace, start = None, 0.0, 0, 1
        for t, (contexts, _, rewards) in enumerate(rounds(settings, seed=1), start=1):
            arm = policy.select(contexts)
            x, inverse, updates = contexts[arm], policy.model.inverse, policy.updates
            policy.update(x, float(rewards[arm]))
            trace += float(x @ inverse @ x)
            if trace >= 1.0 and passed_at is None:
                passed_at = t
            if policy.updates > updates:
                if t < 2 * start:  # not the growth rule
                    by_trace += 1
                    assert passed_at is not None
                    assert t - passed_at == lag
                passed_at, trace, start = None, 0.0, t
            else:
                assert passed_at is None or t - passed_at < lag
        assert by_trace >= 5
        assert policy.updates <= policy.update_bound()


def test_public_schedule_differs_from_the_trace_rule():
    slow = {"dim": 3, "horizon": 200, "growth": 1.0}
    public = play("helba", linear_settings(schedule="public", **slow))[0]
    asked = play("helba", linear_settings(schedule="trace", **slow))[0]
    assert public.updates == 7  # 2, 4, 8, ... 128
    assert asked.updates > public.updates


def test_scores_past_their_range_are_counted():
    """Told a radius of nearly nothing, the promised range is too narrow."""
    settings = linear_settings(parameter_bound=1e-3, noise=0.0, horizon=60, profile="ciphertext")
    policy = make_policy("helba", settings=settings)
    rng = np.random.default_rng(0)
    for _ in range(60):
        x = rng.uniform(-0.5, 0.5, (4, 3))
        arm = policy.select(x)
        policy.update(x[arm], float(x[arm] @ [2.0, -2.0, 1.0]))
    assert policy.overflows > 0
    honest, _, _ = play("helba", linear_settings(horizon=60))
    assert honest.overflows == 0


def test_range_does_not_shrink_with_a_tuned_radius():
    """A tuned radius explores less; what the scores can be does not change."""
    noisy = {"noise": 3.0, "reward_max": 20.0, "horizon": 150}
    policy, _, _ = play("helba", linear_settings(radius_scale=1e-3, **noisy))
    assert policy.overflows == 0


def test_update_bounds_of_the_twins_are_those_of_the_proposition(toy_settings):
    growth = growth_bound(toy_settings)
    ciphertext = make_policy("helba", settings=replace(toy_settings, profile="ciphertext"))
    expected = growth + switch_bound(toy_settings, residual=1e-5)
    assert ciphertext.update_bound() == pytest.approx(expected)
    shares = make_policy("helba", settings=toy_settings)
    assert shares.update_bound() == pytest.approx(growth + switch_bound(toy_settings))
    paper = make_policy("helba-paper", settings=toy_settings)
    expected = growth + switch_bound(toy_settings, band=0.25)
    assert paper.update_bound() == pytest.approx(expected)


@pytest.mark.parametrize("profile", ["ciphertext", "paper"])
@pytest.mark.parametrize("ridge", [1e-15, 1e-18])
def test_inverse_lost_in_rounding_is_said(profile, ridge):
    """Such a ridge cannot be inverted in double precision; the message says what to change."""
    settings = linear_settings(ridge=ridge, horizon=60, profile=profile, bonus="sqrt")
    with pytest.raises(RunFailed, match="raise the ridge"):
        play("helba", settings)


@pytest.mark.parametrize("bonus", ["quadratic", "sqrt"])
def test_tolerance_is_that_of_the_argmax_plus_twice_the_error_of_an_index(bonus):
    """Each of two indexes may be off; without noise two arms are otherwise told apart exactly."""
    checked = []

    def watch(policy, contexts, _arm):
        model = policy.model
        forms = np.einsum("ij,jk,ik->i", contexts, model.exact_inverse, contexts)
        least = 2 * model.estimate_error * np.sqrt(forms.max())
        if bonus == "quadratic":
            least += policy.terms.weights(policy.settings).gamma * model.residual * forms.max()
        assert policy.decision.tolerance >= least
        checked.append(least > 0)

    settings = linear_settings(arms=2, horizon=40, bonus=bonus, profile="ciphertext")
    play("helba", settings, watch=watch)
    assert any(checked)


def test_twin_of_shares_plays_the_best_of_its_indices_and_counts_reports(toy_settings):
    """Its inverse and estimate obey their certificates; growth counts reports, not asks."""
    policy = make_policy("helba", settings=replace(toy_settings, horizon=180))
    assert type(policy).__name__ == "SharesTwin"
    rng = np.random.default_rng(5)
    for _ in range(60):
        x = rng.uniform(-1.0, 1.0, (2, 2))
        for _ in range(3):  # asks alone change nothing
            arm = policy.select(x)
        model, gamma = policy.model, policy._gamma()
        index = x @ model.estimate + gamma / 2 * np.einsum("ij,jk,ik->i", x, model.inverse, x)
        assert arm == int(np.argmax(index))
        policy.update(x[arm], float(x[arm] @ [0.8, -0.6]))
        if policy.model is not model:
            V, root = policy.design, np.linalg.cholesky(policy.design)
            gap = root.T @ policy.model.inverse @ root - np.eye(2)
            assert np.linalg.norm(gap, 2) <= policy.model.residual <= 5e-3 + 1e-9
            off = policy.model.estimate - np.linalg.solve(V, policy.response)
            assert np.linalg.norm(root.T @ off) <= policy.model.estimate_error + 1e-12
    assert policy.samples == 60
    assert 20 <= policy.updates <= policy.update_bound()


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
