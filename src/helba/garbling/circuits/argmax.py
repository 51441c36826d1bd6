"""Circuits that name the largest of several shared values."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from helba.errors import DamagedData, require_whole
from helba.garbling.circuits.arithmetic import less_than, less_than_shallow, select, values_of
from helba.garbling.circuits.builder import FALSE, CircuitBuilder
from helba.garbling.circuits.circuit import Bits, Circuit, ShareGroup
from helba.garbling.circuits.share_range import ShareRange

MAX_ARMS = 256


def name_bits(arms: int) -> int:
    """Return the number of bits of an index below `arms`, at least 1."""
    return max(1, (arms - 1).bit_length())


def read_indices(bits: Bits, *, arms: int) -> npt.NDArray[np.int64]:
    """Return one index a lane, from output bits of shape (lanes, bits), lowest bit first.

    Raise `DamagedData` if one is no arm: then a party sent wrong bits.
    """
    if bits.ndim != 2 or bits.shape[1] != name_bits(arms):
        raise DamagedData(f"expected {name_bits(arms)} bits a lane, got shape {bits.shape}")
    indices: npt.NDArray[np.int64] = bits.astype(np.int64) @ (1 << np.arange(bits.shape[1]))
    if (indices >= arms).any():
        raise DamagedData(f"expected an index below {arms}, got a larger one")
    return indices


@lru_cache(maxsize=64)
def build_argmax(
    arms: int, *, bits: int, grid_bits: int = 0, checked: ShareRange | None = None
) -> Circuit:
    """Return the circuit for the index of the largest of `arms` values; ties go to the lowest.

    Values are signed, modulo 2^bits. With `grid_bits` = g they are first rounded to the grid,
    floor((value + 2^(g-1)) / 2^g) modulo 2^(bits-g), so that noise below half a unit decides
    nothing. The index goes to the user, lowest bit first.

    With `checked` the index is 0 unless all its values are in range: they take its groups, after
    that of the scores. No bit is returned, but there is one more output, the last: whether all are
    in range. The garbler may send its decoding bit to the evaluator.
    """
    require_whole("arms", arms, least=1, most=MAX_ARMS)
    require_whole("bits", bits, least=8, most=63)
    require_whole("grid_bits", grid_bits, least=0, most=bits - 2)
    scores = ShareGroup(arms, bits, offset=(1 << grid_bits) >> 1)
    builder = CircuitBuilder(scores, *(checked.groups if checked else ()))
    name = _find_largest(builder, values_of(builder, count=arms), grid_bits=grid_bits)
    if checked is None:
        return builder.build(user=name)
    right = checked.build(builder, first=arms)
    return builder.build(user=[*(builder.conjoin(right, wire) for wire in name), right])


def _find_largest(builder: CircuitBuilder, values: list[list[int]], *, grid_bits: int) -> list[int]:
    """Return the bits of the index of the largest value, by a tournament of neighbours.

    A pair's winner is known by one new bit: in round r the upper bits of an index are public. The
    right one wins only if it is strictly larger, so that the lowest index wins ties.
    """
    contestants = [(value[grid_bits:], list[int]()) for value in values]
    while len(contestants) > 1:
        winners = []
        # In the first round a bit after the other keeps pace with the carries of the shares.
        compare = less_than if len(contestants) == len(values) else less_than_shallow
        for left, right in zip(contestants[::2], contestants[1::2], strict=False):
            smaller = compare(builder, left[0], right[0])
            value = select(builder, smaller, left[0], right[0])
            winners.append((value, [*select(builder, smaller, left[1], right[1]), smaller]))
        if len(contestants) % 2:
            value, name = contestants[-1]
            winners.append((value, [*name, FALSE]))
        contestants = winners
    return contestants[0][1] or [FALSE]
