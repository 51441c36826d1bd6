"""Keeping levels in hand for long computations: refresh before they run out, waste none before.

A long circuit is a generator: it yields a `Renewal` where a vector needs its levels back, and goes
on when the same values are sent in. Who drives it decides how they come back, and when:
`run_steps` does it at once, a server may wait for a user's reply. Sending back the very vector that
was yielded means that no refresh is to be had: the circuit then goes on as long as levels last.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

from helba.errors import LevelsExhausted
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.planning.cost.chain import REFRESH_LEVELS

T = TypeVar("T")

# Returns the same values with more levels left; it needs REFRESH_LEVELS of them itself.
Refresh = Callable[[EncryptedVector], EncryptedVector]


@dataclass(frozen=True, kw_only=True)
class Renewal:
    """What a circuit yields: it needs `vector` with its levels back.

    No value exceeds `bound` in size: bootstrapping scales by it. `needed` levels are used next, and
    a refresh comes after them unless they are the `last`.
    """

    vector: EncryptedVector
    bound: float = 1.0
    needed: int = 0
    last: bool = False

    @property
    def reserve(self) -> int:
        """Levels that it must come back with."""
        return self.needed + (0 if self.last else REFRESH_LEVELS)

    def require_possible(self) -> None:
        """Raise `LevelsExhausted` if not even a fresh vector has levels enough."""
        depth = self.vector.parameters.depth
        if depth < self.reserve:
            raise LevelsExhausted(f"{self.describe()} need depth {self.reserve}, not {depth}")

    def describe(self) -> str:
        """Return what the levels are for."""
        if self.last:
            return f"the {self.needed} levels that are left"
        return f"a step of {self.needed} levels and a refresh after it"


Steps = Generator[Renewal, EncryptedVector, T]


def with_levels(
    vector: EncryptedVector, *, needed: int, bound: float = 1.0, rest: int | None = None
) -> Steps[EncryptedVector]:
    """Return the vector, renewed if `needed` levels would not leave enough for a later refresh.

    `rest` are the levels up to the end of a computation whose result is never refreshed, if the
    caller knows them: who has those needs no other. `LevelsExhausted` is raised if what came back
    has too few levels as well; not if it is the same vector, for then the engine raises it when it
    must.
    """
    last = rest is not None and rest <= needed + REFRESH_LEVELS
    levels = rest if rest is not None and last else needed
    renewal = Renewal(vector=vector, bound=bound, needed=levels, last=last)
    if vector.levels_left >= renewal.reserve:
        return vector
    fresh = yield renewal
    if fresh is not vector and fresh.levels_left < renewal.reserve:
        raise LevelsExhausted(
            f"{renewal.describe()} need {renewal.reserve} levels, "
            f"a refresh left {fresh.levels_left}"
        )
    return fresh


def run_steps(steps: Steps[T], *, refresh: Refresh | None) -> T:
    """Run a circuit to its end: every vector it yields goes through `refresh`, or back as it is.

    A refresh that cannot suffice is refused before it is asked for.
    """
    try:
        renewal = next(steps)
        while True:
            if refresh is None:
                renewal = steps.send(renewal.vector)
            else:
                renewal.require_possible()
                renewal = steps.send(refresh(renewal.vector))
    except StopIteration as end:
        result: T = end.value
        return result


def sink(engine: Engine, vector: EncryptedVector, *, levels: int) -> EncryptedVector:
    """Return the vector as deep as `levels` more of them and a refresh after that allow.

    Operations are cheaper there: an update of known length begins so.
    """
    deepest = vector.parameters.depth - levels - REFRESH_LEVELS
    return engine.lower(vector, max(vector.level, deepest))
