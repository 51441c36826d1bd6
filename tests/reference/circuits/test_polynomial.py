"""Encrypted polynomials: value, least depth, counted products, coefficients by slot."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev

from helba.errors import LevelsExhausted
from helba.reference.circuits.comparison.polynomial import evaluate_affine, evaluate_polynomial
from helba.reference.numerics.evaluation import cost_of_degree, evaluation_order
from helba.reference.planning.cost.polynomial import (
    PLAIN,
    SLOTWISE,
    Affine,
    polynomial_cost,
    schedule,
)
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, open_keyed
from tests.reference.circuits.circuit_checks import assert_close, measure

PARAMETERS = insecure_parameters(depth=6)
GRID = np.linspace(-1, 1, 64)


def polynomial(odd: list[float], x: np.ndarray) -> np.ndarray:
    full = np.zeros(2 * len(odd))
    full[1::2] = odd
    return chebyshev.chebval(x, full)


def random_coefficients(degree: int, *, seed: int = 0) -> list[float]:
    size = (degree + 1) // 2
    return list(np.random.default_rng(seed).uniform(-1, 1, size))


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("degree", [1, 3, 7, 15, 27])
def test_polynomial_costs_what_is_predicted(scheme: str, degree: int) -> None:
    keyed, odd = open_keyed(scheme, parameters=PARAMETERS), random_coefficients(degree)
    order = evaluation_order(odd)
    x = keyed.engine.encrypt(GRID)
    with measure(keyed) as measured:
        result = evaluate_polynomial(keyed.engine, x, order=order)
        opened = keyed.open(result)
    assert measured.at(0, result) == polynomial_cost(order)
    assert (result.level, polynomial_cost(order).products) == cost_of_degree(degree)
    np.testing.assert_allclose(opened, polynomial(odd, GRID), atol=1e-6)


@pytest.mark.parametrize("scheme", BOTH)
def test_polynomial_starts_at_any_level(scheme: str) -> None:
    keyed, odd = open_keyed(scheme, parameters=PARAMETERS), random_coefficients(7)
    x = keyed.engine.encrypt(GRID, level=3)
    result = evaluate_polynomial(keyed.engine, x, order=evaluation_order(odd))
    assert result.level == 6
    assert_close(keyed, result, expected=polynomial(odd, GRID))
    with pytest.raises(LevelsExhausted):
        evaluate_polynomial(keyed.engine, keyed.engine.lower(x, 4), order=evaluation_order(odd))


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("degree", [3, 7, 9, 15])
def test_outputs_are_scaled_at_no_level_more(scheme: str, degree: int) -> None:
    keyed, odd = open_keyed(scheme, parameters=PARAMETERS), random_coefficients(degree)
    rng = np.random.default_rng(degree)
    outputs = [
        Affine(alpha=-0.5, beta=0.5),
        Affine(alpha=rng.uniform(-1, 1, 64), beta=rng.uniform(-1, 1, 64)),
        Affine(alpha=(np.arange(64) == 3) * 1.0, beta=2.0),
    ]
    order = evaluation_order(odd)
    with measure(keyed) as measured:
        results = evaluate_affine(
            keyed.engine, keyed.engine.encrypt(GRID), order=order, outputs=outputs
        )
        for result in results:
            keyed.open(result)
    assert measured.at(0, results[0]) == polynomial_cost(order, outputs=outputs)
    for result, output in zip(results, outputs, strict=True):
        assert result.level == order.levels
        assert_close(keyed, result, expected=output.alpha * polynomial(odd, GRID) + output.beta)


def test_products_that_are_added_up_are_relinearised_together() -> None:
    """Degree 7 has 5 products, two of them in its last sum; only T_2 changes its level."""
    keyed = open_keyed("simulate", parameters=PARAMETERS)
    order = evaluation_order(random_coefficients(7))
    with keyed.engine.count() as tally:
        keyed.open(evaluate_polynomial(keyed.engine, keyed.engine.encrypt(GRID), order=order))
    assert (tally.of("multiply"), tally.of("relinearise"), tally.of("adjust")) == (5, 4, 1)


def test_outputs_share_what_alpha_leaves_alone() -> None:
    order = evaluation_order(random_coefficients(7))
    one, two = (polynomial_cost(order, outputs=[PLAIN] * k) for k in (1, 2))
    assert (one.products, two.products - one.products) == (5, 3)  # T_2 and T_4 are shared


def test_shared_values_are_made_where_the_first_output_wants_them() -> None:
    """With whole coefficients alpha = 1 adds where 1/2 multiplies, and wants some T_k earlier."""
    odd = [2.0, -1.0, 3.0, -3.0, 1.0, 2.0, 3.0, 0.0, -1.0, -2.0]
    keyed, order = open_keyed("simulate", parameters=PARAMETERS), evaluation_order(odd)
    outputs = [PLAIN, Affine(alpha=0.5)]
    first, second = (schedule(order, alpha=output.alpha).levels for output in outputs)
    assert any(a < b for a, b in zip(first, second, strict=True))
    for chosen in (outputs, outputs[::-1]):
        x = keyed.engine.encrypt(GRID)
        with measure(keyed) as measured:
            results = evaluate_affine(keyed.engine, x, order=order, outputs=chosen)
        assert measured.at(0, results[0]) == polynomial_cost(order, outputs=chosen)
        for result, output in zip(results, chosen, strict=True):
            assert result.level == order.levels
            expected = output.alpha * polynomial(odd, GRID)
            assert_close(keyed, result, expected=expected, noise=1e-4)


@settings(max_examples=60)
@given(
    odd=st.lists(
        st.one_of(st.integers(-5, 5).map(float), st.floats(-1, 1)), min_size=1, max_size=16
    ).filter(any),
    alpha=st.sampled_from([1.0, -1.0, 0.5, 1 / 3, None]),
)
def test_cost_of_any_polynomial_is_the_tally(odd: list[float], alpha: float | None) -> None:
    """Whole and zero coefficients too: they are additions, and may end earlier."""
    keyed = open_keyed("simulate", parameters=PARAMETERS)
    order = evaluation_order(odd)
    output = Affine(alpha=np.linspace(-1, 1, 64)) if alpha is None else Affine(alpha=alpha)
    with measure(keyed) as measured:
        (result,) = evaluate_affine(
            keyed.engine, keyed.engine.encrypt(GRID), order=order, outputs=[output]
        )
    predicted = polynomial_cost(order, outputs=[SLOTWISE if alpha is None else output])
    assert measured.at(0, result) == predicted
    assert result.level <= cost_of_degree(2 * len(odd) - 1)[0]
    assert_close(keyed, result, expected=output.alpha * polynomial(odd, GRID), noise=1e-4)
