"""OpenFHE contexts from checked parameters: one for each set, checked against our table again."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import openfhe as fhe

from helba.errors import EngineError
from helba.reference.planning.parameters import Parameters
from helba.ring.ckks.context import LEVELS, moduli_of, reason_of
from helba.ring.security import max_log2_qp

FEATURES = (
    fhe.PKE,
    fhe.KEYSWITCH,
    fhe.PRE,
    fhe.LEVELEDSHE,
    fhe.ADVANCEDSHE,
    fhe.MULTIPARTY,
)
SECRETS = {"uniform": fhe.UNIFORM_TERNARY, "sparse": fhe.SPARSE_ENCAPSULATED}


@lru_cache(maxsize=64)
def open_context(parameters: Parameters) -> Any:
    """Return OpenFHE's context; `EngineError` if it differs from what the parameters promise.

    FLEXIBLEAUTO keeps an exact scale for every level, so that scales of 35 to 45 bits lose nothing
    to the primes' distance from a power of two.
    """
    if parameters.security is not None:
        replace(parameters)  # checks the table again, whatever became of the object
    request = configure(parameters)
    try:
        context = fhe.GenCryptoContext(request)
    except RuntimeError as error:
        raise EngineError(f"OpenFHE refuses the parameters: {reason_of(error)}") from error
    for feature in FEATURES:
        context.Enable(feature)
    if parameters.secret == "sparse":
        context.Enable(fhe.FHE)
    _require_promise(context, parameters)
    return context


def configure(parameters: Parameters) -> Any:
    """OpenFHE's request for these parameters."""
    request = fhe.CCParamsCKKSRNS()
    request.SetRingDim(parameters.ring_dim)
    request.SetMultiplicativeDepth(parameters.depth)
    request.SetScalingModSize(parameters.scale_bits)
    request.SetFirstModSize(parameters.first_bits)
    request.SetNumLargeDigits(parameters.digits)
    request.SetBatchSize(parameters.max_slots)
    request.SetSecurityLevel(LEVELS[parameters.security])
    request.SetSecretKeyDist(SECRETS[parameters.secret])
    request.SetScalingTechnique(fhe.FLEXIBLEAUTO)
    request.SetKeySwitchTechnique(fhe.HYBRID)
    request.SetPREMode(fhe.INDCPA)  # the modes against honest re-encryption throw for CKKS
    return request


def _require_promise(context: Any, parameters: Parameters) -> None:
    moduli = moduli_of(context)
    if context.GetRingDimension() != parameters.ring_dim or len(moduli) != parameters.depth + 1:
        raise EngineError("OpenFHE chose another ring or another number of levels")
    if parameters.security is None:
        return
    limit = max_log2_qp(parameters.ring_dim, security=parameters.security)
    log2_q = sum(math.log2(q) for q in moduli)
    if log2_q + parameters.log2_p > limit:
        raise EngineError(f"OpenFHE chose a modulus of {log2_q:.2f} bits, past the limit {limit}")
