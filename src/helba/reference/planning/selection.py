"""Which parameters a ring has room for, and the best of them for a given depth.

`choose_parameters` is for circuits of known depth: the smallest ring that carries them, the largest
scale, and the digits with the quickest key switching.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from helba.errors import InvalidInput, require_whole
from helba.reference.planning.cost.calibration import Calibration, load_calibration
from helba.reference.planning.parameters import (
    LEAST_SECURE_SCALE_BITS,
    MOST_SCALE_BITS,
    Parameters,
    even_digits,
)
from helba.ring.security import RING_DIMS, max_log2_qp


def possible_digits(depth: int) -> Iterator[int]:
    """Yield every number of digits that depth + 1 primes fill."""
    for digits in range(1, depth + 2):
        if even_digits(depth, at_most=digits) == digits:
            yield digits


def largest_scale(
    *,
    ring_dim: int,
    depth: int,
    digits: int,
    security: int,
    scale_bits: int | None = None,
    secret: str = "uniform",
) -> Parameters | None:
    """Return the parameters with the most scale bits, or with `scale_bits`; None if none fit."""
    wanted: Sequence[int] = range(MOST_SCALE_BITS, LEAST_SECURE_SCALE_BITS - 1, -1)
    limit = max_log2_qp(ring_dim, security=security)
    for bits in wanted if scale_bits is None else (scale_bits,):
        if depth * bits > limit:
            continue
        try:
            return Parameters(
                ring_dim=ring_dim,
                depth=depth,
                scale_bits=bits,
                digits=digits,
                security=security,
                secret=secret,
            )
        except InvalidInput:
            continue
    return None


def choose_parameters(
    *,
    depth: int,
    security: int = 128,
    least_scale_bits: int = 40,
    slots: int = 1,
    calibration: Calibration | None = None,
) -> Parameters:
    """Return the best parameters with `depth` levels of `least_scale_bits` or more.

    The smallest ring that holds `slots`, then the digits with the quickest rotation, then the
    largest scale. `InvalidInput` names the depth that is possible.
    """
    require_whole("depth", depth, least=1, most=100)
    require_whole(
        "least_scale_bits", least_scale_bits, least=LEAST_SECURE_SCALE_BITS, most=MOST_SCALE_BITS
    )
    prices = load_calibration() if calibration is None else calibration
    for ring_dim in RING_DIMS:
        if ring_dim < 2 * slots:
            continue
        found = [
            parameters
            for digits in possible_digits(depth)
            if (
                parameters := largest_scale(
                    ring_dim=ring_dim, depth=depth, digits=digits, security=security
                )
            )
            and parameters.scale_bits >= least_scale_bits
        ]
        if found:
            return min(
                found, key=lambda each: (prices.seconds("rotate", parameters=each), each.digits)
            )
    if slots > RING_DIMS[-1] // 2:
        raise InvalidInput("slots", slots, f"at most {RING_DIMS[-1] // 2}")
    shallower = depth - 1
    while shallower and not _fits(shallower, security=security, scale_bits=least_scale_bits):
        shallower -= 1
    raise InvalidInput(
        "depth",
        depth,
        f"at most {shallower} with {least_scale_bits} scale bits at {security} bits",
    )


def _fits(depth: int, *, security: int, scale_bits: int) -> bool:
    return any(
        largest_scale(
            ring_dim=RING_DIMS[-1],
            depth=depth,
            digits=digits,
            security=security,
            scale_bits=scale_bits,
        )
        for digits in possible_digits(depth)
    )
