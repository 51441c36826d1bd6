from __future__ import annotations

import numpy as np
import pytest

from helba.lab.algorithm import make_policy
from helba.lab.runner import run_policy, settings_for
from helba.problems import make_problem


@pytest.mark.parametrize("arms", [2, 5, 10])
def test_replay_round_shows_the_right_label_once(arms):
    for shown in make_problem("replay", arms=arms).rounds(50):
        assert shown.means.shape == (arms,)
        assert sorted(shown.means)[-2:] == [0.0, 1.0]
        assert np.array_equal(shown.rewards, shown.means)


def test_replay_right_label_has_no_fixed_place():
    places = [int(shown.means.argmax()) for shown in make_problem("replay").rounds(500)]
    assert np.bincount(places, minlength=10).min() > 25


def test_replay_uses_every_image_before_it_repeats_one():
    rounds = list(make_problem("replay", seed=1).rounds(1437 * 2))
    first = {shown.contexts.sum(axis=0).round(9).tobytes() for shown in rounds[:1437]}
    second = {shown.contexts.sum(axis=0).round(9).tobytes() for shown in rounds[1437:]}
    assert len(first) > 1430
    assert len(first ^ second) < 20


@pytest.mark.parametrize("dim", [4, 16])
def test_replay_parameter_bound_covers_the_least_squares_fit(dim):
    problem = make_problem("replay", dim=dim)
    rounds = list(problem.rounds(1437))
    contexts = np.concatenate([shown.contexts for shown in rounds])
    means = np.concatenate([shown.means for shown in rounds])
    fit, *_ = np.linalg.lstsq(contexts, means, rcond=None)
    assert np.linalg.norm(fit) <= problem.parameter_bound


@pytest.mark.parametrize("scale", [0.05, 1.0])
def test_replay_learner_beats_guessing(scale):
    problem = make_problem("replay", seed=0)
    earned = {}
    for name in ("oful", "uniform"):
        settings = settings_for(problem, horizon=2000, radius_scale=scale)
        policy = make_policy(name, settings=settings, seed=0)
        earned[name] = sum(row.reward for row in run_policy(problem, policy, horizon=2000))
    assert earned["uniform"] < 0.15 * 2000
    assert earned["oful"] > 0.75 * 2000
