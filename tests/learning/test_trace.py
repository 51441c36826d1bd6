"""Traces: one coefficient, which nothing else reaches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.learning.layout import Arrangement, Gram, MatrixProduct, OuterProduct, Trace
from tests.learning.negacyclic import multiply

DIMS = [*range(1, 33), 40, 48, 57, 63, 64]


def compute_trace(layout, left, A):
    """Multiply a stack, in which S stands among anything else, by A."""
    right = layout.right_places.put(A)
    total = sum(multiply(a, b) for a, b in zip(left, right, strict=True))
    return layout.trace_places.take(total[None])


def draw_stack(places, S, rng):
    """Put S at its places and random numbers into all other coefficients."""
    stack = rng.integers(-9, 10, (places.polynomials, places.ring_dim))
    stack.reshape(-1)[places.places] = S
    return stack


def check_trace(layout, seed):
    rng = np.random.default_rng(seed)
    S, A = rng.integers(-9, 10, (2, *layout.left_places.shape))
    stack = draw_stack(layout.left_places, S, rng)
    assert compute_trace(layout, stack, A) == np.trace(S @ A)


@pytest.mark.parametrize("dim", DIMS)
def test_trace_over_an_outer_product_ignores_all_other_coefficients(dim):
    check_trace(Trace(OuterProduct(ring_dim=8192, dim=dim).context_places), dim)


@pytest.mark.parametrize("dim", DIMS)
def test_trace_over_a_full_gram_ignores_products_of_different_reports(dim):
    gram = Gram(ring_dim=8192, dim=dim, reports=Gram.capacity(dim, ring_dim=8192))
    rng = np.random.default_rng(dim)
    P, A = rng.integers(-3, 4, (gram.reports, dim + 1)), rng.integers(-9, 10, (dim, dim))
    sums = multiply(gram.left_places.put(P)[0], gram.right_places.put(P)[0])
    layout = Trace(gram.context_places)
    assert compute_trace(layout, sums[None], A) == np.trace(P[:, :-1].T @ P[:, :-1] @ A)
    check_trace(layout, dim)


@pytest.mark.parametrize("dim", DIMS)
def test_trace_of_a_square_takes_one_matrix_in_two_arrangements(dim):
    layout = Trace.dense(dim, ring_dim=8192)
    R = np.random.default_rng(dim).integers(-9, 10, (dim, dim))
    assert compute_trace(layout, layout.left_places.put(R), R) == np.trace(R @ R)
    check_trace(layout, dim)


@given(ring_dim=st.sampled_from([512, 1024]), data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_trace_holds_for_any_places_in_any_number_of_polynomials(ring_dim, data, seed):
    dim = data.draw(st.integers(1, 20), "dim")
    polynomials = data.draw(st.integers(1, 3), "polynomials")
    rng = np.random.default_rng(seed)
    places = rng.permutation(ring_dim * polynomials)[: dim * dim].reshape(dim, dim)
    check_trace(Trace(Arrangement(places, ring_dim=ring_dim, polynomials=polynomials)), seed)


def test_trace_reads_the_results_of_a_product_in_blocks():
    product = MatrixProduct.fitting((20, 20, 20), ring_dim=512)
    assert product.result_places.polynomials > 1
    check_trace(Trace(product.result_places), 3)


def test_places_are_those_of_the_formula():
    outer = OuterProduct(ring_dim=512, dim=6)
    i, j = np.indices((6, 6))
    symmetric = Trace(outer.context_places).right_places.places.T
    np.testing.assert_array_equal(symmetric, 511 - (i + outer.step * j))
    dense = Trace.dense(6, ring_dim=512)
    np.testing.assert_array_equal(dense.left_places.places, i * 6 + j)
    np.testing.assert_array_equal(dense.right_places.places.T, 511 - (i * 6 + j))
    assert dense.trace_places.places == 511
    assert dense.left_places.count == dense.right_places.count == 36
    assert dense.product_count == 512


def test_a_full_ring_has_a_trace():
    layout = Trace.dense(32, ring_dim=1024)
    assert layout.left_places.count == 1024
    check_trace(layout, 11)


def test_other_coefficients_of_the_right_operand_must_be_zero():
    layout = Trace.dense(4, ring_dim=512)
    rng = np.random.default_rng(6)
    S, A = rng.integers(1, 10, (2, 4, 4))
    [left], [right] = draw_stack(layout.left_places, S, rng), layout.right_places.put(A)
    free = np.flatnonzero(right == 0)
    right[free] = left[511 - free]  # adds squares, so the trace can only grow
    assert multiply(left, right)[511] > np.trace(S @ A)


def test_matrices_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInput, match=r"dim must be such that dim\^2 <= ring_dim = 512"):
        Trace.dense(23, ring_dim=512)
    for shape in ((12,), (3, 4)):
        with pytest.raises(InvalidInput, match="left_places must be of a square matrix"):
            Trace(Arrangement(np.arange(12).reshape(shape), ring_dim=512))
