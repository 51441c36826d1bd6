"""Moves: shares go from one arrangement to another, block by block."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.learning.exchange import Exchange, Target
from helba.learning.layout import (
    Arrangement,
    InnerProducts,
    MatrixProduct,
    OuterProduct,
    symmetrising_moves,
)
from helba.ring import Move
from tests.learning.negacyclic import multiply, put, substitute, take


def multiply_stacks(layout, rows, columns):
    stack = [sum(multiply(rows[i], columns[j]) for i, j in pairs) for pairs in layout.terms]
    return np.stack(stack)


def move(source, *, target, factor=1.0):
    return Move(source.places, target.places, factor=factor)


def rearrange(stack, *moves, polynomials=1):
    """Apply moves as a reopening does, one polynomial after the other."""
    target = Target(name="all", moves=moves, scale=1.0)
    [parts] = Exchange(ring_dim=stack.shape[1], targets=(target,)).rearrangements
    found = np.zeros((polynomials, stack.shape[1]), dtype=object)
    for number, rearrangement in parts.items():
        for part in rearrangement.moves:
            found[number, part.target] += stack.reshape(-1)[part.source] * part.factor
    return found


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
    stack = rng.integers(1, 100, (polynomials[0], 16))
    moved = rearrange(stack, move(source, target=target), polynomials=polynomials[1])
    np.testing.assert_array_equal(take(target, moved), take(source, stack))
    assert np.count_nonzero(moved) == size


@pytest.mark.parametrize(("dim", "ring_dim"), [(2, 512), (8, 512), (11, 1024), (20, 8192)])
def test_results_of_a_step_become_rows_and_columns_of_the_next(dim, ring_dim):
    layout = MatrixProduct.fitting((2 * dim, dim, dim), ring_dim=ring_dim)
    rng = np.random.default_rng(dim)
    stacked, factor = rng.integers(-2, 3, (2 * dim, dim)), rng.integers(-2, 3, (dim, dim))
    product = multiply_stacks(
        layout, put(layout.row_places, stacked), put(layout.column_places, factor)
    )
    rows, columns = (
        rearrange(product, move(source, target=target), polynomials=target.polynomials)
        for source, target in (
            (layout.result_places, layout.row_places),
            (layout.result_places[dim:], layout.column_places),
        )
    )
    rows, columns = rows.astype(np.int64), columns.astype(np.int64)
    X, M = stacked[:dim] @ factor, stacked[dim:] @ factor
    again = take(layout.result_places, multiply_stacks(layout, rows, columns))
    np.testing.assert_array_equal(again, np.vstack([X @ M, M @ M]))


@pytest.mark.parametrize("statistic", ["gram", "outer"])
def test_sums_become_rows_and_a_column_of_an_update(statistic):
    dim, ring_dim = 6, 1024
    p = np.random.default_rng(1).integers(-9, 10, dim + 1)
    if statistic == "gram":
        gram = MatrixProduct.gram(dim, reports=20, ring_dim=ring_dim)
        reports = np.zeros((20, dim + 1), np.int64)
        reports[3] = p
        sums = multiply(put(gram.row_places, reports.T)[0], put(gram.column_places, reports)[0])
        places = gram.result_places
    else:
        outer = OuterProduct(ring_dim=ring_dim, dim=dim)
        [report] = put(outer.report_places, p)
        sums, places = multiply(report, substitute(report, outer.step)), outer.sum_places
    update = MatrixProduct.fitting((2 * dim, dim, dim), ring_dim=ring_dim)
    rows = rearrange(sums[None], move(places[:dim, :dim], target=update.row_places[:dim])).astype(
        np.int64
    )
    column = rearrange(
        sums[None], move(places[:dim, dim], target=update.column_places[:, 0])
    ).astype(np.int64)
    results = take(update.result_places[:dim, 0], multiply(rows[0], column[0])[None])
    x, r = p[:-1], p[-1]
    np.testing.assert_array_equal(results, x * (x @ x) * r)


def test_an_inverse_becomes_a_model_and_a_test():
    dim, ring_dim = 5, 1024
    product = MatrixProduct.fitting((dim, dim, dim), ring_dim=ring_dim)
    A = np.random.default_rng(2).integers(-9, 10, (dim, dim))
    A += A.T
    scores = InnerProducts(ring_dim=ring_dim, features=dim + dim * (dim + 1) // 2, arms=3)
    upper = np.triu_indices(dim)
    stack = put(product.result_places, A)
    model = rearrange(
        stack, move(product.result_places[upper], target=scores.model_places[dim:])
    ).astype(np.int64)
    np.testing.assert_array_equal(model[0, : scores.features], [*[0] * dim, *A[upper]])
    tested = OuterProduct(ring_dim=ring_dim, dim=dim).sum_places[:dim, :dim].transposed.mirrored
    tester = rearrange(stack, move(product.result_places, target=tested)).astype(np.int64)
    np.testing.assert_array_equal(take(tested, tester), A)


@given(dim=st.integers(1, 20), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_symmetrised_matrix_is_the_mean_with_its_transpose(dim, seed):
    layout = MatrixProduct.fitting((2 * dim, dim, dim), ring_dim=512)
    B = np.random.default_rng(seed).integers(-99, 100, (dim, dim))
    stack = put(layout.result_places[:dim], B)
    moves = symmetrising_moves(layout.result_places[:dim], target=layout.column_places)
    found = rearrange(stack, *moves, polynomials=layout.column_places.polynomials)
    np.testing.assert_array_equal(take(layout.column_places, found).astype(float), (B + B.T) / 2)


def test_moves_of_two_parts_add_up():
    whole = Arrangement(np.arange(8), ring_dim=16)
    forth = move(whole[:4], target=whole[4:])
    back = move(whole[4:], target=whole[:4], factor=-2.0)
    moved = rearrange(np.arange(16)[None], forth, back)
    assert moved[0, :8].tolist() == [-8, -10, -12, -14, 0, 1, 2, 3]


def test_wrong_moves_are_refused():
    line = Arrangement(np.arange(6), ring_dim=16)
    with pytest.raises(InvalidInput, match=r"target must be of shape \(6,\)"):
        move(line, target=line[:5])
    for factor in (0.0, np.inf, np.nan):
        with pytest.raises(InvalidInput, match="factor must be finite and other than 0"):
            move(line, target=line, factor=factor)
    wide = Arrangement(np.arange(6).reshape(2, 3), ring_dim=16)
    with pytest.raises(InvalidInput, match=r"target must be of shape \(3, 2\)"):
        symmetrising_moves(wide, target=wide)
