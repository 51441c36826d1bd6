"""Square root by products and sums (Eq. (iterate_sqrt) of the paper; Cheon et al. 2019).

For z in [low, high] with 0 < low, start at q = z/high, v = z/high - 1 and iterate

    q <- q (1 - v/2),   v <- v^2 (v - 3)/4.

The invariant q^2 = (z/high)(1 + v) makes the error exact: q = sqrt(z/high) sqrt(1 + v), and
|v| <- |v|^2 (3 + |v|)/4 is the same for every z with the same start. Keeping u = v/2 instead of v,
u <- u^2 (2u - 3)/2 = u^2 (u - 1.5), spares the products with constants: a step costs two levels.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput, require_at_least, require_positive
from helba.reference.numerics.certificate import Certificate, Certified

Array = NDArray[np.float64]

# Cells of the error bound: between two neighbours the bound is off by at most 2^(1/16).
CELLS_PER_OCTAVE = 8
ROUNDING = 4 * 2.0**-53
# Below this q and v are lost in double precision, long after CKKS.
LEAST_RATIO = 1e-15


def root_iterations(*, low: float, high: float, error: float) -> int:
    """Return k0(error): steps after which |sqrt(high) q - sqrt(z)| <= error for z in [low, high].

    The paper's statement has 4 ln(1 - c1/(4 c2)) where its proof gives 2 ln (erratum 3); this is
    the proof's. For error >= sqrt(high) the start is good enough.
    """
    _check_interval(low, high)
    require_positive("error", error)
    if error >= math.sqrt(high):
        return 0
    ratio = (math.log(error) - 0.5 * math.log(high)) / (2.0 * math.log1p(-low / (4.0 * high)))
    return math.ceil(math.log2(ratio)) if ratio > 1.0 else 0


def root_error_at(z: Array, *, high: float, iterations: int) -> Array:
    """Return the exact error sqrt(z) (1 - sqrt(1 + v_k)) at each z, computed by the recurrence."""
    values = np.asarray(z, dtype=np.float64)
    # s = 1 - |v| loses nothing near |v| = 1, and |v|^2 (3 + |v|)/4 = 1 - s (9 - 6s + s^2)/4.
    slack = values / high
    for _ in range(iterations):
        slack = slack * (9.0 - 6.0 * slack + slack * slack) / 4.0
    gone = np.clip(1.0 - slack, 0.0, 1.0)
    loss: Array = np.sqrt(values) * gone / (1.0 + np.sqrt(np.clip(slack, 0.0, 1.0)))
    return loss


def root_error(*, low: float, high: float, iterations: int) -> float:
    """Return a rigorous bound of the error over z in [low, high], within 5% of the largest.

    On a cell [l, r] the relative error is largest at l and sqrt(z) at r, so their product bounds
    the error there. Double precision may add 4 u high/sqrt(low) a step: z/high - 1 is rounded near
    -1, and what it loses weighs most for the smallest z.
    """
    _check_interval(low, high)
    # The problem scales: only low/high matters. It is rounded down to 20 bits, so that the interval
    # only grows and neighbours share a result.
    mantissa, exponent = math.frexp(low / high)
    ratio = math.ldexp(math.floor(mantissa * 2.0**20 * (1.0 - 2.0**-40)), exponent - 20)
    return math.sqrt(high) * _unit_error(ratio, iterations)


@lru_cache(maxsize=4096)
def _unit_error(low: float, iterations: int) -> float:
    """The bound for [low, 1]."""
    count = max(2, math.ceil(-CELLS_PER_OCTAVE * math.log2(low)) + 1)
    edges = np.geomspace(low, 1.0, count, dtype=np.float64)
    edges[0], edges[-1] = low, 1.0
    at_left = root_error_at(edges[:-1], high=1.0, iterations=iterations)
    bound = at_left * np.sqrt(edges[1:] / edges[:-1])
    return float(bound.max()) + ROUNDING * (iterations + 1) / math.sqrt(low)


def root_levels(iterations: int) -> int:
    """Levels of k steps: 1 to divide by the range, 2(k - 1) for v, 1 for the last product of q."""
    return max(1, 2 * iterations)


def square_root(z: Array, *, low: float, high: float, iterations: int) -> Certified[Array]:
    """Return sqrt(z) for z in [low, high], never above the true root, with a rigorous error."""
    values = np.asarray(z, dtype=np.float64)
    require_at_least("iterations", iterations, 0)
    bound = root_error(low=low, high=high, iterations=iterations)
    slack = 1e-9 * high
    if not bool(np.all((values >= low - slack) & (values <= high + slack))):
        raise InvalidInput("z", "a value outside", f"in [{low:g}, {high:g}]")
    q = values / high
    u = (q - 1.0) / 2.0
    for _ in range(iterations):
        q, u = q * (1.0 - u), u * u * (u - 1.5)
    certificate = Certificate(
        quantity="|root - sqrt(z)|",
        interval=(low, high),
        error=bound,
        levels=root_levels(iterations),
    )
    return Certified(value=math.sqrt(high) * q, certificate=certificate)


def _check_interval(low: float, high: float) -> None:
    require_positive("low", low)
    require_at_least("high", high, low)
    if low / high < LEAST_RATIO:
        raise InvalidInput("low / high", low / high, f"at least {LEAST_RATIO:g}")
