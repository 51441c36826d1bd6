"""Products of matrices: every entry is exact, in one block or in many."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.learning.layout import MatrixProduct
from tests.learning.negacyclic import evaluate_long, multiply, put, read_long, take


def compute_product(layout, a, b):
    rows, columns = put(layout.row_places, a), put(layout.column_places, b)
    stack = [sum(multiply(rows[i], columns[j]) for i, j in pairs) for pairs in layout.terms]
    return take(layout.result_places, np.stack(stack))


def draw(shape, seed):
    m, n, q = shape
    rng = np.random.default_rng(seed)
    return rng.integers(-9, 10, (m, n)), rng.integers(-9, 10, (n, q))


def count_polynomials(layout):
    parts = layout.row_places, layout.column_places, layout.result_places
    return tuple(part.polynomials for part in parts)


@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40)),
    ring_dim=st.sampled_from([512, 1024, 8192]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=150, deadline=None)
def test_fitting_product_is_exact_whatever_the_shape(shape, ring_dim, seed):
    layout = MatrixProduct.fitting(shape, ring_dim=ring_dim)
    a, b = draw(shape, seed)
    np.testing.assert_array_equal(compute_product(layout, a, b), a @ b)


@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_product_is_exact_in_all_blocks_that_fit(data, seed):
    shape = data.draw(st.tuples(*[st.integers(1, 24)] * 3), "shape")
    rows = data.draw(st.integers(1, shape[0]), "rows")
    inner = data.draw(st.integers(1, min(shape[1], 512 // rows)), "inner")
    columns = data.draw(st.integers(1, min(shape[2], 512 // (rows * inner))), "columns")
    layout = MatrixProduct(ring_dim=512, shape=shape, block=(rows, inner, columns))
    a, b = draw(shape, seed)
    np.testing.assert_array_equal(compute_product(layout, a, b), a @ b)


@pytest.mark.parametrize("dim", [*range(1, 33), 41, 48, 50, 63, 64])
def test_stack_of_an_update_is_exact(dim):
    layout = MatrixProduct.fitting((2 * dim, dim, dim), ring_dim=8192)
    a, b = draw(layout.shape, dim)
    np.testing.assert_array_equal(compute_product(layout, a, b), a @ b)
    rows_alone = -(-2 * dim // (8192 // dim**2))
    assert layout.products + sum(count_polynomials(layout)) <= 3 * rows_alone + 1


@pytest.mark.parametrize("dim", [1, 2, 8, 16, 32, 64])
def test_matrix_times_vector_is_one_product(dim):
    layout = MatrixProduct.fitting((dim, dim, 1), ring_dim=8192)
    assert layout.products == 1
    a, b = draw(layout.shape, dim)
    np.testing.assert_array_equal(compute_product(layout, a, b), a @ b)


def test_rows_of_a_stack_multiply_a_single_column_too():
    layout = MatrixProduct.fitting((16, 8, 8), ring_dim=1024)
    a, b = draw((16, 8, 1), 7)
    [rows], [column] = put(layout.row_places, a), put(layout.column_places[:, :1], b)
    result = take(layout.result_places[:, :1], multiply(rows, column)[None])
    np.testing.assert_array_equal(result, a @ b)


def test_one_block_stands_at_the_places_of_the_formula():
    m, n, q = 7, 5, 3
    layout = MatrixProduct.fitting((m, n, q), ring_dim=512)
    i, j = np.indices((m, n))
    np.testing.assert_array_equal(layout.row_places.places, i * n * q + n - 1 - j)
    j, k = np.indices((n, q))
    np.testing.assert_array_equal(layout.column_places.places, k * n + j)
    i, k = np.indices((m, q))
    np.testing.assert_array_equal(layout.result_places.places, i * n * q + k * n + n - 1)


@given(
    inner=st.integers(1, 32),
    columns=st.integers(2, 32),
    ring_dim=st.sampled_from([512, 1024]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=150, deadline=None)
def test_one_row_more_than_fits_would_corrupt_the_first_result(inner, columns, ring_dim, seed):
    n, q = inner, columns
    m = ring_dim // (n * q) + 1
    rng = np.random.default_rng(seed)
    a, b = rng.integers(1, 10, (m, n)), rng.integers(1, 10, (n, q))
    i, j = np.indices((m, n))
    left = evaluate_long(i * n * q + n - 1 - j, a, ring_dim)
    j, k = np.indices((n, q))
    right = evaluate_long(k * n + j, b, ring_dim)
    i, k = np.indices((m, q))
    results = read_long(multiply(left, right), i * n * q + k * n + n - 1)
    assert results[0, 0] < (a @ b)[0, 0]
    with pytest.raises(InvalidInput, match=f"block must be 1 to ring_dim = {ring_dim}"):
        MatrixProduct(ring_dim=ring_dim, shape=(m, n, q), block=(m, n, q))


def test_one_row_more_corrupts_results_even_where_the_rows_themselves_fit():
    n, q, ring_dim = 6, 7, 512
    m = ring_dim // (n * q) + 1
    i, j = np.indices((m, n))
    places = i * n * q + n - 1 - j
    assert places.max() < ring_dim
    left = evaluate_long(places, np.ones((m, n), np.int64), ring_dim)
    right = evaluate_long(np.arange(n * q), np.ones(n * q, np.int64), ring_dim)
    assert multiply(left, right)[n - 1] < n


@pytest.mark.parametrize(
    ("dim", "grid", "polynomials"),
    [
        (8, (1, 1, 1), (1, 1, 1)),
        (16, (1, 1, 1), (1, 1, 1)),
        (17, (1, 2, 1), (2, 2, 1)),
        (32, (2, 2, 2), (4, 4, 4)),
        (64, (4, 4, 4), (16, 16, 16)),
    ],
)
def test_blocks_of_an_update_at_the_ring_of_the_service(dim, grid, polynomials):
    layout = MatrixProduct.fitting((2 * dim, dim, dim), ring_dim=8192)
    assert layout.grid == grid
    assert layout.products == np.prod(grid)
    assert count_polynomials(layout) == polynomials


def test_blocks_of_rows_alone_keep_the_columns_in_one_polynomial():
    layout = MatrixProduct(ring_dim=8192, shape=(128, 64, 64), block=(2, 64, 64))
    assert count_polynomials(layout) == (64, 1, 64)
    assert layout.products == 64
    assert layout.terms[63] == ((63, 0),)


def test_blocks_of_columns_serve_rows_that_do_not_fit():
    layout = MatrixProduct(ring_dim=512, shape=(3, 30, 40), block=(1, 30, 17))
    assert count_polynomials(layout) == (3, 3, 9)
    a, b = draw(layout.shape, 8)
    np.testing.assert_array_equal(compute_product(layout, a, b), a @ b)


@pytest.mark.parametrize("shape", [(1, 600, 1), (3, 1024, 2), (600, 1, 600)])
def test_fitting_divides_whatever_is_too_long(shape):
    layout = MatrixProduct.fitting(shape, ring_dim=512)
    a, b = draw(shape, 9)
    np.testing.assert_array_equal(compute_product(layout, a, b), a @ b)


@pytest.mark.parametrize("dim", [4, 9, 17, 21])
def test_no_grid_of_blocks_has_less_work_than_the_fitting_one(dim):
    m, n, q = shape = (2 * dim, dim, dim)
    fitting = MatrixProduct.fitting(shape, ring_dim=1024)
    least = min(
        a * b * c + a * b + b * c + a * c
        for a in range(1, m + 1)
        for b in range(1, n + 1)
        for c in range(1, q + 1)
        if -(-m // a) * -(-n // b) * -(-q // c) <= 1024
    )
    assert fitting.products + sum(count_polynomials(fitting)) == least


@pytest.mark.parametrize("block", [(16, 8, 8), (4, 4, 0)])
def test_blocks_that_do_not_fit_are_refused(block):
    with pytest.raises(InvalidInput, match="block must be 1 to ring_dim = 512 in product, got"):
        MatrixProduct(ring_dim=512, shape=(16, 8, 8), block=block)
