"""Where the paper's profile keeps arms in the slots, and the public numbers of its rounds.

The server multiplies, so users send vectors only. K arms of dimension d, padded to Kp and p, stand
arm after arm: entry (i, j) of arm a in slot a p^2 + i p + j, which holds x_a[i] *by row* and x_a[j]
*by column*. Matrices by rows and vectors of p^2 slots (`planning.layout.matrix`) repeat below them.
Missing arms and the padding repeat the first arm, so that no slot leaves the range of an index.

The index of arm a in round t, with A the inverse, w the estimate and beta the radius, is

    quadratic:  <w, x> + (gamma/2) x^T A x
    sqrt:       <w, x> + beta (sqrt(x^T A x + low) + 1/t), the root on [low, high]

and is mapped from [least, greatest] to [0, 1] for the comparison (`reference.twin.paper`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from helba.bandits.radius import quadratic_weight
from helba.bandits.settings import Settings
from helba.errors import InvalidInput, require_whole
from helba.reference.numerics.root import root_iterations
from helba.reference.planning.cost.compare_cost import acomp_rotations
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.packing import next_power_of_two
from helba.reference.planning.layout.score import MOST_ARMS
from helba.reference.planning.layout.stages import Stages, distinct_steps, power_stages, steps_of
from helba.reference.twin.paper import argmax_precision, quadratic_interval, root_interval
from helba.reference.twin.radius import paper_index_range, paper_radius
from helba.reference.twin.terms import BatchTerms

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PaperRoot:
    """The sqrt bonus: weight (sqrt(z + low) + margin), the root by `iterations` on [low, high]."""

    weight: float
    margin: float
    low: float
    high: float
    iterations: int


@dataclass(frozen=True, kw_only=True)
class PaperIndex:
    """What is public about the index of one round; the bonus is a root, or (gamma/2) z.

    `precision` is that of the comparison that follows, in units of [least, greatest].
    """

    least: float
    greatest: float
    precision: float
    gamma: float
    root: PaperRoot | None

    @property
    def span(self) -> float:
        """The width of the index's range."""
        return self.greatest - self.least


def paper_index(settings: Settings, *, terms: BatchTerms, round: int) -> PaperIndex:
    """Return the numbers of round t = `round`, those of `reference.twin.paper.PaperTwin`."""
    start = terms.start
    beta = paper_radius(
        settings, round=round, batch_start=start, estimate_error=terms.estimate_error
    )
    gamma = quadratic_weight(settings, radius=beta, last_round=terms.last_round)
    root = None
    if settings.bonus == "sqrt":
        low, high = root_interval(settings, batch_start=start)
        steps = root_iterations(low=low, high=high, error=1.0 / round)
        root = PaperRoot(weight=beta, margin=1.0 / round, low=low, high=high, iterations=steps)
        least, greatest = paper_index_range(settings, radius=beta, round=round, floor=low)
    else:
        least, greatest = quadratic_interval(
            settings, radius=beta, gamma=gamma, residual=terms.residual
        )
    return PaperIndex(
        least=least,
        greatest=greatest,
        precision=argmax_precision(round),
        gamma=gamma,
        root=root,
    )


@dataclass(frozen=True, kw_only=True)
class PaperLayout:
    """The slots of `arms` arms with contexts of dimension `dim`."""

    dim: int
    arms: int

    def __post_init__(self) -> None:
        require_whole("arms", self.arms, least=2, most=MOST_ARMS)
        MatrixLayout(dim=self.dim, max_slots=2 * next_power_of_two(self.dim) ** 2)

    @cached_property
    def matrix(self) -> MatrixLayout:
        """The layout of one arm: that of a matrix."""
        return MatrixLayout(dim=self.dim, max_slots=2 * next_power_of_two(self.dim) ** 2)

    @property
    def stride(self) -> int:
        """Slots of one arm, p^2."""
        return self.matrix.size

    @property
    def slots(self) -> int:
        """Slots of all arms, Kp p^2."""
        return next_power_of_two(self.arms) * self.stride

    @property
    def sum_columns(self) -> Stages:
        """Over j: valid in the first column of a row."""
        return self.matrix.sum_columns

    @property
    def sum_entries(self) -> Stages:
        """Over (i, j): valid in the first slot of an arm."""
        return self.matrix.sum_all

    @property
    def spread(self) -> Stages:
        """From the first slot of every arm, the others empty, to all of them."""
        side = self.matrix.side
        return (*self.matrix.spread_columns, *power_stages(unit=-side, count=side))

    @property
    def rotations(self) -> tuple[int, ...]:
        """Steps of a round."""
        steps = steps_of(self.sum_entries, self.spread)
        steps.update(acomp_rotations(self.arms, stride=self.stride))
        return distinct_steps(steps, slots=self.slots)

    def pack_arms(self, contexts: ArrayLike) -> tuple[Array, Array]:
        """Return the slots of up to K contexts, by row and by column."""
        rows = np.asarray(contexts, dtype=np.float64)
        if rows.ndim != 2 or not 1 <= len(rows) <= self.arms or rows.shape[1] != self.dim:
            allowed = f"1 to {self.arms} rows of {self.dim} numbers"
            raise InvalidInput("contexts", f"shape {rows.shape}", allowed)
        if not np.isfinite(rows).all():
            raise InvalidInput("contexts", "a number that is not finite", "finite")
        missing = self.slots // self.stride - len(rows)
        full = np.vstack([rows, np.repeat(rows[:1], missing, axis=0)])
        by_row = np.concatenate([self.matrix.pack_by_row(x) for x in full])
        by_column = np.concatenate([self.matrix.pack_by_column(x) for x in full])
        return by_row, by_column

    def pack_play(self, context: ArrayLike, *, reward: float) -> tuple[Array, Array, Array]:
        """Return the p^2 slots of the played context, by row and by column, and of its reward."""
        by_row, by_column = (
            pack(context) for pack in (self.matrix.pack_by_row, self.matrix.pack_by_column)
        )
        return by_row, by_column, np.full(self.stride, float(reward))

    def read_answer(self, values: ArrayLike) -> Array:
        """Return b of the K arms from decrypted slots; the slots of an arm are equal."""
        slots = np.asarray(values, dtype=np.float64)
        if slots.shape != (self.slots,):
            raise InvalidInput("values", f"shape {slots.shape}", f"{self.slots} numbers")
        return slots[:: self.stride][: self.arms].copy()
