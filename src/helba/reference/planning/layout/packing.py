"""Cyclic sums in the slots: which rotations they take.

The sum over the `count` slots i, i + stride, i + 2 stride, ... (count a power of two) is made in
stages: a stage of radix r adds r rotations, which share one decomposition and one division. At
N = 2^15 a stage of radix 2, 4, 8 takes 48, 68, 98 ms, so that two or three bits at once cost the
same; two need 3 keys where three need 7.
"""

from __future__ import annotations

from helba.errors import InvalidInput, require_whole
from helba.reference.planning.cost.cost import Cost

RADIX = 4
LARGEST_RADIX = 64


def next_power_of_two(count: int) -> int:
    """Return the least power of two that is at least `count`."""
    return 1 << (count - 1).bit_length()


def cyclic_stages(*, stride: int, count: int, radix: int = RADIX) -> tuple[tuple[int, ...], ...]:
    """Return for each stage the steps to the left whose rotations it adds to its input.

    The stages are as few as `radix` allows and as even as can be: 16 is 4 * 4, cheaper than 8 * 2.
    """
    require_whole("stride", stride, least=1, most=1 << 30)
    require_whole("count", count, least=1, most=1 << 30)
    require_whole("radix", radix, least=2, most=LARGEST_RADIX)
    for name, value in (("count", count), ("radix", radix)):
        if value != next_power_of_two(value):
            raise InvalidInput(name, value, "a power of two")
    bits, widest = count.bit_length() - 1, radix.bit_length() - 1
    number = -(-bits // widest)
    stages, step = [], stride
    for stage in range(number):
        size = 1 << (bits // number + (1 if stage < bits % number else 0))
        stages.append(tuple(step * i for i in range(1, size)))
        step *= size
    return tuple(stages)


def cyclic_cost(*, count: int, radix: int = RADIX) -> Cost:
    """Cost of a cyclic sum: rotations only."""
    stages = cyclic_stages(stride=1, count=count, radix=radix)
    return Cost(rotations=sum(len(stage) for stage in stages))
