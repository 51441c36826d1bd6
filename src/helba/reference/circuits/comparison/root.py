"""The square root of an encrypted vector, as in `numerics.root`."""

from __future__ import annotations

import math

from helba.errors import InvalidInput, require_positive, require_whole
from helba.reference.circuits.levels import Refresh, Steps, run_steps, with_levels
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.numerics.root import root_levels

MOST_ITERATIONS = 1000


def square_root(
    engine: Engine,
    z: EncryptedVector,
    *,
    high: float,
    iterations: int,
    refresh: Refresh | None = None,
) -> EncryptedVector:
    """Run `square_root_steps`."""
    return run_steps(
        square_root_steps(engine, z, high=high, iterations=iterations), refresh=refresh
    )


def square_root_steps(
    engine: Engine,
    z: EncryptedVector,
    *,
    high: float,
    iterations: int,
    factor: float = 1.0,
    levels_after: int | None = None,
) -> Steps[EncryptedVector]:
    """Return factor sqrt(z), slot by slot, for z in [low, high].

    Within factor times `root_error` of `numerics.root`. Every slot must lie in [low, high], also
    one that nobody reads: pad with `high`. Below low the noise of u grows without bound, and under
    CKKS a slot that explodes spoils all the others.

    `root_levels(iterations)` levels: 1 to divide by the range, 2 a step, the last one 1. Steps on
    q = factor z/sqrt(high) and u = (z/high - 1)/2:

        q <- q (1 - u),   u <- u^2 (u - 1.5).

    The root of the range and the factor are part of q from the start, so that nothing is left to
    multiply at the end. Noise in u grows like high/z while u is near -1/2: choose the scale bits
    for low. `levels_after` are those that follow the root up to an end that no refresh follows
    (`with_levels`).
    """
    require_positive("high", high)
    require_whole("iterations", iterations, least=0, most=MOST_ITERATIONS)
    if not math.isfinite(1.0 / high):
        raise InvalidInput("high", high, "large enough to divide by")

    def rest(levels: int) -> int | None:
        return None if levels_after is None else levels + levels_after

    z = yield from with_levels(z, needed=1, bound=high, rest=rest(root_levels(iterations)))
    q = engine.combine([(z, factor / math.sqrt(high))], level=z.level + 1)
    if iterations == 0:
        return q
    u = engine.combine([(z, 0.5 / high)], constant=-0.5, level=z.level + 1)
    largest = abs(factor) * math.sqrt(high)
    for left in range(iterations, 0, -1):
        u = yield from with_levels(u, needed=2 if left > 1 else 1, rest=rest(2 * left - 1))
        q = yield from with_levels(q, needed=1, bound=largest, rest=rest(left))
        q = engine.multiply(q, engine.combine([(u, -1.0)], constant=1.0))
        if left > 1:
            shifted = engine.combine([(u, 1.0)], constant=-1.5, level=u.level + 1)
            u = engine.multiply(engine.multiply(u, u), shifted)
    return q
