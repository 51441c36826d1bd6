"""Accuracy does not decay: after every one of many updates the model is within its terms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helba.problems.toy import Toy
from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.deployment import Deployment
from tests.reference.noisy import NoisyScheme
from tests.reference.protocol.parties import TOY, History, Table, plan_of, require_model
from tests.reference.protocol.talking import TalkingTable, open_table
from tests.sweep import sweep

# An update after every round but the first.
OFTEN = PlanRequest(dim=4, arms=2, horizon=200, growth=0.001)
UPDATES = sweep(8, long=60)
ROUNDS = sweep(120, long=2000)
either = pytest.mark.parametrize("bonus", ["quadratic", "sqrt"])


def run(table: Table, *, rounds: int) -> History:
    history, generator = History(table.settings), np.random.default_rng(8)
    theta = np.array([0.5, -0.5, 0.5, -0.5])
    for _ in range(rounds):
        x = generator.normal(size=4)
        x /= np.linalg.norm(x)
        reward = float(x @ theta + 0.5 * generator.normal())
        history.add(x, reward)
        table.learn(x, reward)
        require_model(table, history)
    return history


@pytest.mark.ckks
@pytest.mark.slow
@either
def test_many_updates_on_ckks_stay_within_their_terms(bonus: str) -> None:
    table = open_table("ckks", request=replace(OFTEN, bonus=bonus))
    run(table, rounds=UPDATES + 1)
    assert table.server.updates >= UPDATES
    assert table.server.rejected == 0
    assert table.server.terms.residual < 0.1


@pytest.mark.slow
@either
def test_rounds_of_a_long_horizon_with_drawn_noise_stays_within_its_terms(bonus: str) -> None:
    """At the plan's own ring: errors of the size that CKKS makes, over all rounds and updates.

    `make soak` plays the horizon to its end.
    """
    request = replace(TOY, horizon=2000, bonus=bonus)
    deployment = Deployment.from_plan(plan_of(request), scheme="simulate")
    table = TalkingTable(Authority(deployment, scheme=NoisyScheme()), request=request)
    history, updates, errors = History(table.settings), 0, []
    for each in Toy(seed=0).rounds(ROUNDS):
        played = table.play(each.contexts)
        table.send_bit(played)
        x, reward = each.contexts[played.arm], float(each.rewards[played.arm])
        history.add(x, float(np.clip(reward, -Toy.reward_max, Toy.reward_max)))
        table.report(played.round, context=x, reward=reward)
        table.help()
        if table.server.updates > updates:
            updates = table.server.updates
            require_model(table, history)
            errors.append(np.abs(table.model().inverse - np.linalg.inv(history.design())).max())
    assert updates >= sweep(15, long=55)
    assert table.server.rejected == 0
    assert errors[-1] > 0.0  # the noise is there


@either
def test_updates_in_the_simulator_stay_within_their_terms(bonus: str) -> None:
    """The residual stays where it was; a model that is off by twice the terms would be noticed."""
    table = open_table("simulate", request=replace(OFTEN, bonus=bonus))
    history = run(table, rounds=sweep(12, long=25))
    assert table.server.updates >= sweep(11, long=24)
    terms, V = table.server.terms, history.design()
    model = table.server.model
    wrong = np.linalg.inv(V) * (1.0 + 2.0 * terms.residual)
    packed = table.server._engine.encrypt(table.deployment.matrices.pack(wrong))
    table.server.models[terms.number] = replace(model, inverse=packed)
    with pytest.raises(AssertionError):
        require_model(table, history)
