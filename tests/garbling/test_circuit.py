"""Circuits as data: their names, their inputs, and what the builder leaves out."""

import numpy as np
import pytest

from helba.errors import InvalidInput
from helba.garbling import build_argmax, build_ranges_check, build_report_check
from helba.garbling.circuits.builder import CircuitBuilder
from helba.garbling.circuits.circuit import ShareGroup
from tests.garbling.parties import evaluate_clear


def test_circuits_are_built_once_and_equal_ones_have_equal_digests():
    assert build_argmax(4, bits=16) is build_argmax(4, bits=16)
    first = build_argmax.__wrapped__(4, bits=16)
    assert first is not build_argmax(4, bits=16)
    assert first.digest == build_argmax(4, bits=16).digest


def test_circuits_that_differ_have_other_digests():
    circuits = [
        build_argmax(4, bits=16),
        build_argmax(4, bits=17),
        build_argmax(5, bits=16),
        build_argmax(4, bits=16, grid_bits=1),
        build_argmax(4, bits=16, grid_bits=2),
    ]
    assert len({circuit.digest for circuit in circuits}) == len(circuits)


def test_digest_tells_gates_inputs_and_outputs_apart():
    def build(*, product, outputs):
        builder = CircuitBuilder(ShareGroup(2, 2))
        (a, b), (c, d) = builder.evaluator
        wires = [builder.conjoin(*((a, c) if product else (a, d))), builder.conjoin(b, c)]
        return builder.build(user=[wires[i] for i in outputs])

    plain = build(product=True, outputs=(0, 1))
    assert build(product=True, outputs=(0, 1)).digest == plain.digest
    others = [build(product=False, outputs=(0, 1)), build(product=True, outputs=(1, 0))]
    for other in others:
        assert (other.groups, other.and_gates) == (plain.groups, plain.and_gates)
        assert other.digest != plain.digest


def test_digest_does_not_depend_on_the_kind_of_integers():
    plain = build_ranges_check.__wrapped__(((-7, 9),), bits=16)
    bits, low, high = np.array([16, -7, 9])
    assert build_ranges_check.__wrapped__(((low, high),), bits=bits).digest == plain.digest
    report = {"bits": 16, "limit": 9, "reward_limit": 3, "leading_bits": 2, "bound": 4}
    reports = [build_report_check.__wrapped__(2, reports=n, **report) for n in (3, np.int64(3))]
    assert reports[0].digest == reports[1].digest
    assert ShareGroup(1, 8, offset=-1) == ShareGroup(1, 8, offset=255)


def test_circuit_cannot_be_changed():
    circuit = build_argmax(2, bits=8)
    with pytest.raises(AttributeError):
        circuit.wires = 3
    with pytest.raises(ValueError, match="read-only"):
        circuit.steps[0].inputs[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        circuit.user_outputs[0] = 1


def test_builder_folds_constants_and_repeated_gates():
    builder = CircuitBuilder(ShareGroup(1, 2))
    a, b = builder.evaluator[0]
    assert builder.conjoin(a, 0) == builder.conjoin(a, builder.negate(a)) == 0
    assert builder.conjoin(a, 1) == builder.conjoin(a, a) == a
    assert builder.xor(a, a) == 0
    assert builder.xor(a, 1) == builder.negate(a)
    assert builder.disjoin(a, 1) == 1
    assert builder.conjoin(a, b) == builder.conjoin(b, a)
    assert builder.xor(builder.negate(a), b) == builder.negate(builder.xor(a, b))


def test_builder_leaves_out_gates_that_no_output_needs():
    builder = CircuitBuilder(ShareGroup(1, 2))
    a, b = builder.evaluator[0]
    builder.conjoin(a, b)
    assert builder.build(user=[a]).steps == ()


def test_constant_outputs_are_for_users_only():
    builder = CircuitBuilder(ShareGroup(1, 1))
    circuit = builder.build(user=[0, 1])
    zero = np.zeros((3, 1), dtype=np.uint64)
    user, returned = evaluate_clear(circuit, evaluator=zero, garbler=zero)
    assert user.tolist() == [[False, True]] * 3
    assert returned.shape == (3, 0)
    with pytest.raises(InvalidInput, match="constant"):
        builder.build(returned=[1])


@pytest.mark.parametrize(
    "shares",
    [
        np.zeros((3, 2), dtype=np.int64),
        np.zeros((3, 1), dtype=np.uint64),
        np.zeros(2, dtype=np.uint64),
        np.zeros((0, 2), dtype=np.uint64),
        np.full((3, 2), 256, dtype=np.uint64),
        [np.zeros((3, 2), dtype=np.uint64)] * 2,
        [],
    ],
    ids=["signed", "values", "shape", "no lane", "too large", "two groups", "no group"],
)
def test_shares_that_do_not_fit_are_refused(shares):
    with pytest.raises(InvalidInput):
        build_argmax(2, bits=8).split_garbler(shares)


def test_refused_shares_are_not_shown():
    with pytest.raises(InvalidInput) as caught:
        build_argmax(2, bits=8).split_garbler(np.full((1, 2), 123456789, dtype=np.uint64))
    assert "123456789" not in str(caught.value)
