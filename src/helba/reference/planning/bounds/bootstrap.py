"""What bootstrapping takes and leaves, with a sparse encapsulated secret and level budget (1, 1).

The level budget is how many levels each of the two linear maps (coefficients to slots and back) may
take; (1, 1) is the shallowest, and quickest for the few slots of our vectors. The depth is
OpenFHE's own count (`GetBootstrapDepth`); the precision follows the scale bit for bit, and the
error grows with the root of the slots at most.
"""

from __future__ import annotations

import math

from helba.reference.planning.parameters import Parameters

BOOTSTRAP_BUDGET = (1, 1)
BOOTSTRAP_LEVELS = 12
# Measured at 50 and 59 bits with 16 slots: 15.6 and 25.3 bits are right; two bits are kept as a
# margin. With 1024 slots the error was 3.4 times as large, in values over the whole of [-1, 1].
BITS_LOST = 36.5
MEASURED_SLOTS = 16


def bootstrap_error(
    parameters: Parameters, *, bound: float = 1.0, slots: int = MEASURED_SLOTS, copies: int = 1
) -> float:
    """Return a bound on the error of a bootstrapped value in [-bound, bound], of `slots` slots.

    With n `copies` in these slots the value is divided by at least n, and n errors, which are
    independent, are averaged (`circuits.renewal`).
    """
    wide = math.sqrt(max(1.0, slots / MEASURED_SLOTS) / copies)
    exponent = max(renewal_exponent(bound), copies.bit_length() - 1)
    return float(wide * 2.0 ** (BITS_LOST - parameters.scale_bits + exponent))


def renewal_exponent(bound: float) -> int:
    """Return the least k >= 0 with bound <= 2^k: what values up to `bound` are divided by."""
    mantissa, exponent = math.frexp(bound)
    return max(0, exponent - (mantissa == 0.5))
