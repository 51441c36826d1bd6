"""The two state machines: what they refuse, and that secrets stay where they are."""

import copy
import dataclasses
import os
import pickle
import secrets

import numpy as np
import pytest

from helba.errors import DamagedData, EngineError, InvalidInput, Refused
from helba.garbling import (
    EvaluatorSession,
    GarblerSession,
    build_argmax,
    combine,
)
from helba.garbling import session as session_module
from tests.garbling.parties import build_threshold, evaluate_clear, open_shares, set_up, share

CIRCUIT = build_threshold(bits=8, limit=3)


def draw(lanes=5):
    rng = np.random.default_rng(lanes)
    return share(rng.integers(-128, 128, size=(lanes, 1)), bits=8, rng=rng)


@pytest.fixture
def opening(parties):
    """Return both parties, an opening up to the tables, and the right bits."""
    garbler, evaluator = parties
    own, masks = draw()
    transfer = evaluator.begin(CIRCUIT, shares=own)
    garbled = garbler.garble(CIRCUIT, shares=masks, transfer=transfer)
    right = evaluate_clear(CIRCUIT, evaluator=own, garbler=masks)[1]
    return garbler, evaluator, transfer, garbled, right


def test_openings_can_overlap(parties):
    garbler, evaluator = parties
    inputs = [draw(lanes) for lanes in (1, 2, 3)]
    transfers = [evaluator.begin(CIRCUIT, shares=own) for own, _ in inputs]
    tables = [
        garbler.garble(CIRCUIT, shares=masks, transfer=transfer).tables
        for (_, masks), transfer in reversed(list(zip(inputs, transfers, strict=True)))
    ]
    for (own, masks), table in zip(reversed(inputs), tables, strict=True):
        bits = garbler.finish(evaluator.evaluate(table).returned)
        assert np.array_equal(bits, evaluate_clear(CIRCUIT, evaluator=own, garbler=masks)[1])


def test_opening_is_evaluated_once(opening):
    _, evaluator, _, garbled, _ = opening
    evaluator.evaluate(garbled.tables)
    with pytest.raises(DamagedData, match="not open"):
        evaluator.evaluate(garbled.tables)


def test_opening_is_finished_once(opening):
    garbler, evaluator, _, garbled, right = opening
    returned = evaluator.evaluate(garbled.tables).returned
    assert np.array_equal(garbler.finish(returned), right)
    with pytest.raises(DamagedData, match="not open"):
        garbler.finish(returned)


def test_abandoned_opening_cannot_be_used(opening):
    garbler, evaluator, transfer, garbled, _ = opening
    returned = evaluator.evaluate(garbled.tables).returned
    garbler.abandon(transfer.name)
    with pytest.raises(DamagedData, match="not open"):
        garbler.finish(returned)
    own, _ = draw()
    other = evaluator.begin(CIRCUIT, shares=own)
    evaluator.abandon(other.name)
    evaluator.abandon(other.name)
    with pytest.raises(DamagedData, match="not open"):
        evaluator.evaluate(dataclasses.replace(garbled.tables, name=other.name))


def test_garbler_refuses_a_nonce_twice(opening):
    garbler, _, transfer, _, _ = opening
    garbler.abandon(transfer.name)
    for name in (transfer.name, secrets.token_bytes(16)):
        with pytest.raises(Refused, match="nonce"):
            garbler.garble(
                CIRCUIT, shares=draw()[1], transfer=dataclasses.replace(transfer, name=name)
            )


def test_garbler_refuses_the_name_of_an_open_opening(opening):
    garbler, evaluator, transfer, _, _ = opening
    other = dataclasses.replace(evaluator.begin(CIRCUIT, shares=draw()[0]), name=transfer.name)
    with pytest.raises(Refused, match="new opening"):
        garbler.garble(CIRCUIT, shares=draw()[1], transfer=other)


def test_evaluator_refuses_a_nonce_twice(parties, monkeypatch):
    _, evaluator = parties
    monkeypatch.setattr(evaluator, "_draw", lambda size: b"n" * size)
    evaluator.begin(CIRCUIT, shares=draw()[0])
    with pytest.raises(Refused, match="nonce"):
        evaluator.begin(CIRCUIT, shares=draw()[0])


def test_session_serves_a_limited_number_of_openings(parties, monkeypatch):
    _, evaluator = parties
    evaluator.begin(CIRCUIT, shares=draw()[0])
    monkeypatch.setattr(session_module, "MAX_OPENINGS", 1)
    with pytest.raises(EngineError, match="make a new session"):
        evaluator.begin(CIRCUIT, shares=draw()[0])


def test_session_keeps_a_limited_amount_of_labels(monkeypatch):
    garbler, evaluator = GarblerSession(), EvaluatorSession()
    set_up(garbler, evaluator)
    first = evaluator.begin(CIRCUIT, shares=draw()[0])
    size = evaluator._openings[first.name].labels.nbytes
    monkeypatch.setattr(session_module, "MAX_WAITING_BYTES", 2 * size)
    second = evaluator.begin(CIRCUIT, shares=draw()[0])
    with pytest.raises(EngineError, match="abandon some"):
        evaluator.begin(CIRCUIT, shares=draw()[0])
    evaluator.abandon(first.name)
    evaluator.abandon(first.name)
    evaluator.begin(CIRCUIT, shares=draw()[0])
    evaluator.evaluate(garbler.garble(CIRCUIT, shares=draw()[1], transfer=second).tables)
    evaluator.begin(CIRCUIT, shares=draw()[0])


@pytest.mark.parametrize("field", ["tables", "hashes"])
def test_flipped_bits_return_the_right_labels_or_nothing(parties, field):
    garbler, evaluator = parties
    own, masks = draw(1)
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        transfer = evaluator.begin(CIRCUIT, shares=own)
        tables = garbler.garble(CIRCUIT, shares=masks, transfer=transfer).tables
        damaged = getattr(tables, field).copy()
        flat = damaged.reshape(-1).view(np.uint8)
        flat[rng.integers(flat.size)] ^= np.uint8(1 << rng.integers(8))
        try:
            returned = evaluator.evaluate(dataclasses.replace(tables, **{field: damaged})).returned
        except Refused:
            refused += 1
            continue
        # The damage was at a place that this evaluation does not use.
        right = evaluate_clear(CIRCUIT, evaluator=own, garbler=masks)[1]
        assert np.array_equal(garbler.finish(returned), right)
    assert 50 < refused < 290


def test_flipped_bit_of_an_input_label_returns_nothing(parties):
    garbler, evaluator = parties
    own, masks = draw(1)
    for place in range(0, 8 * 128, 5):
        transfer = evaluator.begin(CIRCUIT, shares=own)
        tables = garbler.garble(CIRCUIT, shares=masks, transfer=transfer).tables
        flat = evaluator._openings[transfer.name].labels.reshape(-1).view(np.uint8)
        flat[place // 8] ^= np.uint8(1 << place % 8)
        with pytest.raises(Refused):
            evaluator.evaluate(tables)


@pytest.mark.parametrize("field", ["key", "seed"])
def test_other_key_or_seed_returns_nothing(opening, field):
    _, evaluator, _, garbled, _ = opening
    with pytest.raises(Refused, match="nothing is returned"):
        evaluator.evaluate(dataclasses.replace(garbled.tables, **{field: bytes(16)}))
    with pytest.raises(DamagedData, match="not open"):
        evaluator.evaluate(garbled.tables)


def test_tables_of_another_opening_return_nothing(opening):
    garbler, evaluator, _, garbled, _ = opening
    transfer = evaluator.begin(CIRCUIT, shares=draw()[0])
    other = garbler.garble(CIRCUIT, shares=draw()[1], transfer=transfer).tables
    with pytest.raises(Refused):
        evaluator.evaluate(dataclasses.replace(other, name=garbled.tables.name))


def test_garbler_takes_only_its_own_labels(opening):
    garbler, evaluator, _, garbled, _ = opening
    returned = evaluator.evaluate(garbled.tables).returned
    labels = returned.labels.copy()
    labels[0, 2, 0] ^= np.uint64(1)
    with pytest.raises(DamagedData, match="another label"):
        garbler.finish(dataclasses.replace(returned, labels=labels))
    with pytest.raises(DamagedData, match="not open"):
        garbler.finish(returned)


def test_garbler_reads_the_other_label_as_the_other_bit(opening):
    garbler, evaluator, _, garbled, right = opening
    returned = evaluator.evaluate(garbled.tables).returned
    forged = dataclasses.replace(returned, labels=returned.labels ^ garbler._offset)
    assert np.array_equal(garbler.finish(forged), ~right)


def test_messages_for_other_circuits_lanes_or_sessions_are_refused(parties):
    garbler, evaluator = parties
    transfer = evaluator.begin(CIRCUIT, shares=draw()[0])
    with pytest.raises(DamagedData, match="this circuit"):
        garbler.garble(build_threshold(bits=8), shares=draw()[1], transfer=transfer)
    with pytest.raises(DamagedData, match="these lanes"):
        garbler.garble(CIRCUIT, shares=draw(4)[1], transfer=transfer)
    with pytest.raises(DamagedData, match="session"):
        garbler.garble(
            CIRCUIT, shares=draw()[1], transfer=dataclasses.replace(transfer, session=bytes(16))
        )
    tables = garbler.garble(CIRCUIT, shares=draw()[1], transfer=transfer).tables
    with pytest.raises(DamagedData, match="session"):
        evaluator.evaluate(dataclasses.replace(tables, session=bytes(16)))
    with pytest.raises(DamagedData, match="circuit and lanes"):
        evaluator.evaluate(dataclasses.replace(tables, circuit=bytes(16)))
    transfer = evaluator.begin(CIRCUIT, shares=draw()[0])
    tables = garbler.garble(CIRCUIT, shares=draw()[1], transfer=transfer).tables
    with pytest.raises(DamagedData, match="circuit and lanes"):
        evaluator.evaluate(dataclasses.replace(tables, lanes=4))


def test_session_works_only_after_its_set_up():
    garbler, evaluator = GarblerSession(), EvaluatorSession()
    with pytest.raises(EngineError, match="set up"):
        evaluator.begin(CIRCUIT, shares=draw()[0])
    offer = garbler.offer()
    with pytest.raises(EngineError, match="second"):
        garbler.offer()
    answer = evaluator.answer(offer)
    with pytest.raises(EngineError, match="second"):
        evaluator.answer(offer)
    transfer = evaluator.begin(CIRCUIT, shares=draw()[0])
    with pytest.raises(EngineError, match="set up"):
        garbler.garble(CIRCUIT, shares=draw()[1], transfer=transfer)
    garbler.complete(answer)
    with pytest.raises(EngineError, match="not answered yet"):
        garbler.complete(answer)
    garbler.garble(CIRCUIT, shares=draw()[1], transfer=transfer)


def test_refused_answer_ends_the_session():
    garbler, evaluator = GarblerSession(), EvaluatorSession()
    answer = evaluator.answer(garbler.offer())
    with pytest.raises(DamagedData, match="place 0"):
        garbler.complete(dataclasses.replace(answer, points=bytes(32) + answer.points[32:]))
    with pytest.raises(EngineError):
        garbler.complete(answer)
    other = GarblerSession()
    other.offer()
    with pytest.raises(DamagedData, match="offer"):
        other.complete(answer)


def test_set_up_between_strangers_gives_wrong_labels_and_no_bit():
    first, second = GarblerSession(), GarblerSession()
    evaluator = EvaluatorSession()
    offer = first.offer()
    answer = evaluator.answer(offer)
    second.offer()
    second._offered = offer.session
    second._base._session = offer.session
    second.complete(answer)
    transfer = evaluator.begin(CIRCUIT, shares=draw()[0])
    tables = second.garble(CIRCUIT, shares=draw()[1], transfer=transfer).tables
    with pytest.raises(Refused):
        evaluator.evaluate(tables)


def run_in_child(action) -> str:
    """Return the name and text of the error that `action` raises in a forked process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            action()
            text = "none"
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        text = file.read()
    os.waitpid(child, 0)
    return text


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_sessions_refuse_another_process(opening):
    garbler, evaluator, transfer, garbled, _ = opening
    own, masks = draw()
    offering, answering = GarblerSession(), EvaluatorSession()
    offer = offering.offer()
    answer = EvaluatorSession().answer(offer)
    actions = [
        lambda: evaluator.begin(CIRCUIT, shares=own),
        lambda: evaluator.evaluate(garbled.tables),
        lambda: evaluator.abandon(transfer.name),
        lambda: garbler.garble(CIRCUIT, shares=masks, transfer=transfer),
        lambda: garbler.finish(None),
        lambda: garbler.abandon(transfer.name),
        lambda: offering.complete(answer),
        lambda: answering.answer(offer),
        GarblerSession().offer,
    ]
    for action in actions:
        refused = run_in_child(action)
        assert refused.startswith("EngineError: expected ")
        assert "to be used in process" in refused
    parent = os.getpid()

    def pretend_to_be_the_parent():
        os.getpid = lambda: parent
        evaluator.begin(CIRCUIT, shares=own)

    assert run_in_child(pretend_to_be_the_parent).startswith("EngineError: expected ")
    offering.complete(answer)  # all of it works where it belongs
    answering.answer(offer)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_processes_and_sessions_never_share_an_offset():
    offsets = {GarblerSession()._offset.tobytes() for _ in range(50)}
    for _ in range(3):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, GarblerSession()._offset.tobytes())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            offsets.add(file.read())
        os.waitpid(child, 0)
    assert len(offsets) == 53
    assert all(offset[0] & 1 for offset in offsets)


def list_secret_objects(opening):
    garbler, evaluator, transfer, garbled, _ = opening
    pending = evaluator._openings[transfer.name]
    evaluated = evaluator.evaluate(garbled.tables)
    return [
        garbler,
        evaluator,
        garbler._sender,
        evaluator._receiver,
        transfer,
        garbled,
        garbled.tables,
        pending,
        garbler._openings[transfer.name],
        evaluated,
        evaluated.returned,
        GarblerSession().offer(),
    ]


def test_objects_with_secrets_are_neither_pickled_nor_copied(opening):
    for secret in list_secret_objects(opening):
        for act in (pickle.dumps, copy.copy, copy.deepcopy, lambda s: s.__getstate__()):
            with pytest.raises(EngineError, match="pickle or copy"):
                act(secret)


def test_objects_with_secrets_do_not_print_them(opening):
    garbler, evaluator, transfer, garbled, _ = opening
    objects = list_secret_objects(opening)
    texts = [show(item) for item in objects for show in (repr, str)]
    texts += [f"{objects}", repr(vars(garbled)["tables"])]
    words = garbled.tables.tables.reshape(-1).tolist() + garbler._offset.tolist()
    words += evaluator._receiver._zero.draw(transfer.nonce, size=16).reshape(-1, 16)[0].tolist()
    blocks = [garbled.tables.tables[0].tobytes(), garbler._offset.tobytes(), garbled.tables.seed]
    for text in texts:
        assert len(text) < 3000
        assert not any(block.hex() in text or repr(block) in text for block in blocks)
        assert not any(str(word) in text for word in words if word > 10_000)
        assert "array" not in text
    assert repr(garbled.tables) == "TablesMessage(5 lanes)"
    assert repr(garbled) == "Garbled(5 lanes, 0 outputs)"


def test_tables_and_labels_of_two_openings_have_nothing_in_common(parties):
    own, masks = draw(20)
    circuit = build_threshold(bits=8)
    outcomes = [open_shares(parties, circuit, evaluator=own, garbler=masks) for _ in range(5)]
    blocks = [
        row.tobytes()
        for outcome in outcomes
        for labels in (outcome.garbled.tables.tables, outcome.evaluated.returned.labels[0])
        for row in labels
    ]
    assert len(set(blocks)) == len(blocks)
    assert len({o.garbled.tables.key for o in outcomes}) == 5
    assert len({o.transfer.name for o in outcomes} | {o.transfer.nonce for o in outcomes}) == 10


def test_combine_wants_equal_shapes():
    with pytest.raises(InvalidInput):
        combine(np.zeros((2, 1), dtype=bool), np.zeros((1, 2), dtype=bool))


def test_second_session_works_beside_the_first(parties):
    pair = GarblerSession(), EvaluatorSession()
    set_up(*pair)
    own, masks = draw()
    for both in (pair, parties):
        outcome = open_shares(both, CIRCUIT, evaluator=own, garbler=masks)
        right = evaluate_clear(CIRCUIT, evaluator=own, garbler=masks)[1]
        assert np.array_equal(outcome.returned, right)
    transfer = pair[1].begin(CIRCUIT, shares=own)
    with pytest.raises(DamagedData, match="session"):
        parties[0].garble(CIRCUIT, shares=masks, transfer=transfer)


def test_argmax_keeps_nothing_open(parties):
    garbler, evaluator = parties
    before = set(garbler._openings), set(evaluator._openings)
    rng = np.random.default_rng(0)
    own, masks = share(rng.integers(-9, 9, size=(2, 3)), bits=8, rng=rng)
    outcome = open_shares(parties, build_argmax(3, bits=8), evaluator=own, garbler=masks)
    assert outcome.evaluated.returned is None
    assert (set(garbler._openings), set(evaluator._openings)) == before
