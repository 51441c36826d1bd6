"""Circuits that check values against integer arithmetic, in the clear and garbled."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.garbling import build_ranges_check, build_report_check
from helba.garbling.circuits.arithmetic import less_than, less_than_shallow, values_of
from helba.garbling.circuits.builder import CircuitBuilder
from helba.garbling.circuits.circuit import ShareGroup
from tests.garbling.parties import (
    build_threshold,
    draw_values,
    evaluate_clear,
    open_shares,
    share,
    wrap,
)


def share_groups(circuit, values, *, bits):
    """Shares of values of shape (lanes, values), for one group after the other."""
    own, masks = share(values, bits=bits, rng=np.random.default_rng(5))
    ends = np.cumsum([group.values for group in circuit.groups])[:-1]
    return [np.hsplit(each, ends) for each in (own, masks)]


def check_clear(circuit, values, *, bits) -> np.ndarray:
    own, masks = share_groups(circuit, values, bits=bits)
    return evaluate_clear(circuit, evaluator=own, garbler=masks)[1][:, 0]


def take_leading(values: np.ndarray, *, magnitude_bits: int, leading_bits: int) -> np.ndarray:
    magnitude = np.where(values >= 0, values, -values - 1)
    return magnitude >> (magnitude_bits - leading_bits)


def test_value_is_the_difference_of_the_shares():
    builder = CircuitBuilder(ShareGroup(1, 8))
    circuit = builder.build(user=values_of(builder, count=1)[0])
    every = np.arange(256, dtype=np.uint64)
    own, mask = (grid.reshape(-1, 1) for grid in np.meshgrid(every, every))
    got = evaluate_clear(circuit, evaluator=own, garbler=mask)[0] @ (1 << np.arange(8))
    assert np.array_equal(got, ((own.astype(int) - mask.astype(int)) % 256)[:, 0])
    assert circuit.and_gates == 7


@pytest.mark.parametrize("shape", ["signed", "unsigned", "shallow"])
@pytest.mark.parametrize("bits", [1, 2, 6, 8])
def test_less_than_is_right_for_all_pairs(shape, bits):
    builder = CircuitBuilder(ShareGroup(2, bits))
    signed = shape != "unsigned"
    if shape == "shallow":
        less = less_than_shallow(builder, *builder.evaluator)
    else:
        less = less_than(builder, *builder.evaluator, signed=signed)
    circuit = builder.build(user=[less])
    every = np.arange(1 << bits, dtype=np.uint64)
    pairs = np.stack(np.meshgrid(every, every), axis=-1).reshape(-1, 2)
    got = evaluate_clear(circuit, evaluator=pairs, garbler=np.zeros_like(pairs))[0][:, 0]
    numbers = pairs.astype(int)
    if signed:
        numbers = wrap(numbers, bits=bits)
    assert np.array_equal(got, numbers[:, 0] < numbers[:, 1])


@pytest.mark.parametrize("limit", [-127, -100, -1, 0, 1, 64, 77, 126, 127])
def test_threshold_is_right_for_all_values(limit):
    values = np.arange(-128, 128)[:, None]
    circuit = build_threshold(bits=8, limit=limit)
    assert np.array_equal(check_clear(circuit, values, bits=8), values[:, 0] >= limit)


def test_threshold_at_zero_is_the_sign_alone():
    assert build_threshold(bits=40).and_gates == 39


@pytest.mark.parametrize("low", [-128, -127, -5, 0, 3, 127])
@pytest.mark.parametrize("high", [-128, -5, -1, 4, 126, 127])
def test_range_check_is_right_for_all_values(low, high):
    if low > high or high - low == 255:
        with pytest.raises(InvalidInput):
            build_ranges_check(((low, high),), bits=8)
        return
    values = np.arange(-128, 128)[:, None]
    circuit = build_ranges_check(((low, high),), bits=8)
    got = check_clear(circuit, values, bits=8)
    assert np.array_equal(got, (low <= values[:, 0]) & (values[:, 0] <= high))


def test_range_check_of_a_lane_fails_if_one_value_does():
    values = np.zeros((9, 8), dtype=int)
    values[np.arange(8), np.arange(8)] = 11
    got = check_clear(build_ranges_check(((-10, 10),) * 8, bits=12), values, bits=12)
    assert got.tolist() == [False] * 8 + [True]


def around(ranges, *, bits):
    """Values at and next to every edge of every range, and the extremes: all combinations."""
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    columns = [
        sorted({low - 1, low, low + 1, high - 1, high, high + 1, 0, least, most})
        for low, high in ranges
    ]
    columns = [[each for each in column if least <= each <= most] for column in columns]
    return np.stack(np.meshgrid(*columns), axis=-1).reshape(-1, len(ranges))


def lie_within(values, ranges):
    low, high = np.array(ranges).T
    return ((low <= values) & (values <= high)).all(axis=1)


@pytest.mark.parametrize(
    ("bits", "ranges"),
    [
        (8, ((-5, 3),)),
        (8, ((-5, 3), (-128, 10), (7, 7))),
        (8, ((-128, 127), (-1, 0))),
        (52, ((-(1 << 30), 1 << 33), (-3, 1 << 50), (-(1 << 51), -(1 << 50)), (0, 0))),
    ],
)
def test_ranges_check_is_right_at_and_around_every_edge(any_parties, bits, ranges):
    values = around(ranges, bits=bits)
    circuit = build_ranges_check(ranges, bits=bits)
    own, masks = share_groups(circuit, values, bits=bits)
    expected = lie_within(values, ranges)
    assert 0 < expected.sum() < len(expected)
    assert np.array_equal(evaluate_clear(circuit, evaluator=own, garbler=masks)[1][:, 0], expected)
    outcome = open_shares(any_parties, circuit, evaluator=own, garbler=masks)
    assert np.array_equal(outcome.returned[:, 0], expected)


def test_ranges_check_holds_each_value_to_its_own_range():
    ranges = ((-100, -50), (-10, 10), (60, 120))
    values = np.array([list(order) for order in itertools.permutations((-70, 0, 90))])
    got = check_clear(build_ranges_check(ranges, bits=8), values, bits=8)
    assert got.tolist() == [row.tolist() == [-70, 0, 90] for row in values]


@given(data=st.data(), bits=st.integers(8, 60), count=st.integers(1, 5))
@settings(max_examples=40)
def test_ranges_check_is_right_for_any_ranges(data, bits, count):
    numbers = st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    drawn = [sorted(data.draw(st.tuples(numbers, numbers))) for _ in range(count)]
    ranges = tuple((low, high) for low, high in drawn)
    pick = [st.one_of(numbers, st.sampled_from(each), st.integers(*each)) for each in ranges]
    values = np.array(data.draw(st.lists(st.tuples(*pick), min_size=1, max_size=30)))
    circuit = build_ranges_check(ranges, bits=bits)
    assert np.array_equal(check_clear(circuit, values, bits=bits), lie_within(values, ranges))


@pytest.mark.parametrize("wrong", [(5, 4), (-129, 0), (0, 128)])
def test_ranges_that_are_none_are_refused(wrong):
    with pytest.raises(InvalidInput):
        build_ranges_check(((0, 1), wrong), bits=8)


def check_norms(contexts, *, bits, limit, leading_bits, bound) -> np.ndarray:
    """Return which contexts pass the check of reports, with rewards of 0."""
    rules = {"limit": limit, "leading_bits": leading_bits, "bound": bound}
    circuit = build_report_check(contexts.shape[1], bits=bits, reward_limit=1, **rules)
    return check_clear(circuit, np.pad(contexts, ((0, 0), (0, 1))), bits=bits)


@pytest.mark.parametrize("bound", [0, 1, 100, 300, 449, 450])
def test_norm_is_checked_for_all_small_vectors(bound):
    every = np.arange(-15, 16)
    values = np.stack(np.meshgrid(every, every), axis=-1).reshape(-1, 2)
    magnitude = take_leading(values, magnitude_bits=4, leading_bits=4)
    expected = (magnitude**2).sum(axis=1) <= bound
    got = check_norms(values, bits=8, limit=15, leading_bits=4, bound=bound)
    assert np.array_equal(got, expected)


@pytest.mark.parametrize(("values", "leading_bits"), [(1, 1), (1, 8), (3, 8), (9, 10), (33, 12)])
def test_norm_is_the_sum_of_squares_of_leading_bits(values, leading_bits):
    rng = np.random.default_rng(values)
    limit = (1 << 30) - 1
    vectors = rng.integers(-limit, limit, size=(1000, values), endpoint=True)
    leading = take_leading(vectors, magnitude_bits=30, leading_bits=leading_bits)
    squares = (leading**2).sum(axis=1)
    for bound in {int(np.median(squares)), int(squares.max()) - 1, int(squares.min())}:
        got = check_norms(vectors, bits=40, limit=limit, leading_bits=leading_bits, bound=bound)
        assert np.array_equal(got, squares <= bound)


def test_check_keeps_its_promise_about_norms():
    rng = np.random.default_rng(0)
    values, shift, bound = 4, 12, 3000
    directions = rng.normal(size=(5000, values))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    radius = np.sqrt(bound) * (1 << shift)
    vectors = np.round(directions * rng.uniform(0.8, 1.1, size=(5000, 1)) * radius).astype(int)
    passed = check_norms(vectors, bits=24, limit=(1 << 18) - 1, leading_bits=6, bound=bound)
    norms = np.linalg.norm(vectors, axis=1)
    assert passed[norms <= radius].all()
    assert (norms[passed] <= radius + (1 << shift) * np.sqrt(values)).all()
    assert not passed.all()


def draw_reports(rng, *, lanes, dim, limit, reward_limit, bits):
    contexts = rng.integers(-limit, limit, size=(lanes, dim), endpoint=True)
    contexts = contexts // rng.integers(1, 4, size=(lanes, 1))
    rewards = rng.integers(-reward_limit, reward_limit, size=(lanes, 1), endpoint=True)
    reports = np.concatenate([contexts, rewards], axis=1)
    limits = np.array([limit] * dim + [reward_limit])
    wrong = rng.random(reports.shape) < 0.08
    turn = rng.choice([-1, 1], size=reports.shape)
    step = rng.choice([0, 1, 1 << (bits - 3)], size=reports.shape)
    return wrap(np.where(wrong, turn * (limits + step), reports), bits=bits)


def judge(reports, *, limit, reward_limit, leading_bits, bound):
    contexts, rewards = reports[:, :-1], reports[:, -1]
    box = (abs(contexts) <= limit).all(axis=1) & (abs(rewards) <= reward_limit)
    leading = take_leading(contexts, magnitude_bits=limit.bit_length(), leading_bits=leading_bits)
    return box & ((leading**2).sum(axis=1) <= bound)


@pytest.mark.parametrize(
    ("dim", "bits", "limit", "reward_limit", "leading_bits", "bound"),
    [
        (1, 12, 500, 7, 4, 100),
        (2, 16, 4096, 100, 8, 30_000),
        (5, 40, 1_000_000, 3_000_000, 10, 700_000),
        (8, 24, 65_535, 65_535, 8, 1 << 40),
    ],
)
def test_report_check_is_box_and_norm(
    any_parties, dim, bits, limit, reward_limit, leading_bits, bound
):
    rng = np.random.default_rng(dim)
    rules = {
        "limit": limit,
        "reward_limit": reward_limit,
        "leading_bits": leading_bits,
        "bound": bound,
    }
    reports = draw_reports(
        rng, lanes=1500, dim=dim, limit=limit, reward_limit=reward_limit, bits=bits
    )
    own, masks = share(reports, bits=bits, rng=rng)
    circuit = build_report_check(dim, bits=bits, **rules)
    got = open_shares(any_parties, circuit, evaluator=own, garbler=masks).returned
    expected = judge(reports, **rules)
    assert 0.1 < expected.mean() < 0.95
    assert np.array_equal(got[:, 0], expected)


@pytest.mark.parametrize("limit", [1, 5, 31, 63, 100, 127])
@pytest.mark.parametrize("reward_limit", [1, 64, 127])
def test_report_check_is_right_for_every_value_and_share(limit, reward_limit):
    """All numbers of 8 bits as a context and as a reward, each behind every 7th mask."""
    numbers, masks = np.meshgrid(np.arange(256), np.arange(0, 256, 7))
    masks = np.repeat(masks.reshape(-1, 1), 2, axis=1)
    for place in (0, 1):
        reports = np.zeros_like(masks)
        reports[:, place] = numbers.reshape(-1)
        circuit = build_report_check(
            1, bits=8, limit=limit, reward_limit=reward_limit, leading_bits=1, bound=1
        )
        shares = ((reports + masks) % 256).astype(np.uint64), masks.astype(np.uint64)
        _, returned = evaluate_clear(circuit, evaluator=shares[0], garbler=shares[1])
        signed = abs((reports + 128) % 256 - 128)
        small = (signed[:, 0] <= limit) & (signed[:, 1] <= reward_limit)
        assert np.array_equal(returned[:, 0], small)


def test_report_check_of_96_bits_is_not_deep():
    """One AND after the other through all bits would take 40 microseconds each."""
    rules = {"limit": 1 << 16, "reward_limit": 1 << 16, "leading_bits": 12, "bound": 1 << 24}
    assert build_report_check(2, bits=96, **rules).depth < 48


@pytest.mark.parametrize("group", [1, 2, 3, 7])
def test_report_check_of_a_group_is_one_bit(parties, group):
    rng = np.random.default_rng(group)
    rules = {"limit": 1000, "reward_limit": 1000, "leading_bits": 8, "bound": 40_000}
    reports = draw_reports(rng, lanes=100 * group, dim=2, limit=1000, reward_limit=1000, bits=16)
    circuit = build_report_check(2, bits=16, reports=group, **rules)
    own, masks = share(reports.reshape(100, 3 * group), bits=16, rng=rng)
    outcome = open_shares(parties, circuit, evaluator=own, garbler=masks)
    expected = judge(reports, **rules).reshape(100, group).all(axis=1)
    assert 0.05 < expected.mean() < 0.95
    assert np.array_equal(outcome.returned[:, 0], expected)
    assert (
        circuit.and_gates == group * build_report_check(2, bits=16, **rules).and_gates + group - 1
    )


@pytest.mark.parametrize(
    "circuit",
    [
        build_threshold(bits=40, limit=12345),
        build_ranges_check(((-500, 400),) * 3, bits=10),
    ],
    ids=["threshold", "range"],
)
def test_garbled_checks_equal_the_oracle(any_parties, circuit):
    bits, count = circuit.groups[0].bits, len(circuit.groups)
    values = draw_values((3000, count), bits=bits, rng=np.random.default_rng(0))
    own, masks = share_groups(circuit, values, bits=bits)
    outcome = open_shares(any_parties, circuit, evaluator=own, garbler=masks)
    expected = evaluate_clear(circuit, evaluator=own, garbler=masks)[1]
    assert 0.02 < expected.mean() < 0.98
    assert np.array_equal(outcome.returned, expected)


def test_checks_refuse_what_is_always_or_never_true():
    with pytest.raises(InvalidInput):
        build_threshold(bits=8, limit=-128)
    with pytest.raises(InvalidInput):
        build_report_check(2, bits=8, limit=0, reward_limit=1, leading_bits=1, bound=1)


@pytest.mark.parametrize("bits", [65, 96, 128])
def test_wide_values_are_checked_to_their_last_bit(any_parties, bits):
    # inputs are shared modulo 2^96: what is out of range by a multiple of 2^64 must be seen
    rng, low, high = np.random.default_rng(bits), -(1 << 20), (1 << 20) - 5
    edges = [low - 1, low, -1, 0, high, high + 1, 1 << 63, 1 << 64, -(1 << 64), (1 << 64) + 3]
    edges += [(1 << (bits - 1)) - 1, -(1 << (bits - 1)), 7 + (1 << (bits - 2))]
    values = np.array([[edge, 5] for edge in edges], dtype=object)
    masks = np.array(
        [[int.from_bytes(rng.bytes(16), "little") % (1 << bits) for _ in row] for row in values],
        dtype=object,
    )
    own = np.hsplit((values + masks) % (1 << bits), 2)
    masks = np.hsplit(masks, 2)
    circuit = build_ranges_check(((low, high),) * 2, bits=bits)
    found = open_shares(any_parties, circuit, evaluator=own, garbler=masks).returned[:, 0]
    exact = np.array([low <= edge <= high for edge in edges])
    assert np.array_equal(found, exact)
    assert np.array_equal(evaluate_clear(circuit, evaluator=own, garbler=masks)[1][:, 0], exact)


def test_wide_reports_are_checked(parties):
    bits, limit = 96, 1000
    circuit = build_report_check(
        3, bits=bits, limit=limit, reward_limit=50, leading_bits=8, bound=120**2
    )
    reports = np.array(
        [[400, -100, 0, 50], [400, -100, 0, 51], [1001, 0, 0, 0], [600, 600, 600, 0]],
        dtype=object,
    )
    reports = np.vstack([reports, [[1 << 64, 0, 0, 0]]])
    masks = np.full(reports.shape, (1 << 95) + 12345, dtype=object)
    own = (reports + masks) % (1 << bits)
    found = open_shares(parties, circuit, evaluator=own, garbler=masks).returned[:, 0]
    assert found.tolist() == [True, False, False, False, False]


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((1, 1), dtype=np.uint64),
        np.array([[1 << 96]], dtype=object),
        np.array([[-1]], dtype=object),
        np.array([[0.5]], dtype=object),
    ],
)
def test_wide_shares_that_do_not_fit_are_refused(wrong):
    circuit = build_ranges_check(((0, 9),), bits=96)
    with pytest.raises(InvalidInput, match="shares"):
        circuit.split_evaluator(wrong)


def test_secret_limit_is_added_to_the_garblers_share(parties):
    values, limit = np.array([[10], [20], [30], [-5]]), 20
    own, masks = share(values, bits=16, rng=np.random.default_rng(8))
    secret = (masks + np.uint64(limit)) & np.uint64((1 << 16) - 1)
    outcome = open_shares(parties, build_threshold(bits=16), evaluator=own, garbler=secret)
    assert outcome.returned[:, 0].tolist() == [False, True, True, False]
