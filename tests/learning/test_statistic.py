"""Statistics of reports: sums of x x^T, r x and r^2 by one product."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.learning.layout import Gram, OuterProduct
from tests.learning.negacyclic import evaluate_long, multiply, read_long, substitute


def compute_sums(layout, reports):
    [left], [right] = layout.left_places.put(reports), layout.right_places.put(reports)
    return multiply(left, right)[None]


@given(
    ring_dim=st.sampled_from([512, 1024, 8192]),
    data=st.data(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=50, deadline=None)
def test_gram_sums_are_exact_for_every_group_that_fits(ring_dim, data, seed):
    dim = data.draw(st.integers(1, min(64, int(ring_dim**0.5) - 1)), "dim")
    capacity = Gram.capacity(dim, ring_dim=ring_dim)
    reports = data.draw(st.sampled_from([1, capacity, (capacity + 1) // 2]), "reports")
    layout = Gram(ring_dim=ring_dim, dim=dim, reports=reports)
    P = np.random.default_rng(seed).integers(-9, 10, (reports, dim + 1))
    stack, x, r = compute_sums(layout, P), P[:, :-1], P[:, -1]
    np.testing.assert_array_equal(layout.sum_places.take(stack), P.T @ P)
    np.testing.assert_array_equal(layout.context_places.take(stack), x.T @ x)
    np.testing.assert_array_equal(layout.reward_places.take(stack), r @ x)
    assert layout.square_places.take(stack) == r @ r


@pytest.mark.parametrize(
    ("dim", "capacity"), [(2, 910), (5, 227), (8, 101), (16, 28), (32, 7), (64, 1)]
)
def test_gram_capacity_at_the_ring_of_the_service(dim, capacity):
    assert Gram.capacity(dim, ring_dim=8192) == capacity
    with pytest.raises(InvalidInput, match=f"reports must be at most {capacity}"):
        Gram(ring_dim=8192, dim=dim, reports=capacity + 1)


def test_groups_add_up_even_if_one_is_not_full():
    layout = Gram(ring_dim=1024, dim=4, reports=40)
    P = np.random.default_rng(5).integers(-9, 10, (57, 5))
    last = np.zeros((40, 5), np.int64)
    last[:17] = P[40:]
    stack = compute_sums(layout, P[:40]) + compute_sums(layout, last)
    np.testing.assert_array_equal(layout.sum_places.take(stack), P.T @ P)


@pytest.mark.parametrize("dim", [2, 5, 8])
def test_one_report_more_than_fits_would_corrupt_a_sum(dim):
    ring_dim, width = 512, dim + 1
    n = Gram.capacity(dim, ring_dim=ring_dim) + 1
    P = np.random.default_rng(dim).integers(1, 10, (n, width))
    j, i = np.indices((n, width))
    left = evaluate_long(i * n * width + n - 1 - j, P, ring_dim)
    right = evaluate_long(i * n + j, P, ring_dim)
    i, k = np.indices((width, width))
    sums = read_long(multiply(left, right), i * n * width + k * n + n - 1)
    assert sums[0, 0] < (P.T @ P)[0, 0]


@pytest.mark.parametrize("dim", [2, 8])
def test_gram_counts_are_the_coefficients_that_become_nonzero(dim):
    layout = Gram(ring_dim=1024, dim=dim, reports=7)
    P = np.ones((7, dim + 1), np.int64)
    assert layout.left_places.count == layout.right_places.count == 7 * (dim + 1)
    assert layout.product_count == np.count_nonzero(compute_sums(layout, P))


def compute_outer(layout, report):
    [p] = layout.report_places.put(report)
    image = substitute(p, layout.step)
    np.testing.assert_array_equal(image, layout.image_places.put(report)[0])
    return multiply(p, image)[None]


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
    np.testing.assert_array_equal(stack, layout.sum_places.put(np.outer(p, p)))
    np.testing.assert_array_equal(layout.context_places.take(stack), np.outer(p[:-1], p[:-1]))
    np.testing.assert_array_equal(layout.reward_places.take(stack), p[-1] * p[:-1])
    assert layout.square_places.take(stack) == p[-1] ** 2
    assert layout.product_count == np.count_nonzero(stack) == (dim + 1) ** 2
    assert layout.report_places.count == layout.image_places.count == dim + 1


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


@pytest.mark.parametrize("layout", [OuterProduct, Gram.capacity])
@pytest.mark.parametrize("dim", [0, -1, 1.5, 91])
def test_wrong_dimensions_are_refused(layout, dim):
    with pytest.raises(InvalidInput, match="dim must be"):
        layout(dim=dim, ring_dim=8192)
