"""Sums over the slots, or copies into them, in stages of rotations that share most of their work.

A stage adds to a vector its rotations by u, 2u, ..., (r-1) u, and the next one goes on with r u. At
N = 2^15 a stage of radix 4 takes 68 ms and 3 keys, two of radix 2 take 96 ms and 2 keys, and one of
radix 16 takes 159 ms and 15 keys.
"""

from __future__ import annotations

from collections.abc import Iterable

RADIX_BITS = 2

Stages = tuple[tuple[int, ...], ...]


def power_stages(*, unit: int, count: int) -> Stages:
    """Return the stages over `count` slots, a power of two, `unit` apart: fours, and then a two."""
    bits = count.bit_length() - 1
    radices = (1 << RADIX_BITS,) * (bits // RADIX_BITS) + (2,) * (bits % RADIX_BITS)
    return radix_stages(unit=unit, radices=radices)


def radix_stages(*, unit: int, radices: tuple[int, ...]) -> Stages:
    """Return the stages of these radices, the first one with steps of `unit`."""
    stages, step = [], unit
    for radix in radices:
        stages.append(tuple(step * i for i in range(1, radix)))
        step *= radix
    return tuple(stages)


def baby_steps(count: int) -> int:
    """Return how many of `count` shifts are baby steps: the larger root, as hoisting is cheap."""
    return 1 << (count.bit_length() // 2)


def steps_of(*stages: Stages) -> set[int]:
    """Return the steps of all stages."""
    return {step for one in stages for stage in one for step in stage}


def distinct_steps(steps: Iterable[int], *, slots: int) -> tuple[int, ...]:
    """Return the steps that need a key of their own, if no vector has more than `slots` slots.

    Steps that agree modulo `slots` are the same rotation: the shortest one to the left stands for
    them, else the shortest one to the right, which other layouts share.
    """
    found: dict[int, int] = {}
    for step in sorted(steps, key=lambda step: (step < 0, abs(step))):
        found.setdefault(step % slots, step)
    found.pop(0, None)
    return tuple(sorted(found.values()))


def count_rotations(*stages: Stages) -> int:
    """Return the number of rotations of all stages."""
    return sum(len(stage) for one in stages for stage in one)
