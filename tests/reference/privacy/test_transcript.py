"""A transcript keeps what crosses a border, in order, and whom it went to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from helba.errors import DamagedData, Refused
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.bandit import ServerLink
from helba.reference.protocol.user import User
from tests.reference.privacy.transcript import (
    AUTHORITY,
    EVERYBODY,
    SERVER,
    SOMEBODY,
    RecordedAuthority,
    RecordedServer,
    Transcript,
)
from tests.reference.privacy.views import record
from tests.reference.protocol.parties import TOY, authority_of


class Scene:
    """Two users at a server, all of them recorded."""

    def __init__(self, request: Any = TOY) -> None:
        made = authority_of(request, scheme="simulate")
        self.transcript = Transcript(made.deployment)
        self.authority: Authority = RecordedAuthority(
            made.deployment, transcript=self.transcript, keys=made._keys
        )
        self.users = [self.authority.make_user(name) for name in ("a", "b")]
        self.inner = self.authority.make_server()
        self.server = RecordedServer(self.inner, transcript=self.transcript)
        self.start = len(self.transcript.entries)

    def ask(self, user: User) -> bytes:
        return user.ask([[0.5, 0.2]], terms=self.inner.terms)

    def said(self) -> list[tuple[str, str, str]]:
        """What was said since the beginning."""
        return [shape[:3] for shape in self.transcript.shapes()[self.start :]]


def test_setup_is_kept() -> None:
    scene = Scene()
    kinds = [shape[:3] for shape in scene.transcript.shapes()]
    user = [("user 1", AUTHORITY, "public key"), (AUTHORITY, "user 1", "collective public key")]
    other = [tuple(part.replace("1", "2") for part in entry) for entry in user]
    server = [
        (AUTHORITY, SERVER, kind)
        for kind in ("collective public key", "evaluation key", "enrolment", "enrolment")
    ]
    assert kinds == [*user, *other, *server]
    assert scene.inner.directory.users == tuple(user.id for user in scene.users)


def test_round_is_kept_in_order_with_its_bytes() -> None:
    scene = Scene()
    first, second = scene.users
    (answer,) = scene.server.receive(scene.ask(first))  # an update is due after the second report
    report = first.report(first.read(answer).round, context=[0.5, 0.2], reward=0.1)
    scene.server.receive(report)
    scene.start = len(scene.transcript.entries)
    ask = scene.ask(second)
    (answer,) = scene.server.receive(ask)
    told = second.read(answer)
    report = second.report(told.round, context=[0.5, 0.2], reward=0.1)
    replies = scene.server.receive(report)
    assert told.reply is not None  # a test that is never answered
    tasks = scene.server.tasks(first.id)
    scene.server.receive(first.help(tasks[0]))
    me = "user 2"
    assert scene.said() == [
        (me, SERVER, "Ask"),
        (SERVER, me, "Answer"),
        (me, SERVER, "Report"),
        (SERVER, me, "Receipt"),
        (SERVER, "user 1", "Task refresh"),
        ("user 1", SERVER, "TaskReply refresh"),
    ]
    kept = [entry.data for entry in scene.transcript.entries[scene.start :]]
    assert kept[:4] == [ask, answer, report, *replies]
    view = scene.transcript.view_of("user 1")
    assert [entry.kind for entry in view[-2:]] == ["Task refresh", "TaskReply refresh"]
    assert not any(entry.data in (ask, answer, report) for entry in view)


def test_refusal_goes_to_whoever_asked() -> None:
    scene = Scene()
    first, second = scene.users
    (answer,) = scene.server.receive(scene.ask(first))
    told = first.read(answer)
    scene.server.receive(second.report(told.round, context=[0.5, 0.2], reward=0.1))
    scene.server.receive(first.report(told.round, context=[0.5, 0.2], reward=0.1))
    assert scene.said()[2:6] == [
        ("user 2", SERVER, "Report"),
        (SERVER, "user 2", "Refusal"),
        ("user 1", SERVER, "Report"),
        (SERVER, "user 1", "Receipt"),
    ]


def test_server_that_does_less_refuses_the_rest() -> None:
    scene = Scene()

    class Single:
        receive = tasks = enrol = introduce = rotate = notice = status = None

    single: ServerLink = Single()  # type: ignore[assignment]
    server = RecordedServer(single, transcript=scene.transcript)
    with pytest.raises(Refused, match="revokes nobody"):
        server.revoke(scene.users[0].id)


def test_revocation_is_kept() -> None:
    scene = Scene()
    scene.server.revoke(scene.authority.revoke("a"))
    scene.server.receive(scene.ask(scene.users[0]))
    assert scene.said() == [
        (AUTHORITY, SERVER, "revocation"),
        ("user 1", SERVER, "Ask"),
        (SERVER, "user 1", "Refusal"),
    ]


def test_bytes_that_are_no_message_are_kept_and_refused() -> None:
    scene = Scene()
    with pytest.raises(DamagedData):
        scene.server.receive(b"nothing")
    assert scene.said() == [(SOMEBODY, SERVER, "no message")]
    (answer,) = scene.server.receive(scene.ask(scene.users[0]))
    with pytest.raises(DamagedData):
        scene.server.receive(answer)
    assert scene.said()[-1] == (SOMEBODY, SERVER, "Answer")
    with pytest.raises(DamagedData):
        scene.transcript.decode(scene.transcript.entries[0])


def test_rotations_and_introductions_are_kept() -> None:
    run = record(authority_of(replace(TOY, keys="switched"), scheme="simulate"))
    run.play(rounds=1, seed=0)
    run.bandit.rotate_keys()
    run.play(rounds=1, seed=1)
    kinds = [shape[:3] for shape in run.transcript.shapes()]
    assert kinds.count((AUTHORITY, SERVER, "enrolment")) == 1
    assert kinds.count((AUTHORITY, SERVER, "rotation")) == 1
    assert kinds.count(("user 1", SERVER, "inward key")) == 2
    assert (SERVER, EVERYBODY, "Notice") in kinds
    assert not any(entry.kind == "inward key" for entry in run.transcript.view_of(AUTHORITY))


def test_recorded_run_is_the_same_run() -> None:
    run = record(authority_of(TOY, scheme="simulate")).play(rounds=4, seed=3)
    again = record(authority_of(TOY, scheme="simulate")).play(rounds=4, seed=3)
    assert run.arms == again.arms
    assert run.bandit.server.status().samples == 4
    assert run.transcript.shapes() == again.transcript.shapes()
