"""Evaluation orders: right value, least depth, known product counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev, polynomial

from helba.errors import InvalidInput
from helba.reference.numerics.division import MAX_DEGREE
from helba.reference.numerics.evaluation import (
    Combination,
    EvaluationOrder,
    Product,
    cost_of_degree,
    evaluate,
    evaluation_order,
)

# degree: products of Lee, Lee and No, at depth ceil(log2(degree + 1))
PUBLISHED = {
    3: 2, 5: 3, 7: 5, 9: 5, 11: 6, 13: 7, 15: 8, 17: 8,
    19: 8, 21: 9, 23: 9, 25: 10, 27: 10, 29: 11, 31: 12,
}  # fmt: skip
IMPROVED = {17: 7, 21: 8}
GRID = np.linspace(-1, 1, 401)


def counted(order: EvaluationOrder) -> tuple[int, int]:
    """Levels and products, counted from the steps alone."""
    levels, products = [0], 0
    for step in order.steps:
        if isinstance(step, Product):
            products += 1
            levels.append(max(levels[step.left], levels[step.right]) + 1)
        else:
            deepest = 0
            for index, coefficient in step.terms:
                free = coefficient == round(coefficient) and abs(coefficient) <= 4
                deepest = max(deepest, levels[index] + (0 if free else 1))
            levels.append(deepest)
    return levels[-1], products


def chebyshev_values(odd: list[float], x: np.ndarray) -> np.ndarray:
    full = np.zeros(2 * len(odd))
    full[1::2] = odd
    return chebyshev.chebval(x, full)


@pytest.mark.parametrize("degree", range(1, 32, 2))
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), decay=st.floats(0.1, 1))
def test_order_of_any_odd_polynomial_has_least_depth_and_right_value(
    degree: int, seed: int, decay: float
) -> None:
    size = (degree + 1) // 2
    odd = (np.random.default_rng(seed).standard_normal(size) * decay ** np.arange(size)).tolist()
    order = evaluation_order(odd)
    assert (order.levels, order.products) == counted(order)
    assert order.levels == math.ceil(math.log2(degree + 1))
    assert order.products == cost_of_degree(degree)[1]
    error = np.max(np.abs(evaluate(order, GRID) - chebyshev_values(odd, GRID)))
    assert error <= 1e-13 * np.sum(np.abs(odd))


@pytest.mark.parametrize("degree", range(1, 32, 2))
def test_scaled_combinations_alone_carry_a_factor(degree: int) -> None:
    """Times alpha in front of what is not scaled yet: alpha * p, for another alpha at every x."""
    odd = np.random.default_rng(degree).standard_normal((degree + 1) // 2).tolist()
    alpha = np.cos(7 * GRID)
    values, scaled = [GRID], [False]
    for step in evaluation_order(odd).steps:
        if isinstance(step, Product):
            values.append(values[step.left] * values[step.right])
            scaled.append(scaled[step.left])
            assert not scaled[step.right]
            continue
        assert not (step.scaled and step.constant)
        factors = [c * alpha if step.scaled and not scaled[i] else c for i, c in step.terms]
        parts = [f * values[i] for f, (i, _) in zip(factors, step.terms, strict=True)]
        values.append(np.sum(parts, axis=0) + step.constant)
        scaled.append(step.scaled)
    assert scaled[-1]
    expected = alpha * chebyshev_values(odd, GRID)
    np.testing.assert_allclose(values[-1], expected, atol=1e-12)


@settings(deadline=None, max_examples=200)
@given(
    odd=st.lists(
        st.one_of(st.integers(-9, 9).map(float), st.floats(-1, 1)), min_size=1, max_size=32
    )
)
def test_order_with_zero_and_integer_coefficients_never_costs_more(odd: list[float]) -> None:
    order = evaluation_order(odd)
    assert counted(order) == (order.levels, order.products)
    levels, products = cost_of_degree(2 * len(odd) - 1)
    assert order.levels <= levels
    assert order.products <= products
    error = np.max(np.abs(evaluate(order, GRID) - chebyshev_values(odd, GRID)))
    assert error <= 1e-13 * np.sum(np.abs(odd))


@pytest.mark.parametrize("degree", PUBLISHED)
def test_product_counts_reach_or_improve_the_published_ones(degree: int) -> None:
    levels, products = cost_of_degree(degree)
    assert levels == math.ceil(math.log2(degree + 1))
    assert products == IMPROVED.get(degree, PUBLISHED[degree])


@pytest.mark.parametrize("degree", [33, 47, MAX_DEGREE])
def test_degrees_past_31_keep_the_least_depth(degree: int) -> None:
    odd = np.random.default_rng(degree).standard_normal((degree + 1) // 2)
    order = evaluation_order(odd.tolist())
    assert counted(order)[0] == 6
    error = np.max(np.abs(evaluate(order, GRID) - chebyshev_values(odd.tolist(), GRID)))
    assert error <= 1e-13 * np.sum(np.abs(odd))


def test_steps_use_only_earlier_values_and_small_integers() -> None:
    order = evaluation_order([0.1 * k + 0.01 for k in range(16)])
    for made, step in enumerate(order.steps, start=1):
        if isinstance(step, Product):
            assert max(step.left, step.right) < made
        else:
            assert isinstance(step, Combination)
            assert all(index < made for index, _ in step.terms)


def test_power_basis_gives_the_same_polynomial() -> None:
    powers = [2.1875, -2.1875, 1.3125, -0.3125]  # f_3 of Cheon, Kim and Kim
    order = evaluation_order(powers, basis="power")
    full = np.zeros(8)
    full[1::2] = powers
    assert order.levels == 3
    np.testing.assert_allclose(evaluate(order, GRID), polynomial.polyval(GRID, full), atol=1e-14)


def test_unusable_coefficients_are_refused() -> None:
    for bad in ([], [math.nan], [1.0] * 33):
        with pytest.raises(InvalidInput):
            evaluation_order(bad)
    with pytest.raises(InvalidInput, match="basis"):
        evaluation_order([1.0], basis="monomial")
    with pytest.raises(InvalidInput, match="odd number"):
        cost_of_degree(8)
