"""How much CKKS may add to a slot, operation by operation: bounds for planner and simulator.

Each is TAILS standard deviations of the error polynomial, seen through the decoding of a vector of
s slots (2s coefficients meet in a slot), in units of the value. Errors of the ring are taken as
independent Gaussians, as usual (Costache et al., ePrint 2020/1118; Kim et al., ePrint 2021/1561);
TAILS = 8 leaves 2^-50 for each slot and operation.

Key switching ends with a division by P, a product of k primes, whose change of basis is off by up
to k - 1: a variance of about (k + 1)/12 in each coefficient, and 1/4 more for the pattern that
takes its bias off where k is odd (`engine.ckks.correction`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from helba.planning.parameters import Parameters

__all__ = ["TAILS", "NoiseModel"]

TAILS = 8.0
# Of |s(zeta)| for one secret: a complex Gaussian is past 6 deviations with probability 2^-52.
SECRET_TAILS = 6.0
STANDARD_DEVIATION = 3.19
# Canonical scales differ from 2^scale_bits by less than this factor.
SCALE_SLACK = 1.001
# Encoding, decoding and constants pass through double precision and a transform of log2(s) steps.
DOUBLE_PRECISION = 2.0**-52


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

    def representation(self, largest: float, *, slots: int) -> float:
        """What double precision loses of values up to `largest` on their way in or out."""
        return largest * DOUBLE_PRECISION * (4.0 + math.log2(slots))

    def rescaling(self, slots: int) -> float:
        """Rounding of both polynomials, the second times the secret."""
        return self._seen(math.sqrt(self._secret_weight / 12.0), slots)

    def key_switching(self, slots: int) -> float:
        """What a rotation adds: digits times the key's errors over P, and the division by P."""
        division = (self.parameters.auxiliary_primes + 1.0) / 12.0 + 0.25
        rounding = math.sqrt(self._secret_weight * division)
        return self._seen(math.hypot(self._key_deviation, rounding), slots)

    def pending_key_switching(self, slots: int) -> float:
        """What relinearising or rotating a pending product adds: the scale is there twice."""
        k = self.parameters.auxiliary_primes
        bias = k / 2.0 * (1.0 + SECRET_TAILS * math.sqrt(self._secret_weight)) * 2.0 * slots
        seen = self.key_switching(slots) + bias / self._scale
        return seen * 2.0**-self.parameters.scale_bits

    @property
    def _scale(self) -> float:
        return float(2.0**self.parameters.scale_bits / SCALE_SLACK)

    @property
    def _secret_weight(self) -> float:
        """Squared norm of (1, s): what rounding of both polynomials is multiplied by."""
        return 1.0 + 2.0 * self.parameters.ring_dim / 3.0

    @property
    def _key_deviation(self) -> float:
        """Digits times the key's errors, over P."""
        parameters = self.parameters
        width = parameters.digit_width
        digit_bits = parameters.first_bits + (width - 1) * parameters.scale_bits
        ratio = (1.0 + width) * 2.0 ** (digit_bits - parameters.log2_p)
        errors = STANDARD_DEVIATION * math.sqrt(parameters.digits * parameters.ring_dim / 12.0)
        return errors * ratio

    def _seen(self, deviation: float, slots: int) -> float:
        return TAILS * deviation * math.sqrt(2.0 * slots) / self._scale
