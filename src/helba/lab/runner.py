"""One policy on one problem: a stream of plain rows, and what they add up to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from helba.bandits.policy import Policy
from helba.bandits.settings import Settings
from helba.errors import InvalidInput
from helba.lab.algorithm import make_policy
from helba.problems import Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One round that was played.

    `reward` is what the policy learned from, after clipping. `regret`, `updates` and `clipped`
    count from the first round on. `agrees` and `tie` are None for a policy that approximates no
    other one.
    """

    round: int
    arm: int
    reward: float
    regret: float
    updates: int
    clipped: int
    agrees: bool | None
    tie: bool | None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The totals of one finished run; `seconds` is wall time and the only number that varies.

    In `overflows` rounds scores left their promised range. Of the rounds, `decided` had an exact
    counterpart to compare with, `agreed` played its arm and `ties` were certified ties;
    `disagreements_outside_ties` must be 0.
    """

    regret: float
    updates: int
    clipped: int
    overflows: int
    decided: int
    agreed: int
    ties: int
    disagreements_outside_ties: int
    seconds: float
    update_bound: float | None
    regret_bound: float | None

    @property
    def agreement(self) -> float | None:
        """Share of the rounds with an exact counterpart in which its arm was played."""
        return self.agreed / self.decided if self.decided else None


def settings_for(problem: Problem, *, horizon: int, **options: Any) -> Settings:
    """Return the settings of a policy that is told the truth about `problem`, but for `options`."""
    told = {
        "dim": problem.dim,
        "arms": problem.arms,
        "length": problem.length,
        "parameter_bound": problem.parameter_bound,
        "noise": problem.noise,
        "reward_max": problem.reward_max,
        "ridge": problem.ridge,
    }
    return Settings(horizon=horizon, **(told | options))


def policy_for(algorithm: str, *, settings: Settings, problem_seed: int) -> Policy:
    """Return the policy that plays the problem of `problem_seed`; its own seed derives from it."""
    seed = int(np.random.SeedSequence([problem_seed, 1]).generate_state(1)[0])
    return make_policy(algorithm, settings=settings, seed=seed)


def run_policy(problem: Problem, policy: Policy, *, horizon: int) -> Iterator[Row]:
    """Play `horizon` rounds and yield a row after each.

    The policy clips what it learns from to [-reward_max, reward_max] and counts how often; regret
    is measured with the means, which are never clipped.
    """
    regret = 0.0
    limit = policy.settings.reward_max
    for number, shown in enumerate(problem.rounds(horizon), start=1):
        arm = policy.select(shown.contexts)
        reward = float(shown.rewards[arm])
        policy.update(shown.contexts[arm], reward)
        regret += float(shown.means.max() - shown.means[arm])
        decision = policy.decision
        yield Row(
            round=number,
            arm=int(arm),
            reward=min(max(reward, -limit), limit),
            regret=regret,
            updates=policy.updates,
            clipped=policy.clipped,
            agrees=None if decision is None else decision.agrees,
            tie=None if decision is None else decision.tie,
        )


def run_repetition(
    problem: Problem,
    policy: Policy,
    *,
    horizon: int,
    watch: Callable[[Row], None] | None = None,
) -> Outcome:
    """Play `horizon` rounds and return the totals; `watch` is called with each row."""
    decided = agreed = ties = outside = 0
    last: Row | None = None
    started = time.perf_counter()
    for row in run_policy(problem, policy, horizon=horizon):
        last = row
        decided += row.agrees is not None
        agreed += row.agrees is True
        ties += row.tie is True
        decision = policy.decision
        outside += row.agrees is False and decision is not None and decision.missed
        if watch is not None:
            watch(row)
    seconds = time.perf_counter() - started
    return Outcome(
        regret=0.0 if last is None else last.regret,
        updates=policy.updates,
        clipped=policy.clipped,
        overflows=policy.overflows,
        decided=decided,
        agreed=agreed,
        ties=ties,
        disagreements_outside_ties=outside,
        seconds=seconds,
        update_bound=_bound(policy.update_bound),
        regret_bound=_bound(policy.regret_bound) if problem.linear else None,
    )


def _bound(compute: Callable[[], float | None]) -> float | None:
    """Return a bound, or None where there is none for these settings."""
    try:
        value = compute()
    except InvalidInput:
        return None
    return float(value) if value is not None and np.isfinite(value) else None
