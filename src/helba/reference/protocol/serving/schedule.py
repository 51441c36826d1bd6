"""When the server updates: the growth rule, and the bits of update tests as they come in.

The same rules as `bandits.schedule`, where rounds come one after the other; here tests overlap,
come back late or not at all, and rewards arrive in any order. `covered` counts the rewards of this
batch that the newest test saw that said no: only those since then can have raised the trace above
the threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from helba.bandits.settings import Settings


@dataclass
class ServerSchedule:
    """The state of a batch: it began after round `start` and has received `plays` rewards.

    Of these, `covered` were seen by a test that said no; `passed` is whether one said yes. Within
    `band` of the threshold a test may say either. `covered_before` is that of the batch before,
    under which rounds may still be in flight. `lag` is the largest number of plays, over all
    batches, that a round was answered without having been seen by a test of its batch; it enters
    the bounds (`bandits.bounds.trace_growth_bound`). `stretch` is the largest ratio of a round to
    the last one that its batch was to serve: past 1 gamma was too small for the bounds.
    """

    settings: Settings
    band: float = 0.0
    start: int = 1
    plays: int = 0
    covered: int = 0
    covered_before: int = 0
    passed: bool = False
    lag: int = 0
    stretch: float = 0.0

    def due(self, *, round: int) -> bool:
        """Whether to update after `round` rounds."""
        growth = Fraction(str(self.settings.growth))
        return self.passed or round >= (1 + growth) * self.start

    def answer(self, *, passed: bool, covered: int) -> None:
        """Take in the bit of a test that saw `covered` rewards."""
        if passed:
            self.passed = True
        else:
            self.covered = max(self.covered, covered)

    def trace_bound(self, *, residual: float, more: int = 0) -> float:
        """Return a public bound on Tr(A (V - V_j)), with `more` rewards to come, from counts."""
        settings = self.settings
        step = (1.0 + residual) * settings.length**2 / settings.ridge
        plays = self.plays + more
        most = plays * step
        if settings.schedule == "public" or self.covered == 0:
            return most
        seen = settings.trace_threshold + self.band
        return min(most, seen + (plays - self.covered) * step)

    def restart(self, *, round: int) -> None:
        """Begin the batch after `round`."""
        self.start = max(1, round)
        self.plays = 0
        self.covered, self.covered_before = 0, self.covered
        self.passed = False


def last_round(settings: Settings, *, start: int) -> int:
    """Return the last round of a batch that starts after round `start`, by the growth rule."""
    growth = 1 + Fraction(str(settings.growth))
    return min(settings.horizon, max(1, math.ceil(growth * start)))
