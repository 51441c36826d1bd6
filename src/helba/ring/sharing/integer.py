"""Exact arithmetic on coefficients: residues modulo primes, and the integers they stand for.

Places say which coefficients of a polynomial are meant.

Nothing here goes through floating point. Integers past 63 bits are Python's, in arrays of objects:
0.1 microseconds an operation, for the hundreds or thousands of numbers that are read, not for whole
polynomials.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput
from helba.randomness import Draw
from helba.ring.parameters import RingParameters

Residues = NDArray[np.uint64]  # one row for each prime
Integers = NDArray[Any]  # of int64, or of Python's integers
Places = NDArray[np.intp]


def as_places(name: str, values: Any) -> Places:
    """Return numbers of coefficients as an array, or raise `InvalidInput` under that name."""
    array = np.asarray(values)
    if array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise InvalidInput(name, f"{array.size} of type {array.dtype}", "one or more integers")
    found = array.astype(np.intp)
    if int(found.min()) < 0:
        raise InvalidInput(name, int(found.min()), "a coefficient, from 0 on")
    return found


def checked_places(places: Any, *, parameters: RingParameters) -> Places:
    """Return distinct coefficients of the ring as a flat array, or raise `InvalidInput`."""
    flat = as_places("places", places).reshape(-1)
    if int(flat.max()) >= parameters.ring_dim:
        raise InvalidInput("places", int(flat.max()), f"from 0 to {parameters.ring_dim - 1}")
    if np.bincount(flat).max() > 1:
        raise InvalidInput("places", "one of them twice", "distinct")
    return flat


def as_integers(values: Any) -> Integers:
    """Return `values` as a flat array of int64 or, where that is too small, of Python's integers.

    Floats are refused: whoever has them rounds them, and knows how.
    """
    array = values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
    array = array.reshape(-1)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype != object:
        if not np.issubdtype(array.dtype, np.integer):
            raise InvalidInput("values", f"an array of {array.dtype}", "integers")
        return array.astype(object if array.dtype == np.uint64 else np.int64)
    if not all(issubclass(kind, int | np.integer) for kind in set(map(type, array))):
        raise InvalidInput("values", "numbers that are not whole", "integers")
    with suppress(OverflowError):
        narrow = array.astype(np.int64)
        if largest_of(narrow) < 1 << 63:
            return narrow
    return np.array([int(each) for each in array], dtype=object)


def largest_of(values: Integers) -> int:
    """Return the largest size of the integers, exactly; 0 if there are none."""
    return max(-int(values.min()), int(values.max())) if len(values) else 0


def residues_of(values: Integers, moduli: Sequence[int]) -> Residues:
    """Return the integers modulo each prime, one row for each."""
    return np.stack([np.mod(values, modulus).astype(np.uint64) for modulus in moduli])


def add_modulo(first: Residues, second: Residues, moduli: Sequence[int]) -> Residues:
    """Return the sum of two rows of residues for each prime; primes are below 2^62."""
    column = np.array(moduli, dtype=np.uint64)[:, None]
    total: Residues = (first + second) % column
    return total


def compose(residues: Residues, moduli: Sequence[int]) -> Integers:
    """Return the integers in (-Q/2, Q/2] that have these residues, by the Chinese remainders."""
    total: Integers = residues[0].astype(object)
    modulus = moduli[0]
    for row, prime in zip(residues[1:], moduli[1:], strict=True):
        inverse = pow(modulus, -1, prime)
        total = total + modulus * ((row.astype(object) - total) * inverse % prime)
        modulus *= prime
    return np.where(total > modulus // 2, total - modulus, total)


def draw_residues(moduli: Sequence[int], count: int, *, draw: Draw) -> Residues:
    """Return independent residues, exactly uniform below each prime if the bytes of `draw` are.

    Words of as many bits as the prime has are drawn, and those that are not below it dropped.
    """
    rows = np.empty((len(moduli), count), dtype=np.uint64)
    for row, modulus in zip(rows, moduli, strict=True):
        bits = np.uint64((1 << modulus.bit_length()) - 1)
        filled = 0
        while filled < count:
            wanted = count - filled
            drawn = np.frombuffer(draw(8 * wanted), dtype="<u8") & bits
            accepted = drawn[drawn < modulus]
            row[filled : filled + len(accepted)] = accepted
            filled += len(accepted)
    return rows


def multiply_rounded(values: Integers, factor: Fraction) -> Integers:
    """Return the products with a public rational number, rounded half up."""
    numerator, denominator = factor.numerator, factor.denominator
    if denominator == 1:
        return values.astype(object) * numerator
    product = values.astype(object) * (2 * numerator) + denominator
    return product // (2 * denominator)


def round_to_bits(residues: NDArray[np.uint64], *, modulus: int, bits: int) -> NDArray[np.uint64]:
    """Return round(x 2^bits / modulus) modulo 2^bits for residues modulo one prime.

    The images of two residues differ by that of their difference up to one unit, wrap-around
    included: x - y and its multiple of the modulus map to a multiple of 2^bits.
    """
    shifted = residues.astype(object) << bits
    rounded = (shifted + modulus // 2) // modulus
    return (rounded & ((1 << bits) - 1)).astype(np.uint64)
