"""OpenFHE's context for the ring, checked against our parameters and our security table."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from typing import Any

import openfhe as fhe

from helba.errors import EngineError
from helba.ring.parameters import PRIMES, RingParameters

FEATURES = (fhe.PKE, fhe.KEYSWITCH, fhe.LEVELEDSHE, fhe.PRE, fhe.ADVANCEDSHE, fhe.MULTIPARTY)
LEVELS = {
    None: fhe.HEStd_NotSet,
    128: fhe.HEStd_128_classic,
    192: fhe.HEStd_192_classic,
    256: fhe.HEStd_256_classic,
}


@lru_cache(maxsize=16)
def open_context(parameters: RingParameters) -> Any:
    """Return OpenFHE's context; `EngineError` if it differs from what the parameters promise.

    FIXEDMANUAL leaves scales to us: OpenFHE's own number is the same for all ciphertexts and means
    nothing. COMPLEX lets a plaintext be any polynomial.
    """
    if parameters.security is not None:
        replace(parameters)  # checks the table again, whatever became of the object
    request = fhe.CCParamsCKKSRNS()
    request.SetRingDim(parameters.ring_dim)
    request.SetMultiplicativeDepth(PRIMES - 1)
    request.SetFirstModSize(parameters.first_bits)
    request.SetScalingModSize(parameters.middle_bits)
    request.SetNumLargeDigits(PRIMES)
    request.SetScalingTechnique(fhe.FIXEDMANUAL)
    request.SetSecurityLevel(LEVELS[parameters.security])
    request.SetKeySwitchTechnique(fhe.HYBRID)
    request.SetSecretKeyDist(fhe.UNIFORM_TERNARY)
    request.SetCKKSDataType(fhe.COMPLEX)
    request.SetPREMode(fhe.INDCPA)
    try:
        context = fhe.GenCryptoContext(request)
    except RuntimeError as error:
        raise EngineError(f"OpenFHE refuses the parameters: {reason_of(error)}") from error
    for feature in FEATURES:
        context.Enable(feature)
    if context.GetRingDimension() != parameters.ring_dim or moduli_of(context) != parameters.moduli:
        raise EngineError("OpenFHE chose another ring or other primes")
    return context


def reason_of(error: Exception) -> str:
    """Return what OpenFHE says, without the place in its sources."""
    return str(error).rsplit("(): ", 1)[-1].strip()


def moduli_of(context: Any) -> tuple[int, ...]:
    """Return the primes of the ciphertext modulus; the last one that is left stands first."""
    text = json.loads(fhe.Serialize(context, fhe.JSON))
    data = text["value0"]["ptr_wrapper"]["data"]["cc"]["ptr_wrapper"]["data"]
    ring = data["value0"]["value0"]["value0"]["elp"]["ptr_wrapper"]["data"]
    return tuple(int(p["ptr_wrapper"]["data"]["value0"]["cm"]["v"]) for p in ring["p"])
