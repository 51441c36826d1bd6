"""Runs what the server has under way, as far as it goes without help, and keeps the tasks.

Levels come back as the deployment says: by a user's masked refresh, which leaves a task; by
bootstrapping, at once; or not at all. A task is made for one helper, under its key; whoever else is
online gets one of its own, and the first reply counts. With the answer to a round only its own user
helps.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from helba.errors import DamagedData
from helba.reference.circuits.levels import Renewal
from helba.reference.circuits.renewal import bootstrap_renewal
from helba.reference.engine import Engine, PendingOpening, PendingRefresh
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.profiles.profile import Profile
from helba.reference.protocol.serving.directory import Directory
from helba.reference.protocol.serving.jobs import Check, Job, Opening, Result
from helba.reference.protocol.serving.ledger import OPENING_BITS, Ledger, Recent
from helba.reference.protocol.serving.work import AnswerWork, OpenTask, Work
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import ID_BYTES, Task, TaskReply

# Helpers that may have the same task at once; the oldest task goes when another helper comes.
MOST_HELPERS = 8


class Worker:
    """The computations of one server."""

    def __init__(
        self,
        deployment: Deployment,
        *,
        engine: Engine,
        profile: Profile,
        directory: Directory,
        ledger: Ledger,
    ) -> None:
        self.deployment = deployment
        self.work: list[Work] = []
        self.closed = Recent()
        self._engine = engine
        self._profile = profile
        self._directory = directory
        self._ledger = ledger
        self._codec = Codec(deployment)

    def tasks(self, user: bytes, *, rounds: bool) -> tuple[bytes, ...]:
        """Return the tasks of rounds, or of all else, for one helper.

        They stay the same until somebody has helped.
        """
        self._directory.require(user)
        return tuple(
            self._task(work, user).data
            for work in self.work
            if isinstance(work, AnswerWork) == rounds and work.open_to(user)
        )

    def task(self, work: Work, user: bytes) -> bytes:
        """Return the task of one computation for one helper."""
        return self._task(work, user).data

    def begin(self, work: Work, *, helper: bytes) -> bool:
        """Start a computation and return whether it has ended. An error takes it off again.

        Its first task is for `helper`, who is online.
        """
        self.work.append(work)
        try:
            work.job = Job(work.steps(self._profile, engine=self._engine))
            return self._go_on(work, helper=helper)
        except BaseException:
            self.work.remove(work)
            raise

    def restore(self, work: Work, *, record: Sequence[Result]) -> None:
        """Bring a computation back to the request where it was saved; tasks are the caller's."""
        work.job = Job(work.steps(self._profile, engine=self._engine), record=record)
        self.work.append(work)

    def find(self, reply: TaskReply) -> Work | None:
        """Return the computation that waits for this reply; None if it is late or unknown."""
        return next((work for work in self.work if _asked(work, reply) is not None), None)

    def go_on(self, work: Work, reply: TaskReply) -> bool:
        """Continue with the reply and return whether the computation has ended.

        A reply that is no reply raises `DamagedData` or `WrongVector`, and the task stays open. An
        error of the computation itself ends it.
        """
        result = self._result(work, reply)
        self._close_tasks(work)
        self.closed.tell(reply.task, user=reply.user)  # what it tells is counted
        try:
            work.running.resume(result)
            return self._go_on(work, helper=reply.user)
        except BaseException:
            self.work.remove(work)
            raise

    def drop(self, work: Work) -> None:
        """Give a computation up; replies that still come are late."""
        self._close_tasks(work)
        self.work.remove(work)

    def _close_tasks(self, work: Work) -> None:
        for user, task in work.tasks.items():
            self.closed.add(task.name, asked=user)
        work.tasks.clear()

    def _go_on(self, work: Work, *, helper: bytes) -> bool:
        """As far as the server can alone; then a task is left."""
        job = work.running
        while (request := job.request) is not None:
            if isinstance(request, Renewal) and self.deployment.refresh == "bootstrap":
                job.resume(bootstrap_renewal(self._engine, request.vector, bound=request.bound))
            elif isinstance(request, Renewal) and self.deployment.refresh == "none":
                job.resume(request.vector)
            else:
                self._task(work, helper)
                return False
        self.work.remove(work)
        return True

    def _task(self, work: Work, user: bytes) -> OpenTask:
        """The task of a computation that waits, for one helper; made once."""
        if user not in work.tasks:
            work.tasks[user] = self._make_task(work, user)
            while len(work.tasks) > MOST_HELPERS:
                helper, oldest = work.tasks.popitem(last=False)
                self.closed.add(oldest.name, asked=helper)
        return work.tasks[user]

    def _make_task(self, work: Work, user: bytes) -> OpenTask:
        engine, request, line = self._engine, work.running.request, self._directory.line(user)
        pending: PendingRefresh | PendingOpening | None = None
        if isinstance(request, Renewal):
            request.require_possible()
            masked, pending = engine.begin_refresh(request.vector, to=line.recipient)
            kind, part = "refresh", line.engine.request_to_bytes(masked)
        elif isinstance(request, Opening):
            hidden, pending = engine.begin_opening(request.vector, to=line.recipient)
            kind, part = "opening", line.engine.opening_request_to_bytes(hidden)
        else:
            assert isinstance(request, Check)
            flood = self.deployment.flood
            kind, part = "check", line.send(request.vector, collective=engine, flood=flood)
        name = secrets.token_bytes(ID_BYTES)
        task = self._codec.encode(Task(task=name, work=kind, parts=(part,)))
        return OpenTask(name=name, data=task, pending=pending)

    def _result(self, work: Work, reply: TaskReply) -> Result:
        engine, request = self._engine, work.running.request
        if isinstance(request, Check):
            return self._checked(request, reply)
        if len(reply.parts) != 1:
            raise DamagedData("a share is one ciphertext")
        task = _asked(work, reply)
        assert task is not None
        (part,), pending = reply.parts, task.pending
        if isinstance(pending, PendingOpening):
            opened = engine.finish_opening(engine.opening_reply_from_bytes(part), pending)
            self._ledger.add(reply.user, OPENING_BITS)
            return opened
        assert isinstance(pending, PendingRefresh)
        return engine.finish_refresh(engine.reply_from_bytes(part, slots=pending.slots), pending)

    def _checked(self, request: Check, reply: TaskReply) -> bool:
        if reply.bits is None or set(reply.bits) - {"+", "-"}:
            raise DamagedData("a check is answered by signs")
        expected = "".join("+" if sign > 0 else "-" for sign in request.signs)
        passed = secrets.compare_digest(reply.bits, expected)
        self._ledger.add(reply.user, 1 if passed else len(expected))
        return passed


def _asked(work: Work, reply: TaskReply) -> OpenTask | None:
    """The task of this name that the sender of the reply has."""
    task = work.tasks.get(reply.user)
    return task if task is not None and task.name == reply.task else None
