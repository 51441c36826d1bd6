from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.problems import PROBLEMS, Problem, make_problem

LINEAR = ("toy", "synthetic", "fixed-arms")


def contexts_of(problem: Problem, *, horizon: int) -> np.ndarray:
    return np.stack([shown.contexts for shown in problem.rounds(horizon)])


def rewards_of(problem: Problem, *, horizon: int) -> np.ndarray:
    return np.stack([shown.rewards for shown in problem.rounds(horizon)])


def test_problems_have_the_names_of_the_command_line():
    assert PROBLEMS == ("toy", "synthetic", "fixed-arms", "replay")


@pytest.mark.parametrize("name", PROBLEMS)
def test_problem_rounds_repeat_for_the_same_seed(name):
    problem = make_problem(name, seed=3)
    for again in (problem, make_problem(name, seed=3)):
        assert np.array_equal(contexts_of(problem, horizon=30), contexts_of(again, horizon=30))
        assert np.array_equal(rewards_of(problem, horizon=30), rewards_of(again, horizon=30))


@pytest.mark.parametrize("name", PROBLEMS)
def test_problem_rounds_differ_between_seeds(name):
    one, other = make_problem(name, seed=0), make_problem(name, seed=1)
    assert not np.array_equal(contexts_of(one, horizon=5), contexts_of(other, horizon=5))


@pytest.mark.parametrize("name", PROBLEMS)
def test_problem_longer_horizon_extends_a_shorter_one(name):
    problem = make_problem(name, seed=2)
    short, long = rewards_of(problem, horizon=40), rewards_of(problem, horizon=600)
    assert len(short) == 40
    assert len(long) == 600
    assert np.array_equal(short, long[:40])


@pytest.mark.parametrize("name", PROBLEMS)
def test_problem_rounds_have_the_declared_shape_and_length(name):
    problem = make_problem(name, seed=4)
    contexts = contexts_of(problem, horizon=300)
    assert contexts.shape == (300, problem.arms, problem.dim)
    assert np.linalg.norm(contexts, axis=-1).max() <= problem.length * (1 + 1e-9)


@pytest.mark.parametrize("name", LINEAR)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_linear_problem_means_are_linear_and_within_the_bounds(name, seed):
    problem = make_problem(name, seed=seed)
    assert np.linalg.norm(problem.theta) <= problem.parameter_bound * (1 + 1e-9)
    for shown in problem.rounds(20):
        assert np.allclose(shown.means, shown.contexts @ problem.theta, atol=1e-12)
        assert np.abs(shown.means).max() <= problem.reward_max - 6 * problem.noise + 1e-9


@given(dim=st.integers(1, 40), arms=st.integers(2, 40), seed=st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_synthetic_problem_has_any_size(dim, arms, seed):
    for name in ("synthetic", "fixed-arms"):
        problem = make_problem(name, dim=dim, arms=arms, seed=seed)
        shown = next(problem.rounds(1))
        assert shown.contexts.shape == (arms, dim)
        assert np.linalg.norm(shown.contexts, axis=1).max() <= 1 + 1e-9


@pytest.mark.parametrize("name", LINEAR)
def test_linear_problem_noise_has_the_declared_deviation(name):
    rounds = list(make_problem(name, seed=5).rounds(4000))
    noise = np.stack([shown.rewards - shown.means for shown in rounds])
    assert noise.std() == pytest.approx(0.5, rel=0.03)
    assert abs(noise.mean()) < 0.03


def test_toy_problem_is_the_papers():
    problem = make_problem("toy", seed=0)
    assert (problem.dim, problem.arms, problem.length, problem.ridge) == (2, 2, 5.5, 1.0)
    assert problem.reward_max == pytest.approx(2**0.5 + 3.0)
    assert len({shown.contexts.tobytes() for shown in problem.rounds(200)}) == 4


def test_fixed_arms_stay_and_fresh_arms_change():
    fixed = contexts_of(make_problem("fixed-arms"), horizon=300)
    fresh = contexts_of(make_problem("synthetic"), horizon=300)
    assert all(np.array_equal(one, two) for one, two in itertools.pairwise(fixed))
    assert not any(np.array_equal(one, two) for one, two in itertools.pairwise(fresh))


@pytest.mark.parametrize(
    ("name", "sizes", "words"),
    [
        ("nonsense", {}, "problem must be one of toy, synthetic, fixed-arms, replay"),
        ("toy", {"dim": 3}, "dim must be 2 on the toy problem, got 3"),
        ("toy", {"arms": 4}, "arms must be 2 on the toy problem, got 4"),
        ("synthetic", {"dim": 0}, "dim must be at least 1, got 0"),
        ("fixed-arms", {"arms": 1}, "arms must be at least 2, got 1"),
        ("replay", {"dim": 17}, "dim on the replay problem must be at most 16, got 17"),
        ("replay", {"arms": 11}, "arms on the replay problem must be at most 10, got 11"),
        ("synthetic", {"seed": -1}, "seed must be at least 0, got -1"),
    ],
)
def test_make_problem_names_the_value_and_what_is_allowed(name, sizes, words):
    with pytest.raises(InvalidInput, match=words):
        make_problem(name, **sizes)


def test_problems_load_scikit_learn_only_when_replayed():
    code = (
        "import sys; from helba.problems import make_problem; make_problem('toy');"
        "assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
