"""Statistics of reports: sums of x x^T, r x and r^2 by one product."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.learning.layout import MatrixProduct, OuterProduct
from tests.learning.negacyclic import evaluate_long, multiply, put, read_long, substitute, take


def compute_sums(layout, reports):
    [left], [right] = put(layout.row_places, reports.T), put(layout.column_places, reports)
    return multiply(left, right)[None]


@given(
    ring_dim=st.sampled_from([512, 1024, 8192]),
    data=st.data(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=50, deadline=None)
def test_gram_sums_are_exact_for_every_group_that_fits(ring_dim, data, seed):
    dim = data.draw(st.integers(1, min(64, int(ring_dim**0.5) - 1)), "dim")
    capacity = ring_dim // (dim + 1) ** 2
    reports = data.draw(st.sampled_from([1, capacity, (capacity + 1) // 2]), "reports")
    layout = MatrixProduct.gram(dim, reports=reports, ring_dim=ring_dim)
    P = np.random.default_rng(seed).integers(-9, 10, (reports, dim + 1))
    stack = compute_sums(layout, P)
    np.testing.assert_array_equal(take(layout.result_places, stack), P.T @ P)


@pytest.mark.parametrize(
    ("dim", "capacity"), [(2, 910), (5, 227), (8, 101), (16, 28), (32, 7), (64, 1)]
)
def test_gram_capacity_at_the_ring_of_the_service(dim, capacity):
    MatrixProduct.gram(dim, reports=capacity, ring_dim=8192)
    with pytest.raises(InvalidInput, match="block must be 1 to ring_dim = 8192 in product"):
        MatrixProduct.gram(dim, reports=capacity + 1, ring_dim=8192)


def test_groups_add_up_even_if_one_is_not_full():
    layout = MatrixProduct.gram(4, reports=40, ring_dim=1024)
    P = np.random.default_rng(5).integers(-9, 10, (57, 5))
    last = np.zeros((40, 5), np.int64)
    last[:17] = P[40:]
    stack = compute_sums(layout, P[:40]) + compute_sums(layout, last)
    np.testing.assert_array_equal(take(layout.result_places, stack), P.T @ P)


@pytest.mark.parametrize("dim", [2, 5, 8])
def test_one_report_more_than_fits_would_corrupt_a_sum(dim):
    ring_dim, width = 512, dim + 1
    n = ring_dim // width**2 + 1
    P = np.random.default_rng(dim).integers(1, 10, (n, width))
    j, i = np.indices((n, width))
    left = evaluate_long(i * n * width + n - 1 - j, P, ring_dim)
    right = evaluate_long(i * n + j, P, ring_dim)
    i, k = np.indices((width, width))
    sums = read_long(multiply(left, right), i * n * width + k * n + n - 1)
    assert sums[0, 0] < (P.T @ P)[0, 0]


def compute_outer(layout, report):
    [p] = put(layout.report_places, report)
    return multiply(p, substitute(p, layout.step))[None]


def largest_dim(ring_dim):
    fitting = []
    for dim in range(1, 100):
        try:
            OuterProduct(ring_dim=ring_dim, dim=dim)
        except InvalidInput:
            continue
        fitting.append(dim)
    assert fitting == list(range(1, len(fitting) + 1))
    return len(fitting)


@pytest.mark.parametrize("dim", [*range(1, 33), 40, 47, 48, 57, 63, 64, 88])
def test_outer_product_is_exact_and_all_other_coefficients_are_zero(dim):
    layout = OuterProduct(ring_dim=8192, dim=dim)
    p = np.random.default_rng(dim).integers(1, 10, dim + 1)
    stack = compute_outer(layout, p)
    np.testing.assert_array_equal(stack, put(layout.sum_places, np.outer(p, p)))


@pytest.mark.parametrize("ring_dim", [512, 1024, 8192])
def test_step_is_the_least_one_that_fits(ring_dim):
    for dim in range(1, largest_dim(ring_dim) + 1):
        layout = OuterProduct(ring_dim=ring_dim, dim=dim)
        assert layout.step == next(s for s in range(dim + 1, 9999) if s % 4 == 1)


@pytest.mark.parametrize(("ring_dim", "most"), [(512, 20), (1024, 30), (8192, 88)])
def test_one_dimension_more_than_fits_would_corrupt_an_outer_product(ring_dim, most):
    assert largest_dim(ring_dim) == most
    with pytest.raises(InvalidInput, match=f"ring_dim = {ring_dim}, got {most + 1}"):
        OuterProduct(ring_dim=ring_dim, dim=most + 1)
    step = next(s for s in range(most + 2, 9999) if s % 4 == 1)
    p = np.arange(1, most + 3)
    a = evaluate_long(np.arange(most + 2), p, ring_dim)
    i, j = np.indices((most + 2, most + 2))
    products = read_long(multiply(a, substitute(a, step)), i + step * j)
    assert not np.array_equal(products, np.outer(p, p))
