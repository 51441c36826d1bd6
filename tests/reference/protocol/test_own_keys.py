"""Users with keys of their own: who is served, who is refused, and what a rotation keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helba.errors import DamagedData, InvalidInput, Refused
from helba.reference.planning.bounds.flooding import bit_budget
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.enrolment import SHARED_ID, Enrolment, name_key
from helba.reference.protocol.serving.directory import OPEN_LINES, Directory
from helba.reference.protocol.serving.ledger import Ledger
from helba.reference.protocol.serving.server import Server
from helba.reference.protocol.serving.worker import MOST_HELPERS
from helba.reference.protocol.user import User
from tests.engines import BOTH
from tests.reference.protocol.keyholders import (
    SHARED,
    SWITCHED,
    contexts_of,
    introduce,
    learn,
    refusal,
    rotate,
    table_of,
)
from tests.reference.protocol.parties import (
    MILD,
    TOY,
    Table,
    authority_of,
    deployment_of,
)

# -- enrolment


@pytest.mark.parametrize("scheme", BOTH)
def test_two_users_learn_together_and_cannot_read_each_other(scheme: str) -> None:
    table = table_of(scheme=scheme)
    alice, bob = table.user, table.new_user()
    for number, contexts in enumerate(contexts_of(table, count=4)):
        learn(table, (alice, bob)[number % 2], contexts, 0.5)
    assert table.server.samples == 4
    assert table.server.updates > 0
    (answer,) = table.server.receive(table.ask(contexts, user=bob))
    with pytest.raises(InvalidInput, match="a round that was asked for"):
        alice.read(answer)
    alice._open.update(bob._open)  # even who pretends to have asked
    with pytest.raises(DamagedData, match="another key"):
        alice.read(answer)
    assert bob.read(answer).arm in (0, 1)


def test_unknown_key_is_refused_with_a_reason_and_changes_nothing() -> None:
    table = table_of()
    stranger = authority_of(TOY, scheme="simulate").make_user()
    played = table.play([[0.5, 0.5]])
    before = table.state()
    ask = stranger.ask([[0.5, 0.5]], terms=table.server.terms)
    assert "not enrolled" in refusal(table, table.server.receive(ask))
    report = stranger.report(played.round, context=[0.5, 0.5], reward=0.5)
    assert "not enrolled" in refusal(table, table.server.receive(report))
    with pytest.raises(Refused, match="not enrolled"):
        table.server.tasks(stranger.id)
    assert table.state() == before


def test_round_of_somebody_else_is_neither_answered_nor_reported() -> None:
    table = table_of()
    bob = table.new_user()
    ask = table.ask([[0.5, 0.5]])
    (answer,) = table.server.receive(ask)
    round = table.decode(ask).round
    stolen = table.encode(replace(table.decode(ask), user=bob.id))
    assert "somebody else" in refusal(table, table.server.receive(stolen))
    report = bob.report(round, context=[0.5, 0.5], reward=0.5)
    assert "somebody else" in refusal(table, table.server.receive(report))
    assert table.server.receive(ask) == (answer,)
    assert table.server.samples == 0


@pytest.mark.parametrize("scheme", BOTH)
def test_revoked_user_is_refused_until_it_enrols_again(scheme: str) -> None:
    table = table_of(scheme=scheme)
    authority, server = table.authority, table.server
    bob = authority.make_user("bob")
    server.enrol(authority.enrolment_of(bob.id))
    contexts = contexts_of(table, count=3)
    learn(table, bob, contexts[0], 0.5)
    design, samples = server.design, server.samples
    server.revoke(authority.revoke("bob"))
    ask = table.ask(contexts[1], user=bob)
    assert "revoked" in refusal(table, server.receive(ask))
    with pytest.raises(Refused, match="revoked"):
        server.tasks(bob.id)
    # a new pair that nobody enrolled is no way back
    again = Authority(table.deployment, keys=authority._keys).make_user("bob")
    assert "not enrolled" in refusal(table, server.receive(table.ask(contexts[1], user=again)))
    # what bob reported stays
    assert server.design is design
    assert server.samples == samples
    server.enrol(authority.enrol(again.public_key_bytes(), name="bob"))
    learn(table, again, contexts[2], 0.5)
    assert server.samples == samples + 1
    assert "revoked" in refusal(table, server.receive(table.ask(contexts[1], user=bob)))


def test_user_revoked_while_its_answer_is_computed_gets_a_refusal() -> None:
    table = Table(authority_of(replace(TOY, bonus="sqrt", horizon=5), scheme="simulate"))
    bob = table.authority.make_user("bob")
    table.server.enrol(table.authority.enrolment_of(bob.id))
    assert table.server.receive(table.ask([[0.5, 0.5], [0.1, 0.2]], user=bob)) == ()
    (task,) = table.tasks(bob)
    table.server.revoke(table.authority.revoke("bob"))
    assert "revoked" in refusal(table, table.server.receive(bob.help(task)))
    assert table.server.worker.work == []
    assert table.server.round == 0


def test_authority_refuses_names_and_keys_that_are_taken() -> None:
    authority = authority_of(TOY, scheme="simulate")
    alice = authority.make_user("alice")
    key = authority.make_user("bob").public_key_bytes()
    with pytest.raises(Refused, match="alice is enrolled already"):
        authority.enrol(key, name="alice")
    with pytest.raises(Refused, match="another name"):
        authority.enrol(key, name="carol")
    with pytest.raises(Refused, match="another name"):
        authority.enrol(key, name="alice", replace=True)
    with pytest.raises(InvalidInput, match="collective"):
        authority.enrol(authority.public_key_bytes(), name="carol")
    with pytest.raises(DamagedData):
        authority.enrol(b"no key", name="carol")
    for name in ("", " x", "a\nb", "x" * 65):
        with pytest.raises(InvalidInput, match="name"):
            authority.enrol(key, name=name)
    with pytest.raises(Refused, match="nobody of the name"):
        authority.revoke("carol")
    authority.revoke("alice")
    with pytest.raises(Refused, match="revoked already"):
        authority.revoke("alice")
    with pytest.raises(Refused, match="nobody of this id"):
        authority.enrolment_of(alice.id)
    assert [(m.name, m.revoked) for m in authority.members] == [("alice", True), ("bob", False)]


def test_enrolment_of_another_key_or_deployment_is_refused_and_changes_nothing() -> None:
    table, other = table_of(), table_of(MILD)
    foreign = Authority(table.deployment)  # the same deployment under other keys
    stranger = foreign.make_user()
    honest = Enrolment.from_bytes(
        table.authority.enrolment_of(table.user.id), deployment=table.deployment
    )
    lying = replace(honest, user=name_key(stranger._own.public_key))
    for data in (
        foreign.enrolment_of(stranger.id),
        other.authority.enrolment_of(other.user.id),
        lying.to_bytes(deployment=table.deployment),
        foreign.rotate(),
        b"",
    ):
        with pytest.raises(DamagedData):
            table.server.enrol(data)
    assert table.server.directory.users == (table.user.id,)


# -- helpers


@pytest.mark.parametrize("scheme", BOTH)
def test_each_helper_has_its_own_task_and_the_first_reply_counts(scheme: str) -> None:
    table = table_of(scheme=scheme)
    bob = table.new_user()
    contexts = contexts_of(table, count=2)
    learn(table, table.user, contexts[0], 0.5)
    played = table.play(contexts[1])
    table.report(played.round, context=contexts[1][played.arm], reward=0.5)
    (first,), (second,) = table.tasks(), table.tasks(bob)
    assert table.decode(first).task != table.decode(second).task
    with pytest.raises(DamagedData, match="another key"):
        bob.help(first)
    late = table.user.help(first)
    table.server.receive(bob.help(second))
    assert "no task of this name" in refusal(table, table.server.receive(late))
    (third,) = table.tasks(bob)
    assert table.decode(third).task not in {table.decode(t).task for t in (first, second)}
    while tasks := table.tasks(bob):
        for task in tasks:
            table.server.receive(bob.help(task))
    assert table.server.updates == 1


def test_share_under_somebody_elses_name_is_refused() -> None:
    table = table_of()
    bob = table.new_user()
    for contexts in contexts_of(table, count=2):
        played = table.play(contexts)
        table.report(played.round, context=contexts[played.arm], reward=0.5)
        if table.tasks():
            break
    (task,) = table.tasks()
    reply = table.decode(table.user.help(task))
    stolen = table.encode(replace(reply, user=bob.id))
    assert "no task of this name" in refusal(table, table.server.receive(stolen))
    assert table.tasks() == (task,)


def test_tasks_of_many_helpers_are_few_and_the_newest() -> None:
    table = table_of()
    users = [table.new_user() for _ in range(MOST_HELPERS + 2)]
    for contexts in contexts_of(table, count=2):
        played = table.play(contexts)
        table.report(played.round, context=contexts[played.arm], reward=0.5)
    for user in users:
        table.tasks(user)
    (work,) = table.server.worker.work
    assert list(work.tasks) == [user.id for user in users[-MOST_HELPERS:]]
    (task,) = table.tasks(users[-1])
    assert table.server.receive(users[-1].help(task)) == ()
    assert list(work.tasks) == [users[-1].id]


def test_lines_are_closed_and_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helba.reference.protocol.serving.directory.OPEN_LINES", 2)
    assert OPEN_LINES > 2
    table = table_of()
    users = [table.new_user() for _ in range(4)]
    for user in (*users, *users):
        (answer,) = table.server.receive(table.ask([[0.5, 0.5]], user=user))
        assert user.read(answer).arm == 0
    assert len(table.server.directory._lines) == 2


# -- the other modes


@pytest.mark.parametrize("scheme", BOTH)
def test_data_under_the_users_own_key_is_switched_to_the_collective_one(scheme: str) -> None:
    table = Table(authority_of(SWITCHED, scheme=scheme))
    contexts = contexts_of(table, count=2)
    ask = table.ask(contexts[0])
    assert "has not arrived yet" in refusal(table, table.server.receive(ask))
    introduce(table)
    (part,) = table.decode(ask).parts
    with pytest.raises(DamagedData, match="another key"):
        table.server._engine.vector_from_bytes(part)  # it is under the user's key
    arm = learn(table, table.user, contexts[0], 0.5)
    x = contexts[0][arm]
    expected = table.settings.ridge * np.eye(table.settings.dim) + np.outer(x, x)
    np.testing.assert_allclose(table.design(), expected, atol=1e-6)
    np.testing.assert_allclose(table.response(), 0.5 * x, atol=1e-6)


def test_key_for_switched_data_must_be_the_users_own() -> None:
    table = Table(authority_of(SWITCHED, scheme="simulate"))
    bob = table.new_user()
    for key in (bob.inward_key_bytes(), b"", table.user.public_key_bytes()):
        with pytest.raises(DamagedData):
            table.server.introduce(table.user.id, key)
    with pytest.raises(Refused, match="not enrolled"):
        table.server.introduce(bytes(16), table.user.inward_key_bytes())
    own = table_of()
    with pytest.raises(Refused, match="collective key"):
        own.server.introduce(own.user.id, own.user.inward_key_bytes())


def test_shared_mode_has_one_key_and_nobody_enrols() -> None:
    table = Table(authority_of(SHARED, scheme="simulate"))
    other = table.authority.make_user()
    assert table.user.id == other.id == SHARED_ID
    learn(table, other, contexts_of(table, count=1)[0], 0.5)
    with pytest.raises(Refused, match="share one key"):
        table.authority.enrol(table.user.public_key_bytes(), name="alice")
    own = table_of()
    with pytest.raises(Refused, match="share one key"):
        table.server.directory.enrol(
            Enrolment.from_bytes(own.authority.enrolment_of(own.user.id), deployment=own.deployment)
        )
    with pytest.raises(InvalidInput, match="secret_key"):
        table.user.adopt(table.authority.public_key_bytes())


def test_pair_must_be_the_users_own_unless_it_is_shared() -> None:
    deployment = deployment_of(TOY, scheme="simulate")
    authority = authority_of(TOY, scheme="simulate")
    scheme, keys = authority._scheme, authority._keys
    pair = scheme.generate_pair(deployment.parameters)
    collective = replace(pair, public=keys.public, secret=keys.secret)
    engine = scheme.engine(keys.public)
    with pytest.raises(InvalidInput, match="keys"):
        User(deployment, scheme=scheme, engine=engine, keys=collective)
    shared = deployment_of(SHARED, scheme="simulate")
    with pytest.raises(InvalidInput, match="keys"):
        User(shared, scheme=scheme, engine=engine, keys=pair)


# -- the ledger


def test_ledger_counts_every_bit_by_key_and_asks_for_rotation() -> None:
    table = table_of()
    bob = table.new_user()
    tests = 0
    for number, contexts in enumerate(contexts_of(table, count=6)):
        user = (table.user, bob)[number % 2]
        played = table.play(contexts, user=user)
        tests += played.reply is not None
        table.send_bit(played)
        table.server.receive(user.report(played.round, context=contexts[0], reward=0.5))
        while tasks := table.tasks(user):
            for task in tasks:
                table.server.receive(user.help(task))
    ledger, updates = table.server.ledger, table.server.updates
    assert updates > 0
    assert ledger.total == tests + updates  # a check that passes tells one bit
    assert ledger.of(table.user.id) + ledger.of(bob.id) == ledger.total
    assert ledger.of(bob.id) > 0
    assert not table.server.status().rotation_due
    ledger.budget = ledger.total - 1
    assert table.server.status().rotation_due
    assert ledger.spent
    rotate(table)
    assert table.server.status().bits == 0
    assert not table.server.status().rotation_due
    assert table.server.ledger.of(bob.id) > 0  # bob's own key has not changed


def test_failed_check_tells_all_of_its_signs() -> None:
    table = table_of()
    for contexts in contexts_of(table, count=2):
        played = table.play(contexts)
        table.report(played.round, context=contexts[0], reward=0.5)
    told = table.server.ledger.total
    while tasks := table.tasks():
        for task in tasks:
            reply = table.decode(table.user.help(task))
            if reply.bits is not None:
                reply = replace(reply, bits="+" * len(reply.bits))
            table.server.receive(table.encode(reply))
    assert table.server.rejected == 1
    assert table.server.ledger.total == told + 64


def test_budget_is_where_noise_has_decided_one_bit() -> None:
    assert bit_budget(1e-3) == 166
    assert bit_budget(10.0) == 1
    assert bit_budget(0.0) == bit_budget(1e-12) == 1 << 20
    ledger = Ledger(budget=3)
    ledger.add(b"a", 3)
    assert (ledger.spent, ledger.spent_keys()) == (False, ())
    ledger.add(b"b", 1)
    assert (ledger.spent, ledger.spent_keys()) == (True, ())
    ledger.add(b"a", 1)
    assert ledger.spent_keys() == (b"a",)


def test_server_is_made_for_everybody_who_is_enrolled() -> None:
    authority = authority_of(TOY, scheme="simulate")
    users = [authority.make_user() for _ in range(3)]
    authority.revoke(authority.members[1].name)
    server = authority.make_server()
    assert isinstance(server, Server)
    assert isinstance(server.directory, Directory)
    assert server.directory.users == (users[0].id, users[2].id)
