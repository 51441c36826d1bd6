"""Rotation of the collective key: the model stays, the old key serves nobody."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helba.errors import DamagedData, HelbaError, Refused
from helba.reference.planning.bounds.noise import NoiseModel
from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.enrolment import Rotation
from helba.reference.protocol.wire.messages import Answer
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
from tests.reference.protocol.parties import TOY, Array, Table, authority_of


def decisions(table: Table, contexts: list[Array]) -> list[int]:
    return [table.play(each).arm for each in contexts]


@pytest.mark.parametrize("request_", [TOY, SWITCHED, SHARED], ids=["own", "switched", "shared"])
@pytest.mark.parametrize("scheme", BOTH)
def test_rotation_keeps_the_model_and_every_decision(scheme: str, request_: PlanRequest) -> None:
    table = Table(authority_of(request_, scheme=scheme))
    introduce(table)
    asked = contexts_of(table, count=6, seed=1)
    for contexts in contexts_of(table, count=4):
        learn(table, table.user, contexts, 0.5)
    before, model, design = decisions(table, asked), table.model(), table.design()
    old, updates = table.server._engine.public_key, table.server.updates
    rotate(table)
    assert not table.server._engine.public_key.belongs_to(old)
    assert decisions(table, asked) == before
    after = table.model()
    np.testing.assert_allclose(after.estimate, model.estimate, atol=1e-5)
    np.testing.assert_allclose(after.inverse, model.inverse, atol=1e-5)
    np.testing.assert_allclose(table.design(), design, atol=1e-5)
    for contexts in contexts_of(table, count=3, seed=2):
        learn(table, table.user, contexts, 0.5)
    assert table.server.updates > updates
    assert table.server.rejected == 0


def test_after_a_rotation_the_old_key_serves_nobody() -> None:
    table = table_of()
    bob = table.new_user()
    old_ask = table.ask([[0.5, 0.5]], user=bob)
    old_enrolment = table.authority.enrolment_of(bob.id)
    learn(table, table.user, contexts_of(table, count=1)[0], 0.5)
    rotate(table)
    with pytest.raises(DamagedData, match="another key"):
        table.server.receive(old_ask)
    with pytest.raises(DamagedData, match="does not lead"):
        table.server.enrol(old_enrolment)
    with pytest.raises(Refused, match="was rotated"):
        bob.read_notice(table.server.notice())
    bob.adopt(table.authority.public_key_bytes())
    learn(table, bob, contexts_of(table, count=1)[0], 0.5)
    assert table.server.samples == 2


def test_rotation_in_the_middle_of_an_update_begins_it_again() -> None:
    table = table_of()
    contexts = contexts_of(table, count=4)
    learn(table, table.user, contexts[0], 0.5)
    played = table.play(contexts[1])
    table.report(played.round, context=contexts[1][played.arm], reward=0.5)
    (task,) = table.tasks()
    late = table.user.help(task)
    updates = table.server.updates
    assert rotate(table) == ()
    assert table.tasks() == ()
    assert "no task of this name" in refusal(table, table.server.receive(late))
    learn(table, table.user, contexts[2], 0.5)
    assert table.server.updates == updates + 1
    assert table.server.samples == 3


def test_round_that_was_being_answered_is_asked_again_after_a_rotation() -> None:
    table = Table(authority_of(replace(TOY, bonus="sqrt", horizon=5), scheme="simulate"))
    assert table.server.receive(table.ask([[0.5, 0.5], [0.1, 0.2]])) == ()
    (reply,) = rotate(table)
    assert "rotated" in refusal(table, (reply,))
    assert table.server.round == 0
    replies = table.server.receive(table.ask([[0.5, 0.5], [0.1, 0.2]]))
    while not replies:
        for task in table.tasks():
            replies = table.server.receive(table.user.help(task))
    assert isinstance(table.decode(replies[0]), Answer)


def test_revoked_users_stay_revoked_and_rounds_stay_open_over_a_rotation() -> None:
    table = table_of()
    bob = table.authority.make_user("bob")
    table.server.enrol(table.authority.enrolment_of(bob.id))
    table.server.revoke(table.authority.revoke("bob"))
    played = table.play([[0.5, 0.5]])
    rotate(table)
    bob.adopt(table.authority.public_key_bytes())
    assert "revoked" in refusal(table, table.server.receive(table.ask([[0.5, 0.5]], user=bob)))
    (receipt, *_) = table.report(played.round, context=[0.5, 0.5], reward=0.5)
    assert table.decode(receipt).counted


def test_rotation_that_does_not_fit_changes_nothing() -> None:
    table = table_of()
    learn(table, table.user, contexts_of(table, count=1)[0], 0.5)
    before, engine = table.state(), table.server._engine
    foreign = Authority(table.deployment)
    foreign.make_user()
    honest = Rotation.from_bytes(
        Authority(
            table.deployment, keys=table.authority._keys, members=table.authority.members
        ).rotate(),
        deployment=table.deployment,
    )
    broken = replace(honest, switching_key=honest.switching_key[:-1])
    for data in (
        foreign.rotate(),
        broken.to_bytes(deployment=table.deployment),
        replace(honest, evaluation_key=b"").to_bytes(deployment=table.deployment),
        table.authority.enrolment_of(table.user.id),
    ):
        with pytest.raises(HelbaError):
            table.server.rotate(data)
    assert table.server._engine is engine
    assert table.state() == before


def test_user_for_whom_a_rotation_has_nothing_is_revoked_by_it() -> None:
    table = table_of()
    bob = table.authority.make_user("bob")
    table.server.enrol(table.authority.enrolment_of(bob.id))
    table.authority.revoke("bob")  # and nobody told the server
    rotate(table)
    bob.adopt(table.authority.public_key_bytes())
    assert "revoked" in refusal(table, table.server.receive(table.ask([[0.5, 0.5]], user=bob)))
    learn(table, table.user, contexts_of(table, count=1)[0], 0.5)


@pytest.mark.parametrize("scheme", BOTH)
def test_rotation_adds_less_than_one_more_report(scheme: str) -> None:
    table = table_of(scheme=scheme)
    for contexts in contexts_of(table, count=3):
        learn(table, table.user, contexts, 0.5)
    engine, secret = table.server._engine, table.authority._keys.secret
    before = engine.decrypt(table.server.design, secret_key=secret)
    rotate(table)
    engine, secret = table.server._engine, table.authority._keys.secret
    after = engine.decrypt(table.server.design, secret_key=secret)
    model, slots = NoiseModel(table.deployment.parameters), table.server.design.slots
    decryptions = 2.0 * model.encryption(slots)  # OpenFHE adds as much to what it shows
    assert np.abs(after - before).max() <= model.encryption(slots) + decryptions
