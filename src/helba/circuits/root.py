"""The square root of an encrypted vector, as in `numerics.root`."""

from __future__ import annotations

import math

from helba.circuits.levels import Refresh, with_levels
from helba.engine import EncryptedVector, Engine
from helba.errors import InvalidInput, require_positive, require_whole

__all__ = ["square_root"]

MOST_ITERATIONS = 1000


def square_root(
    engine: Engine,
    z: EncryptedVector,
    *,
    high: float,
    iterations: int,
    refresh: Refresh | None = None,
) -> EncryptedVector:
    """Return sqrt(z), slot by slot, for z in [low, high], within `root_error` of `numerics.root`.

    Every slot must lie in [low, high], also one that nobody reads: pad with `high`. Below low the
    noise of u grows without bound, and under CKKS a slot that explodes spoils all the others.

    `root_levels(iterations)` levels: 1 to divide by the range, 2 a step, the last one 1. Steps on
    q = z/sqrt(high) and u = (z/high - 1)/2:

        q <- q (1 - u),   u <- u^2 (u - 1.5).

    The root of the range is part of q from the start, so that nothing is left to multiply at the
    end. Noise in u grows like high/z while u is near -1/2: choose the scale bits for low.
    """
    require_positive("high", high)
    require_whole("iterations", iterations, least=0, most=MOST_ITERATIONS)
    if not math.isfinite(1.0 / high):
        raise InvalidInput("high", high, "large enough to divide by")
    z = with_levels(z, needed=1, refresh=refresh)
    q = engine.combine([(z, 1.0 / math.sqrt(high))], level=z.level + 1)
    if iterations == 0:
        return q
    u = engine.combine([(z, 0.5 / high)], constant=-0.5, level=z.level + 1)
    for left in range(iterations, 0, -1):
        u = with_levels(u, needed=2 if left > 1 else 1, refresh=refresh)
        q = with_levels(q, needed=1, refresh=refresh)
        q = engine.multiply(q, engine.combine([(u, -1.0)], constant=1.0))
        if left > 1:
            shifted = engine.combine([(u, 1.0)], constant=-1.5, level=u.level + 1)
            u = engine.multiply(engine.multiply(u, u), shifted)
    return q
