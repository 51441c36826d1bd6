"""Moving slots by masked rotations, baby steps and giant steps: what it takes, before it runs.

A `Gather` sends v to vectors out_c with out_c[n] = v[n + unit * o] for the slots n that are listed
under o, and 0 elsewhere. With o = babies * g + h,

    out_c = sum over g of rot( sum over h of mask * rot(v, unit h), unit babies g ),

the inner rotations are hoisted and shared by all outputs, the masks are rotated back by the giant
step that follows, and a factor rides in them. One level (Halevi and Shoup, ePrint 2018/244).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from helba.reference.planning.cost.cost import Cost

Slots = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Gather:
    """`outputs[c][o]` are the slots of output c, modulo `period`, that are filled from shift o."""

    unit: int
    babies: int
    period: int
    outputs: tuple[Mapping[int, Slots], ...]

    @property
    def baby_shifts(self) -> tuple[int, ...]:
        """Shifts, in units, of the rotations that all outputs share; 0 may be among them."""
        return tuple(sorted({o % self.babies for output in self.outputs for o in output}))

    @property
    def rotations(self) -> tuple[int, ...]:
        """Steps to the left that need a key."""
        babies = {self.unit * h for h in self.baby_shifts}
        giants = {
            self.unit * self.babies * g
            for number in range(len(self.outputs))
            for g in giant_steps([self], number)
        }
        return tuple(sorted((babies | giants) - {0}))

    def masks(
        self, number: int, *, giant: int, factor: float, slots: int
    ) -> list[tuple[int, NDArray[np.float64]]]:
        """Return (h, mask) for the baby steps of one giant step of output `number`."""
        found = []
        for o, targets in self.outputs[number].items():
            if o // self.babies == giant:
                mask = np.zeros(self.period)
                mask[(targets + self.unit * self.babies * giant) % self.period] = factor
                found.append((o % self.babies, np.tile(mask, slots // self.period)))
        return found


def giant_steps(gathers: Sequence[Gather], number: int) -> tuple[int, ...]:
    """Return the giant steps of output `number` of gathers that are summed; 0 may be among them."""
    return tuple(sorted({o // g.babies for g in gathers for o in g.outputs[number]}))


def gather_cost(gathers: Sequence[Gather]) -> Cost:
    """Cost of the sum of several gathers with the same unit, which share their giant steps."""
    first = gathers[0]
    babies = sum(1 for gather in gathers for h in gather.baby_shifts if h)
    giants = sum(
        1 for number in range(len(first.outputs)) for g in giant_steps(gathers, number) if g
    )
    masks = sum(len(output) for gather in gathers for output in gather.outputs)
    return Cost(levels=1, plain_products=masks, rotations=babies + giants)
