"""How many coefficients of a secret key are not zero: what the security table speaks of."""

from __future__ import annotations

import numpy as np
import pytest

from helba.reference.engine import get_scheme
from helba.reference.planning.parameters import Parameters, insecure_parameters

pytestmark = pytest.mark.ckks

insecure_uniform = insecure_parameters(ring_dim=1 << 11, depth=4, scale_bits=45)
insecure_sparse = insecure_parameters(ring_dim=1 << 11, depth=20, scale_bits=45, secret="sparse")


def squared_norm(parameters: Parameters) -> int:
    """||s||^2 from the residues of a fresh secret key, for which sum s(z) s(1/z) = N ||s||^2.

    OpenFHE keeps the values at odd powers of a root of unity, bits of their index reversed.
    """
    from helba.reference.engine.ckks import wire

    pair = get_scheme("ckks").generate_pair(parameters)
    template = wire._samples(parameters).secret
    data = wire.fhe.Serialize(pair.secret._payload, wire.fhe.BINARY)
    values, modulus = template.gather(data)[0], template.moduli[0]
    bits = parameters.ring_dim.bit_length() - 1
    order = [int(format(i, f"0{bits}b")[::-1], 2) for i in range(parameters.ring_dim)]
    at = {2 * place + 1: int(value) for place, value in zip(order, values, strict=True)}
    total = sum(at[power] * at[2 * parameters.ring_dim - power] for power in at)
    return total * pow(parameters.ring_dim, -1, modulus) % modulus


def test_uniform_secrets_are_what_the_table_is_for() -> None:
    mean = 2 * insecure_uniform.ring_dim / 3
    assert abs(squared_norm(insecure_uniform) - mean) < 8 * np.sqrt(mean / 3)


def test_secrets_for_bootstrapping_have_weight_192() -> None:
    # a user's own key as well: the table does not cover them, and docs/security.md says so
    assert squared_norm(insecure_sparse) == 192
