"""The largest modulus that a ring may carry at a security level.

Source: Bossuat et al., "Security Guidelines for Implementing Homomorphic Encryption", ePrint
2024/463, table 5.2: uniform ternary secret, standard deviation 3.19, classical attacks. OpenFHE's
own table is slightly looser for N <= 2^15; the lower one is enforced here, whatever it accepts.
The table does not cover sparse secrets.
"""

from __future__ import annotations

from helba.errors import InvalidInput

SECURITY_LEVELS = (128, 192, 256)

_MAX_LOG2_QP = {
    1 << 13: {128: 214, 192: 147, 256: 114},
    1 << 14: {128: 430, 192: 297, 256: 230},
    1 << 15: {128: 868, 192: 597, 256: 462},
    1 << 16: {128: 1747, 192: 1199, 256: 929},
    1 << 17: {128: 3523, 192: 2411, 256: 1866},
}
RING_DIMS = tuple(_MAX_LOG2_QP)


def max_log2_qp(ring_dim: int, *, security: int) -> int:
    """Return the largest log2(QP) of a ring at a level, or raise `InvalidInput`."""
    if security not in SECURITY_LEVELS:
        raise InvalidInput("security", security, "one of 128, 192, 256")
    if ring_dim not in _MAX_LOG2_QP:
        raise InvalidInput("ring_dim", ring_dim, "a power of two from 2^13 to 2^17")
    return _MAX_LOG2_QP[ring_dim][security]


def describe_ring(ring_dim: int) -> str:
    """Return a ring dimension as a power of two."""
    return f"2^{ring_dim.bit_length() - 1}"
