"""Half gates against a scalar implementation, and against plain bits on random circuits."""

import secrets

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helba.garbling import build_argmax
from helba.garbling import gate as gate_module
from helba.garbling.circuits.builder import CircuitBuilder
from helba.garbling.circuits.circuit import ShareGroup, evaluate_bits
from helba.garbling.gate import evaluate, garble, take_colours
from tests.garbling.test_tweak_hash import KEY, hash_one, xor

ZERO = bytes(16)


def draw_offset() -> np.ndarray:
    offset = np.frombuffer(secrets.token_bytes(16), dtype="<u8").copy()
    offset[0] |= np.uint64(1)
    return offset


def draw_labels(*shape: int) -> np.ndarray:
    size = 16 * int(np.prod(shape))
    return np.frombuffer(secrets.token_bytes(size), dtype="<u8").reshape(*shape, 2).copy()


def choose(zero: np.ndarray, bits: np.ndarray, offset: np.ndarray) -> np.ndarray:
    return np.where(bits[..., None], zero ^ offset, zero)


def run_garbled(circuit, bits):
    """Return the output bits of a garbled run on input bits of shape (inputs, lanes)."""
    offset, zero = draw_offset(), draw_labels(*bits.shape)
    key = secrets.token_bytes(16)
    tables, zeros = garble(circuit, inputs=zero, offset=offset, key=key)
    labels = evaluate(circuit, inputs=choose(zero, bits, offset), tables=tables, key=key)
    results = take_colours(labels) ^ take_colours(zeros)
    assert np.array_equal(labels, choose(zeros, results, offset))
    return results


def garble_one(a: bytes, b: bytes, offset: bytes, number: int) -> tuple[bytes, bytes, bytes]:
    """One AND gate by the formulas of ePrint 2014/756: TG, TE, the output's zero label."""

    def scale(bit: int, block: bytes) -> bytes:
        return block if bit else ZERO

    left, right = a[0] & 1, b[0] & 1
    h = [hash_one(KEY, label, number) for label in (a, xor(a, offset))]
    first = xor(xor(h[0], h[1]), scale(right, offset))
    garbler_half = xor(h[0], scale(left, first))
    h = [hash_one(KEY, label, number + 1) for label in (b, xor(b, offset))]
    second = xor(xor(h[0], h[1]), a)
    evaluator_half = xor(h[0], scale(right, xor(second, a)))
    return first, second, xor(garbler_half, evaluator_half)


def one_gate():
    builder = CircuitBuilder(ShareGroup(1, 1))
    wire = builder.conjoin(builder.evaluator[0][0], builder.garbler[0][0])
    return builder.build(user=[wire])


@pytest.mark.parametrize("colours", range(4))
def test_garbled_gate_is_the_one_of_the_paper(colours):
    a = bytes([0x10 | colours & 1]) + bytes(range(1, 16))
    b = bytes([0x20 | colours >> 1]) + bytes(range(101, 116))
    offset = bytes([0x35]) + bytes(range(201, 216))
    labels = np.frombuffer(a + b, dtype="<u8").reshape(2, 1, 2)
    tables, zeros = garble(
        one_gate(), inputs=labels, offset=np.frombuffer(offset, dtype="<u8"), key=KEY
    )
    first, second, output = garble_one(a, b, offset, 0)
    assert tables.tobytes() == first + second
    assert zeros.tobytes() == output


def test_garbled_gate_has_these_values():
    labels = np.arange(4, dtype=np.uint64).reshape(2, 1, 2)
    offset = np.array([2**63 + 1, 7], dtype=np.uint64)
    tables, zeros = garble(one_gate(), inputs=labels, offset=offset, key=KEY)
    assert tables[0].tobytes().hex() == "c2e194cb25482566a8e47fb8cb52c48d"
    assert tables[1].tobytes().hex() == "1e3632a3ba18929ff0ce362d33faf265"
    assert zeros.tobytes().hex() == "f89a6f2190c97220518d191a90c40687"


def test_garbled_lanes_follow_each_other_in_tables_and_tweaks():
    offset, zero = draw_offset(), draw_labels(2, 3)
    tables, zeros = garble(one_gate(), inputs=zero, offset=offset, key=KEY)
    for lane in range(3):
        a, b = zero[0, lane].tobytes(), zero[1, lane].tobytes()
        # Garbler's halves of all lanes come first: their tweaks are 0, 1, 2, then 3, 4, 5.
        h = [hash_one(KEY, label, lane) for label in (a, xor(a, offset.tobytes()))]
        expected = xor(h[0], h[1]) if not b[0] & 1 else xor(xor(h[0], h[1]), offset.tobytes())
        assert tables[lane].tobytes() == expected
        h = [hash_one(KEY, label, 3 + lane) for label in (b, xor(b, offset.tobytes()))]
        assert tables[3 + lane].tobytes() == xor(xor(h[0], h[1]), a)
    assert zeros.shape == (1, 3, 2)


@st.composite
def random_circuits(draw):
    """A list of gates over earlier wires, and outputs among them."""
    inputs = draw(st.integers(1, 5))
    gates = []
    for i in range(draw(st.integers(0, 40))):
        wires = st.integers(0, 2 * inputs + 1 + i)
        gates.append((draw(st.sampled_from(["xor", "and", "or", "not"])), draw(wires), draw(wires)))
    last = 2 * inputs + 1 + len(gates)
    return inputs, gates, draw(st.lists(st.integers(0, last), min_size=1, max_size=6))


def run_plainly(gates, outputs, bits):
    wires = [False, True, *bits]
    for kind, a, b in gates:
        a, b = wires[a], wires[b]
        wires.append({"xor": a != b, "and": a and b, "or": a or b, "not": not a}[kind])
    return [bool(wires[o]) for o in outputs]


@given(random_circuits(), st.randoms(use_true_random=False))
def test_random_circuits_garbled_and_clear_equal_plain_python(description, random):
    inputs, gates, outputs = description
    builder = CircuitBuilder(ShareGroup(inputs, 1))
    wires = [0, 1] + [v[0] for v in builder.evaluator] + [v[0] for v in builder.garbler]
    for kind, a, b in gates:
        a, b = wires[a], wires[b]
        make = {"xor": builder.xor, "and": builder.conjoin, "or": builder.disjoin}
        wires.append(builder.negate(a) if kind == "not" else make[kind](a, b))
    circuit = builder.build(user=[wires[o] for o in outputs])
    lanes = 4
    bits = np.array([[random.random() < 0.5 for _ in range(lanes)] for _ in range(2 * inputs)])
    expected = [run_plainly(gates, outputs, bits[:, lane]) for lane in range(lanes)]
    assert np.array_equal(evaluate_bits(circuit, bits).T, expected)
    assert np.array_equal(run_garbled(circuit, bits).T, expected)


@pytest.mark.parametrize("block_lanes", [1, 3, 7])
def test_blocks_of_lanes_do_not_change_the_result(monkeypatch, block_lanes):
    circuit = build_argmax(3, bits=8)
    monkeypatch.setattr(gate_module, "_BLOCK_BYTES", 16 * circuit.wires * block_lanes)
    bits = np.random.default_rng(1).random((2 * circuit.input_bits, 10)) < 0.5
    assert np.array_equal(run_garbled(circuit, bits), evaluate_bits(circuit, bits))


def test_tweaks_of_a_circuit_are_all_different(monkeypatch):
    seen = []
    original = gate_module._Work.next_tweaks

    def record(self, count):
        first, tweaks = original(self, count)
        assert tweaks[:, 0].tolist() == list(range(first, first + count))
        seen.extend(tweak.tobytes() for tweak in tweaks)
        return first, tweaks

    monkeypatch.setattr(gate_module._Work, "next_tweaks", record)
    circuit = build_argmax(3, bits=8)
    monkeypatch.setattr(gate_module, "_BLOCK_BYTES", 16 * circuit.wires * 3)
    garble(circuit, inputs=draw_labels(48, 10), offset=draw_offset(), key=KEY)
    assert len(seen) == len(set(seen)) == 2 * circuit.and_gates * 10


def test_damaged_tables_or_labels_never_give_the_other_label():
    circuit = build_argmax(2, bits=8)
    rng = np.random.default_rng(2)
    bits = rng.random((2 * circuit.input_bits, 1)) < 0.5
    offset, zero = draw_offset(), draw_labels(*bits.shape)
    tables, _ = garble(circuit, inputs=zero, offset=offset, key=KEY)
    labels = choose(zero, bits, offset)
    right = evaluate(circuit, inputs=labels, tables=tables, key=KEY)
    changed = 0
    for target in (tables, labels):
        for place in range(0, 8 * target.nbytes, 5):
            damaged = target.copy()
            damaged.reshape(-1).view(np.uint8)[place // 8] ^= np.uint8(1 << place % 8)
            got = evaluate(
                circuit,
                inputs=damaged if target is labels else labels,
                tables=damaged if target is tables else tables,
                key=KEY,
            )
            assert not np.array_equal(got, right ^ offset)
            changed += not np.array_equal(got, right)
    assert changed > 100
