"""Rounds that wait for their users: given up, and asked again, without harm to others."""

from __future__ import annotations

import numpy as np
import pytest

from helba.reference.protocol.serving import learning
from helba.reference.twin.ciphertext import CiphertextTwin
from helba.service.protocol.snapshot import restore_server, save_server
from tests.reference.protocol.talking import ARMS, open_table, refusal_of


def test_round_that_waits_is_given_up_when_the_keys_rotate() -> None:
    table = open_table()
    ask = table.ask(ARMS)
    assert table.server.receive(ask) == ()
    late = table.user.help(table.round_tasks()[0])
    refusal = refusal_of(table, table.server.rotate(table.authority.rotate()))
    assert refusal.subject == table.decode(ask).round
    assert "ask again" in refusal.reason
    refusal_of(table, table.server.receive(late))
    table.user.adopt(table.authority.public_key_bytes())
    assert table.play(ARMS).arm == CiphertextTwin(table.settings).select(np.array(ARMS))
    assert table.server.round == 1


def test_oldest_of_too_many_waiting_rounds_is_given_up_and_may_be_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(learning, "MOST_WAITING_ANSWERS", 2)
    table = open_table()
    users = [table.user, table.new_user(), table.new_user()]
    asks = [table.ask(ARMS, user=user) for user in users]
    late = None
    for user, ask in zip(users, asks, strict=True):
        assert table.server.receive(ask) == ()
        late = late or user.help(table.round_tasks(user)[0])
    assert late is not None
    assert [len(table.round_tasks(user)) for user in users] == [0, 1, 1]
    assert table.server.round == 2
    assert "no task of this name" in refusal_of(table, table.server.receive(late)).reason
    for user in users[1:]:  # those who came later are answered
        user.read(table.finish((), user=user))
    assert table.server.receive(asks[0]) == ()
    assert users[0].read(table.finish(())).round == table.decode(asks[0]).round
    assert table.server.round == 3


def test_user_who_asks_again_and_again_gives_up_its_own_rounds_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(learning, "MOST_WAITING_OF_ONE", 2)
    table = open_table()
    bob = table.new_user()
    assert table.server.receive(table.ask(ARMS, user=bob)) == ()
    for _ in range(5):
        assert table.server.receive(table.ask(ARMS)) == ()
    assert len(table.round_tasks()) == 2
    assert len(table.round_tasks(bob)) == 1
    assert table.server.round == 3


def test_computation_that_breaks_off_leaves_its_round_to_be_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the error is, also one that nobody expects."""
    table = open_table()
    ask = table.ask(ARMS)
    assert table.server.receive(ask) == ()
    share = table.user.help(table.round_tasks()[0])

    def broken(*_: object, **__: object) -> object:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patched:
        patched.setattr(type(table.server._engine), "_multiply", broken)
        with pytest.raises(RuntimeError):
            table.server.receive(share)
    assert table.server.round == 0
    assert table.server.worker.work == []
    assert table.server.receive(ask) == ()
    assert table.user.read(table.finish(())).round == table.decode(ask).round


def test_round_under_way_is_asked_again_after_a_state_is_brought_over_a_rotation() -> None:
    table = open_table()
    ask = table.ask(ARMS)
    assert table.server.receive(ask) == ()
    server = table.server
    restored = restore_server(
        save_server(server),
        deployment=table.deployment,
        engine=server._engine,
        directory=server.directory,
        resume=False,
    )
    assert restored.round == 0
    assert restored.worker.work == []
    assert restored.receive(ask) == ()  # computed anew, not "answered before"
    assert restored.round == 1
