"""Takes the bias off OpenFHE's division by P, which ends every key switch.

With k primes in P the quotient is too low by k/2 on average, in every coefficient of both
polynomials: the change of basis overshoots by up to k - 1 multiples of P, and the remainder is cut
off instead of rounded. Under the secret key that is (k/2)(1 + X + ... + X^(N-1)) s(X), the same in
every ciphertext of a key, with a peak of (k/2)(2N/pi)|s| in the slot whose root is nearest 1. Here
k/2 is added back; for odd k a fixed balanced pattern of floor and ceiling, which has no peak.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from helba.reference.engine.ckks.evaluation import switching_template
from helba.reference.engine.ckks.polynomial import encoder_of
from helba.reference.planning.parameters import Parameters

PATTERN_SEED = 1  # any balanced pattern will do; it is public


class DivisionCorrection:
    """The ciphertexts, one for each level, that add k/2 to both polynomials under key `tag`."""

    def __init__(self, *, parameters: Parameters, tag: str) -> None:
        self._encoder = encoder_of(parameters)
        self._tag = tag
        primes, degree = _count_auxiliary_primes(parameters), parameters.ring_dim
        self._coefficients = np.full(degree, primes // 2, dtype=np.float64)
        if primes % 2:
            balanced = np.arange(degree) % 2
            self._coefficients += np.random.default_rng(PATTERN_SEED).permutation(balanced)
        self._made: dict[int, Any] = {}

    def at_level(self, level: int) -> Any:
        """Return what a ciphertext of that level lacks after one division; made once."""
        if level not in self._made:
            added = self._encoder.encode(self._coefficients, level=level)
            self._made[level] = self._encoder.ciphertext(added, added, level=level, tag=self._tag)
        return self._made[level]


def _count_auxiliary_primes(parameters: Parameters) -> int:
    """The primes of P, from the rows of a switching key."""
    rows = len(switching_template(parameters).moduli)
    return rows // (2 * parameters.digits) - (parameters.depth + 1)
