"""The paper's inverse, from a cold start; `helba.numerics.inverse` has the warm one.

X = I / c with c >= Tr(V). The residual starts at 1 - lambda/c, so the number of steps grows with
the logarithm of the condition number (Prop. 1 of the paper; erratum 11 does not matter: the bound
only needs ||V^-1|| <= 1/lambda).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput, require_at_least, require_positive
from helba.numerics.inverse import UNIT_ROUNDOFF
from helba.reference.numerics.certificate import Certificate, Certified

Array = NDArray[np.float64]

# A product of two packed matrices: one level to arrange the factors, one for the products
# (Jiang et al. 2018). Scalars ride in the plaintext masks that arrange the factors.
MATRIX_PRODUCT_LEVELS = 2


def cold_iterations(*, ridge: float, trace_bound: float, error: float) -> int:
    """Return k1(error) of Prop. 1: steps after which ||X - V^-1|| <= error.

    Needs eigenvalues of V in [ridge, trace_bound]. The formula needs ridge * error < 1; above that
    the start itself is good enough, and the answer is 0.
    """
    require_positive("ridge", ridge)
    require_positive("error", error)
    require_at_least("trace_bound", trace_bound, ridge)
    if ridge * error >= 1.0 or trace_bound == ridge:
        return 0
    doublings = math.log(ridge * error) / math.log1p(-ridge / trace_bound)
    return max(0, math.ceil(math.log2(doublings)))


def cold_error(*, ridge: float, trace_bound: float, iterations: int) -> float:
    """Return the bound (1 - ridge/c)^(2^k) / ridge on ||X_k - V^-1|| in exact arithmetic."""
    if trace_bound == ridge:
        return 0.0
    return math.exp(2.0**iterations * math.log1p(-ridge / trace_bound)) / ridge


def invert_cold(
    matrix: Array, *, ridge: float, trace_bound: float, error: float
) -> Certified[Array]:
    """Return X with ||X - V^-1|| <= certificate.error, from X = I / trace_bound.

    Needs V symmetric, its eigenvalues at least `ridge` and its trace at most `trace_bound`. The
    certificate adds to the bound of exact arithmetic what double precision may lose,
    (k + 1) d u (c/lambda)/lambda with u the unit roundoff.
    """
    V = checked_matrix(matrix)
    steps = cold_iterations(ridge=ridge, trace_bound=trace_bound, error=error)
    trace, least = float(np.trace(V)), float(np.linalg.eigvalsh(V)[0])
    if not trace <= trace_bound * (1 + 1e-9):
        raise InvalidInput("trace of the matrix", f"{trace:g}", f"at most {trace_bound:g}")
    if not least >= ridge - 1e-9 * max(ridge, 1e-3 * trace):
        raise InvalidInput("least eigenvalue of the matrix", f"{least:g}", f"at least {ridge:g}")
    identity = np.eye(len(V))
    X, M = identity / trace_bound, V / trace_bound
    for _ in range(steps):
        rest = 2.0 * identity - M
        X, M = X @ rest, M @ rest
    rounding = (steps + 1) * len(V) * UNIT_ROUNDOFF * (trace_bound / ridge) / ridge
    bound = cold_error(ridge=ridge, trace_bound=trace_bound, iterations=steps)
    certificate = Certificate(
        quantity="spectral norm of X - V^-1",
        interval=(ridge, trace_bound),
        error=bound + rounding,
        levels=MATRIX_PRODUCT_LEVELS * steps,
    )
    return Certified(value=(X + X.T) / 2.0, certificate=certificate)


def checked_matrix(matrix: Array) -> Array:
    """Return a symmetric matrix of finite numbers, or raise `InvalidInput`."""
    square = np.asarray(matrix, dtype=np.float64)
    if square.ndim != 2 or square.shape[0] != square.shape[1]:
        raise InvalidInput("matrix", f"shape {square.shape}", "square")
    if not np.isfinite(square).all():
        raise InvalidInput("matrix", "a value that is not finite", "finite")
    if not np.allclose(square, square.T, rtol=1e-9, atol=1e-12 * float(np.abs(square).max())):
        raise InvalidInput("matrix", "one that is not", "symmetric")
    return square
