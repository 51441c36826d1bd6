"""The contract of every policy."""

import math

import numpy as np
import pytest

from helba.bandits import Settings
from helba.errors import InvalidInput
from helba.lab.algorithm import ALGORITHMS, make_policy

from .play import linear_settings, play

every_policy = pytest.mark.parametrize("name", ALGORITHMS)


@every_policy
def test_policy_is_reproducible(name):
    first = play(name, linear_settings(), seed=3)
    second = play(name, linear_settings(), seed=3)
    assert first[1] == second[1]
    assert first[0].updates == second[0].updates


@every_policy
def test_policy_takes_fewer_arms_than_settings_say(name):
    policy = make_policy(name, settings=linear_settings(arms=6))
    for count in (1, 2, 6, 3):
        contexts = np.eye(3)[np.arange(count) % 3] / 2
        assert 0 <= policy.select(contexts) < count
        policy.update(contexts[0], 0.1)


@every_policy
@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        (np.full((2, 3), np.nan), "contexts must be finite"),
        (np.full((2, 3), 9.0), "no longer than the length bound L = 1, got a context of length"),
        (np.zeros((9, 3)), "a table of 1 to 4 rows and 3 columns"),
        (np.zeros((2, 5)), "a table of 1 to 4 rows and 3 columns"),
        (np.zeros(3), "a table of 1 to 4 rows and 3 columns"),
    ],
)
def test_policy_refuses_bad_contexts_in_one_line(name, contexts, message):
    policy = make_policy(name, settings=linear_settings())
    with pytest.raises(InvalidInput, match=message) as caught:
        policy.select(contexts)
    assert "\n" not in str(caught.value)


@every_policy
@pytest.mark.parametrize(
    ("contexts", "found"),
    [
        ([["a", "b", "c"]] * 2, "values of type <U1"),
        ([[1.0], [1.0, 2.0]], "rows of different lengths"),
        ([[1j, 0, 0]] * 2, "values of type complex128"),
    ],
)
def test_policy_refuses_what_are_no_real_numbers(name, contexts, found):
    policy = make_policy(name, settings=linear_settings())
    with pytest.raises(InvalidInput, match=f"contexts must be real numbers, got {found}"):
        policy.select(contexts)


@every_policy
def test_refused_call_changes_nothing(name):
    touched, untouched = (make_policy(name, settings=linear_settings(), seed=2) for _ in range(2))
    rng = np.random.default_rng(3)
    for _ in range(12):
        contexts = rng.uniform(-0.5, 0.5, (4, 3))
        for bad in (np.full((2, 3), 9.0), np.zeros((9, 3)), "none"):
            with pytest.raises(InvalidInput):
                touched.select(bad)
        assert touched.select(contexts) == untouched.select(contexts)
        bad_rewards = ("a", None, 10**400, [1.0, [2.0]], np.ones(1), math.inf)
        for context, reward in (
            (contexts[:1], 9.0),
            (np.array([1e200, 0.0, 0.0]), 0.5),
            *((contexts[0], reward) for reward in bad_rewards),
        ):
            with pytest.raises(InvalidInput):
                touched.update(context, reward)
        touched.update(contexts[0], 9.0)
        untouched.update(contexts[0], 9.0)
    assert (touched.round, touched.updates, touched.clipped) == (
        untouched.round,
        untouched.updates,
        untouched.clipped,
    )


@every_policy
@pytest.mark.parametrize(
    "kind", [np.float32, list, np.ma.masked_array, lambda x: x.astype(object).tolist()]
)
def test_policy_takes_contexts_of_any_numeric_kind(name, kind):
    settings = linear_settings()
    plain, odd = (make_policy(name, settings=settings, seed=1) for _ in range(2))
    rng = np.random.default_rng(0)
    for _ in range(5):
        contexts = rng.integers(-4, 5, (4, 3)) / 8  # exact in single precision
        assert plain.select(contexts) == odd.select(kind(contexts))
        plain.update(contexts[1], 0.25)
        odd.update(contexts[1].astype(np.float32), np.float32(0.25))


def test_context_normalised_in_single_precision_is_not_too_long():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4, 3)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    make_policy("oful", settings=linear_settings()).select(rows)


@every_policy
def test_policy_learns_from_history_before_its_first_choice(name):
    policy = make_policy(name, settings=linear_settings())
    for row in np.eye(3):
        policy.update(row, 0.5)
    assert 0 <= policy.select(np.eye(3)) < 3


@every_policy
def test_rewards_past_their_bound_are_clipped_and_counted(name):
    clipping, clipped = (make_policy(name, settings=linear_settings(), seed=1) for _ in range(2))
    rng = np.random.default_rng(0)
    for reward in (0.5, 9.0, -9.0, 3.0, 1e300):
        contexts = rng.uniform(-0.5, 0.5, (4, 3))
        assert clipping.select(contexts) == clipped.select(contexts)
        clipping.update(contexts[0], reward)
        clipped.update(contexts[0], float(np.clip(reward, -3.0, 3.0)))
    assert clipping.clipped == 3
    assert clipped.clipped == 0


@every_policy
@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_policy_refuses_a_reward_that_is_not_finite(name, reward):
    policy = make_policy(name, settings=linear_settings())
    policy.select(np.zeros((2, 3)))
    with pytest.raises(InvalidInput, match=f"reward must be finite, got {reward}"):
        policy.update(np.zeros(3), reward)


@every_policy
def test_updates_stay_within_their_bound(name):
    for seed in range(3):
        policy, _, _ = play(name, linear_settings(horizon=400), seed=seed)
        assert policy.updates <= policy.update_bound()


@every_policy
def test_regret_stays_within_its_bound(name):
    policy, regret, _ = play(name, linear_settings(horizon=400), seed=1)
    bound = policy.regret_bound()
    assert bound is None or regret <= bound


@pytest.mark.parametrize("name", [a for a in ALGORITHMS if a not in ("uniform", "ldp")])
def test_learning_beats_uniform(name):
    options = {"horizon": 600, "noise": 0.1, "reward_max": 2.0}
    learned = sum(play(name, linear_settings(**options), seed=s)[1] for s in range(3))
    drawn = sum(play("uniform", linear_settings(**options), seed=s)[1] for s in range(3))
    assert learned < 0.6 * drawn


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("arms", 1, "arms must be at least 2, got 1"),
        ("dim", 0, "dim must be at least 1, got 0"),
        ("horizon", 0, "horizon must be at least 1, got 0"),
        ("horizon", 2.5, "horizon must be a whole number, got 2.5"),
        ("length", 0.0, "length must be finite and greater than 0"),
        ("ridge", float("nan"), "ridge must be finite"),
        ("noise", -0.1, "noise must be at least 0"),
        ("delta", 1.0, "delta must be strictly between 0.0 and 1.0"),
        ("profile", "slow", "profile must be one of shares, ciphertext, paper, got 'slow'"),
        ("bonus", "cubic", "bonus must be one of quadratic, sqrt"),
    ],
)
def test_settings_refuse_what_is_not_admissible(field, value, allowed):
    with pytest.raises(InvalidInput, match=allowed):
        linear_settings(**{field: value})


def test_unknown_algorithm_is_named_with_what_exists():
    with pytest.raises(InvalidInput, match="algorithm must be one of oful, rsoful"):
        make_policy("ucb", settings=linear_settings())


def test_settings_cannot_be_changed():
    with pytest.raises(AttributeError):
        linear_settings().horizon = 3  # type: ignore[misc]
    assert isinstance(linear_settings(), Settings)
