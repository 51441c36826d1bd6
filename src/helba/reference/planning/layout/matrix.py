"""Where a matrix sits in the slots, and the rotations of a product of two.

A d x d matrix is padded with zeros to p x p, p the next power of two, and stored by rows: entry
(i, j) in slot i p + j of p^2, which repeat in any larger vector. A vector of d numbers has two
forms in the same slots: *by row*, v_i in slot i p + j, and *by column*, v_j there.

The product C = L R is computed in s slices. Slot (b, i, j) = (b rows + i) p + j of slice b, with
rows = p, or 2p when two left factors are stacked, holds in chunk c = 0, 1, ..., with k = c s + b,

    left_c = L[i, k] for all j,    right_c = R[k, j] for all i,    C = sum over b, c of both.

A column of L goes to j = 0 of its slice by masked rotations (`gather`), and over j by unmasked
ones; the same for a row of R. The slice is the major index, so the sum over b is cyclic: every
slice ends with C, and none with a partial sum. Two levels: masks, product. With s = p it is the
layout of d^3 slots, with one product of ciphertexts.

Two dimensions, s = p = 2: the slots of the operands and of the one chunk, slice b = 0 then b = 1.

    L        L00 L01 L10 L11                       R        R00 R01 R10 R11
    left_0   L00 L00 L10 L10  L01 L01 L11 L11      right_0  R00 R01 R00 R01  R10 R11 R10 R11
    product  L00 R00, L00 R01, L10 R00, L10 R01,  L01 R10, L01 R11, L11 R10, L11 R11
    sum      C00 C01 C10 C11  C00 C01 C10 C11      after one rotation by 4

Newton's inverse multiplies both X and M = V X by a function of M. Four products serve it:

    single    L R                      rows = p
    opening   [M; X] R  from M, X      rows = 2p; the right factor is made of M
    advancing [M; X] R  from [M; X]    rows = 2p; the right factor is made of the upper half
    closing   X R       from [M; X]    the sum also runs over the halves, the upper one empty

The steps are chosen so that all of them, and the sums over rows or columns, share their keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from helba.errors import InvalidInput, require_whole
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.layout.gather import Gather, Slots, gather_cost
from helba.reference.planning.layout.packing import next_power_of_two
from helba.reference.planning.layout.stages import (
    Stages,
    baby_steps,
    count_rotations,
    distinct_steps,
    power_stages,
    radix_stages,
    steps_of,
)

MOST_DIM = 128

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class MatrixProduct:
    """One kind of product, in `slices` slices of `rows` rows.

    `left_rows` are the rows that each left factor fills; `halves` are 2 if the sum over the slices
    also runs over the two halves of each.
    """

    dim: int
    slices: int
    rows: int
    left_rows: tuple[tuple[int, int], ...]
    halves: int = 1

    @property
    def side(self) -> int:
        """The padded dimension p."""
        return next_power_of_two(self.dim)

    @property
    def slots(self) -> int:
        """Slots of all slices."""
        return self.slices * self.rows * self.side

    @property
    def period(self) -> int:
        """Slots of the result: those of a slice, or of half of one."""
        return self.rows * self.side // self.halves

    @property
    def chunks(self) -> int:
        """Products of ciphertexts."""
        return -(-self.dim // self.slices)

    @cached_property
    def left(self) -> tuple[Gather, ...]:
        """For each left factor, its columns: (i, k) goes to (b, i, 0)."""
        plans = []
        for low, high in self.left_rows:
            rows = np.array([i for i in range(low, high) if i % self.side < self.dim])
            plans.append(self._gather(unit=1, targets=rows * self.side))
        return tuple(plans)

    @cached_property
    def right(self) -> Gather:
        """The rows of the right factor: (k, j) goes to (b, 0, j)."""
        return self._gather(unit=self.side, targets=np.arange(self.dim))

    @property
    def spread_left(self) -> Stages:
        """From j = 0 to all columns."""
        return power_stages(unit=-1, count=self.side)

    @property
    def spread_right(self) -> Stages:
        """From i = 0 to all rows."""
        return power_stages(unit=-self.side, count=self.rows)

    @property
    def sum_slices(self) -> Stages:
        """Over the slices, or their halves.

        Single and closing begin with the step p^2 alone: the others are then those of stacked ones.
        """
        whole = self.halves == 1 and self.rows > self.side
        unit, count = self.rows * self.side // self.halves, self.slices * self.halves
        if whole or count == 1:
            return power_stages(unit=unit, count=count)
        return ((unit,), *power_stages(unit=2 * unit, count=count // 2))

    @property
    def rotations(self) -> tuple[int, ...]:
        """Steps that need a key; negative ones are to the right."""
        steps = {step for gather in (*self.left, self.right) for step in gather.rotations}
        steps |= steps_of(self.spread_left, self.spread_right, self.sum_slices)
        return distinct_steps(steps, slots=self.slots)

    @property
    def cost(self) -> Cost:
        """Two levels; each chunk spreads its factors, and one sum serves all chunks."""
        spread = count_rotations(self.spread_left, self.spread_right)
        arranged = gather_cost(self.left) | gather_cost([self.right])
        rotations = self.chunks * spread + count_rotations(self.sum_slices)
        return arranged + Cost(levels=1, products=self.chunks, rotations=rotations)

    def spread_matrix(self, matrix: ArrayLike, *, chunk: int, slots: int) -> Array:
        """Return a plain right factor as chunk `chunk` holds it, repeated over `slots`."""
        square = np.zeros((self.chunks * self.slices, self.side))
        square[: self.dim, : self.dim] = require_square("matrix", matrix, dim=self.dim)
        mine = square[chunk * self.slices : (chunk + 1) * self.slices]
        return np.tile(np.repeat(mine, self.rows, axis=0).ravel(), slots // self.slots)

    def _gather(self, *, unit: int, targets: Slots) -> Gather:
        outputs = []
        for chunk in range(self.chunks):
            first = chunk * self.slices
            last = min(first + self.slices, self.dim)
            outputs.append(
                {k: targets + (k - first) * self.rows * self.side for k in range(first, last)}
            )
        babies = baby_steps(self.side)
        return Gather(unit=unit, babies=babies, period=self.slots, outputs=tuple(outputs))


@dataclass(frozen=True, kw_only=True)
class MatrixLayout:
    """The layouts of d x d matrices, d = `dim`, in vectors of at most `max_slots` slots."""

    dim: int
    max_slots: int

    def __post_init__(self) -> None:
        require_whole("dim", self.dim, least=1, most=MOST_DIM)
        if self.max_slots < 2 * self.size or self.max_slots & (self.max_slots - 1):
            allowed = f"a power of two of at least {2 * self.size} for dimension {self.dim}"
            raise InvalidInput("max_slots", self.max_slots, allowed)

    @property
    def side(self) -> int:
        """The padded dimension p."""
        return next_power_of_two(self.dim)

    @property
    def size(self) -> int:
        """Slots of one matrix, p^2."""
        return self.side**2

    @cached_property
    def single(self) -> MatrixProduct:
        """L R."""
        return self._product(rows=self.side, left_rows=((0, self.side),))

    @cached_property
    def opening(self) -> MatrixProduct:
        """[M; X] R from M and X."""
        p = self.side
        return self._product(rows=2 * p, left_rows=((0, p), (p, 2 * p)))

    @cached_property
    def advancing(self) -> MatrixProduct:
        """[M; X] R from [M; X]."""
        return self._product(rows=2 * self.side, left_rows=((0, 2 * self.side),))

    @cached_property
    def closing(self) -> MatrixProduct:
        """X R from [M; X]."""
        p = self.side
        return self._product(rows=2 * p, left_rows=((p, 2 * p),), halves=2)

    @property
    def slots(self) -> int:
        """Slots of the largest product."""
        return max(self.single.slots, self.advancing.slots)

    @property
    def sum_rows(self) -> Stages:
        """Over i, cyclically: with the steps that gather rows."""
        return radix_stages(unit=self.side, radices=self._sum_radices)

    @property
    def sum_columns(self) -> Stages:
        """Over j: valid in column 0 only."""
        return radix_stages(unit=1, radices=self._sum_radices)

    @property
    def sum_all(self) -> Stages:
        """Over all entries, cyclically."""
        return (*self.sum_columns, *self.sum_rows)

    @property
    def spread_columns(self) -> Stages:
        """From column 0, the others empty, to all columns."""
        return self.single.spread_left

    @property
    def rotations(self) -> tuple[int, ...]:
        """Steps of every circuit on matrices except the assembly of the model."""
        products = (self.single, self.opening, self.advancing, self.closing)
        steps = steps_of(self.sum_all, self.spread_columns)
        steps.update(*(product.rotations for product in products))
        return distinct_steps(steps, slots=self.slots)

    def pack(self, matrix: ArrayLike) -> Array:
        """Return the p^2 slots of a matrix."""
        square = np.zeros((self.side, self.side))
        square[: self.dim, : self.dim] = require_square("matrix", matrix, dim=self.dim)
        return square.ravel()

    def unpack(self, values: ArrayLike) -> Array:
        """Return the matrix in the first p^2 slots."""
        square = np.asarray(values, dtype=np.float64)[: self.size].reshape(self.side, self.side)
        return square[: self.dim, : self.dim].copy()

    def pack_by_row(self, vector: ArrayLike) -> Array:
        """Return v_i in slot i p + j."""
        return np.repeat(self._padded(vector), self.side)

    def pack_by_column(self, vector: ArrayLike) -> Array:
        """Return v_j in slot i p + j."""
        return np.tile(self._padded(vector), self.side)

    def _padded(self, vector: ArrayLike) -> Array:
        values = np.asarray(vector, dtype=np.float64)
        if values.shape != (self.dim,):
            raise InvalidInput("vector", f"shape {values.shape}", f"{self.dim} numbers")
        return np.pad(values, (0, self.side - self.dim))

    @property
    def _sum_radices(self) -> tuple[int, ...]:
        babies = baby_steps(self.side)
        return tuple(radix for radix in (babies, self.side // babies) if radix > 1)

    def _product(
        self, *, rows: int, left_rows: tuple[tuple[int, int], ...], halves: int = 1
    ) -> MatrixProduct:
        """With as many slices as there is room for: fewer chunks are less work."""
        slices = min(self.side, self.max_slots // (rows * self.side))
        return MatrixProduct(
            dim=self.dim, slices=slices, rows=rows, left_rows=left_rows, halves=halves
        )


def require_square(name: str, values: ArrayLike, *, dim: int) -> Array:
    """Return `values` as a dim x dim matrix, or raise `InvalidInput`."""
    square = np.asarray(values, dtype=np.float64)
    if square.shape != (dim, dim):
        raise InvalidInput(name, f"shape {square.shape}", f"{dim} x {dim}")
    return square
