"""What waits for a tenant: requests that its thread serves, and the queue they wait in."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from helba.errors import Unavailable
from helba.service.failure import TooMany

MOST_OF_ONE = 16


@dataclass(kw_only=True, eq=False)
class Job:
    """A request: a `kind` with its `arguments`; `since` is when it came (`time.monotonic`).

    `user` is who sends it, None for the authority.
    """

    kind: str
    user: bytes | None = None
    arguments: tuple[Any, ...] = field(default=(), repr=False)
    since: float = field(default_factory=time.monotonic)
    future: Future[Any] = field(default_factory=Future, repr=False)

    def finish(self, value: object = None) -> None:
        """Give the caller its result, if it still waits."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(value)

    def fail(self, error: Exception) -> None:
        """Give the caller an error, if it still waits."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class JobQueue:
    """Jobs in the order in which they came, `most` at once, and `most_of_one` of one user."""

    def __init__(self, most: int, *, most_of_one: int = MOST_OF_ONE) -> None:
        self._jobs: queue.Queue[Job] = queue.Queue(maxsize=most)
        self._most_of_one = most_of_one
        self._waiting: Counter[bytes] = Counter()
        self._lock = threading.Lock()

    def put(self, job: Job) -> None:
        """Add a job; `TooMany` if the user has too many here, `Unavailable` if all have."""
        with self._lock:
            if job.user is not None and self._waiting[job.user] >= self._most_of_one:
                raise TooMany(1.0, "too many requests of this user wait: try again")
            try:
                self._jobs.put_nowait(job)
            except queue.Full:
                raise Unavailable("too many requests wait for this tenant: try again") from None
            if job.user is not None:
                self._waiting[job.user] += 1

    def take(self, *, seconds: float) -> Job | None:
        """Return the next job; None if none comes in that time."""
        try:
            job = self._jobs.get(timeout=seconds) if seconds > 0 else self._jobs.get_nowait()
        except queue.Empty:
            return None
        with self._lock:
            if job.user is not None:
                self._waiting[job.user] -= 1
                if self._waiting[job.user] <= 0:
                    del self._waiting[job.user]
        return job

    def __len__(self) -> int:
        return self._jobs.qsize()

    def fail_all(self, error: Exception) -> None:
        """Turn everybody away who waits."""
        while (job := self.take(seconds=0.0)) is not None:
            job.fail(error)


def user_of(job: Job) -> bytes:
    """Return who sent what a job carries."""
    user: bytes = job.arguments[0].user
    return user


def chunks_of(jobs: Sequence[Job], size: int) -> list[Sequence[Job]]:
    """Return the jobs in their order, in groups of at most `size`."""
    return [jobs[start : start + size] for start in range(0, len(jobs), size)]
