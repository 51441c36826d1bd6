"""Inner products and traces: one coefficient, which nothing else reaches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.learning.layout import Arrangement, MatrixProduct, OuterProduct
from tests.learning.negacyclic import multiply, put

DIMS = [*range(1, 33), 40, 48, 57, 63, 64]


def dense(dim, *, ring_dim):
    return Arrangement(np.arange(dim * dim).reshape(dim, dim), ring_dim=ring_dim)


def compute_trace(places, left, A):
    """Multiply a stack, in which S stands at its places among anything else, by A."""
    right = put(places.transposed.mirrored, A)
    total = sum(multiply(a, b) for a, b in zip(left, right, strict=True))
    return total[places.ring_dim - 1]


def draw_stack(places, S, rng):
    """Put S at its places and random numbers into all other coefficients."""
    stack = rng.integers(-9, 10, (places.polynomials, places.ring_dim))
    stack.reshape(-1)[places.places] = S
    return stack


def check_trace(places, seed):
    rng = np.random.default_rng(seed)
    S, A = rng.integers(-9, 10, (2, *places.shape))
    assert compute_trace(places, draw_stack(places, S, rng), A) == np.trace(S @ A)


@pytest.mark.parametrize("dim", DIMS)
def test_trace_over_an_outer_product_ignores_all_other_coefficients(dim):
    check_trace(OuterProduct(ring_dim=8192, dim=dim).sum_places[:dim, :dim], dim)


@pytest.mark.parametrize("dim", DIMS)
def test_trace_over_a_full_gram_ignores_products_of_different_reports(dim):
    count = 8192 // (dim + 1) ** 2
    gram = MatrixProduct.gram(dim, reports=count, ring_dim=8192)
    rng = np.random.default_rng(dim)
    P, A = rng.integers(-3, 4, (count, dim + 1)), rng.integers(-9, 10, (dim, dim))
    sums = multiply(put(gram.row_places, P.T)[0], put(gram.column_places, P)[0])
    layout = gram.result_places[:dim, :dim]
    assert compute_trace(layout, sums[None], A) == np.trace(P[:, :-1].T @ P[:, :-1] @ A)
    check_trace(layout, dim)


@pytest.mark.parametrize("dim", DIMS)
def test_trace_of_a_square_takes_one_matrix_in_two_arrangements(dim):
    layout = dense(dim, ring_dim=8192)
    R = np.random.default_rng(dim).integers(-9, 10, (dim, dim))
    assert compute_trace(layout, put(layout, R), R) == np.trace(R @ R)
    check_trace(layout, dim)


@given(ring_dim=st.sampled_from([512, 1024]), data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_trace_holds_for_any_places_in_any_number_of_polynomials(ring_dim, data, seed):
    dim = data.draw(st.integers(1, 20), "dim")
    polynomials = data.draw(st.integers(1, 3), "polynomials")
    rng = np.random.default_rng(seed)
    places = rng.permutation(ring_dim * polynomials)[: dim * dim].reshape(dim, dim)
    check_trace(Arrangement(places, ring_dim=ring_dim, polynomials=polynomials), seed)


def test_trace_reads_the_results_of_a_product_in_blocks():
    product = MatrixProduct.fitting((20, 20, 20), ring_dim=512)
    assert product.result_places.polynomials > 1
    check_trace(product.result_places, 3)


def test_places_are_those_of_the_formula():
    outer = OuterProduct(ring_dim=512, dim=6)
    i, j = np.indices((6, 6))
    mirrored = outer.sum_places[:6, :6].mirrored.places
    np.testing.assert_array_equal(mirrored, 511 - (i + outer.step * j))
    np.testing.assert_array_equal(dense(6, ring_dim=512).mirrored.places, 511 - (i * 6 + j))


def test_a_full_ring_has_a_trace():
    check_trace(dense(32, ring_dim=1024), 11)


def test_other_coefficients_of_the_right_operand_must_be_zero():
    layout = dense(4, ring_dim=512)
    rng = np.random.default_rng(6)
    S, A = rng.integers(1, 10, (2, 4, 4))
    [left], [right] = draw_stack(layout, S, rng), put(layout.transposed.mirrored, A)
    free = np.flatnonzero(right == 0)
    right[free] = left[511 - free]  # adds squares, so the trace can only grow
    assert multiply(left, right)[511] > np.trace(S @ A)
