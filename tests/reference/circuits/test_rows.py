from __future__ import annotations

import numpy as np
import pytest

from helba.reference.circuits.algebra.rows import multiply_rows, spread_columns
from helba.reference.planning.cost.matrix_cost import row_product_cost
from tests.reference.circuits.circuit_checks import assert_close, measure
from tests.reference.circuits.matrices import CASES, LARGE, open_matrix_desk, random_matrices


@pytest.mark.parametrize(("scheme", "dim"), CASES + LARGE)
def test_row_product_fills_the_first_column_and_leaves_no_partial_sums(
    scheme: str, dim: int
) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=dim)
    (M,) = random_matrices(1, dim=dim)
    vector = np.linspace(-1.0, 2.0, dim)
    dirty = layout.pack(M).reshape(layout.side, layout.side)
    dirty[dim:] = 0.5  # rows that only pad
    matrix = keyed.engine.encrypt(dirty.ravel())
    by_column = keyed.engine.encrypt(layout.pack_by_column(vector))
    with measure(keyed) as measured:
        product = multiply_rows(
            keyed.engine, matrix=matrix, vector=by_column, layout=layout, factor=-1.5
        )
    expected = np.zeros((layout.side, layout.side))
    expected[:dim, 0] = -1.5 * M @ vector
    assert_close(keyed, product, expected=expected.ravel())
    assert measured.at(0, product) == row_product_cost(layout)


@pytest.mark.parametrize(("scheme", "dim"), CASES)
def test_a_column_spreads_to_all_columns(scheme: str, dim: int) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=dim)
    vector = np.linspace(-1.0, 1.0, dim)
    column = np.zeros((layout.side, layout.side))
    column[:dim, 0] = vector
    spread = spread_columns(keyed.engine, keyed.engine.encrypt(column.ravel()), layout=layout)
    assert spread.level == 0
    assert_close(keyed, spread, expected=layout.pack_by_row(vector))
