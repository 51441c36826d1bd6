"""Polynomials of given coefficients as ciphertexts that everybody can read, to be added to others.

A real vector of slots does not reach every polynomial: general ones have complex values in the
slots. A context of the same primes whose type is COMPLEX encodes them. A zero under a throw-away
key is encrypted to get at the format, and cancelled.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import openfhe as fhe
from numpy.typing import NDArray

from helba.errors import EngineError
from helba.reference.engine.ckks.context import configure, open_context
from helba.reference.engine.primitives import Array
from helba.reference.planning.parameters import Parameters
from helba.ring.ckks.context import moduli_of
from helba.ring.ckks.process import require_own_randomness


class PolynomialEncoder:
    """Encodes polynomials for the context of `parameters`."""

    def __init__(self, parameters: Parameters) -> None:
        self._context = open_context(parameters)
        self._encoder = _open_complex(parameters)
        degree = parameters.ring_dim
        self._twist: NDArray[np.complex128] = np.exp(1j * np.pi * np.arange(degree) / degree)
        powers, power = np.empty(degree // 2, dtype=np.intp), 1
        for slot in range(degree // 2):  # slot j is the value at exp(i pi/N) to the power 5^j
            powers[slot] = (power - 1) // 2
            power = power * 5 % (2 * degree)
        self._powers = powers
        self._zeros: dict[tuple[int, int], Any] = {}

    def encode(self, coefficients: Array, *, level: int) -> Any:
        """Return OpenFHE's polynomial with these coefficients, rounded, at `level`."""
        plaintext, encoder = self.plaintext(coefficients, level=level), self._encoder
        return encoder.EvalAdd(self._zero(encoder, level), plaintext).GetElements()[0]

    def plaintext(self, coefficients: Array, *, slots: Array | None = None, level: int) -> Any:
        """Return a plaintext with these coefficients and, repeated over all slots, `slots`.

        Rounded as one. It can be added to ciphertexts of any key.
        """
        degree, encoder = len(coefficients), self._encoder
        at_odd_powers = np.fft.ifft(coefficients * self._twist)  # of exp(i pi/N): 1, 3, ...
        values = at_odd_powers[self._powers]
        values *= degree / encoder.GetScalingFactorReal(level)
        if slots is not None:
            values.reshape(-1, len(slots))[:] += slots
        return encoder.MakeCKKSPackedPlaintext(values, 1, level, None, degree // 2)

    def ciphertext(self, first: Any, second: Any, *, level: int, tag: str) -> Any:
        """Return a ciphertext of these polynomials, for any key; None is the polynomial 0."""
        made = self._zero(self._context, level).Clone()
        nothing = made.GetElements()[0]
        made.SetElements([nothing if each is None else each for each in (first, second)])
        made.SetKeyTag(tag)  # it fits every key; OpenFHE adds equals only
        return made

    def _zero(self, context: Any, level: int) -> Any:
        """A ciphertext whose polynomials are 0; made once for each level."""
        key = (id(context), level)
        if key not in self._zeros:
            require_own_randomness()
            plaintext = context.MakeCKKSPackedPlaintext([0.0], 1, level, None, 1)
            fresh = context.Encrypt(context.KeyGen().publicKey, plaintext)
            self._zeros[key] = context.EvalSub(fresh, fresh)
        return self._zeros[key]


@lru_cache(maxsize=16)
def encoder_of(parameters: Parameters) -> PolynomialEncoder:
    """Return the encoder for these parameters, the same one every time."""
    return PolynomialEncoder(parameters)


def _open_complex(parameters: Parameters) -> Any:
    """A context of the same primes that encodes complex numbers."""
    request = configure(parameters)
    request.SetSecurityLevel(fhe.HEStd_NotSet)  # the ring is given, and nothing is hidden here
    request.SetCKKSDataType(fhe.COMPLEX)
    encoder = fhe.GenCryptoContext(request)
    for feature in (fhe.PKE, fhe.KEYSWITCH, fhe.LEVELEDSHE):
        encoder.Enable(feature)
    if moduli_of(encoder) != moduli_of(open_context(parameters)):
        raise EngineError("OpenFHE chose other primes for the same parameters")
    return encoder
