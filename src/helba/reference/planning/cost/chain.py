"""Steps that follow one another, and where a refresh has to come between them.

A chain starts with all levels; a refresh gives all of them back but takes `REFRESH_LEVELS` itself.
Greedy cutting, as late as possible, needs the fewest refreshes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from helba.reference.planning.cost.cost import Cost

# What a masked refresh needs left: the scale is adjusted, and two primes remain.
REFRESH_LEVELS = 2


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step: its cost, and how many ciphertexts (`state`) a refresh before it has to renew.

    `groups` lists the rotations that are summed from one decomposition, by their numbers; the rest
    of the cost's rotations are single ones. A step that `starts_fresh` begins a piece unless the
    levels suffice for all that is left; with `state` 0, because it works on vectors that are fresh
    anyway, it always does, and what comes before it needs no refresh.
    """

    name: str
    cost: Cost
    state: int = 1
    groups: tuple[int, ...] = ()
    starts_fresh: bool = False


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Steps in pieces; between two pieces the state of the later one's first step is refreshed."""

    pieces: tuple[tuple[Step, ...], ...]

    @property
    def refreshes(self) -> int:
        """Ciphertexts that are refreshed on the way."""
        return sum(piece[0].state for piece in self.pieces[1:])

    @property
    def points(self) -> tuple[str, ...]:
        """The steps before which a refresh comes."""
        return tuple(piece[0].name for piece in self.pieces[1:] if piece[0].state)

    @property
    def levels(self) -> int:
        """Levels of the deepest piece, the refresh after it included."""
        last = len(self.pieces) - 1
        return max(
            levels_of(piece) + (REFRESH_LEVELS if index < last else 0)
            for index, piece in enumerate(self.pieces)
        )


def levels_of(steps: Iterable[Step]) -> int:
    """Return the levels that steps use one after the other."""
    return sum(step.cost.levels for step in steps)


def cut_chain(
    steps: Sequence[Step], *, levels: int, reserved: int = REFRESH_LEVELS, ends_fresh: bool = False
) -> Chain | None:
    """Return the chain with the fewest refreshes within `levels` a piece, or None if none fits.

    Every piece that a refresh follows leaves `reserved` levels for it; the last one does if it
    `ends_fresh`, because its result is refreshed as well.
    """
    pieces: list[tuple[Step, ...]] = []
    left = list(steps)
    while left:
        run = _count_joined(left)
        whole = levels_of(left[:run]) + (reserved if ends_fresh and run == len(left) else 0)
        if whole <= levels:
            pieces.append(tuple(left[:run]))
            left = left[run:]
            continue
        count = 0
        while count < run and levels_of(left[: count + 1]) + reserved <= levels:
            if count and left[count].starts_fresh:
                break
            count += 1
        if count == 0:
            return None
        pieces.append(tuple(left[:count]))
        left = left[count:]
    return Chain(pieces=tuple(pieces))


def _count_joined(steps: Sequence[Step]) -> int:
    """How many steps work on the vectors of the first, before one that has fresh ones."""
    for count, step in enumerate(steps):
        if count and step.starts_fresh and step.state == 0:
            return count
    return len(steps)
