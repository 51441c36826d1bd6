"""The time that is left: what was expected, corrected by what was measured so far."""

from __future__ import annotations

import time
from collections.abc import Sequence

from helba.lab.reproduction.unit import Unit


class Estimate:
    """Of units that are done one after another (`ckks`) or `processes` at a time (`light`).

    What a kind of unit really took over what was expected of it scales what is left of that kind;
    until one of a kind is finished, the other kind's ratio serves.
    """

    def __init__(self, units: Sequence[Unit], *, processes: int) -> None:
        self._left = {unit.name: unit for unit in units}
        self._processes = processes
        self._expected: dict[str, float] = {}
        self._measured: dict[str, float] = {}
        self._running: tuple[str, float] | None = None

    def start(self, unit: Unit) -> None:
        """Note that a unit begins now, alone."""
        self._running = (unit.name, time.monotonic())

    def finish(self, unit: Unit, *, seconds: float) -> None:
        """Note what a unit took."""
        self._left.pop(unit.name, None)
        self._running = None
        self._expected[unit.kind] = self._expected.get(unit.kind, 0.0) + unit.seconds
        self._measured[unit.kind] = self._measured.get(unit.kind, 0.0) + seconds

    def left(self) -> float:
        """Return the seconds that are left."""
        return sum(self._left_of(unit) for unit in self._left.values())

    def _left_of(self, unit: Unit) -> float:
        seconds = unit.seconds * self._ratio(unit.kind)
        if self._running is not None and self._running[0] == unit.name:
            return max(0.0, seconds - (time.monotonic() - self._running[1]))
        return seconds if unit.kind == "ckks" else seconds / self._processes

    def _ratio(self, kind: str) -> float:
        kinds = [kind] if self._expected.get(kind) else list(self._expected)
        expected = sum(self._expected[name] for name in kinds)
        return sum(self._measured[name] for name in kinds) / expected if expected else 1.0
