"""How quick a tenant is: latencies of rounds, and rounds a second."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

KEPT = 2048
WINDOW_SECONDS = 60.0
# Seconds, between which rounds are counted.
BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """How long rounds took: how many within each of `BOUNDS`, then all of them; and the sum."""

    within: tuple[int, ...]
    seconds: float


class Meter:
    """Counts rounds and rewards since the start, and keeps the latest latencies.

    `clock` is for tests.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.rounds = 0
        self.rewards = 0
        self._clock = clock
        self._began = clock()
        self._latest: deque[tuple[float, float]] = deque(maxlen=KEPT)
        self._counts = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0
        self._lock = threading.Lock()

    def add_rounds(self, count: int, *, seconds: float) -> None:
        """Note rounds that were answered together, after so long."""
        now = self._clock()
        with self._lock:
            self.rounds += count
            self._latest.extend([(now, seconds)] * count)
            self._counts[bisect_left(BOUNDS, seconds)] += count
            self._seconds += count * seconds

    def histogram(self) -> Histogram:
        """Return how long all rounds since the start took."""
        with self._lock:
            return Histogram(within=tuple(accumulate(self._counts)), seconds=self._seconds)

    def latency_ms(self) -> dict[str, float | None]:
        """Return the middle and the 95th percentile of the rounds of the last minute."""
        seconds = [each for _, each in self._recent()]
        if not seconds:
            return {"p50": None, "p95": None}
        middle, high = np.percentile(seconds, (50, 95))
        return {"p50": round(1e3 * float(middle), 1), "p95": round(1e3 * float(high), 1)}

    def rounds_per_second(self) -> float:
        """Return the rate of the last minute, or of the time since the start."""
        recent = self._recent()
        if not recent:
            return 0.0
        now = self._clock()
        start = recent[0][0] if len(recent) == KEPT else now - WINDOW_SECONDS
        elapsed = now - max(start, self._began)
        return round(len(recent) / max(elapsed, 1.0), 3)

    def _recent(self) -> list[tuple[float, float]]:
        since = self._clock() - WINDOW_SECONDS
        with self._lock:
            return [each for each in self._latest if each[0] >= since]
