"""Sums over the slots of an encrypted vector that leave no slot with a partial sum."""

from __future__ import annotations

from helba.engine import EncryptedVector, Engine
from helba.planning.packing import RADIX, cyclic_stages

__all__ = ["cyclic_sum"]


def cyclic_sum(
    engine: Engine, x: EncryptedVector, *, stride: int, count: int, radix: int = RADIX
) -> EncryptedVector:
    """Return in slot i the sum of the slots i + k stride, k < count, modulo the slots. No levels.

    If x has count * stride slots, or that period, all slots that agree modulo `stride` end equal.
    Stages of up to `radix` rotations each (`planning.packing`).
    """
    for stage in cyclic_stages(stride=stride, count=count, radix=radix):
        x = engine.sum_rotations(x, (0, *stage))
    return x
