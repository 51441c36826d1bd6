"""A server that is saved and restored between any two messages goes on as if it had not been."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from helba.errors import DamagedData
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.serving.server import Server
from helba.reference.protocol.wire.frame import DIGEST_BYTES, frame, unframe
from helba.reference.twin.terms import BatchTerms
from helba.service.protocol.snapshot import MAGIC, VERSION, restore_server, save_server
from tests.engines import BOTH
from tests.reference.protocol.parties import MILD, TOY, History, Table, authority_of, require_arm

both = pytest.mark.parametrize("scheme", BOTH)
ROUNDS = {"simulate": 14, "ckks": 4}


class SavedTable(Table):
    """Saves and restores its server after every message, if told to."""

    saving = False

    def pause(self) -> None:
        if self.saving:
            self.server = restored(self)


def restored(table: Table, data: bytes | None = None) -> Server:
    return restore_server(
        save_server(table.server) if data is None else data,
        deployment=table.deployment,
        engine=table.server._engine,
        directory=table.server.directory,
    )


def run(scheme: str, *, saving: bool) -> tuple[SavedTable, list[tuple[int, BatchTerms]], bool]:
    """Arms and terms of a run, and whether no round of it was a tie."""
    table = SavedTable(authority_of(TOY, scheme=scheme))
    table.saving = saving
    history, generator = History(table.settings), np.random.default_rng(11)
    found, certain = [], True
    for _ in range(ROUNDS[scheme]):
        x = generator.uniform(-0.35, 0.35, (2, 2))  # short: no test comes near its band
        terms = table.server.terms
        ask = table.ask(x)
        table.pause()
        (answer,) = table.server.receive(ask)
        table.pause()
        assert table.server.receive(ask) == (answer,)  # answers are kept
        told = table.user.read(answer)
        certain &= require_arm(table.deployment, x, arm=told.arm, terms=terms, history=history)
        table.send_bit(told)
        table.pause()
        reward = float(generator.uniform(-1, 1))
        history.add(x[told.arm], reward)
        table.report(told.round, context=x[told.arm], reward=reward)
        while tasks := table.tasks():
            table.pause()
            assert table.tasks() == tasks
            reply = table.user.help(tasks[0])  # to a task of before the save
            table.pause()
            table.server.receive(reply)
        table.pause()
        found.append((told.arm, table.server.terms))
    return table, found, certain


@both
def test_saving_between_any_two_messages_changes_nothing(scheme: str) -> None:
    plain, expected, certain = run(scheme, saving=False)
    saved, found, _ = run(scheme, saving=True)
    assert certain
    assert found == expected
    assert saved.server.status() == plain.server.status()
    assert saved.server.updates >= 3
    np.testing.assert_allclose(saved.design(), plain.design(), rtol=0, atol=1e-5)
    np.testing.assert_allclose(saved.model().inverse, plain.model().inverse, rtol=0, atol=1e-3)


def in_the_middle(scheme: str) -> Table:
    """A server with everything in it: answers, a test, held rewards, an update under way."""
    table = Table(authority_of(TOY, scheme=scheme))
    table.learn([0.5, -0.2], 0.3)
    late = table.play([[0.1, 0.2]])  # its test stays out
    started = table.play([[1.0, 0.2]])
    table.report(started.round, context=[1.0, 0.2], reward=0.5)
    table.server.receive(table.user.help(table.tasks()[0]))
    table.report(late.round, context=[0.1, 0.2], reward=0.5)
    assert table.tasks()
    assert table.server.held
    assert table.server.growth.out
    table.play([[0.3, 0.3]])
    assert table.server.answers
    return table


@both
def test_state_survives_its_bytes(scheme: str) -> None:
    table = in_the_middle(scheme)
    data = save_server(table.server)
    copy = Table(table.authority, server=restored(table, data), user=table.user)
    assert copy.state() == table.state()
    assert save_server(copy.server) == data
    copy.help()
    table.help()
    assert copy.server.updates == table.server.updates >= 2


@pytest.mark.parametrize("place", range(4))
def test_update_can_be_resumed_at_each_of_its_tasks(place: int) -> None:
    table = Table(authority_of(TOY, scheme="simulate"))
    table.learn([0.5, -0.2], 0.3)
    played = table.play([[1.0, 0.2]])
    table.report(played.round, context=[1.0, 0.2], reward=0.5)
    for _ in range(place):
        table.server.receive(table.user.help(table.tasks()[0]))
    reply = table.user.help(table.tasks()[0])
    table.server = restored(table)
    table.server.receive(reply)
    table.server = restored(table)
    table.help()
    assert (table.server.updates, table.server.rejected) == (1, 0)


@examples(max_examples=40)
@given(st.data())
def test_damaged_state_is_refused(data: st.DataObject) -> None:
    table = Table(authority_of(TOY, scheme="simulate"))
    table.learn([0.5, -0.2], 0.3)
    whole = save_server(table.server)
    place = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[place] ^= data.draw(st.integers(1, 255))
    for broken in (bytes(flipped), whole[:place], whole + b"x", b"x" + whole):
        with pytest.raises(DamagedData):
            restored(table, broken)


@both
def test_damage_to_any_part_is_refused(scheme: str) -> None:
    """Vectors, masks, and the messages that are kept, down to the ciphertexts in these."""
    table = in_the_middle(scheme)
    whole = save_server(table.server)
    _, _, parts = unframe(
        whole,
        magic=MAGIC,
        version=VERSION,
        what="a state",
        most_head=1 << 30,
        most_parts=1 << 20,
    )
    kept = {*table.server.answers.values(), *table.tasks()}
    assert kept <= set(parts)
    place = len(whole) - DIGEST_BYTES - sum(map(len, parts))
    for part in parts:
        for offset in (0, 60, 300, len(part) // 2, len(part) - DIGEST_BYTES, len(part) - 1):
            changed = bytearray(whole)
            changed[place + min(offset, len(part) - 1)] ^= 0x10
            with pytest.raises(DamagedData):
                restored(table, bytes(changed))
        place += len(part)


def test_state_of_another_deployment_or_of_other_keys_is_refused() -> None:
    table = Table(authority_of(TOY, scheme="simulate"))
    other = Table(authority_of(MILD, scheme="simulate"))
    with pytest.raises(DamagedData, match="another deployment"):
        restored(table, save_server(other.server))
    stranger = Table(Authority(table.deployment))
    with pytest.raises(DamagedData, match="another collective key"):
        restored(table, save_server(stranger.server))


HEADS = ("schedule", "models", "design", "growth", "rounds", "answers", "work", "ledger", "bits")


GROWTH = ("seen", "waiting", "out")


@pytest.mark.parametrize("name", HEADS + GROWTH)
@pytest.mark.parametrize("value", [..., 3, [{}], {"00": 1}, "x"])
def test_state_without_a_part_or_with_another_is_refused(name: str, value: object) -> None:
    table = in_the_middle("simulate")
    kind, text, parts = unframe(
        save_server(table.server),
        magic=MAGIC,
        version=VERSION,
        what="a state",
        most_head=1 << 30,
        most_parts=1 << 20,
    )
    head = json.loads(text)
    place = head["growth"] if name in GROWTH else head
    if value is ...:
        del place[name]
    elif name in ("design", "seen", "bits") and value == 3:
        return  # these are numbers, and this is one
    else:
        place[name] = value
    data = frame(
        magic=MAGIC, version=VERSION, kind=kind, head=json.dumps(head).encode(), parts=parts
    )
    with pytest.raises(DamagedData):
        restored(table, data)


@pytest.mark.parametrize("scheme", BOTH)
def test_check_after_a_restore_is_the_one_that_was_out_for_every_helper(scheme: str) -> None:
    """Signs and noise are drawn once: another helper gets what the first one has."""
    table = Table(authority_of(TOY, scheme=scheme))
    bob = table.new_user()
    for x in ([0.1, 0.5], [1.0, 0.5]):
        played = table.play([x])
        table.report(played.round, context=x, reward=0.5)
    while table.decode(table.tasks()[0]).work != "check":
        table.server.receive(table.user.help(table.tasks()[0]))
    bits = table.decode(table.user.help(table.tasks()[0])).bits
    again = restored(table, save_server(table.server))
    again.enrol(table.authority.enrolment_of(bob.id))
    (task,) = again.tasks(bob.id)
    reply = bob.help(task)
    assert table.decode(reply).bits == bits
    again.receive(reply)
    assert (again.updates, again.rejected) == (1, 0)
