"""Products of polynomials modulo X^N + 1 in exact integers, written without any layout."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve

from helba.learning.layout import Arrangement

Polynomial = NDArray[np.int64]


def fold(long: Polynomial, ring_dim: int) -> Polynomial:
    """Reduce a polynomial of any length modulo X^N + 1: X^N is -1."""
    total = np.zeros(ring_dim, np.int64)
    for turn, start in enumerate(range(0, len(long), ring_dim)):
        part = long[start : start + ring_dim]
        total[: len(part)] += part if turn % 2 == 0 else -part
    return total


def multiply(a: Polynomial, b: Polynomial) -> Polynomial:
    """Multiply modulo X^N + 1. Doubles carry the sums exactly: small integers, checked."""
    assert a.dtype == b.dtype == np.int64
    assert a.shape == b.shape
    assert a.ndim == 1
    product = fftconvolve(a.astype(float), b.astype(float))
    exact = np.rint(product)
    assert np.abs(product - exact).max() < 0.01
    return fold(exact.astype(np.int64), len(a))


def substitute(a: Polynomial, step: int) -> Polynomial:
    """Return a(X^step) modulo X^N + 1."""
    image = np.zeros_like(a)
    for i in np.flatnonzero(a):
        turns, place = divmod(int(i) * step, len(a))
        image[place] += a[i] if turns % 2 == 0 else -a[i]
    return image


def evaluate_long(places: NDArray[np.intp], values: NDArray[np.int64], ring_dim: int) -> Polynomial:
    """Return the sum of values X^places modulo X^N + 1, for places that may lie beyond N."""
    long = np.bincount(np.ravel(places), np.ravel(values).astype(float))
    return fold(long.astype(np.int64), ring_dim)


def read_long(polynomial: Polynomial, places: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the coefficients at places that may lie beyond N, with the sign of the wrap."""
    turns, place = np.divmod(places, len(polynomial))
    return np.where(turns % 2 == 0, 1, -1) * polynomial[place]


def put(arrangement: Arrangement, values: Any) -> NDArray[Any]:
    """Return the stack that holds `values`, zero elsewhere: (polynomials, ring_dim)."""
    assert np.shape(values) == arrangement.shape
    stack = np.zeros(arrangement.polynomials * arrangement.ring_dim, np.asarray(values).dtype)
    stack[arrangement.places] = values
    return stack.reshape(arrangement.polynomials, arrangement.ring_dim)


def take(arrangement: Arrangement, stack: NDArray[Any]) -> NDArray[Any]:
    """Return the array that stands in a stack."""
    assert stack.shape == (arrangement.polynomials, arrangement.ring_dim)
    return stack.reshape(-1)[arrangement.places]
