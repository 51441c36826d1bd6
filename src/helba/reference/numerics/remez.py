"""Minimax odd polynomials for the constant 1: the best sign on one side of zero.

`minimax_odd(degree, low=, high=)` returns the odd polynomial p of `degree` that minimises
E = max |p(x) - 1| over [low, high], as coefficients of T_1(x / high), T_3(x / high), ... The error
p - 1 alternates between -E and E at (degree + 1)/2 + 1 points, which proves it the best. The
E reported here is float64, not proven: `composite.certify` proves one for the actual coefficients.

How: Remez exchange. The odd T_k form a Haar system on (0, high]; every pass solves for p and E on
the reference points and moves these to the extrema of p - 1 (a grid, then Newton). With
x = high sin(angle), T_k(x / high) is +-sin(k angle): p is a sine series and 1 its square wave, so
angles carry the work. The start, Chebyshev's extrema in x^2, is exact for low -> 0 and low -> high.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput
from helba.reference.numerics.division import require_degree

_Floats = NDArray[np.float64]
_MAX_PASSES = 60
_GRID_PER_EXTREMUM = 24
_CONVERGED = 1e-9  # excess of the largest error E over the levelled one, against E and 1 - E
_LEAST_ERROR = 1e-14
_ROUNDING = 4e-16  # errors are not told apart below this
_PATIENCE = 5  # passes without progress, once rounding rules
_NEWTON_STEPS = 3


@dataclass(frozen=True, kw_only=True)
class Minimax:
    """Best odd approximation of 1 on [low, high]: c_1, c_3, ... of T_k(x / high), and its error."""

    low: float
    high: float
    coefficients: tuple[float, ...]
    error: float

    @property
    def degree(self) -> int:
        """Degree of the polynomial."""
        return 2 * len(self.coefficients) - 1


def minimax_odd(degree: int, *, low: float, high: float = 1.0) -> Minimax:
    """The odd polynomial of `degree` closest to 1 on [low, high], 0 < low < high.

    Where its error would fall below 1e-14 and be lost in rounding, it is the best on a wider
    interval, of error about 1e-14.
    """
    require_degree("degree", degree)
    if not 0 < low < high or not np.isfinite(high):
        raise InvalidInput("interval", (low, high), "within the positive numbers, low end first")
    unit_low = min(float(low) / float(high), _largest_low(int(degree)))
    coefficients, error = _on_unit(int(degree), unit_low)
    return Minimax(low=low, high=high, coefficients=coefficients, error=error)


@lru_cache(maxsize=100_000)
def _on_unit(degree: int, low: float) -> tuple[tuple[float, ...], float]:
    """Remez exchange on [low, 1]."""
    count = (degree + 1) // 2
    odd: _Floats = np.arange(1, degree + 1, 2).astype(np.float64)
    start = _angles(low, points=count + 1)
    grid = _angles(low, points=_GRID_PER_EXTREMUM * (count + 1) + 1)
    sines = np.sin(np.outer(grid, odd))
    reference = start
    best: _Floats = np.zeros(count)
    least, stalled = math.inf, 0
    for _ in range(_MAX_PASSES):
        series, levelled = _solve(reference, odd=odd)
        found = _extrema(series, grid=grid, error=sines @ series - 1, odd=odd)
        # fewer alternations than points: the error is lost in rounding, and any spread will do
        reference = found if found.size == count + 1 else start
        largest = float(np.max(np.abs(np.sin(np.outer(found, odd)) @ series - 1)))
        if largest < least * (1 - 1e-12):
            best, least, stalled = series, largest, 0
        else:
            stalled += 1
        wanted = _CONVERGED * min(levelled, 1 - levelled) + _ROUNDING
        if largest - levelled <= wanted or stalled >= _PATIENCE:
            break
    signs = (-1.0) ** np.arange(count)
    return tuple(float(c) for c in best * signs), least


@cache
def _largest_low(degree: int) -> float:
    """The low end at which the best error on [low, 1] is about `_LEAST_ERROR`.

    By the asymptotic of Eremenko and Yuditskii, "Uniform approximation of sgn(x) by polynomials and
    entire functions" (2007).
    """
    half = (degree - 1) // 2
    below, above = 0.0, 1.0 - 2.0**-50
    for _ in range(60):
        low = (below + above) / 2
        error = ((1 - low) / (1 + low)) ** half
        if half > 0:
            error *= (1 - low) / math.sqrt(math.pi * low * half)
        below, above = (low, above) if error > _LEAST_ERROR else (below, low)
    return below


def _angles(low: float, *, points: int) -> _Floats:
    """Ascending angles whose sines span [low, 1], spaced like Chebyshev's extrema in x^2."""
    quarter = np.linspace(0.0, np.pi / 2, points)
    angles = np.arctan2(
        np.hypot(np.sin(quarter), low * np.cos(quarter)), np.sqrt(1 - low * low) * np.cos(quarter)
    )
    angles[-1] = np.pi / 2
    return np.asarray(angles, dtype=np.float64)


def _solve(reference: _Floats, *, odd: _Floats) -> tuple[_Floats, float]:
    """The series and E with error -E, E, -E, ... at the reference angles, ascending."""
    count = reference.size
    matrix = np.empty((count, count))
    matrix[:, :-1] = np.sin(np.outer(reference, odd))
    matrix[:, -1] = (-1.0) ** np.arange(count)
    solution: _Floats = np.linalg.solve(matrix, np.ones(count)).astype(np.float64)
    solution = solution + np.linalg.solve(matrix, 1.0 - matrix @ solution)
    return solution[:-1], abs(float(solution[-1]))


def _extrema(series: _Floats, *, grid: _Floats, error: _Floats, odd: _Floats) -> _Floats:
    """Angles of the extremum in each run of one sign, at most one more than the series is long."""
    edges = np.flatnonzero(np.diff(np.signbit(error).astype(np.int8))) + 1
    bounds = [0, *edges.tolist(), grid.size]
    size = np.abs(error)
    places = [first + int(np.argmax(size[first:last])) for first, last in pairwise(bounds)]
    while len(places) > series.size + 1:  # drop the smaller end, so that signs still alternate
        places.pop(0 if size[places[0]] < size[places[-1]] else -1)
    chosen = np.asarray(places)
    angles = grid[chosen]
    lower, upper = grid[np.maximum(chosen - 1, 0)], grid[np.minimum(chosen + 1, grid.size - 1)]
    for _ in range(_NEWTON_STEPS):
        arguments = np.outer(angles, odd)
        slope, bend = np.cos(arguments) @ (odd * series), -np.sin(arguments) @ (odd**2 * series)
        moved = angles - slope / np.where(bend == 0, np.inf, bend)
        angles = np.where((moved > lower) & (moved < upper), moved, angles)
    return np.asarray(angles, dtype=np.float64)
