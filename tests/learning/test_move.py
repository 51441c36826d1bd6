"""Moves: shares go from one arrangement to another, block by block."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.learning.layout import (
    Arrangement,
    Gram,
    InnerProducts,
    MatrixProduct,
    OuterProduct,
    Trace,
    count_quadratic_features,
    moves_between,
    symmetrising_moves,
)
from tests.learning.negacyclic import multiply


def multiply_stacks(layout, rows, columns):
    stack = [sum(multiply(rows[i], columns[j]) for i, j in pairs) for pairs in layout.terms]
    return np.stack(stack)


def rearrange(stack, moves, *, polynomials=1):
    """Apply moves one block at a time, as reopenings of joined shares do."""
    target = np.zeros((polynomials, stack.shape[1]), dtype=object)
    for block in moves:
        taken = stack.reshape(-1)[block.move.source]
        target[block.target_polynomial, block.move.target] += taken * block.move.factor
    return target


@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 60),
    polynomials=st.tuples(st.integers(1, 4), st.integers(1, 4)),
)
@settings(deadline=None)
def test_blocks_of_a_move_make_the_move(seed, size, polynomials):
    rng = np.random.default_rng(seed)
    size = min(size, 16 * min(polynomials))
    source, target = (
        Arrangement(rng.permutation(16 * n)[:size], ring_dim=16, polynomials=n) for n in polynomials
    )
    moves = moves_between(source, target=target)
    stack = rng.integers(1, 100, (polynomials[0], 16))
    moved = rearrange(stack, moves, polynomials=polynomials[1])
    np.testing.assert_array_equal(target.take(moved), source.take(stack))
    assert np.count_nonzero(moved) == size
    assert [block.target_polynomial for block in moves] == sorted(target.occupied)


@pytest.mark.parametrize(("dim", "ring_dim"), [(2, 512), (8, 512), (11, 1024), (20, 8192)])
def test_results_of_a_step_become_rows_and_columns_of_the_next(dim, ring_dim):
    layout = MatrixProduct.fitting((2 * dim, dim, dim), ring_dim=ring_dim)
    rng = np.random.default_rng(dim)
    stacked, factor = rng.integers(-2, 3, (2 * dim, dim)), rng.integers(-2, 3, (dim, dim))
    product = multiply_stacks(
        layout, layout.row_places.put(stacked), layout.column_places.put(factor)
    )
    rows, columns = (
        rearrange(product, moves_between(source, target=target), polynomials=target.polynomials)
        for source, target in (
            (layout.result_places, layout.row_places),
            (layout.result_places[dim:], layout.column_places),
        )
    )
    rows, columns = rows.astype(np.int64), columns.astype(np.int64)
    X, M = stacked[:dim] @ factor, stacked[dim:] @ factor
    again = layout.result_places.take(multiply_stacks(layout, rows, columns))
    np.testing.assert_array_equal(again, np.vstack([X @ M, M @ M]))


@pytest.mark.parametrize("statistic", ["gram", "outer"])
def test_sums_become_rows_and_a_column_of_an_update(statistic):
    dim, ring_dim = 6, 1024
    p = np.random.default_rng(1).integers(-9, 10, dim + 1)
    if statistic == "gram":
        layout = Gram(ring_dim=ring_dim, dim=dim, reports=20)
        reports = np.zeros((20, dim + 1), np.int64)
        reports[3] = p
        sums = multiply(layout.left_places.put(reports)[0], layout.right_places.put(reports)[0])
    else:
        layout = OuterProduct(ring_dim=ring_dim, dim=dim)
        sums = multiply(layout.report_places.put(p)[0], layout.image_places.put(p)[0])
    update = MatrixProduct.fitting((2 * dim, dim, dim), ring_dim=ring_dim)
    rows = rearrange(
        sums[None], moves_between(layout.context_places, target=update.row_places[:dim])
    ).astype(np.int64)
    column = rearrange(
        sums[None], moves_between(layout.reward_places, target=update.column_places[:, 0])
    ).astype(np.int64)
    results = update.result_places[:dim, 0].take(multiply(rows[0], column[0])[None])
    x, r = p[:-1], p[-1]
    np.testing.assert_array_equal(results, x * (x @ x) * r)


def test_an_inverse_becomes_a_model_and_a_test():
    dim, ring_dim = 5, 1024
    product = MatrixProduct.fitting((dim, dim, dim), ring_dim=ring_dim)
    A = np.random.default_rng(2).integers(-9, 10, (dim, dim))
    A += A.T
    scores = InnerProducts(ring_dim=ring_dim, features=count_quadratic_features(dim), arms=3)
    upper = np.triu_indices(dim)
    stack = product.result_places.put(A)
    model = rearrange(
        stack, moves_between(product.result_places[upper], target=scores.model_places[dim:])
    ).astype(np.int64)
    np.testing.assert_array_equal(model[0, : scores.features], [*[0] * dim, *A[upper]])
    trace = Trace(OuterProduct(ring_dim=ring_dim, dim=dim).context_places)
    tester = rearrange(
        stack, moves_between(product.result_places, target=trace.right_places)
    ).astype(np.int64)
    np.testing.assert_array_equal(trace.right_places.take(tester), A)


@given(dim=st.integers(1, 20), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_symmetrised_matrix_is_the_mean_with_its_transpose(dim, seed):
    layout = MatrixProduct.fitting((2 * dim, dim, dim), ring_dim=512)
    B = np.random.default_rng(seed).integers(-99, 100, (dim, dim))
    stack = layout.result_places[:dim].put(B)
    moves = symmetrising_moves(layout.result_places[:dim], target=layout.column_places)
    found = rearrange(stack, moves, polynomials=layout.column_places.polynomials)
    np.testing.assert_array_equal(layout.column_places.take(found).astype(float), (B + B.T) / 2)


def test_moves_of_two_parts_add_up():
    whole = Arrangement(np.arange(8), ring_dim=16)
    moves = moves_between(whole[:4], target=whole[4:])
    moves += moves_between(whole[4:], target=whole[:4], factor=-2.0)
    moved = rearrange(np.arange(16)[None], moves)
    assert moved[0, :8].tolist() == [-8, -10, -12, -14, 0, 1, 2, 3]


def test_wrong_moves_are_refused():
    line = Arrangement(np.arange(6), ring_dim=16)
    with pytest.raises(InvalidInput, match=r"target must be of the source's shape \(6,\)"):
        moves_between(line, target=line[:5])
    with pytest.raises(InvalidInput, match="target must be in the source's ring, 16"):
        moves_between(line, target=Arrangement(np.arange(6), ring_dim=32))
    for factor in (0.0, np.inf, np.nan):
        with pytest.raises(InvalidInput, match="factor must be finite and other than 0"):
            moves_between(line, target=line, factor=factor)
    with pytest.raises(InvalidInput, match="source must be of a square matrix"):
        symmetrising_moves(line, target=line)
