"""Arrangements: distinct places in a stack of polynomials."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.learning.layout import Arrangement
from tests.learning.negacyclic import put, take


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 6)),
    polynomials=st.integers(1, 4),
)
@settings(deadline=None)
def test_parts_are_what_stands_in_each_polynomial(seed, shape, polynomials):
    rng = np.random.default_rng(seed)
    places = rng.permutation(32 * polynomials)[: shape[0] * shape[1]].reshape(shape)
    arrangement = Arrangement(places, ring_dim=32, polynomials=polynomials)
    values = rng.integers(1, 100, shape)
    stack = put(arrangement, values)
    np.testing.assert_array_equal(take(arrangement.transposed, stack), values.T)
    assert list(arrangement.parts) == np.flatnonzero(stack.any(axis=1)).tolist()
    for number, (coefficients, index) in arrangement.parts.items():
        np.testing.assert_array_equal(stack[number, coefficients], np.ravel(values)[index])
        assert np.count_nonzero(stack[number]) == len(index)


def test_part_of_an_arrangement_stands_in_the_same_stack():
    whole = Arrangement(np.arange(12).reshape(3, 4) * 5, ring_dim=16, polynomials=4)
    part = whole[1:, 2]
    assert part.shape == (2,)
    assert part.polynomials == 4
    values = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(take(part, put(whole, values)), values[1:, 2])


def test_a_single_number_has_an_arrangement():
    number = Arrangement(np.arange(4), ring_dim=8)[3]
    assert number.shape == ()
    assert put(number, 7).tolist() == [[0, 0, 0, 7, 0, 0, 0, 0]]
    assert take(number, put(number, 7)) == 7


def test_places_cannot_be_changed():
    source = np.arange(4)
    arrangement = Arrangement(source, ring_dim=8)
    source[0] = 7
    assert arrangement.places[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        arrangement.places[0] = 7


@pytest.mark.parametrize(
    ("places", "stack", "message"),
    [
        ([0, 8], {"ring_dim": 8}, "places must be at least 0 and below 8, got 0 to 8"),
        ([0, 16], {"ring_dim": 8, "polynomials": 2}, "below 16, got 0 to 16"),
        ([-1, 2], {"ring_dim": 8}, "below 8, got -1 to 2"),
        ([1, 2, 1], {"ring_dim": 8}, "places must be distinct, got place 1 twice"),
    ],
)
def test_wrong_places_are_refused(places, stack, message):
    with pytest.raises(InvalidInput) as caught:
        Arrangement(np.array(places), **stack)
    assert message in str(caught.value)
