"""Shares of a masked polynomial, as residues of its coefficients modulo the last two primes.

OpenFHE's `IntBootDecrypt` brings c0 + c1 s, with coefficients modulo Q, to residues centred modulo
Q/2 (in [-Q/4, Q/4]). The share of a masked value and that of the negated mask therefore add up to
the value modulo Q/2, and off by one at most for the halves of an odd Q; it is far below Q/4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from helba.reference.engine.exchanges.opening import draw_flood
from helba.reference.engine.primitives import Array
from helba.ring.sharing.integer import Residues


def flood_shares(share: Residues, *, moduli: Sequence[int], bound: float) -> Residues:
    """Return the share with independent uniform noise of at most `bound` on every coefficient."""
    noise = draw_flood(share.shape[1], bound=bound)
    flooded = np.empty_like(share)
    for row, residues, modulus in zip(flooded, share, moduli, strict=True):
        row[:] = (residues + np.mod(noise, modulus).astype(np.uint64)) % np.uint64(modulus)
    return flooded


def join_shares(share: Residues, mask: Residues, *, moduli: Sequence[int]) -> Array:
    """Return the coefficients of the value: both shares added, modulo half the modulus."""
    first, second = moduli
    modulus, inverse = first * second, pow(first, -1, second)
    half = modulus // 2
    total = [
        [(int(a) + int(b)) % each for a, b in zip(*rows, strict=True)]
        for *rows, each in zip(share, mask, moduli, strict=True)
    ]
    found = np.empty(share.shape[1])
    for index, (low, high) in enumerate(zip(*total, strict=True)):
        whole = low + first * ((high - low) * inverse % second)
        found[index] = whole - half * ((2 * whole + half) // (2 * half))
    return found


def decode_coefficients(coefficients: Array, *, scale: float) -> Array:
    """Return the real numbers in the slots of a polynomial of 2s coefficients.

    Slot j is its value at exp(i pi/2s) to the power 5^j. The other N - 2s coefficients of the ring
    stand between these and carry noise only.
    """
    count = len(coefficients)
    twist: NDArray[np.complex128] = np.exp(1j * math.pi * np.arange(count) / count)
    at_odd_powers = np.fft.ifft(coefficients * twist) * count  # of exp(i pi/2s): 1, 3, 5, ...
    power, values = 1, np.empty(count // 2)
    for slot in range(count // 2):
        values[slot] = at_odd_powers[(power - 1) // 2].real
        power = power * 5 % (2 * count)
    return values / scale
