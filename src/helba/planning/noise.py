"""How much CKKS may add to a slot, operation by operation: bounds for the simulator.

Each is TAILS standard deviations of the error polynomial, seen through the decoding of a vector of
s slots (2s coefficients meet in a slot), in units of the value. Errors of the ring are taken as
independent Gaussians, as usual (Costache et al., ePrint 2020/1118; Kim et al., ePrint 2021/1561);
TAILS = 8 leaves 2^-50 for each slot and operation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from helba.planning.parameters import Parameters

__all__ = ["NoiseModel"]

TAILS = 8.0
STANDARD_DEVIATION = 3.19
# Canonical scales differ from 2^scale_bits by less than this factor.
SCALE_SLACK = 1.001


@dataclass(frozen=True)
class NoiseModel:
    """Noise of the primitives under `parameters`, as a bound on the error of every slot."""

    parameters: Parameters

    def encryption(self, slots: int) -> float:
        """Fresh encryption: v e + e0 + e1 s, with ternary v and s, and rounding of the encoding."""
        weight = 4.0 * self.parameters.ring_dim / 3.0 + 1.0
        return self._seen(STANDARD_DEVIATION * math.sqrt(weight), slots) + self.encoding(slots)

    def encoding(self, slots: int) -> float:
        """Rounding of a plaintext to integers."""
        return self._seen(math.sqrt(1.0 / 12.0), slots)

    def rescaling(self, slots: int) -> float:
        """Rounding of both polynomials, the second times the secret."""
        return self._seen(math.sqrt((1.0 + 2.0 * self.parameters.ring_dim / 3.0) / 12.0), slots)

    def key_switching(self, slots: int) -> float:
        """Digits times the key's errors over P, and the rounding of the division by P."""
        parameters = self.parameters
        width = math.ceil((parameters.depth + 1) / parameters.digits)
        digit_bits = parameters.first_bits + (width - 1) * parameters.scale_bits
        ratio = (1.0 + width) * 2.0 ** (digit_bits - parameters.log2_p)
        errors = STANDARD_DEVIATION * math.sqrt(parameters.digits * parameters.ring_dim / 12.0)
        return self._seen(errors * ratio, slots) + self.rescaling(slots)

    def _seen(self, deviation: float, slots: int) -> float:
        scale = 2.0**self.parameters.scale_bits / SCALE_SLACK
        return TAILS * deviation * math.sqrt(2.0 * slots) / scale
