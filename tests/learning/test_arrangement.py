"""Arrangements: distinct places in a stack of polynomials."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.learning.layout import Arrangement


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 6)),
    polynomials=st.integers(1, 4),
    lead=st.sampled_from([(), (2,), (3, 2)]),
)
@settings(deadline=None)
def test_take_returns_what_put_placed(seed, shape, polynomials, lead):
    rng = np.random.default_rng(seed)
    places = rng.permutation(32 * polynomials)[: shape[0] * shape[1]].reshape(shape)
    arrangement = Arrangement(places, ring_dim=32, polynomials=polynomials)
    values = rng.integers(1, 100, (*lead, *shape))
    stack = arrangement.put(values)
    assert stack.shape == (*lead, polynomials, 32)
    assert stack.dtype == values.dtype
    assert np.count_nonzero(stack) == values.size
    np.testing.assert_array_equal(arrangement.take(stack), values)
    first = (0,) * len(lead)
    np.testing.assert_array_equal(arrangement.transposed.take(stack[first]), values[first].T)
    single = arrangement.put(np.ones(shape))
    assert arrangement.count == np.count_nonzero(single, axis=1).max()
    assert arrangement.occupied == tuple(np.flatnonzero(single.any(axis=1)))


def test_part_of_an_arrangement_stands_in_the_same_stack():
    whole = Arrangement(np.arange(12).reshape(3, 4) * 5, ring_dim=16, polynomials=4)
    part = whole[1:, 2]
    assert part.shape == (2,)
    assert part.polynomials == 4
    values = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(part.take(whole.put(values)), values[1:, 2])


def test_a_single_number_has_an_arrangement():
    number = Arrangement(np.arange(4), ring_dim=8)[3]
    assert number.shape == ()
    assert number.put(7).tolist() == [[0, 0, 0, 7, 0, 0, 0, 0]]
    assert number.take(number.put(7)) == 7


def test_norm_of_a_full_arrangement_meets_its_bound():
    arrangement = Arrangement(np.array([3, 5, 6, 17]), ring_dim=16, polynomials=2)
    stack = arrangement.put(np.full(4, -2.0))
    assert np.linalg.norm(stack, axis=1).max() == pytest.approx(2.0 * np.sqrt(arrangement.count))


def test_places_cannot_be_changed():
    source = np.arange(4)
    arrangement = Arrangement(source, ring_dim=8)
    source[0] = 7
    assert arrangement.places[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        arrangement.places[0] = 7


def test_repr_is_one_short_line():
    assert repr(Arrangement(np.arange(4), ring_dim=8)) == (
        "Arrangement(shape=(4,), ring_dim=8, polynomials=1, count=4)"
    )


@pytest.mark.parametrize(
    ("places", "stack", "message"),
    [
        ([0, 8], {"ring_dim": 8}, "places must be at least 0 and below 8, got 0 to 8"),
        ([0, 16], {"ring_dim": 8, "polynomials": 2}, "below 16, got 0 to 16"),
        ([-1, 2], {"ring_dim": 8}, "below 8, got -1 to 2"),
        ([1, 2, 1], {"ring_dim": 8}, "places must be distinct, got place 1 twice"),
        ([0.5], {"ring_dim": 8}, "places must be whole numbers, got numbers of type float64"),
        ([True], {"ring_dim": 8}, "places must be whole numbers, got numbers of type bool"),
        (np.zeros(0, int), {"ring_dim": 8}, "places must be at least one place"),
        ([0], {"ring_dim": 12}, "ring_dim must be a power of two, got 12"),
        ([0], {"ring_dim": 2}, "ring_dim must be at least 4, got 2"),
        ([0], {"ring_dim": 8, "polynomials": 0}, "polynomials must be at least 1, got 0"),
    ],
)
def test_wrong_places_are_refused(places, stack, message):
    with pytest.raises(InvalidInput) as caught:
        Arrangement(np.array(places), **stack)
    assert message in str(caught.value)


def test_wrong_shapes_are_refused():
    arrangement = Arrangement(np.arange(6).reshape(2, 3), ring_dim=8)
    for values in (np.zeros((3, 2)), np.zeros(3), 1.0):
        with pytest.raises(InvalidInput, match="values must be of shape"):
            arrangement.put(values)
    for stack in (np.zeros(8), np.zeros((2, 8)), np.zeros((1, 16))):
        with pytest.raises(InvalidInput, match="stack must be of shape"):
            arrangement.take(stack)
