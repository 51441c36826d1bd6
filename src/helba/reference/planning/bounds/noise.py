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

from helba.reference.planning.parameters import AUXILIARY_PRIME_BITS, Parameters

TAILS = 8.0
# Of |s(zeta)| for one secret: a complex Gaussian is past 6 deviations with probability 2^-52.
SECRET_TAILS = 6.0
STANDARD_DEVIATION = 3.19
# Of the pattern of floor and ceiling by which the division's bias is taken off.
PATTERN_VARIANCE = 0.25
# Canonical scales differ from 2^scale_bits by less than this factor.
SCALE_SLACK = 1.001
# What P is longer than the largest digit, at least; see `parameters`.
LEAST_MARGIN_BITS = 4
# Encoding, decoding and constants pass through double precision and a transform of log2(s) steps.
DOUBLE_PRECISION = 2.0**-52


@dataclass(frozen=True)
class NoiseModel:
    """Noise of the primitives under `parameters`, as a bound on the error of every slot."""

    parameters: Parameters

    def encryption(self, slots: int) -> float:
        """Fresh encryption: v e + e0 + e1 s, with ternary v and s, and rounding of the encoding."""
        fresh = STANDARD_DEVIATION * self._public_errors
        return self._seen(fresh, slots) + self.encoding(slots)

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
        return self._seen(math.hypot(self._switched(0), self._division), slots)

    def pending_key_switching(self, slots: int) -> float:
        """What relinearising or rotating a pending product adds: the scale is there twice."""
        k = self.parameters.auxiliary_primes
        bias = k / 2.0 * (1.0 + SECRET_TAILS * math.sqrt(self._secret_weight)) * 2.0 * slots
        seen = self.key_switching(slots) + bias / self._scale
        return seen * 2.0**-self.parameters.scale_bits

    def reencryption(self, slots: int, *, level: int = 0, public: bool = True) -> float:
        """What a key switch to another owner adds at `level`.

        A key made with the recipient's `public` key has errors like fresh encryptions in it. They
        are large enough for the mean of the digits to show: OpenFHE's are not centred, and a
        constant times 1 + X + ... + X^(N-1) peaks, at 2/pi times 2s, in the slot whose root is
        nearest 1.
        """
        errors = self._public_errors if public else 1.0
        own = self._switched(level, errors=errors)
        peak = self._peak(slots, level, errors=errors)
        return self._seen(math.hypot(own, peak, self._division), slots)

    def arrival(self, slots: int, *, keys: str, level: int = 0) -> float:
        """What a user sends: encrypted, and where keys are "switched" re-encrypted at `level`."""
        switch = self.reencryption(slots, level=level) if keys == "switched" else 0.0
        return self.encryption(slots) + switch

    def arrivals(self, slots: int, *, count: int, keys: str) -> float:
        """What `count` such vectors add to their sum, all of them from one user at worst.

        Encryptions are independent. What a switch adds is so in part: the mean of the digits, and
        the pattern that takes the bias off the division, are the same in all vectors of one key.
        """
        if keys != "switched":
            return math.sqrt(count) * self.encryption(slots)
        errors = self._public_errors
        varying = math.hypot(self._switched(0, errors=errors), self._division)
        pattern = math.sqrt(self._secret_weight * PATTERN_VARIANCE)
        fixed = math.hypot(self._peak(slots, 0, errors=errors), pattern)
        independent = self.encryption(slots) + self._seen(varying, slots)
        return math.sqrt(count) * independent + count * self._seen(fixed, slots)

    def reencryption_trace(self, *, level: int) -> float:
        """How much a re-encryption at `level` may show of the errors of its key: a total variation.

        What the switch adds is distributed as if these errors were 0, but for a shift by the errors
        over P (see `engine.reencryption`); of what is rounded to whole numbers a shift by x is seen
        with probability |x| at most. The sum over the coefficients, each at `TAILS` standard
        deviations, and twice that. It is for one vector: those of many add up.
        """
        errors = self._public_errors
        deviation = math.hypot(
            self._switched(level, errors=errors), self._switched_mean(level, errors=errors)
        )
        return min(1.0, 2.0 * self.parameters.ring_dim * TAILS * deviation)

    @property
    def _scale(self) -> float:
        return float(2.0**self.parameters.scale_bits / SCALE_SLACK)

    @property
    def _secret_weight(self) -> float:
        """Squared norm of (1, s): what rounding of both polynomials is multiplied by."""
        return 1.0 + 2.0 * self.parameters.ring_dim / 3.0

    @property
    def _division(self) -> float:
        """Rounding of the division by P, of both polynomials."""
        variance = (self.parameters.auxiliary_primes + 1.0) / 12.0 + PATTERN_VARIANCE
        return math.sqrt(self._secret_weight * variance)

    @property
    def _public_errors(self) -> float:
        """How much larger errors are under a public key than under a secret one."""
        return math.sqrt(4.0 * self.parameters.ring_dim / 3.0 + 1.0)

    def _switched(self, level: int, *, errors: float = 1.0) -> float:
        """Digits of a ciphertext of `level`, less their mean, times the key's errors, over P."""
        width, digits, ratio = self._digits(level)
        deviation = STANDARD_DEVIATION * math.sqrt(digits * self.parameters.ring_dim / 12.0)
        return errors * deviation * (1.0 + width) * ratio

    def _peak(self, slots: int, level: int, *, errors: float) -> float:
        """What the mean of the digits makes of the slot nearest 1, as a deviation."""
        return 2.0 / math.pi * math.sqrt(2.0 * slots) * self._switched_mean(level, errors=errors)

    def _switched_mean(self, level: int, *, errors: float) -> float:
        """The mean of these digits, half a modulus for each prime, times the errors, over P.

        The first digit is the largest, by the first prime.
        """
        width, digits, ratio = self._digits(level)
        shorter = self.parameters.first_bits - self.parameters.scale_bits
        like_the_first = 1.0 + (digits - 1) * 4.0**-shorter
        deviation = STANDARD_DEVIATION * math.sqrt(like_the_first * self.parameters.ring_dim)
        return errors * deviation * width / 2.0 * ratio

    def _digits(self, level: int) -> tuple[int, int, float]:
        """Primes in a digit of a ciphertext of `level`, how many digits, and their modulus over P.

        P has at least these primes, sometimes one fewer than `auxiliary_primes`.
        """
        parameters = self.parameters
        primes = parameters.depth + 1 - level
        width = min(parameters.digit_width, primes)
        digits = math.ceil(primes / parameters.digit_width)
        widest, bits = (
            parameters.first_bits + (count - 1) * parameters.scale_bits
            for count in (parameters.digit_width, width)
        )
        auxiliary = math.ceil((widest + LEAST_MARGIN_BITS) / AUXILIARY_PRIME_BITS)
        return width, digits, 2.0 ** (bits - AUXILIARY_PRIME_BITS * auxiliary)

    def _seen(self, deviation: float, slots: int) -> float:
        return TAILS * deviation * math.sqrt(2.0 * slots) / self._scale
