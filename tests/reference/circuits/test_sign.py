"""The encrypted sign: certified past its resolution, at the levels it says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.reference.circuits.comparison.sign import evaluate_sign, evaluate_sign_affine
from helba.reference.numerics.sign import best_composition
from helba.reference.planning.cost.polynomial import Affine, sign_cost
from helba.reference.planning.parameters import insecure_parameters
from helba.reference.twin.ciphertext import default_sign
from tests.engines import BOTH, open_keyed
from tests.reference.circuits.circuit_checks import assert_close, measure

PARAMETERS = insecure_parameters(depth=10)
SIGNS = [
    default_sign(2),
    default_sign(64),
    best_composition(resolution=2.0**-3, degrees=(5, 3)),
]


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: str(sign.degrees))
def test_sign_is_certified_and_costs_what_is_predicted(scheme: str, sign) -> None:
    keyed = open_keyed(scheme, parameters=PARAMETERS)
    half = np.geomspace(sign.resolution, 1.0, 64)
    values = np.concatenate([half, -half])
    with measure(keyed) as measured:
        result = evaluate_sign(keyed.engine, keyed.engine.encrypt(values), sign=sign)
        keyed.open(result)
    assert measured.at(0, result) == sign_cost(sign)
    assert (result.level, sign_cost(sign).products) == (sign.levels, sign.products)
    assert_close(keyed, result, expected=np.sign(values), error=sign.certificate.error, noise=1e-5)


@pytest.mark.parametrize("scheme", BOTH)
def test_sign_with_slot_coefficients_keeps_its_level(scheme: str) -> None:
    keyed, sign = open_keyed(scheme, parameters=PARAMETERS), SIGNS[0]
    values = np.linspace(-1, 1, 32)
    outputs = [
        Affine(alpha=np.where(values > 0, 0.5, 0.0), beta=np.where(values > 0, 0.5, 1.0)),
        Affine(alpha=-1.0, beta=0.25),
    ]
    with measure(keyed) as measured:
        results = evaluate_sign_affine(
            keyed.engine, keyed.engine.encrypt(values), sign=sign, outputs=outputs
        )
        for result in results:
            keyed.open(result)
    assert measured.at(0, results[1]) == sign_cost(sign, outputs=outputs)
    for result, output in zip(results, outputs, strict=True):
        assert result.level == sign.levels
        assert_close(keyed, result, expected=output.alpha * sign(values) + output.beta, noise=1e-5)


@settings(max_examples=30)
@given(x=st.lists(st.floats(-1, 1), min_size=16, max_size=16), index=st.integers(0, 2))
def test_sign_follows_its_plaintext_everywhere(x: list[float], index: int) -> None:
    keyed, sign = open_keyed("simulate", parameters=PARAMETERS), SIGNS[index]
    result = evaluate_sign(keyed.engine, keyed.engine.encrypt(x), sign=sign)
    assert_close(keyed, result, expected=sign(x), noise=1e-5)
