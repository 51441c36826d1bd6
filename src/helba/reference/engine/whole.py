"""Factors that cost no level: polynomials with whole coefficients, taken as they are.

A plaintext is usually encoded at a scale, which a product then takes off by a rescaling: four
transforms of a ring, seven eighths of the time of a product near the last level. A polynomial with
small whole coefficients needs no scale, so its product needs no rescaling and no level; errors of
the vector grow by the factor's values instead. General values take several such polynomials,

    values = sum over j of w_j / 2^bits_j,

each rounding what those before it have left, met by the vector over 2^bits_j: rescaled once,
whatever number of factors it meets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from helba.reference.engine.primitives import Array

__all__ = ["split_whole"]


def split_whole(values: Array, *, bits: Sequence[int]) -> tuple[Array, ...]:
    """Return the slots of the w_j, one for each of `bits`, for a power of two of real `values`.

    Off by the rounding of the last one: 2s coefficients of at most 2^-bits/2 meet in a slot.
    """
    rest, parts = _to_coefficients(np.asarray(values, dtype=np.float64)), []
    for each in bits:
        whole = np.round(rest * 2.0**each)
        rest = rest - whole * 2.0**-each
        parts.append(_to_slots(whole))
    return tuple(parts)


def _to_coefficients(values: Array) -> Array:
    """The 2s coefficients of the polynomial with these values at its s slots."""
    count = 2 * len(values)
    places, twist = _places(len(values))
    at_odd_powers = np.empty(count, dtype=np.complex128)
    at_odd_powers[places] = values
    at_odd_powers[count - 1 - places] = values  # conjugates of real numbers
    coefficients: Array = (np.fft.fft(at_odd_powers) / count / twist).real
    return coefficients


def _to_slots(coefficients: Array) -> Array:
    count = len(coefficients)
    places, twist = _places(count // 2)
    slots: Array = (np.fft.ifft(coefficients * twist) * count)[places].real
    return slots


@lru_cache(maxsize=16)
def _places(slots: int) -> tuple[NDArray[np.intp], NDArray[np.complex128]]:
    """Where slots stand among the values at odd powers of exp(i pi/2s), and those powers.

    Slot j is the value at the power 5^j.
    """
    count, power = 2 * slots, 1
    places = np.empty(slots, dtype=np.intp)
    for slot in range(slots):
        places[slot] = (power - 1) // 2
        power = power * 5 % (2 * count)
    return places, np.exp(1j * np.pi * np.arange(count) / count)
