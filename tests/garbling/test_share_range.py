"""The range check of values that are shared modulo 2^96, against Python's integers."""

import secrets

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.garbling import ShareRange, build_argmax, read_indices
from helba.garbling.circuits.builder import CircuitBuilder
from tests.garbling.parties import draw_values, evaluate_clear, open_shares, share

MODULUS = 1 << 96


def edges(low_bits: int) -> list[int]:
    """Values at and next to the edges of the range and of the modulus, and far away ones."""
    half = 1 << (low_bits - 1)
    near = [-half - 1, -half, -half + 1, -1, 0, 1, half - 2, half - 1, half]
    far = [2 * half, -2 * half, 3 * half, 1 << 64, -(1 << 64), 1 << 95, (1 << 95) - 1, -(1 << 95)]
    return near + far


def split(values, *, seed: int):
    """Shares e and g of values of shape (lanes, values): v = e - g; some masks are extreme."""
    rng = np.random.default_rng(seed)
    flat = []
    for each in np.ravel(values):
        mask = int.from_bytes(rng.bytes(12), "little")
        mask = {0: 0, 1: MODULUS - 1, 2: 1 << 95}.get(int(rng.integers(0, 20)), mask)
        flat.append(((int(each) + mask) % MODULUS, mask))
    shape = np.shape(values)
    own, masks = (np.array(each, dtype=object).reshape(shape) for each in zip(*flat, strict=True))
    return own, masks


def build(checked: ShareRange):
    """The check alone: one bit that is returned."""
    builder = CircuitBuilder(*checked.groups)
    return builder.build(returned=[checked.build(builder, first=0)])


def judge(checked: ShareRange, values, *, seed: int = 0, choices: bytes | None = None):
    """What the circuit says of each lane, in the clear."""
    own, masks = split(values, seed=seed)
    choices = secrets.token_bytes(32) if choices is None else choices
    evaluator = list(checked.split_evaluator(own, seed=choices))
    garbler = list(checked.split_garbler(masks, seed=choices))
    return evaluate_clear(build(checked), evaluator=evaluator, garbler=garbler)[1][:, 0]


def in_range(values, low_bits: int):
    half = 1 << (low_bits - 1)
    return np.array([all(-half <= int(v) < half for v in lane) for lane in values])


@pytest.mark.parametrize("low_bits", [2, 8, 18, 40, 60])
def test_check_is_right_at_and_around_every_edge(low_bits):
    """Of a false `in range` the probability is 2^-40 a lane: a false alarm below 1e-9 in all."""
    numbers = edges(low_bits)
    values = np.array([[a, b] for a in numbers for b in numbers], dtype=object)
    expected = in_range(values, low_bits)
    assert 0 < expected.sum() < len(expected)
    got = judge(ShareRange(2, low_bits), values, seed=low_bits)
    assert np.array_equal(got, expected)


@given(
    low_bits=st.integers(2, 60),
    values=st.lists(st.integers(-(1 << 95), (1 << 95) - 1), min_size=1, max_size=6),
    seed=st.integers(0, 2**32),
    shrink=st.booleans(),
)
@settings(max_examples=60)
def test_check_is_right_for_any_values(low_bits, values, seed, shrink):
    half = 1 << (low_bits - 1)
    if shrink:
        values = [(v + half) % (2 * half) - half for v in values]
    lane = np.array([values], dtype=object)
    got = judge(ShareRange(len(values), low_bits), lane, seed=seed)
    assert got.tolist() == in_range(lane, low_bits).tolist()


def test_each_parity_halves_what_slips_through():
    """With p parities a value out of range passes with probability 2^-p, over the choices."""
    values = np.array([[1 << 50, 3]] * 64, dtype=object)
    for parities in (1, 2, 3):
        checked = ShareRange(2, 20, parities)
        draws = (bytes([i, j]) for i in range(60) for j in range(10))
        passed = np.concatenate([judge(checked, values[:1], choices=each) for each in draws])
        # 600 draws: five standard errors and more, a false alarm below 1e-6
        expected = 2.0**-parities
        error = (expected * (1 - expected) / len(passed)) ** 0.5
        assert abs(passed.mean() - expected) < 5.2 * error
    assert not judge(ShareRange(2, 20), values).any()


def test_one_value_out_of_range_fails_its_own_lane_alone():
    rng = np.random.default_rng(1)
    values = rng.integers(-100, 100, (50, 7)).astype(object)
    for lane in range(0, 50, 5):
        values[lane, lane % 7] += 1 << int(rng.integers(8, 95))
    got = judge(ShareRange(7, 8), values)
    assert np.array_equal(got, [lane % 5 != 0 for lane in range(50)])


def test_checked_argmax_is_zero_where_a_value_is_out_of_range(any_parties):
    rng, lanes, checked = np.random.default_rng(0), 400, ShareRange(3, 12)
    scores = draw_values((lanes, 3), bits=16, rng=rng)
    values = rng.integers(-(1 << 11), 1 << 11, (lanes, 3)).astype(object)
    wrong = rng.random((lanes, 3)) < 0.2
    values[wrong] = rng.choice(np.array(edges(12), dtype=object), size=int(wrong.sum()))
    own, masks = share(scores, bits=16, rng=rng)
    own_values, mask_values = split(values, seed=3)
    seed = secrets.token_bytes(32)
    outcome = open_shares(
        any_parties,
        build_argmax(3, bits=16, checked=checked),
        evaluator=[own, *checked.split_evaluator(own_values, seed=seed)],
        garbler=[masks, *checked.split_garbler(mask_values, seed=seed)],
    )
    right = in_range(values, 12)
    assert 0.1 < right.mean() < 0.9
    assert np.array_equal(outcome.user[:, -1], right)
    arms = read_indices(outcome.user[:, :-1], arms=3)
    assert np.array_equal(arms, np.where(right, scores.argmax(axis=1), 0))
    assert outcome.returned is None


def test_check_costs_its_low_bits_and_a_gate_for_each_parity():
    checked = ShareRange(10, 18)
    assert build(checked).and_gates <= 10 * (18 + 40) + 39


def test_sizes_that_are_none_are_refused():
    for wrong in ((0, 8), (1, 1), (1, 61), (1, 8, 0)):
        with pytest.raises(InvalidInput):
            ShareRange(*wrong)
    with pytest.raises(InvalidInput, match=r"\(lanes, 2\)"):
        ShareRange(2, 8).split_evaluator(np.zeros((3, 1), dtype=object), seed=b"")
