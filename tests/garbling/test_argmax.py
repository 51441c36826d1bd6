"""Circuits for the largest value against integer arithmetic, in the clear and garbled."""

import numpy as np
import pytest

from helba.errors import DamagedData, InvalidInput
from helba.garbling import build_argmax, name_bits, read_indices
from tests.garbling.parties import draw_values, evaluate_clear, open_shares, share, wrap


def round_to_grid(values: np.ndarray, *, bits: int, grid_bits: int) -> np.ndarray:
    """floor((value + 2^(g-1)) / 2^g) modulo 2^(bits-g), as a signed number."""
    if not grid_bits:
        return values
    shifted = (values + (1 << (grid_bits - 1))) & ((1 << bits) - 1)
    return wrap(shifted >> grid_bits, bits=bits - grid_bits)


def find_clear(circuit, own, masks) -> np.ndarray:
    bits = evaluate_clear(circuit, evaluator=own, garbler=masks)[0]
    return read_indices(bits, arms=own.shape[1])


@pytest.mark.parametrize(
    ("arms", "bits", "grid_bits"),
    [(1, 8, 0), (2, 8, 0), (3, 8, 3), (4, 9, 7), (5, 40, 0), (7, 40, 20), (16, 63, 5), (50, 40, 8)],
)
def test_argmax_is_the_lowest_index_of_the_largest_value(arms, bits, grid_bits):
    rng = np.random.default_rng(arms)
    values = draw_values((400, arms), bits=bits, rng=rng)
    own, masks = share(values, bits=bits, rng=rng)
    circuit = build_argmax(arms, bits=bits, grid_bits=grid_bits)
    expected = round_to_grid(values, bits=bits, grid_bits=grid_bits).argmax(axis=1)
    assert np.array_equal(find_clear(circuit, own, masks), expected)
    assert len(circuit.user_outputs) == name_bits(arms)
    assert len(circuit.returned_outputs) == 0


@pytest.mark.parametrize("arms", [*range(1, 34), 63, 64, 65, 127, 128, 129, 255, 256])
def test_argmax_takes_any_number_of_arms(arms):
    rng = np.random.default_rng(arms)
    # Small values: many ties. Each arm is the only largest one once.
    values = np.concatenate([rng.integers(-2, 2, size=(50, arms)), 5 * np.eye(arms, dtype=int)])
    own, masks = share(values, bits=8, rng=rng)
    got = find_clear(build_argmax(arms, bits=8), own, masks)
    assert np.array_equal(got, values.argmax(axis=1))
    assert got[50:].tolist() == list(range(arms))


def test_argmax_of_two_is_right_for_all_pairs_of_values():
    every = np.arange(-128, 128)
    values = np.stack(np.meshgrid(every, every), axis=-1).reshape(-1, 2)
    own, masks = share(values, bits=8, rng=np.random.default_rng(0))
    assert np.array_equal(find_clear(build_argmax(2, bits=8), own, masks), values.argmax(axis=1))


def test_grid_rounds_every_value_half_up_and_wraps_around():
    # A large rounded value against each grid point tells every rounded value apart.
    bits, grid_bits = 8, 3
    every = np.arange(-128, 128)
    rounded = round_to_grid(every, bits=bits, grid_bits=grid_bits)
    assert rounded[128:136].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert rounded[-4:].tolist() == [-16] * 4
    points = np.arange(-16, 16) * 8
    values = np.stack(np.meshgrid(every, points, indexing="ij"), axis=-1).reshape(-1, 2)
    own, masks = share(values, bits=bits, rng=np.random.default_rng(0))
    got = find_clear(build_argmax(2, bits=bits, grid_bits=grid_bits), own, masks)
    expected = np.repeat(rounded, 32) < np.tile(np.arange(-16, 16), 256)
    assert np.array_equal(got, expected)


@pytest.mark.parametrize(
    ("arms", "bits", "grid_bits", "lanes"),
    [
        (2, 8, 0, 40_000),
        (3, 8, 3, 20_000),
        (4, 10, 2, 10_000),
        (2, 40, 10, 15_000),
        (3, 40, 0, 10_000),
        (2, 63, 0, 5_000),
    ],
)
def test_garbled_argmax_equals_integers_on_100_000_lanes(parties, arms, bits, grid_bits, lanes):
    rng = np.random.default_rng(lanes)
    values = draw_values((lanes, arms), bits=bits, rng=rng)
    own, masks = share(values, bits=bits, rng=rng)
    circuit = build_argmax(arms, bits=bits, grid_bits=grid_bits)
    got = read_indices(
        open_shares(parties, circuit, evaluator=own, garbler=masks).user, arms=values.shape[1]
    )
    expected = round_to_grid(values, bits=bits, grid_bits=grid_bits).argmax(axis=1)
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("arms", [1, 5, 16])
def test_argmax_of_one_lane_works_from_end_to_end(any_parties, arms):
    rng = np.random.default_rng(arms)
    values = draw_values((1, arms), bits=40, rng=rng)
    own, masks = share(values, bits=40, rng=rng)
    outcome = open_shares(any_parties, build_argmax(arms, bits=40), evaluator=own, garbler=masks)
    assert (
        read_indices(outcome.user, arms=values.shape[1]).tolist() == values.argmax(axis=1).tolist()
    )
    assert outcome.returned is None


def test_argmax_costs_one_and_a_bit_for_each_step():
    # Shares: 39 each; a comparison: 40; a choice of the larger value: 40, but for the last one.
    assert build_argmax(2, bits=40).and_gates == 2 * 39 + 40
    assert build_argmax(2, bits=40).depth == 40
    # Later comparisons are in parts: 15 to 19 % more than one AND a bit, and a bit of the index.
    assert build_argmax(4, bits=40).and_gates < 1.2 * (4 * 39 + 3 * 40 + 2 * 40 + 1)


def test_argmax_of_many_is_not_deep():
    """A bit after the other in each of four rounds would be 160 deep."""
    assert build_argmax(16, bits=40).depth < 80


@pytest.mark.parametrize(
    "wrong", [{"arms": 0}, {"arms": 257}, {"bits": 7}, {"bits": 64}, {"grid_bits": 39}]
)
def test_argmax_refuses_sizes_it_cannot_do(wrong):
    sizes = {"arms": 2, "bits": 40, "grid_bits": 0} | wrong
    with pytest.raises(InvalidInput):
        build_argmax(sizes.pop("arms"), **sizes)


def test_index_that_is_no_arm_is_refused():
    with pytest.raises(DamagedData, match="expected an index below 3"):
        read_indices(np.array([[False, True], [True, True]]), arms=3)
    with pytest.raises(DamagedData, match="expected 2 bits a lane"):
        read_indices(np.array([[True]]), arms=3)
