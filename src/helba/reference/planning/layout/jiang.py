"""The product of Jiang et al. (ePrint 2018/1041, section 3) in doubled rows: 2 levels, not 3.

With the column shift phi(A)[i, j] = A[i, j+1] and the row shift psi(A)[i, j] = A[i+1, j], modulo p
(the paper misprints both: erratum 5),

    L R = sum over k < p of phi^k(L_0) * psi^k(R_0),  L_0[i, j] = L[i, i+j],  R_0[i, j] = R[i+j, j].

A row is stored twice, [A | A], 2p slots: a rotation by k < p then shifts its first half
cyclically. So phi^k needs no mask, which saves the third level; psi^k never does. R_0 stays in the
first halves with zeros in the second ones, and so does the product, until one rotation doubles it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from helba.errors import require_whole
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.layout.gather import Gather, Slots, gather_cost
from helba.reference.planning.layout.matrix import MOST_DIM, require_square
from helba.reference.planning.layout.packing import next_power_of_two
from helba.reference.planning.layout.stages import baby_steps, distinct_steps


@dataclass(frozen=True, kw_only=True)
class JiangLayout:
    """d x d matrices, d = `dim`, padded to p x p, each row stored twice: 2 p^2 slots."""

    dim: int

    def __post_init__(self) -> None:
        require_whole("dim", self.dim, least=1, most=MOST_DIM)

    @property
    def side(self) -> int:
        """The padded dimension p."""
        return next_power_of_two(self.dim)

    @property
    def slots(self) -> int:
        """Slots of a matrix."""
        return 2 * self.side**2

    @cached_property
    def left(self) -> Gather:
        """Row i of L, shifted by i, in the first half."""
        first = np.arange(self.side)
        rows = {i: 2 * self.side * i + first for i in range(self.dim)}
        return self._gather(unit=1, moves=rows)

    @cached_property
    def right(self) -> Gather:
        """Column j of R, shifted by j rows."""
        first = 2 * self.side * np.arange(self.side)
        columns = {j: first + j for j in range(self.dim)}
        return self._gather(unit=2 * self.side, moves=columns)

    @property
    def column_shifts(self) -> tuple[int, ...]:
        """Steps of phi^k."""
        return tuple(range(self.side))

    @property
    def row_shifts(self) -> tuple[int, ...]:
        """Steps of psi^k."""
        return tuple(2 * self.side * k for k in range(self.side))

    @property
    def rotations(self) -> tuple[int, ...]:
        """Steps that need a key; the negative one doubles the rows."""
        steps = {-self.side, *self.column_shifts, *self.row_shifts}
        return distinct_steps(steps, slots=self.slots)

    @property
    def cost(self) -> Cost:
        """Masks, doubling, shifts, p products, doubling."""
        p = self.side
        arranged = gather_cost([self.left]) | gather_cost([self.right])
        return arranged + Cost(levels=1, products=p, rotations=2 * (p - 1) + 2)

    def pack(self, matrix: ArrayLike) -> NDArray[np.float64]:
        """Return the slots of a matrix."""
        square = require_square("matrix", matrix, dim=self.dim)
        padded = np.pad(square, (0, self.side - self.dim))
        return np.hstack([padded, padded]).ravel()

    def unpack(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return the matrix in the slots."""
        rows = np.asarray(values, dtype=np.float64)[: self.slots].reshape(self.side, 2 * self.side)
        return rows[: self.dim, : self.dim].copy()

    def _gather(self, *, unit: int, moves: Mapping[int, Slots]) -> Gather:
        babies = baby_steps(self.side)
        return Gather(unit=unit, babies=babies, period=self.slots, outputs=(moves,))
