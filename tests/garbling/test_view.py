"""The evaluator's view of two garblers' inputs cannot be told apart, unless garbling is broken.

Simple statistics, each shown to find a garbler that is broken on purpose. Labels are drawn anew in
every run; by Hoeffding's bound an honest garbler fails any of the tests of frequencies with
probability below FALSE_ALARM, and the tests of equality with probability below 2^-80.
"""

import dataclasses
import itertools
import math
import secrets
from collections import Counter

import numpy as np
import pytest

from helba.garbling import build_argmax
from helba.garbling import gate as gate_module
from helba.garbling.circuits.builder import CircuitBuilder
from helba.garbling.circuits.circuit import ShareGroup, evaluate_bits
from helba.garbling.gate import evaluate, garble, take_colours
from helba.garbling.returned import commit_outputs, match_outputs
from helba.garbling.transfer import expand_labels
from tests.garbling.parties import evaluate_clear
from tests.garbling.test_gate import choose, draw_labels, draw_offset

FALSE_ALARM = 1e-7
LANES = 2000
CIRCUIT = build_argmax(3, bits=8)
# Evaluator's shares, and two masks for them: values (5, 90, 7) and (-100, -3, -77). Index 1 twice.
OWN = np.array([[17, 201, 99]], dtype=np.uint64)
MASKS = [
    (OWN.astype(int) - np.array(values)).astype(np.uint64) & np.uint64(255)
    for values in ([[5, 90, 7]], [[-100, -3, -77]])
]


@dataclasses.dataclass
class View:
    """All that the evaluator sees or computes, without the constant wire."""

    inputs: np.ndarray
    wires: np.ndarray
    tables: np.ndarray

    def list_blocks(self) -> list[bytes]:
        rows = np.concatenate([self.inputs.reshape(-1, 2), self.tables])
        return [row.tobytes() for row in rows]


def view_from(circuit, *, inputs, tables, key) -> View:
    """Return the view, with the labels of all wires."""
    nothing = np.array([], dtype=np.intp)
    every = dataclasses.replace(
        circuit, user_outputs=np.arange(1, circuit.wires), returned_outputs=nothing
    )
    wires = evaluate(every, inputs=inputs, tables=tables, key=key)
    return View(inputs=inputs, wires=wires, tables=tables)


def observe(parties, masks, *, lanes=LANES) -> View:
    """Return the evaluator's view of one opening in which all lanes are equal."""
    garbler, evaluator = parties
    transfer = evaluator.begin(CIRCUIT, shares=np.repeat(OWN, lanes, axis=0))
    own = evaluator._openings[transfer.name].labels
    garbled = garbler.garble(CIRCUIT, shares=np.repeat(masks, lanes, axis=0), transfer=transfer)
    tables = garbled.tables
    evaluator.abandon(transfer.name)
    other = expand_labels(tables.seed, shape=own.shape[:2])
    inputs = np.concatenate([own, other])
    return view_from(CIRCUIT, inputs=inputs, tables=tables.tables, key=tables.key)


def garble_view(circuit, bits, *, zero, offset, key) -> View:
    """Return the view of a garbler that uses these zero labels, this offset and this key."""
    tables, _ = garble(circuit, inputs=zero, offset=offset, key=key)
    return view_from(circuit, inputs=choose(zero, bits, offset), tables=tables, key=key)


def measure_bias(samples: np.ndarray) -> float:
    """Return the largest deviation of a column's mean from 1/2, in units of the allowed one."""
    count, columns = samples.shape
    allowed = math.sqrt(math.log(2 * columns / FALSE_ALARM) / (2 * count))
    return float(abs(samples.mean(axis=0) - 0.5).max()) / allowed


def spread_bits(labels: np.ndarray) -> np.ndarray:
    return np.unpackbits(np.ascontiguousarray(labels).view(np.uint8).reshape(-1, 16), axis=1)


def count_repeats(*views: View) -> int:
    """Return how many blocks of tables and input labels appear more than once."""
    counts = Counter(itertools.chain.from_iterable(view.list_blocks() for view in views))
    return sum(count - 1 for count in counts.values())


def count_commonest_difference(first: View, second: View) -> int:
    """Return how often the commonest non-zero XOR of labels of one wire appears: of the offset."""
    differences = (first.inputs ^ second.inputs).reshape(-1, 2)
    counts = Counter(row.tobytes() for row in differences if row.any())
    return max(counts.values(), default=0)


def input_bits(masks, lanes=LANES) -> np.ndarray:
    own, masks = np.repeat(OWN, lanes, axis=0), np.repeat(masks, lanes, axis=0)
    return np.concatenate([CIRCUIT.split_evaluator(own), CIRCUIT.split_garbler(masks)])


@pytest.fixture(scope="module")
def views(parties):
    return [observe(parties, masks) for masks in MASKS]


def test_both_inputs_have_the_same_output():
    for masks in MASKS:
        user, _ = evaluate_clear(CIRCUIT, evaluator=OWN, garbler=masks)
        assert user.tolist() == [[True, False]]


def test_colours_of_all_wires_are_fair_for_both_inputs(views):
    for view in views:
        assert measure_bias(take_colours(view.wires).T) < 1


def test_colours_of_the_two_views_do_not_differ_more_than_chance(views):
    first, second = (take_colours(view.wires) for view in views)
    assert measure_bias((first ^ second).T) < 1


def test_bits_of_tables_and_labels_are_fair_for_both_inputs(views):
    for view in views:
        assert measure_bias(spread_bits(view.tables)) < 1
        assert measure_bias(spread_bits(view.inputs)) < 1


def test_no_label_or_table_appears_twice(views):
    assert count_repeats(*views) == 0


def test_labels_of_two_circuits_do_not_give_the_offset(views):
    assert count_commonest_difference(*views) == 1


def test_reused_labels_give_the_offset_away():
    offset, zero, key = draw_offset(), draw_labels(48, 50), secrets.token_bytes(16)
    first, second = (
        garble_view(CIRCUIT, input_bits(masks, 50), zero=zero, offset=offset, key=key)
        for masks in MASKS
    )
    assert count_repeats(first, second) > 100
    assert count_commonest_difference(first, second) > 100


def test_labels_with_the_bit_as_colour_are_seen():
    offset, zero = draw_offset(), draw_labels(48, LANES)
    zero[..., 0] &= ~np.uint64(1)
    view = garble_view(CIRCUIT, input_bits(MASKS[0]), zero=zero, offset=offset, key=bytes(16))
    assert measure_bias(take_colours(view.wires).T) > 3


def fan_out():
    """One bit of the evaluator, ANDed with each of eight bits of the garbler."""
    builder = CircuitBuilder(ShareGroup(8, 1))
    shared = builder.evaluator[0][0]
    products = [builder.conjoin(shared, other[0]) for other in builder.garbler]
    return builder.build(user=products)


def view_fan_out(garbler_bit: bool) -> tuple[View, np.ndarray]:
    """Return a view in which all outputs are 0, whatever the garbler's bits are, and the offset."""
    circuit, offset = fan_out(), draw_offset()
    bits = np.zeros((16, 1), dtype=bool)
    bits[8:] = garbler_bit
    zero = draw_labels(16, 1)
    return garble_view(circuit, bits, zero=zero, offset=offset, key=bytes(16)), offset


def find_offset_in_tables(view: View, offset: np.ndarray) -> bool:
    pairs = itertools.combinations(view.tables, 2)
    return any(np.array_equal(a ^ b, offset) for a, b in pairs)


@pytest.mark.parametrize("garbler_bit", [False, True])
def test_tweaks_hide_that_gates_share_an_input(garbler_bit):
    for _ in range(20):
        view, offset = view_fan_out(garbler_bit)
        assert count_repeats(view) == 0
        assert not find_offset_in_tables(view, offset)


@pytest.mark.parametrize("garbler_bit", [False, True])
def test_missing_tweak_is_seen(monkeypatch, garbler_bit):
    def no_tweaks(self, count):
        return 0, self._tweaks[:count] * np.uint64(0)

    monkeypatch.setattr(gate_module._Work, "next_tweaks", no_tweaks)
    found = repeats = 0
    for _ in range(20):
        view, offset = view_fan_out(garbler_bit)
        repeats += count_repeats(view)
        found += find_offset_in_tables(view, offset)
    # Eight tables of one shared input are H(A) xor H(A xor R) xor (0 or R).
    assert repeats >= 20
    assert found >= 10


def decode(offset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the decoded outputs and the right ones, for random inputs."""
    bits = np.random.default_rng(0).random((48, LANES)) < 0.5
    zero = draw_labels(48, LANES)
    tables, zeros = garble(CIRCUIT, inputs=zero, offset=offset, key=bytes(16))
    labels = evaluate(CIRCUIT, inputs=choose(zero, bits, offset), tables=tables, key=bytes(16))
    return take_colours(labels) ^ take_colours(zeros), evaluate_bits(CIRCUIT, bits)


def test_colours_tell_the_labels_of_a_wire_apart():
    got, right = decode(draw_offset())
    assert np.array_equal(got, right)


def draw_even_offset() -> np.ndarray:
    offset = draw_offset()
    offset[0] ^= np.uint64(1)
    return offset


def test_offset_with_lowest_bit_zero_gives_wrong_outputs():
    got, right = decode(draw_even_offset())
    assert (got != right).mean() > 0.2


def count_known_labels(draw, garbler_bit: bool) -> int:
    """Return how often, of 200 times, the evaluator finds the hash of the label that it returns.

    The circuit returns the AND of the evaluator's 0 and a bit of the garbler: always 0.
    """
    builder = CircuitBuilder(ShareGroup(1, 1))
    wire = builder.conjoin(builder.evaluator[0][0], builder.garbler[0][0])
    circuit = builder.build(returned=[wire])
    known = 0
    for _ in range(200):
        offset, zero, key = draw(), draw_labels(2, 1), secrets.token_bytes(16)
        tables, outputs = garble(circuit, inputs=zero, offset=offset, key=key)
        hashes = commit_outputs(outputs, offset=offset, key=key, name=bytes(16))
        inputs = choose(zero, np.array([[False], [garbler_bit]]), offset)
        labels = evaluate(circuit, inputs=inputs, tables=tables, key=key)
        known += match_outputs(labels, hashes=hashes, key=key, name=bytes(16))
    return known


def test_returned_labels_are_known_whatever_the_garbler_has():
    assert [count_known_labels(draw_offset, bit) for bit in (False, True)] == [200, 200]


def test_offset_with_lowest_bit_zero_shows_the_garblers_bit():
    # Both labels of a wire have one colour: the evaluator takes the wrong half of a table.
    assert count_known_labels(draw_even_offset, False) == 200
    assert count_known_labels(draw_even_offset, True) < 100


def test_session_draws_an_offset_with_lowest_bit_one(parties):
    assert parties[0]._offset[0] & np.uint64(1)


def test_transfer_columns_look_alike_for_all_inputs(parties):
    _, evaluator = parties
    for value in (0, 255):
        shares = np.full((LANES, 3), value, dtype=np.uint64)
        transfer = evaluator.begin(CIRCUIT, shares=shares)
        evaluator.abandon(transfer.name)
        assert measure_bias(np.unpackbits(transfer.columns, axis=1).T) < 1
