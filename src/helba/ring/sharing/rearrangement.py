"""Rearrangements: where the numbers of an opening stand when it is encrypted again.

An opening is a sharing, and moving, adding and multiplying by public numbers are free on shares. So
whoever encrypts its share again may put the numbers into other coefficients, and the other side
does the same to its own share. Both follow the same public rearrangement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput, require_whole
from helba.ring.sharing.integer import Integers, Places, as_places, multiply_rounded


@dataclass(frozen=True, eq=False)
class Move:
    """Numbers at the coefficients `source` go to `target`: round(factor x) times `multiple`.

    The factor is any public real number other than 0; a negative one changes the sign of the
    numbers. Each party rounds its own share, so the sum is off by
    one unit at most. A whole `multiple` is applied after that: the result is then exactly a
    multiple of it, whatever the error was, which is how numbers are put on a grid.
    """

    source: Places
    target: Places
    factor: float | Fraction = 1.0
    multiple: int = 1

    def __post_init__(self) -> None:
        source, target = as_places("source", self.source), as_places("target", self.target)
        if source.shape != target.shape:
            raise InvalidInput("target", f"of shape {target.shape}", f"of shape {source.shape}")
        object.__setattr__(self, "source", source.reshape(-1))
        object.__setattr__(self, "target", target.reshape(-1))
        if len(np.unique(self.target)) != len(self.target):
            raise InvalidInput("target", "the same place twice", "distinct places")
        if not self.factor or not math.isfinite(self.factor):
            raise InvalidInput("factor", self.factor, "finite and other than 0")
        object.__setattr__(self, "factor", Fraction(self.factor))
        require_whole("multiple", self.multiple, least=1, most=1 << 60)

    @property
    def stretch(self) -> float:
        """Return the number that the integers are multiplied by."""
        return float(self.factor) * self.multiple


@dataclass(frozen=True, eq=False)
class Rearrangement:
    """All that goes into one new ciphertext of `scale`: numbers are added where moves meet."""

    moves: Sequence[Move]
    scale: float

    def __post_init__(self) -> None:
        if not self.moves:
            raise InvalidInput("moves", "none", "at least one")
        object.__setattr__(self, "moves", tuple(self.moves))

    @cached_property
    def sources(self) -> Places:
        """The coefficients that are read, in order."""
        found: Places = np.unique(np.concatenate([move.source for move in self.moves]))
        return found

    @cached_property
    def targets(self) -> Places:
        """The coefficients that are written, in order."""
        found: Places = np.unique(np.concatenate([move.target for move in self.moves]))
        return found

    @cached_property
    def stretches(self) -> NDArray[np.float64]:
        """The sum of the sizes of all factors at each target."""
        total = np.zeros(len(self.targets))
        for move in self.moves:
            total[np.searchsorted(self.targets, move.target)] += abs(move.stretch)
        return total

    @property
    def on_grid(self) -> bool:
        """True if every number is rounded to a multiple, so that no earlier error remains."""
        return all(move.multiple > 1 for move in self.moves)

    def apply(self, values: Integers, *, places: Places) -> Integers:
        """Return one party's share of the result at `targets`, from its share at `places`."""
        order = np.argsort(places)
        ordered = places[order]
        last = np.searchsorted(ordered, self.sources, side="right") - 1
        if (ordered[last] != self.sources).any():
            raise InvalidInput("source", "a coefficient that is not open", "one that was read")
        total = np.zeros(len(self.targets), dtype=object)
        for move in self.moves:
            found = order[np.searchsorted(ordered, move.source)]
            moved = multiply_rounded(values[found], Fraction(move.factor)) * move.multiple
            total[np.searchsorted(self.targets, move.target)] += moved
        return total
