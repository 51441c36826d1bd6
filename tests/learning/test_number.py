"""Numbers of users as integers, compared with fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from helba.lab.play.twin import restore_contexts, restore_reward
from helba.learning.number import LENGTH_SLACK, Rounding
from helba.learning.plan import Batch
from tests.learning.driving import make_plan, make_settings

BITS = st.integers(4, 24)


def make_rounding(bits, *, dim=1, length=1.0, reward_max=1.0):
    return Rounding(dim=dim, length=length, reward_max=reward_max, bits=bits)


@given(bits=BITS, halves=st.integers(-(2**25), 2**25), log2_length=st.integers(-5, 5))
@example(bits=4, halves=1, log2_length=0)
@example(bits=4, halves=-3, log2_length=0)
def test_contexts_are_rounded_half_to_even(bits, halves, log2_length):
    """Every second one of these is a tie; with L a power of two doubles have them exactly."""
    length = 2.0**log2_length
    rounding = make_rounding(bits, length=length)
    halves %= 2 * rounding.peak + 1
    context = halves / 2 * length / rounding.peak
    assert rounding.round_contexts(np.array([context])).tolist() == [round(Fraction(halves, 2))]
    assert rounding.round_contexts(np.array([-context])).tolist() == [-round(Fraction(halves, 2))]


@given(bits=BITS, halves=st.integers(0, 2**25), log2_reward=st.integers(-5, 5))
def test_rewards_are_rounded_half_to_even(bits, halves, log2_reward):
    reward_max = 2.0**log2_reward
    rounding = make_rounding(bits, reward_max=reward_max)
    halves %= 2 * rounding.peak + 1
    reward = halves / 2 * reward_max / rounding.peak
    assert rounding.round_reward(reward) == round(Fraction(halves, 2))
    assert rounding.round_reward(-reward) == -round(Fraction(halves, 2))


@given(
    bits=BITS,
    length=st.floats(1e-3, 1e3),
    shares=st.lists(st.floats(-1, 1), min_size=1, max_size=6),
)
def test_contexts_are_the_nearest_integers_for_every_length(bits, length, shares):
    rounding = make_rounding(bits, dim=len(shares), length=length)
    contexts = np.array(shares) * length
    found = rounding.round_contexts(contexts)
    for integer, context in zip(found.tolist(), contexts.tolist(), strict=True):
        exact = Fraction(context) * rounding.peak / Fraction(length)
        assert abs(integer - exact) <= Fraction(1, 2) + Fraction(2.0**-27)  # ties of doubles


@given(
    bits=BITS,
    numbers=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6),
    length=st.floats(1e-3, 1e3),
)
def test_integers_are_at_most_two_to_the_bits(bits, numbers, length):
    rounding = make_rounding(bits, dim=len(numbers), length=length, reward_max=length)
    contexts = rounding.round_contexts(np.array(numbers))
    assert np.abs(contexts).max() <= 2**bits == rounding.peak
    assert all(abs(rounding.round_reward(each)) <= 2**bits for each in numbers)
    assert np.abs(rounding.make_features(contexts[None])).max() <= 2**bits
    over = np.abs(numbers) >= length
    assert (np.abs(contexts[over]) == 2**bits).all()


@given(bits=BITS, data=st.data(), dim=st.integers(1, 8), arms=st.integers(1, 4))
def test_features_are_exactly_as_fractions_say(bits, data, dim, arms):
    """x_i, then x_i x_j / 2^b for i <= j, half to even."""
    rounding = make_rounding(bits, dim=dim)
    near = st.sampled_from([0, 1, -1, 2 ** (bits // 2), -(2 ** (bits - 1)), 2**bits, -(2**bits)])
    number = st.one_of(near, st.integers(-(2**bits), 2**bits))
    contexts = [[data.draw(number) for _ in range(dim)] for _ in range(arms)]
    exact = [
        row + [round(Fraction(row[i] * row[j], 2**bits)) for i in range(dim) for j in range(i, dim)]
        for row in contexts
    ]
    found = rounding.make_features(np.array(contexts, dtype=np.int64))
    assert found.tolist() == exact
    assert found.shape == (arms, rounding.features) == (arms, dim + dim * (dim + 1) // 2)


def test_features_at_ties_go_to_the_even_one():
    """All products of two numbers of 4 bits: every eighth of them is a tie."""
    rounding = make_rounding(4, dim=2)
    pairs = list(itertools.product(range(-16, 17), repeat=2))
    products = rounding.make_features(np.array(pairs))[:, 3]
    exact = [round(Fraction(a * b, 16)) for a, b in pairs]
    assert products.tolist() == exact
    ties = [(a * b) % 16 == 8 for a, b in pairs]
    assert sum(ties) > 50
    assert all(each % 2 == 0 for each in products[ties])


@given(
    bits=BITS,
    seed=st.integers(0, 2**32),
    dim=st.integers(1, 64),
    length=st.floats(1e-3, 1e3),
    stretch=st.floats(0, 1),
)
def test_restored_contexts_are_as_near_and_as_long_as_stated(bits, seed, dim, length, stretch):
    rounding = make_rounding(bits, dim=dim, length=length)
    context = np.random.default_rng(seed).normal(size=dim)
    context *= stretch * length / np.linalg.norm(context)
    restored = restore_contexts(rounding, rounding.round_contexts(context))
    doubles = 1.0 + 1e-7
    assert np.abs(restored - context).max() <= length / 2 ** (bits + 1) * doubles
    assert np.linalg.norm(restored - context) <= length * math.sqrt(dim) / 2 ** (bits + 1) * doubles
    assert np.linalg.norm(restored) <= length * (1.0 + rounding.slack)
    longer = restore_contexts(rounding, rounding.round_contexts(context * (1.0 + LENGTH_SLACK)))
    assert np.linalg.norm(longer) <= length * (1.0 + rounding.slack)


def test_bound_of_the_error_is_reached():
    """Numbers halfway between two integers are off by all that is stated."""
    rounding = make_rounding(10, dim=16)
    context = np.full(16, 0.2)
    context = (np.floor(context * 1024) + 0.5) / 1024
    restored = restore_contexts(rounding, rounding.round_contexts(context))
    assert np.linalg.norm(restored - context) == pytest.approx(math.sqrt(16) / 2**11)


@given(bits=BITS, reward=st.floats(-5, 5), reward_max=st.floats(0.1, 10))
def test_restored_rewards_are_clipped_and_near(bits, reward, reward_max):
    rounding = make_rounding(bits, reward_max=reward_max)
    restored = restore_reward(rounding, rounding.round_reward(reward))
    clipped = min(max(reward, -reward_max), reward_max)
    assert abs(restored - clipped) <= reward_max / 2 ** (bits + 1) * (1.0 + 1e-7)


def test_reports_are_the_context_and_then_the_reward():
    rounding = make_rounding(8, dim=3, length=2.0, reward_max=4.0)
    report = rounding.round_report(np.array([2.0, -1.0, 0.5]), -3.0)
    assert report.tolist() == [256, -128, 64, -192]
    assert restore_contexts(rounding, report[:3]).tolist() == [2.0, -1.0, 0.5]
    assert restore_reward(rounding, int(report[3])) == -3.0


# -- what rounding costs


@pytest.mark.parametrize("opener", ["users", "authority"])
@pytest.mark.parametrize(("dim", "arms"), [(2, 2), (8, 16)])
def test_rounding_moves_estimates_and_indices_by_what_the_plan_says(opener, dim, arms):
    """The estimate of rounded reports against that of exact ones, and indices of random arms."""
    settings_ = make_settings(dim, arms=arms)
    plan = make_plan(settings_, opener=opener)
    rounding, rng = plan.rounding, np.random.default_rng(dim)
    theta = rng.normal(size=dim)
    theta *= settings_.parameter_bound / np.linalg.norm(theta)
    contexts = rng.normal(size=(300, dim))
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    rounded = restore_contexts(rounding, rounding.round_contexts(contexts))
    rewards = contexts @ theta  # no noise: what is left is rounding's
    earned = np.array([restore_reward(rounding, rounding.round_reward(r)) for r in rewards])
    design = settings_.ridge * np.eye(dim) + rounded.T @ rounded
    bias = rounded.T @ (earned - rounded @ theta)
    found = math.sqrt(bias @ np.linalg.solve(design, bias))
    assert 0.0 < found <= plan.rounding_error(len(contexts))

    batch = Batch(number=1, samples=300, residual=0.01, estimate_error=0.01)
    gamma, inverse = plan.weigh(batch).gamma, np.linalg.inv(design)
    integers = rounding.round_contexts(contexts)
    first, second = np.triu_indices(dim)
    features = rounding.make_features(integers)[:, dim:] * (settings_.length**2 / rounding.peak)
    weights = inverse[first, second] * np.where(first == second, 1.0, 2.0)
    exact = np.einsum("ni,ij,nj->n", rounded, inverse, rounded)
    off = gamma / 2.0 * np.abs(features @ weights - exact).max()
    lost = np.abs((contexts - rounded) @ theta).max()
    assert 0.0 < 2.0 * (off + lost) <= plan.rounding_tolerance(batch)
