"""The cost of an encrypted run, apart in rounds and updates, from its rows; and laws of costs.

The first rounds of a run update the model nearly every time, later ones rarely. A mean over a few
rounds would say nothing about many, so a round and an update are counted apart: the cost of a round
over a horizon is then `round + update * updates / horizon`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from helba.errors import InvalidInput

NOT_COSTS = ("round", "arm", "regret", "agrees", "tie")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds and bytes of a round without an update, and what an update adds; None if none came.

    `recommendation` are the server's seconds between a request and its answer.
    """

    rounds: int
    updates: int
    recommendation: float
    round: float
    update: float | None
    bytes_up: float | None
    bytes_down: float | None
    update_bytes_up: float | None
    update_bytes_down: float | None

    def seconds_per_round(self, *, updates: float, horizon: int) -> float | None:
        """Return the seconds of a round and its share of so many updates."""
        return _amortise(self.round, self.update, updates=updates, horizon=horizon)

    def bytes_per_round(self, *, updates: float, horizon: int) -> tuple[float | None, float | None]:
        """Return the bytes of a round, up and down, with its share of so many updates."""
        up = _amortise(self.bytes_up, self.update_bytes_up, updates=updates, horizon=horizon)
        down = _amortise(self.bytes_down, self.update_bytes_down, updates=updates, horizon=horizon)
        return up, down


@dataclass(frozen=True, kw_only=True)
class Exponent:
    """The law y = c x^slope, by least squares of the logarithms.

    `error` is the standard error of the slope, None with fewer than three points; `r_squared` the
    share of the variance that the law explains, None where y does not vary.
    """

    slope: float
    error: float | None
    r_squared: float | None
    points: int


def split_cost(rows: Sequence[Mapping[str, Any]]) -> Cost:
    """Return the costs of a run from its rows, as `play_single` returns them.

    Where there are several rounds the first counts for bytes only: its seconds warm up.
    """
    steps = [_difference(row, before) for row, before in zip(rows, [None, *rows], strict=False)]
    warm = steps[1:] or steps
    quiet = [step for step in steps if not step["updates"]]
    busy = [step for step in steps if step["updates"]]
    up, down = (_mean(quiet, name) for name in ("bytes_up", "bytes_down"))
    added_up, added_down = (_mean(busy, name) for name in ("bytes_up", "bytes_down"))
    return Cost(
        rounds=len(rows),
        updates=len(busy),
        recommendation=statistics.fmean(step["server_recommendation_seconds"] for step in warm),
        round=statistics.fmean(step["round_seconds"] for step in warm),
        update=_mean(busy, "update_seconds"),
        bytes_up=up,
        bytes_down=down,
        update_bytes_up=None if up is None or added_up is None else added_up - up,
        update_bytes_down=None if down is None or added_down is None else added_down - down,
    )


def fit_exponent(x: Sequence[float], y: Sequence[float]) -> Exponent:
    """Fit y = c x^slope to two points or more, all of them positive, with x not all the same."""
    if len(x) != len(y) or len(x) < 2 or min(*x, *y) <= 0 or len(set(x)) < 2:
        raise InvalidInput("points of a power law", len(x), "two or more, positive, of several x")
    u, v = [math.log(value) for value in x], [math.log(value) for value in y]
    slope, intercept = statistics.linear_regression(u, v)
    left = sum((b - slope * a - intercept) ** 2 for a, b in zip(u, v, strict=True))
    middle_u, middle_v = statistics.fmean(u), statistics.fmean(v)
    spread_u = sum((a - middle_u) ** 2 for a in u)
    spread_v = sum((b - middle_v) ** 2 for b in v)
    freedom = len(x) - 2
    # Rounding alone makes equal values differ by some 1e-16.
    varies = spread_v > 1e-24
    return Exponent(
        slope=slope,
        error=math.sqrt(left / freedom / spread_u) if freedom else None,
        r_squared=max(0.0, 1.0 - left / spread_v) if varies else None,
        points=len(x),
    )


def _difference(row: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, float]:
    names = [name for name in row if name not in NOT_COSTS]
    return {name: row[name] - (0 if before is None else before[name]) for name in names}


def _mean(steps: Sequence[Mapping[str, float]], name: str) -> float | None:
    return statistics.fmean(step[name] for step in steps) if steps else None


def _amortise(
    single: float | None, added: float | None, *, updates: float, horizon: int
) -> float | None:
    if single is None or (added is None and updates):
        return None
    return single + (added or 0.0) * updates / horizon
