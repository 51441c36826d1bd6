"""Computations that wait for help: what a wrong reply costs, and that the task can be redone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from helba.engine import EncryptedVector, Engine
from helba.engine.opening import OPENING_FLOOD
from helba.errors import DamagedData, WrongVector
from helba.protocol.jobs import JobSteps, Opening
from helba.protocol.messages import TaskReply
from helba.protocol.profile import Profile
from helba.protocol.work import Work
from helba.protocol.worker import Worker
from tests.engines import BOTH
from tests.protocol.parties import TOY, Table, authority_of


@dataclass(kw_only=True)
class Reading(Work):
    """Opens one vector and ends with its numbers."""

    vector: EncryptedVector

    def steps(self, profile: Profile, *, engine: Engine) -> JobSteps:  # noqa: ARG002
        numbers = yield Opening(vector=self.vector)
        return numbers


def share_of(table: Table, task: bytes) -> TaskReply:
    """An honest reply: users of this profile are never asked to open anything, and refuse."""
    engine, message = table.server._engine, table.decode(task)
    with pytest.raises(DamagedData, match="does not have"):
        table.user.help(task)
    request = engine.opening_request_from_bytes(message.parts[0])
    reply = engine.answer_opening(request, secret_key=table.authority._keys.secret)
    parts = (engine.opening_reply_to_bytes(reply),)
    return TaskReply(task=message.task, work="opening", parts=parts)


@pytest.mark.parametrize("scheme", BOTH)
def test_wrong_opening_leaves_a_task_that_can_be_done(scheme: str) -> None:
    table = Table(authority_of(TOY, scheme=scheme))
    engine = table.server._engine
    worker = Worker(table.deployment, engine=engine, profile=table.server.profile)
    values = np.array([1.0, -2.0, 0.5, 3.0])
    work = Reading(model=table.server.model, vector=engine.encrypt(values))
    assert worker.begin(work) is False
    (task,) = worker.tasks()

    key = table.authority._keys.secret
    stray, _ = engine.begin_opening(engine.encrypt(values))
    part = table.decode(task).parts[0]
    request = engine.opening_request_from_bytes(part)
    honest = engine.answer_opening(stray, secret_key=key)
    wrong = type(honest)(honest.payload, slots=honest.slots, tag=honest.tag, id=request.id)
    reply = TaskReply(
        task=table.decode(task).task,
        work="opening",
        parts=(engine.opening_reply_to_bytes(wrong),),
    )
    with pytest.raises(DamagedData):
        worker.go_on(work, reply)
    assert worker.tasks() == (task,)
    assert worker.go_on(work, share_of(table, task)) is True
    np.testing.assert_allclose(work.running.value, values, atol=1.1 * OPENING_FLOOD)
    assert worker.tasks() == ()


def test_reply_for_another_opening_keeps_the_task() -> None:
    table = Table(authority_of(TOY, scheme="simulate"))
    engine = table.server._engine
    worker = Worker(table.deployment, engine=engine, profile=table.server.profile)
    work = Reading(model=table.server.model, vector=engine.encrypt(np.ones(4)))
    worker.begin(work)
    (task,) = worker.tasks()
    stray, _ = engine.begin_opening(engine.encrypt(np.ones(4)))
    other = engine.answer_opening(stray, secret_key=table.authority._keys.secret)
    parts = (engine.opening_reply_to_bytes(other),)
    reply = TaskReply(task=table.decode(task).task, work="opening", parts=parts)
    with pytest.raises(WrongVector):
        worker.go_on(work, reply)
    assert worker.tasks() == (task,)
    assert worker.go_on(work, share_of(table, task)) is True
