"""Inverse of a symmetric positive definite matrix by Newton's iteration: products and sums only.

It keeps M = V X beside X, so that a step costs two matrix products that
can run side by side (Guo and Higham; Eq. (iterate_inverse) of the paper):

    X <- X (2 I - M),   M <- M (2 I - M),   and   I - M <- (I - M)^2.

*Warm*: X = s A with A the inverse of an earlier matrix. If the eigenvalues of V A lie in
[low, high], the scale s = 2/(low + high) is the best one and leaves the residual
r = (high - low)/(high + low); a step squares it, and rescaling by 2/(2 - r^2) centres it again:
r <- r^2/(2 - r^2). A handful of steps suffice, whatever the condition number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput, require_at_least, require_positive

Array = NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True, kw_only=True)
class WarmStart:
    """Scaled Newton steps for eigenvalues of V A in [low, high]: the scale before each step.

    `error` bounds ||V^(1/2) X V^(1/2) - I|| after the last step, `drift` what of it comes from
    noise. X and M may be renewed after every `piece` products, V A included, and nowhere else; 0 if
    they never are.
    """

    low: float
    high: float
    scales: tuple[float, ...]
    error: float
    drift: float
    piece: int = 0

    @property
    def steps(self) -> int:
        """Number of Newton steps."""
        return len(self.scales)


@dataclass(frozen=True, kw_only=True)
class InverseNoise:
    """Errors of V^(1/2) X V^(1/2) and of V^(-1/2) M V^(1/2) by encryption, in spectral norm.

    `product` bounds what every product adds; `renewal` what giving X and M their levels back adds,
    for which there is need after `piece` products at the latest (0: never); `ending` what comes to
    the result.
    """

    product: float = 0.0
    renewal: float = 0.0
    piece: int = 0
    ending: float = 0.0

    def __post_init__(self) -> None:
        for name in ("product", "renewal", "piece", "ending"):
            require_at_least(f"noise ({name})", getattr(self, name), 0)

    @property
    def none(self) -> bool:
        """True if nothing is added at all."""
        return self.product == self.renewal == self.ending == 0.0


@lru_cache(maxsize=4096)
def plan_warm_start(
    *, low: float, high: float, error: float, noise: float | InverseNoise = 0.0
) -> WarmStart:
    """Return the fewest optimally scaled steps that bring the residual to `error` or below.

    `noise` bounds what every product may add to V^(1/2) X V^(1/2) and to V^(-1/2) M V^(1/2), as
    CKKS does, or all that is added. Newton squares away the residual of M, but not the gap
    D = M - V X that noise opens: D <- s D (2 - s M) + noise of M - noise of V X, so that its bound,
    the drift, grows by s (2 - s low) a step (theory, Lemma 3). A renewal widens the gap, and the
    range of M, before the step that follows it. An `error` that noise does not allow is refused.
    """
    require_positive("low", low)
    require_at_least("high", high, low)
    require_positive("error", error)
    added = noise if isinstance(noise, InverseNoise) else InverseNoise(product=noise)
    found = WarmStart(
        low=low,
        high=high,
        scales=(),
        error=max(abs(1.0 - low), abs(high - 1.0)),
        drift=0.0,
    )
    while found.error > error:
        after = _warm_start(low, high, steps=found.steps + 1, noise=added)
        if after.error >= found.error:
            if added.none:
                raise InvalidInput("low", low, f"at least about 1e-15 of high, {high:g}")
            largest = max(added.product, added.renewal if added.piece else 0.0, added.ending)
            raise InvalidInput("error", error, f"at least {found.error:.3g} at noise {largest:g}")
        found = after
    return found


def _warm_start(low: float, high: float, *, steps: int, noise: InverseNoise) -> WarmStart:
    """Return the warm start of that many steps."""
    scales: list[float] = []
    bottom, top, drift, residual = low, high, noise.product, 0.0
    products, piece = steps + 1, 0
    if noise.piece:  # as few pieces as can be, of equal length
        piece = math.ceil(products / math.ceil(products / noise.piece))
    for step in range(1, steps + 1):
        if piece and step % piece == 0:
            bottom, top = bottom - noise.renewal, top + noise.renewal
            drift += 2.0 * noise.renewal
        scale = 2.0 / (bottom + top)
        spread = (top - bottom) / (top + bottom)
        drift = scale * (2.0 - scale * bottom) * drift + 2.0 * noise.product
        residual = spread**2 + noise.product + drift
        scales.append(scale)
        bottom, top = 1.0 - spread**2 - noise.product, 1.0 + noise.product
    return WarmStart(
        low=low,
        high=high,
        scales=tuple(scales),
        error=residual + noise.ending,
        drift=drift,
        piece=piece,
    )


def invert_warm(
    matrix: Array, start: Array, *, low: float, high: float, error: float
) -> tuple[Array, float]:
    """Return X from `start`, and a bound of ||V^(1/2) X V^(1/2) - I||.

    Needs V symmetric positive definite, `start` symmetric, and the eigenvalues of V times `start`
    in [low, high]. What double precision loses grows faster than the condition number, so the bound
    is the larger of that of exact arithmetic and the residual found afterwards from a Cholesky
    factor, rounding of that check included.
    """
    if not (np.isfinite(matrix).all() and np.isfinite(start).all()):
        raise InvalidInput("matrix", "a value that is not finite", "finite")
    plan = plan_warm_start(low=low, high=high, error=error)
    V, identity = matrix, np.eye(len(matrix))
    X, M = start, V @ start
    for scale in plan.scales:
        rest = 2.0 * identity - scale * M
        X, M = scale * (X @ rest), scale * (M @ rest)
    X = (X + X.T) / 2.0
    return X, max(plan.error, residual_norm(X, matrix=V))


def residual_norm(inverse: Array, *, matrix: Array) -> float:
    """Return a bound of ||V^(1/2) X V^(1/2) - I||, computed from a Cholesky factor of V.

    The allowance for rounding, 4 d u ||V|| ||X||, is that of the factor and of two products. A
    matrix that rounding has made indefinite has no factor: inf.
    """
    try:
        lower = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return math.inf
    gap = lower.T @ inverse @ lower - np.eye(len(matrix))
    condition = float(np.linalg.norm(matrix) * np.linalg.norm(inverse))
    return float(np.linalg.norm(gap, 2)) + 4.0 * len(matrix) * UNIT_ROUNDOFF * condition
