"""How much CKKS may add to a slot, operation by operation: bounds for planner and simulator.

Each is TAILS standard deviations of the error polynomial, seen through the decoding of a vector of
s slots (2s coefficients meet in a slot), in units of the value. Errors of the ring are taken as
independent Gaussians, as usual (Costache et al., ePrint 2020/1118; Kim et al., ePrint 2021/1561);
TAILS = 8 leaves 2^-50 for each slot and operation.

Key switching is worse than that. OpenFHE's division by P, a product of k primes, is k/2 too low on
average in every coefficient (an approximate change of basis, and no rounding to nearest). That
leaves (k/2)(1 + X + ... + X^(N-1)) s(X), the same for every ciphertext of a key: small in most
slots, but 2/|1 - zeta| in that of the root zeta, which peaks in a few of them, usually slot 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

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

    def key_switching_by_slot(self, slots: int) -> NDArray[np.float64]:
        """What a rotation adds to each slot, peaks included."""
        k = self.parameters.auxiliary_primes
        random = math.hypot(self._key_deviation, math.sqrt(self._secret_weight * (k + 1.0) / 12.0))
        secret = 1.0 + SECRET_TAILS * math.sqrt(2.0 * self.parameters.ring_dim / 3.0)
        bias = k / 2.0 * secret / self._scale
        peaks: NDArray[np.float64] = self._seen(random, slots) + bias * _peaks(slots)
        return peaks

    def pending_key_switching(self, slots: int) -> float:
        """What relinearising or rotating a pending product adds: the scale is there twice."""
        peak = float(self.key_switching_by_slot(slots).max())
        return peak * 2.0**-self.parameters.scale_bits

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


@lru_cache(maxsize=64)
def _peaks(slots: int) -> NDArray[np.float64]:
    """2/|1 - zeta| for the root zeta = exp(i pi 5^j / 2s) of each slot j."""
    exponents = np.ones(slots, dtype=np.int64)
    for j in range(1, slots):
        exponents[j] = exponents[j - 1] * 5 % (4 * slots)
    peaks: NDArray[np.float64] = 1.0 / np.abs(np.sin(np.pi * exponents / (4.0 * slots)))
    peaks.flags.writeable = False
    return peaks
