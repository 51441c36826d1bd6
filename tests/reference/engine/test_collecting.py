"""Sums of vectors that arrive as bytes: what sums of the vectors would be, and nothing else."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.typing import NDArray

from helba.errors import DamagedData, InvalidInput, WrongVector
from helba.reference.engine import get_scheme
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, Desk, open_desk
from tests.reference.engine.reading import read_residues

insecure_small = insecure_parameters(ring_dim=1 << 10, depth=3, scale_bits=45)
SLOTS, LEVEL = 16, 1
# more than words of 64 bits hold of residues of the first prime, of 60 bits
MANY = 70

Array = NDArray[np.float64]


@pytest.fixture(params=BOTH)
def desk(request: pytest.FixtureRequest) -> Desk:
    return open_desk(request.param, parameters=insecure_small)


def arriving(desk: Desk, count: int, *, seed: int = 0) -> tuple[Array, list[bytes]]:
    engine = desk.engine
    numbers = np.random.default_rng(seed).uniform(-1, 1, (count, SLOTS))
    vectors = [engine.encrypt(row, level=LEVEL) for row in numbers]
    return numbers, [engine.vector_to_bytes(vector) for vector in vectors]


@pytest.mark.parametrize("count", [1, 2, 14, 15, 16, MANY])
def test_collected_vectors_add_up(desk: Desk, count: int) -> None:
    numbers, messages = arriving(desk, count)
    collected = desk.engine.collect(slots=SLOTS, level=LEVEL)
    with desk.engine.count() as done:
        vectors = [collected.read(message) for message in messages]
        collected.add(vectors[:1])
        collected.add(vectors[1:])
    total = collected.total()
    assert (total.slots, total.level, collected.count) == (SLOTS, LEVEL, count)
    assert done.of("add") == done.operations["add", LEVEL] == count - 1
    np.testing.assert_allclose(desk.open(total), numbers.sum(axis=0), rtol=0, atol=1e-6)
    squared = desk.engine.multiply(total, total)  # an engine goes on with it
    np.testing.assert_allclose(desk.open(squared), numbers.sum(axis=0) ** 2, rtol=0, atol=1e-4)


@pytest.mark.ckks
def test_collected_residues_are_those_of_the_sum() -> None:
    engine = open_desk("ckks", parameters=insecure_small).engine
    _, messages = arriving(open_desk("ckks", parameters=insecure_small), MANY)
    collected = engine.collect(slots=SLOTS, level=LEVEL)
    collected.add([collected.read(memoryview(message)) for message in messages])
    vectors = [engine.vector_from_bytes(message) for message in messages]
    total, known_total = collected.total(), engine.add_up(vectors)
    found, known = (read_residues(engine, each) for each in (total, known_total))
    for one, other in zip(found, known, strict=True):
        for row, known_row in zip(one, other, strict=True):
            assert np.array_equal(row, known_row)


def test_more_can_be_added_after_a_total(desk: Desk) -> None:
    numbers, messages = arriving(desk, 3)
    collected = desk.engine.collect(slots=SLOTS, level=LEVEL)
    collected.add([collected.read(messages[0])])
    first = collected.total()
    collected.add(collected.read(message) for message in messages[1:])
    np.testing.assert_allclose(desk.open(first), numbers[0], rtol=0, atol=1e-6)
    np.testing.assert_allclose(desk.open(collected.total()), numbers.sum(axis=0), rtol=0, atol=1e-6)


def test_read_vectors_can_be_added_again(desk: Desk) -> None:
    """They, and the bytes they came from, stay as they are."""
    numbers, (message,) = arriving(desk, 1)
    before = bytes(bytearray(message))
    one, other = (desk.engine.collect(slots=SLOTS, level=LEVEL) for _ in range(2))
    vector = one.read(message)
    one.add([vector, vector, vector])
    other.add([vector])
    assert message == before
    np.testing.assert_allclose(desk.open(one.total()), 3.0 * numbers[0], rtol=0, atol=1e-6)
    np.testing.assert_allclose(desk.open(other.total()), numbers[0], rtol=0, atol=1e-6)


def test_refused_messages_change_nothing(desk: Desk) -> None:
    engine = desk.engine
    numbers, messages = arriving(desk, 2)
    pair = get_scheme(engine.name).generate_pair(insecure_small)
    stranger = get_scheme(engine.name).engine(pair.public)
    wrong = [
        messages[0][:-1] + bytes([messages[0][-1] ^ 1]),
        messages[0][:100],
        engine.vector_to_bytes(engine.encrypt(np.zeros(SLOTS), level=LEVEL + 1)),
        engine.vector_to_bytes(engine.encrypt(np.zeros(2 * SLOTS), level=LEVEL)),
        stranger.vector_to_bytes(stranger.encrypt(np.zeros(SLOTS), level=LEVEL)),
    ]
    collected = engine.collect(slots=SLOTS, level=LEVEL)
    for message in messages:
        collected.add([collected.read(message)])
        for each in wrong:
            with pytest.raises(DamagedData):
                collected.read(each)
    strange = stranger.collect(slots=SLOTS, level=LEVEL).read(wrong[-1])
    narrow = engine.collect(slots=2 * SLOTS, level=LEVEL).read(wrong[-2])
    for vector in (strange, narrow):
        with pytest.raises(WrongVector):
            collected.add([collected.read(messages[0]), vector])
    assert collected.count == 2
    np.testing.assert_allclose(desk.open(collected.total()), numbers.sum(axis=0), rtol=0, atol=1e-6)


def test_sums_of_nothing_and_of_no_shape_are_refused(desk: Desk) -> None:
    with pytest.raises(InvalidInput, match="at least one"):
        desk.engine.collect(slots=SLOTS, level=LEVEL).total()
    with pytest.raises(InvalidInput, match="level"):
        desk.engine.collect(slots=SLOTS, level=insecure_small.depth + 1)


def test_sum_shows_its_shape_only(desk: Desk) -> None:
    collected = desk.engine.collect(slots=SLOTS, level=LEVEL)
    assert repr(collected) == f"<VectorSum of 0 slots={SLOTS} level={LEVEL}>"
    _, (message,) = arriving(desk, 1)
    vector = collected.read(message)
    assert repr(vector) == f"<ReadVector slots={SLOTS} level={LEVEL}>"
    with pytest.raises(TypeError, match="does not leave"):
        pickle.dumps(vector)
