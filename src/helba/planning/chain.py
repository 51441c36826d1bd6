"""Steps that follow one another, and where a refresh has to come between them.

A chain starts with all levels; a refresh gives all of them back but takes `REFRESH_LEVELS` itself.
Greedy cutting, as late as possible, needs the fewest refreshes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from helba.planning.cost import Cost

__all__ = ["REFRESH_LEVELS", "Chain", "Step", "cut_chain"]

# What a masked refresh needs left: the scale is adjusted, and two primes remain.
REFRESH_LEVELS = 2


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step: its cost, and how many ciphertexts (`state`) a refresh before it has to renew.

    `groups` lists the rotations that are summed from one decomposition, by their numbers; the rest
    of the cost's rotations are single ones.
    """

    name: str
    cost: Cost
    state: int = 1
    groups: tuple[int, ...] = ()


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
        return tuple(piece[0].name for piece in self.pieces[1:])

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
        whole = levels_of(left) + (reserved if ends_fresh else 0)
        if whole <= levels:
            pieces.append(tuple(left))
            break
        count = 0
        while count < len(left) and levels_of(left[: count + 1]) + reserved <= levels:
            count += 1
        if count == 0:
            return None
        pieces.append(tuple(left[:count]))
        left = left[count:]
    return Chain(pieces=tuple(pieces))
