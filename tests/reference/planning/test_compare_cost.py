"""Predicted costs of comparisons: what the numerics say, and how they grow."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial import polynomial

from helba.reference.numerics.argmax import argmax_levels
from helba.reference.numerics.compare import f, levels_per_iteration
from helba.reference.numerics.evaluation import Product, evaluate
from helba.reference.numerics.root import root_levels
from helba.reference.planning.cost.compare_cost import (
    acomp_rotations,
    amax_cost,
    argmax_cost,
    comparison_order,
    iterate_cost,
    new_comp_cost,
    root_cost,
    tie_growth,
    trace_cost,
    trace_rotations,
)
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.cost.polynomial import SLOTWISE, sign_cost
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.score import ScoreLayout
from helba.reference.twin.ciphertext import default_sign


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_comparison_order_is_f_at_its_depth(n: int) -> None:
    order, x = comparison_order(n), np.linspace(-1, 1, 101)
    np.testing.assert_allclose(evaluate(order, x), f(x, n=n), atol=1e-14)
    assert order.levels == levels_per_iteration(n) == iterate_cost(n=n, iterations=1).levels


def test_first_comparison_polynomial_is_the_papers() -> None:
    """f_1(x) = x (3 - x^2)/2."""
    x = np.linspace(-1, 1, 11)
    expected = polynomial.polyval(x, [0.0, 1.5, 0.0, -0.5])
    np.testing.assert_allclose(evaluate(comparison_order(1), x), expected, atol=1e-15)


@pytest.mark.parametrize("method", ["product", "sum"])
@pytest.mark.parametrize("arms", [2, 3, 4, 5, 16, 17, 64])
def test_argmax_takes_the_levels_that_its_certificate_says(method: str, arms: int) -> None:
    layout, sign = ScoreLayout(dim=2, arms=arms), default_sign(arms)
    for riding in (False, True):
        cost = argmax_cost(layout, sign=sign, method=method, riding=riding)
        assert cost.levels == argmax_levels(sign=sign, arms=arms, method=method)


def test_update_test_rides_without_a_product_of_ciphertexts() -> None:
    layout, sign = ScoreLayout(dim=2, arms=8), default_sign(8)
    for method, extra in (("sum", Cost()), ("product", Cost(plain_products=1))):
        alone, riding = (
            argmax_cost(layout, sign=sign, method=method, riding=riding) for riding in (False, True)
        )
        assert riding == alone + extra


def test_slot_coefficients_cost_a_sign_nothing() -> None:
    sign = default_sign(8)
    assert sign_cost(sign, outputs=(SLOTWISE,)) == sign_cost(sign)
    assert sign_cost(sign).levels == sign.levels
    assert sign_cost(sign).products == sign.products


def test_trace_test_costs_a_level_for_its_scale_only_if_none_is_idle() -> None:
    sign = default_sign(2)
    layout = MatrixLayout(dim=4, max_slots=1024)
    folded = trace_cost(layout, sign=sign)
    assert folded.levels == sign.levels + 1
    assert trace_cost(layout, sign=sign, reach=0.25) == folded  # four times is a few additions
    divided = folded + Cost(levels=1, plain_products=1)
    assert trace_cost(layout, sign=sign, reach=3.0) == divided
    idle = trace_cost(layout, sign=sign, reach=3.0, idle=True)
    assert idle == folded + Cost(plain_products=1)


def test_trace_test_needs_no_key_that_matrices_do_not() -> None:
    sign, layout = default_sign(2), MatrixLayout(dim=8, max_slots=1024)
    assert len(trace_rotations(layout)) == trace_cost(layout, sign=sign).rotations == 8
    assert set(trace_rotations(layout)) <= set(layout.rotations)
    assert trace_rotations(MatrixLayout(dim=1, max_slots=2)) == ()


@pytest.mark.parametrize(("n", "slope"), [(1, 3 / 2), (2, 15 / 8), (3, 35 / 16), (4, 315 / 128)])
def test_tie_growth_is_the_slope_at_zero_for_each_iteration(n: int, slope: float) -> None:
    assert tie_growth(n, iterations=0) == 1.0
    assert tie_growth(n, iterations=5) == pytest.approx(slope**5)
    # an imaginary part grows by it, and a little more
    order, x = comparison_order(n), 1e-6j
    values = [x]
    for step in order.steps:
        if isinstance(step, Product):
            values.append(values[step.left] * values[step.right])
        else:
            values.append(step.constant + sum(c * values[i] for i, c in step.terms))
    assert abs(values[-1]) == pytest.approx(1e-6 * slope)


def test_paper_argmax_grows_with_every_arm() -> None:
    two, five = (amax_cost(error=0.01, arms=arms) for arms in (2, 5))
    assert five.levels >= 4 * two.levels
    assert acomp_rotations(4) == (1, 2, 3)
    assert acomp_rotations(5) == (1, 2, 3, 4)
    assert new_comp_cost(gap=0.9, error=0.45).levels == levels_per_iteration(1)


def test_root_takes_its_numerics_levels() -> None:
    for iterations in range(5):
        assert root_cost(high=3.0, iterations=iterations).levels == root_levels(iterations)
    assert root_cost(high=3.0, iterations=2) == Cost(levels=4, products=4, plain_products=2)
