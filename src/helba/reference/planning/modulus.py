"""The ring that a modulus needs, by the table of `helba.ring.security`."""

from __future__ import annotations

from helba.errors import InvalidInput
from helba.ring.security import RING_DIMS, describe_ring, max_log2_qp


def least_ring_dim(log2_qp: float, *, security: int) -> int | None:
    """Return the smallest ring that carries a modulus of that size, or None."""
    for ring_dim in RING_DIMS:
        if log2_qp <= max_log2_qp(ring_dim, security=security):
            return ring_dim
    return None


def require_modulus(log2_qp: int, *, ring_dim: int, security: int) -> None:
    """Raise `InvalidInput` unless the ring carries the modulus; say which ring does."""
    limit = max_log2_qp(ring_dim, security=security)
    if log2_qp <= limit:
        return
    needed = least_ring_dim(log2_qp, security=security)
    if needed is not None:
        remedy = f"it needs N = {describe_ring(needed)}"
    else:
        # The limit doubles with the ring.
        largest = RING_DIMS[-1]
        beyond = largest
        while max_log2_qp(largest, security=security) * (beyond // largest) < log2_qp:
            beyond *= 2
        remedy = f"it needs about N = {describe_ring(beyond)}, which the table does not cover"
    raise InvalidInput(
        "log2(QP)",
        f"{log2_qp}; {remedy}",
        f"at most {limit} at N = {describe_ring(ring_dim)} for {security} bits (ePrint 2024/463)",
    )
