"""Inner products: every score is exact, and nothing else reaches its place."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.learning.layout import InnerProducts
from helba.learning.number import Rounding
from tests.learning.negacyclic import evaluate_long, multiply, put, read_long, take

RINGS = (512, 1024, 8192)


def compute_scores(layout, model, features):
    [y] = put(layout.model_places, model)
    products = np.stack([multiply(part, y) for part in put(layout.feature_places, features)])
    return take(layout.score_places, products)


def draw(layout, seed):
    rng = np.random.default_rng(seed)
    model = rng.integers(-9, 10, layout.features)
    return model, rng.integers(-9, 10, layout.feature_places.shape)


@given(
    ring_dim=st.sampled_from(RINGS),
    dim=st.integers(1, 64),
    arms=st.integers(1, 256),
    fill=st.integers(0, 3),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=150, deadline=None)
def test_scores_are_inner_products_whatever_the_sizes(ring_dim, dim, arms, fill, seed):
    features = dim + dim * (dim + 1) // 2
    assume(features <= ring_dim)
    capacity = ring_dim // (arms * features)
    lanes = (1, max(1, capacity), capacity + 1, 2)[fill]
    layout = InnerProducts(ring_dim=ring_dim, features=features, arms=arms, lanes=lanes)
    model, phi = draw(layout, seed)
    np.testing.assert_array_equal(compute_scores(layout, model, phi), phi @ model)


@pytest.mark.parametrize("ring_dim", RINGS)
@pytest.mark.parametrize("features", [1, 2, 3, 5, 44, 128, 255, 256, 257, 511, 512])
def test_scores_are_exact_in_a_full_polynomial(ring_dim, features):
    layout = InnerProducts(ring_dim=ring_dim, features=features, arms=ring_dim // features)
    assert layout.polynomials == layout.capacity == 1
    model, phi = draw(layout, features)
    np.testing.assert_array_equal(compute_scores(layout, model, phi), phi @ model)


@pytest.mark.parametrize("ring_dim", RINGS)
@pytest.mark.parametrize("features", [2, 3, 5, 44, 128, 255, 256, 257])
def test_one_block_more_than_fits_would_corrupt_the_first_score(ring_dim, features):
    blocks = ring_dim // features + 1
    rng = np.random.default_rng(features)
    phi, model = rng.integers(1, 10, (blocks, features)), rng.integers(1, 10, features)
    first = np.arange(blocks)[:, None] * features
    a = evaluate_long(first + features - 1 - np.arange(features), phi, ring_dim)
    product = multiply(a, evaluate_long(np.arange(features), model, ring_dim))
    scores = read_long(product, first.ravel() + features - 1)
    assert scores[0] < phi[0] @ model


def test_lanes_side_by_side_stand_at_the_places_of_the_formula():
    layout = InnerProducts(ring_dim=8192, features=5, arms=2, lanes=819)
    u, a, i = np.indices((819, 2, 5))
    np.testing.assert_array_equal(layout.feature_places.places, (u * 2 + a) * 5 + 4 - i)
    np.testing.assert_array_equal(layout.score_places.places, ((u * 2 + a) * 5 + 4)[:, :, 0])


def test_other_coefficients_of_the_features_may_hold_anything():
    layout = InnerProducts(ring_dim=1024, features=44, arms=8, lanes=2)
    model, phi = draw(layout, 3)
    [y], [a] = put(layout.model_places, model), put(layout.feature_places, phi)
    outside = np.ones(1024, bool)
    outside[layout.feature_places.places] = False
    a[outside] = np.random.default_rng(4).integers(1, 10, outside.sum())
    scores = take(layout.score_places, multiply(a, y)[None])
    np.testing.assert_array_equal(scores, phi @ model)


def test_other_coefficients_of_the_model_must_be_zero():
    layout = InnerProducts(ring_dim=1024, features=44, arms=8)
    model, phi = draw(layout, 5)
    [y], [a] = put(layout.model_places, model), put(layout.feature_places, phi)
    y[44] = 1
    scores = take(layout.score_places, multiply(a, y)[None])
    assert not np.array_equal(scores, phi @ model)


@pytest.mark.parametrize(
    ("dim", "arms", "features", "capacity"),
    [(2, 2, 5, 819), (8, 8, 44, 23), (8, 16, 44, 11), (16, 16, 152, 3), (5, 50, 20, 8)],
)
def test_capacity_is_the_number_of_lanes_of_one_polynomial(dim, arms, features, capacity):
    assert Rounding(dim=dim, length=1.0, reward_max=1.0, bits=14).features == features
    full = InnerProducts(ring_dim=8192, features=features, arms=arms, lanes=capacity)
    assert (full.capacity, full.polynomials) == (capacity, 1)
    more = InnerProducts(ring_dim=8192, features=features, arms=arms, lanes=capacity + 1)
    assert more.polynomials == 2
    assert more.score_places[-1].parts.keys() == {1}


def test_arms_of_a_large_lane_are_split_over_polynomials():
    layout = InnerProducts(ring_dim=8192, features=2144, arms=256, lanes=2)
    assert layout.capacity == 0
    assert layout.polynomials == 172
    assert layout.score_places[0].parts.keys() == set(range(86))
    assert layout.feature_places[1].parts.keys() == set(range(86, 172))


@pytest.mark.parametrize("features", [0, 513])
def test_features_that_do_not_fit_are_refused(features):
    with pytest.raises(InvalidInput, match="features must be at"):
        InnerProducts(ring_dim=512, features=features, arms=2)
