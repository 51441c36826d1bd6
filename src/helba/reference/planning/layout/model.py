"""How the score model is put together from the inverse and the estimate: slots and rotations.

The model has feature f in the slots f P + q, q < P (`planning.layout.score`): w_j is feature j, and
A[i, j] for i <= j is feature F_i + j, with F_i = d + i d - i(i+1)/2. Features are moved to q = 0,
then spread over q. A rotation for each row of A, hoisted and modulo its period p^2, comes first;
then there are two ways.

*One level.* A mask for each entry; the steps in j are multiples of one, and Horner's rule takes
them with a single key, from the last column to the first. A[i, j] moves from slot i p + j by
(i p - F_i P) + j (1 - P), or, since A is symmetric, from slot j p + i by (i - F_i P) + j (p - P):
the second if P = p, where the columns do not move at all. w by column has period p: its feature j
moves by j (1 - P) modulo p, in baby and giant steps whose keys the products have already.

Two dimensions and two arms, P = 2, the slots of a matrix and of the model:

    A       A00 A01 A10 A11
    w       w0  w1  w0  w1
    moved   w0 0  w1 0  A00 0  A01 0  A11 0  0 0  0 0  0 0      q = 0 of the features
    model   w0 w0 w1 w1 A00 A00 A01 A01 A11 A11 1 1  0 0  0 0   spread over q, and the constant

*Two levels.* A mask for each row puts its part of the triangle, as it is, where its features begin,
and w where its own begin; then all are stretched from distance 1 to distance P at once, in baby and
giant steps. About d^2/2 masks and d rotations fewer, for a few more keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput, require_whole
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.layout.gather import Gather, Slots, gather_cost
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.score import ScoreLayout
from helba.reference.planning.layout.stages import (
    Stages,
    baby_steps,
    count_rotations,
    distinct_steps,
    power_stages,
    steps_of,
)

Array = NDArray[np.float64]
Places = dict[int, list[int]]


@dataclass(frozen=True, kw_only=True)
class ModelAssembly:
    """The way from matrices of `matrix` to the model of `score`, in 1 or 2 levels."""

    matrix: MatrixLayout
    score: ScoreLayout
    levels: int = 1

    def __post_init__(self) -> None:
        require_whole("levels", self.levels, least=1, most=2)
        if self.matrix.dim != self.score.dim:
            raise InvalidInput("dim", self.score.dim, f"{self.matrix.dim}, that of the matrices")

    @property
    def transposed(self) -> bool:
        """Whether A[i, j] is taken from slot j p + i."""
        return self.levels == 1 and self.score.pairs == self.matrix.side

    @property
    def column_step(self) -> int:
        """The step of Horner's rule, to the right if negative; 0 if columns do not move."""
        if self.levels == 2:
            return 0
        return (self.matrix.side if self.transposed else 1) - self.score.pairs

    @cached_property
    def row_steps(self) -> tuple[int, ...]:
        """For each row of A its step, modulo p^2."""
        side, pairs = self.matrix.side, self.score.pairs
        steps = []
        for i in range(self.matrix.dim):
            source = i * (side + 1)
            if self.levels == 1:
                source = i if self.transposed else i * side
            steps.append((source - self._begin(i) * pairs) % self.matrix.size)
        return tuple(steps)

    @cached_property
    def estimate(self) -> Gather:
        """The way of w."""
        dim, side, pairs = self.matrix.dim, self.matrix.side, self.score.pairs
        moves: dict[int, Slots] = {0: np.arange(dim)}
        if self.levels == 1:
            moves = {j * (1 - pairs) % side: np.array([j * pairs]) for j in range(dim)}
        return self._gather(unit=1, moves=moves)

    @cached_property
    def stretch(self) -> Gather | None:
        """From distance 1 to distance P, if that takes a level of its own."""
        if self.levels == 1:
            return None
        dim, pairs = self.matrix.dim, self.score.pairs
        moves: dict[int, Slots] = {}
        for t in range(dim):
            begins = [self._begin(i) for i in range(dim - t)]
            moves[t] = pairs * (t + np.array([0, *begins]))
        return self._gather(unit=1 - pairs, moves=moves)

    @property
    def spread(self) -> Stages:
        """Over the minor index q."""
        return power_stages(unit=-1, count=self.score.pairs)

    @property
    def rotations(self) -> tuple[int, ...]:
        """Steps that need a key."""
        steps = {*self.row_steps, *self.estimate.rotations, *steps_of(self.spread)}
        if len(self.groups) > 1:
            steps.add(self.column_step)
        if self.stretch is not None:
            steps.update(self.stretch.rotations)
        return distinct_steps(steps, slots=self.score.slots)

    @property
    def cost(self) -> Cost:
        """Masks for the entries, beside those of w; then the stretching, and the spreading."""
        rows = len(set(self.row_steps) - {0})
        moved = Cost(
            levels=1,
            plain_products=sum(len(group) for group in self.groups),
            rotations=rows + len(self.groups) - 1,
        )
        stretched = Cost() if self.stretch is None else gather_cost([self.stretch])
        spread = Cost(rotations=count_rotations(self.spread))
        return (moved | gather_cost([self.estimate])) + stretched + spread

    @cached_property
    def groups(self) -> tuple[Places, ...]:
        """For each step of Horner's rule, the first one last: by row step, where entries go.

        If columns do not move they form one group.
        """
        columns = [self._column(j) for j in range(self.matrix.dim)]
        if self.column_step:
            return tuple(columns)
        merged: Places = {}
        for column in columns:
            for step, places in column.items():
                merged.setdefault(step, []).extend(places)
        return (merged,)

    def mask(self, places: list[int]) -> Array:
        """Return 1 in these places and 0 elsewhere."""
        mask = np.zeros(self.score.slots)
        mask[places] = 1.0
        return mask

    def constant(self) -> Array:
        """Return the slots of the constant feature."""
        first = self.score.constant_feature * self.score.pairs
        return self.mask(list(range(first, first + self.score.pairs)))

    def _column(self, column: int) -> Places:
        """Where the entries (i, column), i <= column, go before the steps in j that follow."""
        found: Places = {}
        pairs = self.score.pairs
        for i in range(column + 1):
            place = (self._begin(i) + column) * pairs + column * self.column_step
            if self.levels == 2:
                place = self._begin(i) * pairs + column - i
            found.setdefault(self.row_steps[i], []).append(place % self.score.slots)
        return found

    def _begin(self, row: int) -> int:
        """F_i in one level: the feature of A[i, j] is F_i + j. In two, the row's first feature."""
        d = self.matrix.dim
        return d + row * d - row * (row + 1) // 2 + (row if self.levels == 2 else 0)

    def _gather(self, *, unit: int, moves: Mapping[int, Slots]) -> Gather:
        babies = baby_steps(self.matrix.side)
        return Gather(unit=unit, babies=babies, period=self.score.slots, outputs=(moves,))
