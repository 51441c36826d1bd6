"""Takes the bias off OpenFHE's division by P, which ends every key switch.

With k primes in P the quotient is too low by k/2 on average, in every coefficient of both
polynomials: the change of basis overshoots by up to k - 1 multiples of P, and the remainder is cut
off instead of rounded. Under the secret key that is (k/2)(1 + X + ... + X^(N-1)) s(X), the same in
every ciphertext of a key, with a peak of (k/2)(2N/pi)|s| in the slot whose root is nearest 1. Here
k/2 is added back; for odd k a fixed balanced pattern of floor and ceiling, which has no peak.

The constant polynomial has complex values in the slots. A context of the same primes whose type is
COMPLEX encodes it. A zero under a throw-away key is encrypted to get at the format, and cancelled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import openfhe as fhe

from helba.engine.ckks.context import configure, moduli_of
from helba.engine.ckks.process import require_own_randomness
from helba.errors import EngineError
from helba.planning.parameters import Parameters

__all__ = ["DivisionCorrection"]

PATTERN_SEED = 1  # any balanced pattern will do; it is public


class DivisionCorrection:
    """The ciphertexts, one for each level, that add k/2 to both polynomials."""

    def __init__(self, context: Any, *, parameters: Parameters, tag: str) -> None:
        require_own_randomness()
        self._context = context
        self._encoder = _open_encoder(context, parameters)
        self._parameters = parameters
        self._tag = tag
        self._primes = _count_auxiliary_primes(context, parameters=parameters, tag=tag)
        self._made: dict[int, Any] = {}

    def at_level(self, level: int) -> Any:
        """Return what a ciphertext of that level lacks after one division; made once."""
        if level not in self._made:
            require_own_randomness()
            self._made[level] = self._make(level)
        return self._made[level]

    def _make(self, level: int) -> Any:
        polynomial = self._encode(level)
        zero = _transparent_zero(self._context, level=level)
        zero.SetElements([polynomial, polynomial])
        zero.SetKeyTag(self._tag)  # it fits every key; OpenFHE adds equals only
        return zero

    def _encode(self, level: int) -> Any:
        """The polynomial with coefficients k/2, as OpenFHE holds it at `level`."""
        degree = self._parameters.ring_dim
        coefficients = np.full(degree, self._primes // 2, dtype=np.float64)
        if self._primes % 2:
            balanced = np.arange(degree) % 2
            coefficients += np.random.default_rng(PATTERN_SEED).permutation(balanced)
        twist = np.exp(1j * np.pi * np.arange(degree) / degree)
        at_odd_powers = np.fft.ifft(coefficients * twist) * degree  # of exp(i pi/N): 1, 3, 5, ...
        power, slots = 1, np.empty(degree // 2, dtype=np.complex128)
        for slot in range(degree // 2):
            slots[slot] = at_odd_powers[(power - 1) // 2]
            power = power * 5 % (2 * degree)
        encoder = self._encoder
        scale = encoder.GetScalingFactorReal(level)
        plaintext = encoder.MakeCKKSPackedPlaintext(
            (slots / scale).tolist(), 1, level, None, degree // 2
        )
        zero = _transparent_zero(encoder, level=level)
        return encoder.EvalAdd(zero, plaintext).GetElements()[0]


def _open_encoder(context: Any, parameters: Parameters) -> Any:
    """A context of the same primes that encodes complex numbers."""
    request = configure(parameters)
    request.SetSecurityLevel(fhe.HEStd_NotSet)  # the ring is given, and nothing is hidden here
    request.SetCKKSDataType(fhe.COMPLEX)
    encoder = fhe.GenCryptoContext(request)
    for feature in (fhe.PKE, fhe.KEYSWITCH, fhe.LEVELEDSHE):
        encoder.Enable(feature)
    if moduli_of(encoder) != moduli_of(context):
        raise EngineError("OpenFHE chose other primes for the same parameters")
    return encoder


def _transparent_zero(context: Any, *, level: int) -> Any:
    """A ciphertext whose polynomials are 0."""
    plaintext = context.MakeCKKSPackedPlaintext([0.0], 1, level, None, 1)
    fresh = context.Encrypt(context.KeyGen().publicKey, plaintext)
    return context.EvalSub(fresh, fresh)


def _count_auxiliary_primes(context: Any, *, parameters: Parameters, tag: str) -> int:
    """The primes of P, from the size of the relinearisation key."""
    key = context.GetEvalMultKeyVector(tag)[0]
    polynomial = 8 * parameters.ring_dim
    primes = round(len(fhe.Serialize(key, fhe.BINARY)) / (2 * parameters.digits * polynomial))
    return int(primes) - (parameters.depth + 1)
