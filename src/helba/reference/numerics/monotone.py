"""An increasing sign: coarse, but it keeps the order of its inputs, and |P| <= 1.

`best_monotone_composition` composes increasing odd stages with p(1) <= 1 so that P(resolution) is
greatest; `cheapest_monotone_composition` also chooses the degrees. The error is 1 - P(resolution),
and as P increases it holds on all of [resolution, 1]. That every stage increases is proven for its
float64 coefficients. `CompositeSign.gap_for` inverts P.

How: p' is even and >= 0 on [-1, 1], so (Lukács) it is a sum of squares, A^2 when (degree - 1)/2 is
even and (1 - x^2) B^2 when it is odd, with A, B even. p(low) / p(1) is the share of the mass of p'
inside [-low, low], a ratio of two quadratic forms: one square attains the greatest share, the
eigenvector of the least eigenvalue of the mass outside. This is Slepian's concentration problem,
for polynomials. Greedy stages are best: each next one increases in the value it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
from numpy.polynomial import chebyshev, legendre
from numpy.typing import NDArray
from scipy.linalg import eigh

from helba.errors import RunFailed, require_between
from helba.reference.numerics.composite import CompositeSign, certify, require_resolution
from helba.reference.numerics.division import require_degree
from helba.reference.numerics.enclosure import ExactPolynomial, enclose
from helba.reference.numerics.sign import choose_cheapest, require_degrees, require_request
from helba.reference.numerics.stage import Stage, is_increasing, next_low, stays_below_one
from helba.reference.numerics.store import remembered

_Floats = NDArray[np.float64]
_REPAIRS = 12
_ROUNDING = 1e-15
_LEAST_ERROR = 1e-14


def best_monotone_composition(*, resolution: float, degrees: Sequence[int]) -> CompositeSign:
    """The increasing composition of the given odd degrees with the greatest P(resolution)."""
    require_resolution(resolution)
    return _best(float(resolution), require_degrees(degrees))


def cheapest_monotone_composition(*, resolution: float, error: float, depth: int) -> CompositeSign:
    """The cheapest increasing composition with the wanted error, within `depth` levels."""
    require_request(resolution=resolution, error=error, depth=depth)
    return _cheapest(float(resolution), float(error), int(depth))


@lru_cache(maxsize=1024)
def _cheapest(resolution: float, error: float, depth: int) -> CompositeSign:
    return choose_cheapest(
        resolution=resolution,
        error=error,
        depth=depth,
        start=1 - resolution,
        step=lambda degree, before: _best_stage(degree, 1 - before)[1],
        build=_best,
        kind="monotone",
    )


def monotone_odd(degree: int, *, low: float) -> Stage:
    """(c_1, c_3, ...) of the odd p, p' >= 0 on [-1, 1] and p(1) <= 1, with the greatest p(low).

    Increase and p(1) <= 1 are proven; to prove them p may give up a few units of rounding. Where
    1 - p(low) would fall below 1e-14 and be lost in rounding, p is the best for a smaller low.
    """
    require_degree("degree", degree)
    require_between("low", low, 0.0, 1.0)
    series, _ = _best_stage(degree, low)
    stage = tuple(float(c) for c in series)
    for attempt in range(_REPAIRS):
        if is_increasing(stage) and stays_below_one(stage):
            return stage
        slope = ExactPolynomial.from_odd_chebyshev(stage).derivative().in_square()
        lower, upper = enclose(slope, (0.0, 1.0), tolerance=_ROUNDING)
        lift = max(0.0, -lower) + _ROUNDING * upper * 2**attempt  # adds lift to p' everywhere
        raised = (stage[0] + lift, *stage[1:])
        total = sum(raised) * (1 + _ROUNDING)
        stage = tuple(c / total for c in raised)
    raise RunFailed(f"no increasing polynomial of degree {degree} could be proven")


@lru_cache(maxsize=1024)
def _best(resolution: float, degrees: tuple[int, ...]) -> CompositeSign:
    request = {"kind": "monotone", "resolution": resolution, "degrees": degrees}
    return remembered(
        request,
        compute=lambda: _compose(resolution, degrees),
        encode=CompositeSign.to_record,
        decode=CompositeSign.from_record,
    )


def _compose(resolution: float, degrees: tuple[int, ...]) -> CompositeSign:
    stages: list[Stage] = []
    low = resolution
    for degree in degrees:
        stages.append(monotone_odd(degree, low=low))
        low = min(next_low(stages[-1], low=low), 1 - _ROUNDING)
    return certify(tuple(stages), resolution=resolution)


def _best_stage(degree: int, low: float) -> tuple[tuple[float, ...], float]:
    return _concentrate(degree, min(low, _largest_low(degree)))


@cache
def _largest_low(degree: int) -> float:
    """The low at which the best 1 - p(low) is `_LEAST_ERROR`."""
    below, above = 0.0, 1.0 - 2.0**-50
    for _ in range(50):
        low = (below + above) / 2
        enough = _concentrate(degree, low)[1] > _LEAST_ERROR
        below, above = (low, above) if enough else (below, low)
    return below


@lru_cache(maxsize=100_000)
def _concentrate(degree: int, low: float) -> tuple[tuple[float, ...], float]:
    """Odd Chebyshev coefficients of the best p with p(1) = 1, and 1 - p(low), in float64."""
    half = (degree - 1) // 2
    even = half - half % 2  # degree of the squared factor
    weighted = bool(half % 2)

    def mass(start: float) -> _Floats:
        """Gram matrix over [start, 1] of the even Legendre polynomials, under the weight."""
        nodes, weights = legendre.leggauss(half + 2)
        x = start + (1 - start) * (nodes + 1) / 2
        values = legendre.legvander(x, even)[:, ::2] * np.sqrt(4.0 * np.arange(0, even + 1, 2) + 2)
        factor = weights * (1 - start) / 2 * ((1 - x) * (1 + x) if weighted else 1.0)
        return np.asarray((values.T * factor) @ values, dtype=np.float64)

    eigenvalues, vectors = eigh(mass(low), mass(0.0), subset_by_index=[0, 0])
    square = np.zeros(even + 1)
    square[::2] = vectors[:, 0] * np.sqrt(4.0 * np.arange(0, even + 1, 2) + 2)

    nodes = chebyshev.chebpts1(degree)
    slope = legendre.legval(nodes, square) ** 2 * ((1 - nodes) * (1 + nodes) if weighted else 1.0)
    interpolated = chebyshev.chebvander(nodes, degree - 1).T @ slope * (2 / degree)
    interpolated[0] /= 2
    series = chebyshev.chebint(interpolated)[1::2]
    series = series / np.sum(series)
    return tuple(float(c) for c in series), max(float(eigenvalues[0]), 0.0)
