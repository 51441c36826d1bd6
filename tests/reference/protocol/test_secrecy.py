"""Nothing that is secret prints: neither objects of any party nor errors show what they hold."""

from __future__ import annotations

import gc
import re
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from helba.errors import HelbaError
from helba.reference.circuits.comparison.argmax import Rider
from helba.reference.protocol.bandit import ReferenceBandit
from helba.reference.protocol.profiles.profile import RidingTest
from helba.reference.protocol.serving.work import AnswerWork
from helba.reference.protocol.wire.messages import Report, TaskReply, TestReply
from helba.service.protocol.snapshot import save_server
from tests.engines import BOTH
from tests.reference.protocol.parties import TOY, Table, authority_of

X, REWARD = np.array([0.912345, -0.198765]), 0.765432
MARKS = ("912345", "198765", "765432", "flip=", "noise=0.", "noise=-0.", "signs=", "array(", "b'")
# Settings and layouts, and the form of a ciphertext, which the parameters decide.
PUBLIC = {"Accuracy", "CiphertextForm", "Gather", "ServerSchedule", "Settings", "Template"}
PUBLIC |= {"Deployment", "MatrixLayout", "MatrixProduct", "ScoreLayout"}
SIMULATED = {"Body", "Clear", "Masked"}  # the simulator's own numbers, which it does not hide


def everything(root: object) -> Iterator[object]:
    """All objects of helba that can be reached."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type):
            continue
        seen.add(id(thing))
        if type(thing).__module__.startswith("helba"):
            yield thing
            waiting += [part for part in gc.get_referents(thing) if not callable(part)]
        elif isinstance(thing, (dict, list, tuple, set)):
            waiting += gc.get_referents(thing)


class Scene:
    """A table with all kinds of work under way."""

    def __init__(self, scheme: str) -> None:
        self.table = Table(authority_of(TOY, scheme=scheme))
        self.table.learn(X, REWARD)
        self.told = self.table.play([X, -X])
        played = self.table.play([X / 2, -X])
        self.table.report(played.round, context=X, reward=REWARD)
        self.task = self.table.tasks()[0]


@pytest.mark.parametrize("scheme", BOTH)
def test_no_object_of_any_party_prints_what_it_holds(scheme: str) -> None:
    scene = Scene(scheme)
    bandit = ReferenceBandit(scene.table.settings, authority=scene.table.authority)
    bandit.select(np.array([X, -X]))
    ask = scene.table.decode(scene.table.ask([X]))
    report = scene.table.decode(scene.table.user.report(bytes(16), context=X, reward=REWARD))
    texts: dict[str, str] = {}
    for root in (scene.table.server, scene.table.user, scene.table.authority, bandit, ask, report):
        for thing in everything(root):
            name = type(thing).__name__
            if name not in PUBLIC | (SIMULATED if scheme == "simulate" else set()):
                texts.setdefault(name, "")
                texts[name] += repr(thing) + str(thing)
    wanted = {"Server", "User", "Authority", "ReferenceBandit", "UpdateWork", "UpdateTest"}
    assert wanted | {"PendingRefresh", "EncryptedVector", "Ask", "Report"} <= set(texts)
    shown = {name: [mark for mark in MARKS if mark in text] for name, text in texts.items()}
    assert {name: marks for name, marks in shown.items() if marks} == {}


def test_recommendation_and_messages_print_neither_arm_nor_bit() -> None:
    scene = Scene("simulate")
    texts = [
        repr(scene.told),
        repr(TestReply(user=bytes(16), test=bytes(16), positive=True)),
        repr(TaskReply(user=bytes(16), task=bytes(16), work="check", bits="+-" * 32)),
        repr(Report(user=bytes(16), round=bytes(16), parts=(b"abc",))),
    ]
    for text in texts:
        assert not re.search(r"arm=|positive|True|\+-|abc", text), text


def test_work_that_waits_prints_no_secret_of_a_test() -> None:
    """An answer under way holds flip and noise of the test that rides on it."""
    server = Scene("simulate").table.server
    rider = Rider(flip=-1, noise=0.25)
    work = AnswerWork(
        user=bytes(16),
        asked=bytes(16),
        model=server.model,
        round=1,
        contexts=[server.design],
        test=RidingTest(growth=server.design, rider=rider),
        test_name=bytes(16),
    )
    for text in (repr(rider), repr(work)):
        assert "-1" not in text
        assert "0.25" not in text


def errors(table: Table) -> Iterator[HelbaError]:
    server, user, deployment = table.server, table.user, table.deployment
    foreign = Table(authority_of(TOY, scheme="simulate"))
    (answer,) = foreign.server.receive(foreign.ask([X]))
    broken = user.report(bytes(16), context=X, reward=REWARD)
    actions: list[Any] = [
        lambda: user.ask([[*X, 1.0]], terms=server.terms),
        lambda: user.ask([[X[0], np.nan]], terms=server.terms),
        lambda: user.ask([X * 100], terms=server.terms),
        lambda: user.ask([["a", REWARD]], terms=server.terms),
        lambda: user.report(bytes(16), context=X, reward=[REWARD, REWARD]),
        lambda: user.report(bytes(16), context=[*X, 1.0], reward=REWARD),
        lambda: user.read(answer),
        lambda: user.help(answer),
        lambda: server.receive(broken[:-1]),
        lambda: server.receive(answer),
        lambda: type(deployment).from_json({**deployment.as_json(), "sign": REWARD}),
    ]
    for action in actions:
        with pytest.raises(HelbaError) as caught:
            action()
        yield caught.value


def test_errors_are_one_line_without_data() -> None:
    found = list(errors(Table(authority_of(TOY, scheme="simulate"))))
    assert len(found) == 11
    for error in found:
        text = "".join(traceback.format_exception_only(type(error), error)) + repr(error.args)
        assert "\n" not in str(error)
        assert not any(mark in text for mark in ("912345", "198765", "765432")), text


@pytest.mark.ckks
def test_messages_and_state_hold_no_context_or_reward() -> None:
    """On CKKS no byte that leaves a user, nor the server's state, has the numbers in it."""
    scene = Scene("ckks")
    table = scene.table
    sent = [
        table.ask([X, -X]),
        table.user.report(bytes(16), context=X, reward=REWARD),
        table.user.help(scene.task),
        save_server(table.server),
    ]
    numbers = [*X, *-X, REWARD, *(REWARD * X), *np.outer(X, X).ravel()]
    for data in sent:
        for number in numbers:
            assert np.float64(number).tobytes() not in data
            assert f"{number:.6f}".strip("-").encode() not in data
