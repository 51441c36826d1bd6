"""Sums of rotations of an encrypted vector, in the stages that planning chose. No level."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from helba.reference.engine import EncryptedVector, Engine
from helba.reference.planning.layout.packing import RADIX, cyclic_stages


def add_rotations(
    engine: Engine, vector: EncryptedVector, *, stages: Iterable[Sequence[int]]
) -> EncryptedVector:
    """Return the vector plus its rotations by the steps of a stage, stage after stage."""
    for stage in stages:
        vector = engine.sum_rotations(vector, (0, *stage))
    return vector


def cyclic_sum(
    engine: Engine, x: EncryptedVector, *, stride: int, count: int, radix: int = RADIX
) -> EncryptedVector:
    """Return in slot i the sum of the slots i + k stride, k < count, modulo the slots.

    If x has count * stride slots, or that period, all slots that agree modulo `stride` end equal,
    and none with a partial sum. Stages of up to `radix` rotations each (`planning.layout.packing`).
    """
    stages = cyclic_stages(stride=stride, count=count, radix=radix)
    return add_rotations(engine, x, stages=stages)
