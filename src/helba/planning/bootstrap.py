"""What bootstrapping takes and leaves, with a sparse encapsulated secret and level budget (1, 1).

The level budget is how many levels each of the two linear maps (coefficients to slots and back) may
take; (1, 1) is the shallowest, and quickest for the few slots of our vectors. The depth is
OpenFHE's own count (`GetBootstrapDepth`); the precision follows the scale bit for bit.
"""

from __future__ import annotations

from helba.planning.parameters import Parameters

__all__ = ["BOOTSTRAP_BUDGET", "BOOTSTRAP_LEVELS", "bootstrap_error"]

BOOTSTRAP_BUDGET = (1, 1)
BOOTSTRAP_LEVELS = 12
# Measured at 50 and 59 bits: 15.6 and 25.3 bits are right; two bits are kept as a margin.
BITS_LOST = 36.5


def bootstrap_error(parameters: Parameters) -> float:
    """Return a bound on the error of a bootstrapped value in [-1, 1]."""
    return float(2.0 ** (BITS_LOST - parameters.scale_bits))
