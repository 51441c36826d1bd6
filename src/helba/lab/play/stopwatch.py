"""Splits the seconds of an encrypted run: to the server or the user, to a round or an update.

`TimedServer` stands between a user and a server that answers at once. What passes between two calls
of it is the user's time. A round is a recommendation and its report; an update begins with the
report that makes it due and ends when its model is adopted or rejected.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from helba.reference.protocol.bandit import ServerLink
from helba.reference.protocol.serving.server import Status
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Report, TaskReply


@dataclass
class Share:
    """Seconds of the server and of the user."""

    server: float = 0.0
    user: float = 0.0

    @property
    def total(self) -> float:
        """Both."""
        return self.server + self.user

    def add(self, other: Share) -> None:
        """Count `other` in."""
        self.server += other.server
        self.user += other.user


class TimedServer:
    """A server that keeps the time; `updates` counts those attempted, `refreshes` their refreshes.

    Help that a recommendation or an update test needs counts as part of the round.
    """

    def __init__(self, server: ServerLink, *, codec: Codec) -> None:
        self._server = server
        self._codec = codec
        self.recommendation = Share()
        self.report = Share()
        self.update = Share()
        self.updates = 0
        self.refreshes = 0
        self._reporting: _Report | None = None
        self._left = time.perf_counter()

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.recommendation.total + self.report.total + self.update.total

    @contextmanager
    def recommending(self) -> Iterator[None]:
        """Time one `select`."""
        self._left = time.perf_counter()
        yield
        self.recommendation.user += time.perf_counter() - self._left

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Time one `update`: the report, and the update of the model if it makes one due."""
        self._reporting = seen = _Report(attempts=self._attempts())
        self._left = time.perf_counter()
        try:
            yield
        finally:
            self._reporting = None
        (seen.help if seen.helping else self.report).user += time.perf_counter() - self._left
        attempted = self._attempts() - seen.attempts
        if attempted:
            self.update.add(seen.help)
            self.refreshes += seen.refreshes
        else:
            self.report.add(seen.help)
        self.updates += attempted

    def receive(self, data: bytes) -> tuple[bytes, ...]:
        """Pass it on."""
        seen = self._reporting
        came = time.perf_counter()
        replies = self._server.receive(data)
        done = time.perf_counter()
        if seen is None:
            own, theirs = self.recommendation, self.recommendation
        elif seen.received == 0:
            theirs = self.report
            seen.helping = self._needs_help(data) or self._attempts() > seen.attempts
            own = seen.help if seen.helping else self.report
        else:
            own, theirs = seen.help, seen.help
            message = self._codec.decode(data)
            seen.refreshes += isinstance(message, TaskReply) and message.work == "refresh"
        if seen is not None:
            seen.received += 1
        theirs.user += came - self._left
        own.server += done - came
        self._left = time.perf_counter()
        return replies

    def tasks(self, user: bytes) -> tuple[bytes, ...]:
        """Pass it on."""
        return self._server.tasks(user)

    def enrol(self, enrolment: bytes) -> None:
        """Pass it on."""
        self._server.enrol(enrolment)

    def introduce(self, user: bytes, inward_key: bytes) -> None:
        """Pass it on."""
        self._server.introduce(user, inward_key)

    def rotate(self, rotation: bytes) -> tuple[bytes, ...]:
        """Pass it on."""
        return self._server.rotate(rotation)

    def notice(self) -> bytes:
        """Pass it on."""
        return self._server.notice()

    def status(self) -> Status:
        """Pass it on."""
        return self._server.status()

    def _needs_help(self, data: bytes) -> bool:
        """Return True if the server has a task for the sender of a report."""
        message = self._codec.decode(data)
        return isinstance(message, Report) and bool(self._server.tasks(message.user))

    def _attempts(self) -> int:
        status = self._server.status()
        return status.updates + status.rejected


@dataclass
class _Report:
    """One call of `update` as it is under way."""

    attempts: int
    received: int = 0
    helping: bool = False
    refreshes: int = 0

    def __post_init__(self) -> None:
        self.help = Share()
