"""The schedule of updates: the public growth rule, and the trace rule with its lag."""

from __future__ import annotations

import math
from fractions import Fraction

from helba.bandits.settings import Settings


class UpdateSchedule:
    """Tells after every round whether an update is due, and what is publicly known of the trace.

    *Growth*: t >= (1 + eta) t_j, with eta read as the decimal it was written as, so that
    11 >= 1.1 * 10 holds. *Trace*: Tr(A (V - V_j)) >= C, up to `band` either way, whose one bit
    reaches the server `lag` rounds after the round it describes; with schedule "public" it is never
    asked for.

    Rounds t_j + 1 to `last_round` can belong to the batch that starts after round t_j; the first
    batch has t_0 = 1, as in the paper, and also serves round 1.
    """

    def __init__(self, settings: Settings, *, lag: int, band: float = 0.0) -> None:
        self.lag = lag
        self.band = band
        self.asks = settings.schedule == "trace"
        self.threshold = settings.trace_threshold
        self.step = settings.length**2 / settings.ridge
        self.growth = Fraction(str(settings.growth))
        self.horizon = settings.horizon
        self.start = 1
        self.plays = 0
        self.answers: list[bool] = []

    @property
    def last_round(self) -> int:
        """The last round that this batch can serve: the growth rule ends it, or the horizon."""
        return min(self.horizon, max(1, math.ceil((1 + self.growth) * self.start)))

    def due(self, *, round: int, passed: bool) -> bool:
        """Record the test's bit for this round and say whether to update after it."""
        self.plays += 1
        self.answers.append(passed and self.asks)
        return self.known or round >= (1 + self.growth) * self.start

    @property
    def known(self) -> bool:
        """The newest bit that has arrived."""
        arrived = len(self.answers) - self.lag
        return arrived >= 1 and self.answers[arrived - 1]

    def trace_bound(self, *, residual: float) -> float:
        """Return a public bound on Tr(A (V - V_j)) at an update, from counts alone.

        Every play adds at most (1 + e) L^2/lambda; the last bit that said no saw at most C + band.
        """
        step = (1.0 + residual) * self.step
        most = self.plays * step
        if not self.asks:
            return most
        arrived = max(0, len(self.answers) - self.lag)
        unseen = self.plays - arrived + (1 if self.known else 0)
        if unseen >= self.plays:
            return most
        return min(most, self.threshold + self.band + unseen * step)

    def restart(self, *, round: int) -> None:
        """Begin the next batch after `round`."""
        self.start = round
        self.plays = 0
        self.answers.clear()
