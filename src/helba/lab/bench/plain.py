"""Times a round without encryption: the floor for everything built on top."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from helba.errors import require_at_least
from helba.lab.runner import policy_for, settings_for
from helba.problems import make_problem


@dataclass(frozen=True, kw_only=True)
class PlainBench:
    """Microseconds of one `select` and one `update` of plaintext OFUL, and how it was measured."""

    microseconds_per_round: float
    microseconds_min: float
    microseconds_max: float
    dim: int
    arms: int
    rounds: int
    blocks: int


def bench_plain(*, dim: int = 16, arms: int = 16, rounds: int = 500, blocks: int = 9) -> PlainBench:
    """Time OFUL on the synthetic problem: the median over `blocks` blocks of `rounds` rounds.

    The rounds are drawn before the clock starts, and a first block warms up uncounted.
    """
    require_at_least("rounds", rounds, 1)
    require_at_least("blocks", blocks, 1)
    problem = make_problem("synthetic", dim=dim, arms=arms, seed=0)
    horizon = rounds * (blocks + 1)
    policy = policy_for("oful", settings=settings_for(problem, horizon=horizon), problem_seed=0)
    drawn = iter(list(problem.rounds(horizon)))
    found = []
    for _ in range(blocks + 1):
        block = [next(drawn) for _ in range(rounds)]
        started = time.perf_counter()
        for shown in block:
            arm = policy.select(shown.contexts)
            policy.update(shown.contexts[arm], float(shown.rewards[arm]))
        found.append((time.perf_counter() - started) / rounds * 1e6)
    return PlainBench(
        microseconds_per_round=statistics.median(found[1:]),
        microseconds_min=min(found[1:]),
        microseconds_max=max(found[1:]),
        dim=dim,
        arms=arms,
        rounds=rounds,
        blocks=blocks,
    )
