"""Slots moved by masked rotations, as `planning.layout.gather` plans them."""

from __future__ import annotations

from collections.abc import Sequence

from helba.reference.engine import EncryptedVector, Engine
from helba.reference.planning.layout.gather import Gather, giant_steps


def gather(
    engine: Engine,
    sources: Sequence[tuple[EncryptedVector, Gather]],
    *,
    slots: int,
    factor: float = 1.0,
) -> list[EncryptedVector]:
    """Return each output of the gathers, summed over the sources, times `factor`. 1 level.

    All gathers have the same unit and baby steps. A source may have fewer slots than `slots`: it
    stands for its repetition.
    """
    first = sources[0][1]
    babies: list[dict[int, EncryptedVector]] = []
    for vector, plan in sources:
        shifts = plan.baby_shifts
        moved = engine.rotate_many(vector, [plan.unit * h for h in shifts])
        wide = [engine.repeat(part, slots) for part in moved]
        babies.append(dict(zip(shifts, wide, strict=True)))
    plans = [plan for _, plan in sources]
    results = []
    for number in range(len(first.outputs)):
        parts = []
        for giant in giant_steps(plans, number):
            terms = [
                (engine.multiply_plain(shifted[h], mask), 1.0)
                for plan, shifted in zip(plans, babies, strict=True)
                for h, mask in plan.masks(number, giant=giant, factor=factor, slots=slots)
            ]
            inner = engine.combine(terms)
            parts.append((engine.rotate(inner, first.unit * first.babies * giant), 1.0))
        results.append(engine.combine(parts))
    return results
