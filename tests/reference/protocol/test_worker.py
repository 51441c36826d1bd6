"""Computations that wait for help: what a wrong reply costs, and that the task can be redone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from helba.errors import DamagedData, WrongVector
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.engine.exchanges.opening import OPENING_FLOOD, OpeningReply, OpeningRequest
from helba.reference.protocol.profiles.profile import Profile
from helba.reference.protocol.serving.jobs import JobSteps, Opening
from helba.reference.protocol.serving.ledger import OPENING_BITS, Ledger
from helba.reference.protocol.serving.work import Work
from helba.reference.protocol.serving.worker import Worker
from helba.reference.protocol.wire.messages import TaskReply
from tests.engines import BOTH
from tests.reference.protocol.parties import TOY, Array, Table, authority_of


@dataclass(kw_only=True)
class Reading(Work):
    """Opens one vector and ends with its numbers."""

    vector: EncryptedVector

    def steps(self, profile: Profile, *, engine: Engine) -> JobSteps:  # noqa: ARG002
        numbers = yield Opening(vector=self.vector)
        return numbers


def share_of(table: Table, task: bytes) -> TaskReply:
    """An honest reply: users of this profile are never asked to open anything, and refuse."""
    message = table.decode(task)
    with pytest.raises(DamagedData, match="does not have"):
        table.user.help(task)
    reply = answered(table, table.user._own.opening_request_from_bytes(message.parts[0]))
    return reply_of(table, task, reply)


def answered(table: Table, request: OpeningRequest) -> OpeningReply:
    """What the owner of the user's key makes of a request."""
    user = table.user
    return user._own.answer_opening(
        request, secret_key=user._secret_key, under=user._engine.public_key
    )


def reply_of(table: Table, task: bytes, reply: OpeningReply) -> TaskReply:
    parts = (table.server._engine.opening_reply_to_bytes(reply),)
    name = table.decode(task).task
    return TaskReply(user=table.user.id, task=name, work="opening", parts=parts)


def worker_of(table: Table) -> Worker:
    server = table.server
    return Worker(
        table.deployment,
        engine=server._engine,
        profile=server.profile,
        directory=server.directory,
        ledger=Ledger(budget=100),
    )


def stray_request(table: Table, values: Array) -> OpeningRequest:
    """A request to the same user for something else."""
    engine, line = table.server._engine, table.server.directory.line(table.user.id)
    request, _ = engine.begin_opening(engine.encrypt(values), to=line.recipient)
    return request


@pytest.mark.parametrize("scheme", BOTH)
def test_wrong_opening_leaves_a_task_that_can_be_done(scheme: str) -> None:
    table = Table(authority_of(TOY, scheme=scheme))
    engine = table.server._engine
    worker, helper = worker_of(table), table.user.id
    values = np.array([1.0, -2.0, 0.5, 3.0])
    work = Reading(model=table.server.model, vector=engine.encrypt(values))
    assert worker.begin(work, helper=helper) is False
    (task,) = worker.tasks(helper, rounds=False)

    request = table.user._own.opening_request_from_bytes(table.decode(task).parts[0])
    honest = answered(table, stray_request(table, values))
    wrong = type(honest)(honest.payload, slots=honest.slots, tag=honest.tag, id=request.id)
    with pytest.raises(DamagedData):
        worker.go_on(work, reply_of(table, task, wrong))
    assert worker.tasks(helper, rounds=False) == (task,)
    assert worker.go_on(work, share_of(table, task)) is True
    np.testing.assert_allclose(work.running.value, values, atol=1.1 * OPENING_FLOOD)
    assert worker._ledger.as_dict() == {helper: OPENING_BITS}  # the wrong reply told nothing
    assert worker.tasks(helper, rounds=False) == ()


def test_reply_for_another_opening_keeps_the_task() -> None:
    table = Table(authority_of(TOY, scheme="simulate"))
    engine = table.server._engine
    worker, helper = worker_of(table), table.user.id
    work = Reading(model=table.server.model, vector=engine.encrypt(np.ones(4)))
    worker.begin(work, helper=helper)
    (task,) = worker.tasks(helper, rounds=False)
    other = answered(table, stray_request(table, np.ones(4)))
    with pytest.raises(WrongVector):
        worker.go_on(work, reply_of(table, task, other))
    assert worker.tasks(helper, rounds=False) == (task,)
    assert worker.go_on(work, share_of(table, task)) is True
