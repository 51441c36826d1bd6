"""A problem played through a client: each round is asked for, rewarded, and counted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from helba.problems import Problem, make_problem
from helba.reference.protocol.deployment import Deployment
from helba.service.client.client import Client
from helba.service.client.figure import describe_latency


@dataclass(kw_only=True)
class Played:
    """What was played: arms, regret by the problem's means, and what it took."""

    arms: list[int] = field(default_factory=list)
    regret: float = 0.0
    seconds: float = 0.0
    overflows: int = 0
    ask_seconds: list[float] = field(default_factory=list, repr=False)
    reward_seconds: list[float] = field(default_factory=list, repr=False)
    bytes_up: int = 0
    bytes_down: int = 0
    retries: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the report; times of a reward have the help with updates in them."""
        return {
            "rounds": len(self.arms),
            "arms": self.arms,
            "regret": self.regret,
            "seconds": round(self.seconds, 3),
            "overflows": self.overflows,
            "ask_ms": describe_latency(self.ask_seconds),
            "reward_ms": describe_latency(self.reward_seconds),
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "retries": self.retries,
        }


def problem_for(deployment: Deployment, name: str, *, seed: int) -> Problem:
    """Return the problem called `name` in the sizes of a deployment, or raise `InvalidInput`."""
    settings = deployment.settings
    return make_problem(name, dim=settings.dim, arms=settings.arms, seed=seed)


def play_problem(
    client: Client,
    problem: Problem,
    *,
    rounds: int,
    show: Callable[[Played], None] = lambda _: None,
) -> Played:
    """Play `rounds` rounds and return the outcome; `show` is told it after each.

    Rewards of earlier runs that are still unsent go first.
    """
    client.flush()
    played, transport, start = Played(), client.transport, time.perf_counter()
    before = transport.bytes_up, transport.bytes_down, transport.retries
    for each in problem.rounds(rounds):
        asked_at = time.perf_counter()
        advice = client.recommend(each.contexts)
        answered_at = time.perf_counter()
        client.reward(advice.round, float(each.rewards[advice.arm]))
        played.ask_seconds.append(answered_at - asked_at)
        played.reward_seconds.append(time.perf_counter() - answered_at)
        played.arms.append(advice.arm)
        played.regret += float(each.means.max() - each.means[advice.arm])
        played.overflows += advice.overflow
        played.seconds = time.perf_counter() - start
        played.bytes_up = transport.bytes_up - before[0]
        played.bytes_down = transport.bytes_down - before[1]
        played.retries = transport.retries - before[2]
        show(played)
    return played
