from __future__ import annotations

import numpy as np
import pytest

from helba.errors import LevelsExhausted
from helba.reference.circuits.algebra.jiang import jiang_product
from helba.reference.circuits.algebra.matrix import (
    matrix_product,
    multiply_matrices,
    residual,
    squared_norm,
)
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.cost.matrix_cost import residual_cost, squared_norm_cost
from helba.reference.planning.layout.jiang import JiangLayout
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, open_keyed
from tests.reference.circuits.circuit_checks import assert_close, assert_uses_every_key, measure
from tests.reference.circuits.matrices import (
    CASES,
    LARGE,
    open_matrix_desk,
    random_design,
    random_matrices,
)

JIANG_ROTATIONS = {1: 2, 2: 6, 3: 12, 5: 24, 8: 24, 16: 44}


@pytest.mark.parametrize(("scheme", "dim"), CASES + LARGE)
def test_product_with_factors_and_plain_matrix_equals_numpy_at_the_predicted_cost(
    scheme: str, dim: int
) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=dim)
    L, R, plain = random_matrices(3, dim=dim)
    left, right = (keyed.engine.encrypt(layout.pack(matrix)) for matrix in (L, R))
    with measure(keyed) as measured:
        product = matrix_product(
            keyed.engine,
            left=left,
            right=right,
            layout=layout,
            left_factor=0.7,
            right_factor=-0.4,
            right_plus=plain,
        )
    expected = layout.pack(0.7 * L @ (plain - 0.4 * R))
    tiled = np.tile(expected, product.slots // layout.size)
    assert_close(keyed, product, expected=tiled, noise=1e-4)
    assert measured.at(0, product) == layout.single.cost


@pytest.mark.parametrize(
    ("scheme", "max_slots"),
    [("simulate", 128), ("simulate", 256), pytest.param("ckks", 256, marks=pytest.mark.ckks)],
)
def test_product_in_several_chunks_equals_numpy(scheme: str, max_slots: int) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=7, max_slots=max_slots)
    assert layout.single.chunks > 1
    L, R, plain = random_matrices(3, dim=7)
    left, right = (keyed.engine.encrypt(layout.pack(matrix)) for matrix in (L, R))
    with measure(keyed) as measured:
        product = matrix_product(
            keyed.engine, left=left, right=right, layout=layout, right_plus=plain
        )
    expected = np.tile(layout.pack(L @ (R + plain)), product.slots // layout.size)
    assert_close(keyed, product, expected=expected, noise=1e-5)
    assert measured.at(0, product) == layout.single.cost


@pytest.mark.parametrize(("scheme", "dim"), CASES + LARGE)
def test_stacked_products_advance_both_factors_at_the_predicted_cost(scheme: str, dim: int) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=dim)
    engine = keyed.engine
    M, X, plain = random_matrices(3, dim=dim)
    m, x = (engine.encrypt(layout.pack(matrix)) for matrix in (M, X))

    def stacked(upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
        return np.concatenate([layout.pack(upper), layout.pack(lower)])

    with measure(keyed) as measured:
        both = multiply_matrices(
            engine, layout.opening, left=[m, x], right=m, right_factor=-1.0, right_plus=plain
        )
    M1, X1 = M @ (plain - M), X @ (plain - M)
    assert_close(keyed, both, expected=stacked(M1, X1), noise=1e-4)
    assert measured.at(0, both) == layout.opening.cost

    both = engine.encrypt(stacked(M1, X1), level=both.level)
    with measure(keyed) as measured:
        further = multiply_matrices(
            engine, layout.advancing, left=[both], right=both, right_plus=plain
        )
    M2, X2 = M1 @ (M1 + plain), X1 @ (M1 + plain)
    assert_close(keyed, further, expected=stacked(M2, X2), noise=1e-3)
    assert measured.at(both.level, further) == layout.advancing.cost

    with measure(keyed) as measured:
        last = multiply_matrices(engine, layout.closing, left=[both], right=both, right_plus=plain)
    assert_close(keyed, last, expected=layout.pack(X2), noise=1e-3)
    assert measured.at(both.level, last) == layout.closing.cost


@pytest.mark.parametrize(("scheme", "dim"), CASES)
@pytest.mark.parametrize("deep", ["left", "right"])
def test_product_brings_operands_of_different_levels_together_first(
    scheme: str, dim: int, deep: str
) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=dim)
    L, R = random_matrices(2, dim=dim)
    left = keyed.engine.encrypt(layout.pack(L), level=3 if deep == "left" else 0)
    right = keyed.engine.encrypt(layout.pack(R), level=3 if deep == "right" else 0)
    with measure(keyed) as measured:
        product = matrix_product(keyed.engine, left=left, right=right, layout=layout)
    assert product.level == 5
    assert min(measured.levels_of("rotate", "hoist", "multiply_plain") or {3}) == 3
    expected = np.tile(layout.pack(L @ R), product.slots // layout.size)
    assert_close(keyed, product, expected=expected, noise=1e-5)


@pytest.mark.parametrize("scheme", BOTH)
def test_product_takes_wide_operands_and_clears_rows_that_only_pad(scheme: str) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=3)
    L, R = random_matrices(2, dim=3)
    dirty = layout.pack(L).reshape(4, 4)
    dirty[3] = 7.0
    left = keyed.engine.repeat(keyed.engine.encrypt(dirty.ravel()), 256)
    right = keyed.engine.encrypt(layout.pack(R))
    product = matrix_product(keyed.engine, left=left, right=right, layout=layout)
    assert_close(keyed, product, expected=layout.pack(L @ R), noise=1e-5)


def test_product_without_levels_is_refused() -> None:
    keyed, layout = open_matrix_desk("simulate", dim=2)
    late = keyed.engine.encrypt(layout.pack(np.eye(2)), level=5)
    with pytest.raises(LevelsExhausted, match="refresh first"):
        matrix_product(keyed.engine, left=late, right=late, layout=layout)


@pytest.mark.parametrize(("scheme", "dim"), CASES)
def test_residual_and_its_norm_equal_numpy_in_every_slot(scheme: str, dim: int) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=dim)
    V, A = random_design(dim)
    v, a = (keyed.engine.encrypt(layout.pack(matrix)) for matrix in (V, A))
    with measure(keyed) as measured:
        rest = residual(keyed.engine, matrix=v, inverse=a, layout=layout)
    expected = np.eye(dim) - V @ A
    copies = rest.slots // layout.size
    assert_close(keyed, rest, expected=np.tile(layout.pack(expected), copies), noise=1e-4)
    assert measured.at(0, rest) == residual_cost(layout)
    with measure(keyed) as measured:
        norm = squared_norm(keyed.engine, matrix=rest, layout=layout)
    square = np.full(norm.slots, np.linalg.norm(expected) ** 2)
    assert_close(keyed, norm, expected=square, noise=1e-2)
    assert measured.at(rest.level, norm) == squared_norm_cost(layout)


@pytest.mark.parametrize(("scheme", "dim"), [*CASES, ("simulate", 16)])
def test_jiang_product_equals_numpy_and_keeps_its_layout(scheme: str, dim: int) -> None:
    layout = JiangLayout(dim=dim)
    parameters = insecure_parameters(ring_dim=1 << 11, depth=4)
    keyed = open_keyed(scheme, parameters=parameters, rotations=layout.rotations)
    L, R = random_matrices(2, dim=dim)
    left, right = (keyed.engine.encrypt(layout.pack(matrix)) for matrix in (L, R))
    with measure(keyed) as measured, assert_uses_every_key(keyed):
        product = jiang_product(
            keyed.engine, left=left, right=right, layout=layout, left_factor=0.5, right_factor=3.0
        )
    assert_close(keyed, product, expected=layout.pack(1.5 * L @ R), noise=1e-5)
    assert measured.at(0, product) == layout.cost
    assert layout.cost == Cost(
        levels=2,
        products=layout.side,
        plain_products=2 * dim,
        rotations=layout.cost.rotations,
    )
    assert layout.cost.rotations == JIANG_ROTATIONS[dim]
    wide = keyed.engine.repeat(product, 2 * layout.slots)
    with measure(keyed) as measured:
        again = jiang_product(keyed.engine, left=wide, right=right, layout=layout)
    assert min(measured.levels_of("rotate", "hoist", "multiply_plain")) == 2
    assert_close(keyed, again, expected=layout.pack(1.5 * L @ R @ R), noise=1e-4)
