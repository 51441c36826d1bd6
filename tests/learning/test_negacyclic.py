"""The oracle of this folder agrees with the definition."""

import numpy as np
import pytest

from tests.learning.negacyclic import evaluate_long, fold, multiply, read_long, substitute


def test_multiply_is_the_convolution_with_a_minus_sign_where_it_wraps():
    rng = np.random.default_rng(1)
    a, b = rng.integers(-9, 10, (2, 16))
    expected = np.zeros(16, np.int64)
    for i in range(16):
        for j in range(16):
            expected[(i + j) % 16] += (1 if i + j < 16 else -1) * a[i] * b[j]
    np.testing.assert_array_equal(multiply(a, b), expected)


@pytest.mark.parametrize("ring_dim", [512, 1024, 8192])
def test_multiply_equals_integer_convolution_in_full_rings(ring_dim):
    a, b = np.random.default_rng(ring_dim).integers(-9, 10, (2, ring_dim))
    np.testing.assert_array_equal(multiply(a, b), fold(np.convolve(a, b), ring_dim))


def test_substitute_is_a_homomorphism():
    a, b = np.random.default_rng(2).integers(-9, 10, (2, 64))
    product = multiply(substitute(a, 5), substitute(b, 5))
    np.testing.assert_array_equal(substitute(multiply(a, b), 5), product)


def test_places_beyond_the_ring_carry_the_sign_of_the_wrap():
    places, values = np.array([1, 9, 16]), np.array([2, 5, 7])
    polynomial = evaluate_long(places, values, 8)
    np.testing.assert_array_equal(polynomial, [7, -3, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(read_long(polynomial, np.array([0, 8, 9])), [7, -7, 3])
