"""Runs what the server has under way, as far as it goes without help, and keeps the tasks.

Levels come back as the deployment says: by a user's masked refresh, which leaves a task; by
bootstrapping, at once; or not at all.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from helba.circuits.levels import Renewal
from helba.circuits.renewal import bootstrap_renewal
from helba.engine import Engine, PendingOpening, PendingRefresh
from helba.errors import DamagedData
from helba.protocol.deployment import Deployment
from helba.protocol.jobs import Check, Job, Opening, Result
from helba.protocol.messages import ID_BYTES, Task, TaskReply, encode
from helba.protocol.profile import Profile
from helba.protocol.work import Work

__all__ = ["Worker"]


class Worker:
    """The computations of one server."""

    def __init__(self, deployment: Deployment, *, engine: Engine, profile: Profile) -> None:
        self.deployment = deployment
        self.work: list[Work] = []
        self._engine = engine
        self._profile = profile

    def tasks(self) -> tuple[bytes, ...]:
        """Return the tasks that are out; the same until somebody has helped."""
        return tuple(work.task for work in self.work if work.task is not None)

    def begin(self, work: Work) -> bool:
        """Start a computation and return whether it has ended. An error takes it off again."""
        self.work.append(work)
        try:
            work.job = Job(work.steps(self._profile, engine=self._engine))
            return self._go_on(work)
        except BaseException:
            self.work.remove(work)
            raise

    def restore(self, work: Work, *, record: Sequence[Result]) -> None:
        """Bring a computation back to the request where it was saved; the task is the caller's."""
        work.job = Job(work.steps(self._profile, engine=self._engine), record=record)
        self.work.append(work)

    def find(self, reply: TaskReply) -> Work | None:
        """Return the computation that waits for this reply; None if it is late or unknown."""
        return next((work for work in self.work if work.name == reply.task), None)

    def go_on(self, work: Work, reply: TaskReply) -> bool:
        """Continue with the reply and return whether the computation has ended.

        A reply that is no reply raises `DamagedData` or `WrongVector`, and the task stays open. An
        error of the computation itself ends it.
        """
        result = self._result(work, reply)
        work.name = work.task = work.pending = None
        try:
            work.running.resume(result)
            return self._go_on(work)
        except BaseException:
            self.work.remove(work)
            raise

    def _go_on(self, work: Work) -> bool:
        """As far as the server can alone; then a task is left."""
        job = work.running
        while (request := job.request) is not None:
            if isinstance(request, Renewal) and self.deployment.refresh == "bootstrap":
                job.resume(bootstrap_renewal(self._engine, request.vector, bound=request.bound))
            elif isinstance(request, Renewal) and self.deployment.refresh == "none":
                job.resume(request.vector)
            else:
                self._leave_task(work)
                return False
        self.work.remove(work)
        return True

    def _leave_task(self, work: Work) -> None:
        engine, request = self._engine, work.running.request
        if isinstance(request, Renewal):
            request.require_possible()
            masked, work.pending = engine.begin_refresh(request.vector)
            kind, part = "refresh", engine.request_to_bytes(masked)
        elif isinstance(request, Opening):
            hidden, work.pending = engine.begin_opening(request.vector)
            kind, part = "opening", engine.opening_request_to_bytes(hidden)
        else:
            assert isinstance(request, Check)
            kind, part = "check", engine.vector_to_bytes(request.vector)
        work.name = secrets.token_bytes(ID_BYTES)
        task = Task(task=work.name, work=kind, parts=(part,))
        work.task = encode(task, deployment=self.deployment.fingerprint)

    def _result(self, work: Work, reply: TaskReply) -> Result:
        engine, request = self._engine, work.running.request
        if isinstance(request, Check):
            if reply.bits is None or set(reply.bits) - {"+", "-"}:
                raise DamagedData("a check is answered by signs")
            expected = "".join("+" if sign > 0 else "-" for sign in request.signs)
            return secrets.compare_digest(reply.bits, expected)
        if len(reply.parts) != 1:
            raise DamagedData("a share is one ciphertext")
        (part,), pending = reply.parts, work.pending
        if isinstance(pending, PendingOpening):
            return engine.finish_opening(engine.opening_reply_from_bytes(part), pending)
        assert isinstance(pending, PendingRefresh)
        return engine.finish_refresh(engine.reply_from_bytes(part, slots=pending.slots), pending)
