from __future__ import annotations

import numpy as np
import pytest

from helba.reference.circuits.algebra.estimate import compute_estimate, refine_estimate
from helba.reference.planning.cost.matrix_cost import estimate_cost, refinement_cost
from tests.engines import BOTH
from tests.reference.circuits.circuit_checks import assert_close, measure
from tests.reference.circuits.matrices import CASES, LARGE, open_matrix_desk, random_design


@pytest.mark.parametrize(("scheme", "dim"), CASES + LARGE)
def test_estimate_equals_numpy_in_every_row_at_the_predicted_cost(scheme: str, dim: int) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=dim)
    _, A = random_design(dim)
    g = np.linspace(-2.0, 1.0, dim)
    inverse = keyed.engine.encrypt(layout.pack(A))
    response = keyed.engine.encrypt(layout.pack_by_row(g))
    with measure(keyed) as measured:
        w = compute_estimate(keyed.engine, inverse=inverse, response=response, layout=layout)
    assert_close(keyed, w, expected=layout.pack_by_column(A @ g))
    assert measured.at(0, w) == estimate_cost(layout)


@pytest.mark.parametrize(("scheme", "dim"), CASES + LARGE)
def test_refined_estimate_equals_numpy_at_the_predicted_cost(scheme: str, dim: int) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=dim)
    V, A = random_design(dim)
    g = np.linspace(-2.0, 1.0, dim)
    w = A @ g
    inverse, matrix = (keyed.engine.encrypt(layout.pack(m)) for m in (A, V))
    response = keyed.engine.encrypt(layout.pack_by_row(g))
    estimate = keyed.engine.encrypt(layout.pack_by_column(w))
    with measure(keyed) as measured:
        refined = refine_estimate(
            keyed.engine,
            estimate=estimate,
            inverse=inverse,
            matrix=matrix,
            response=response,
            layout=layout,
        )
    expected = layout.pack_by_column(w + A @ (g - V @ w))
    assert_close(keyed, refined, expected=expected, noise=1e-4)
    assert measured.at(0, refined) == refinement_cost(layout)


@pytest.mark.parametrize("scheme", BOTH)
def test_refinement_brings_a_rough_inverse_closer_to_the_solution(scheme: str) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=5)
    engine = keyed.engine
    V, _ = random_design(5)
    disturbance = np.outer(np.arange(5), np.arange(5)) / 2000.0
    A = np.linalg.inv(V) + disturbance
    g = np.linspace(-2.0, 1.0, 5)
    inverse, matrix = (engine.encrypt(layout.pack(m)) for m in (A, V))
    response = engine.encrypt(layout.pack_by_row(g))
    rough = compute_estimate(engine, inverse=inverse, response=response, layout=layout)
    refined = refine_estimate(
        engine, estimate=rough, inverse=inverse, matrix=matrix, response=response, layout=layout
    )
    exact = layout.pack_by_column(np.linalg.solve(V, g))
    before, after = (np.abs(keyed.open(w) - exact).max() for w in (rough, refined))
    assert after <= 0.5 * before


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("wide", ["estimate", "inverse", "matrix", "response"])
def test_operands_that_repeat_over_more_slots_give_the_same_estimate(
    scheme: str, wide: str
) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=3)
    V, A = random_design(3)
    g, w = np.array([-2.0, 0.5, 1.0]), np.array([0.3, -0.1, 0.2])
    held = {
        "estimate": keyed.engine.encrypt(layout.pack_by_column(w)),
        "inverse": keyed.engine.encrypt(layout.pack(A)),
        "matrix": keyed.engine.encrypt(layout.pack(V)),
        "response": keyed.engine.encrypt(layout.pack_by_row(g)),
    }
    held[wide] = keyed.engine.repeat(held[wide], 4 * layout.size)
    refined = refine_estimate(keyed.engine, layout=layout, **held)
    expected = layout.pack_by_column(w + A @ (g - V @ w))
    assert_close(keyed, refined, expected=expected, noise=1e-4)
    if wide in ("inverse", "response"):
        estimate = compute_estimate(
            keyed.engine, inverse=held["inverse"], response=held["response"], layout=layout
        )
        assert_close(keyed, estimate, expected=layout.pack_by_column(A @ g))
