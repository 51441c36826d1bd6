"""The thread that serves a tenant: it takes what waits, has it computed, stores it, and answers.

When the store fails, callers are told to try again, and a
turn begins with storing what is left over. When the evaluator ends, whatever ended it, another is
started from the store.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from helba.errors import HelbaError, Refused, Unavailable
from helba.service.evaluator import Start
from helba.service.job import Job, JobQueue
from helba.service.meter import Meter
from helba.service.protocol.child import ChildProcess
from helba.service.serving import Serving
from helba.service.settings import Limits
from helba.service.store import Store
from helba.service.view import View

log = logging.getLogger("helba.service.loop")

IDLE_SECONDS = 0.5
LEAST_BACKOFF_SECONDS, MOST_BACKOFF_SECONDS = 0.2, 5.0
MOST_IN_TURN = 64
STOP_SECONDS = 100.0  # less than a supervisor waits (docs/how-to/operate.md)
GONE = "the tenant is being started again: try again"


class Opener(Protocol):
    """How an evaluator is started."""

    def __call__(self, start: Start) -> ChildProcess:
        """Return an evaluator that has opened its keys and this state."""
        ...


class Loop:
    """Serves one tenant's jobs from its own thread; `view` is what others may look at."""

    def __init__(
        self,
        name: str,
        *,
        store: Store,
        opener: Opener,
        view: View,
        limits: Limits,
    ) -> None:
        self.view = view
        self.queue = JobQueue(limits.most_waiting)
        self._name = name
        self._opener = opener
        self._serving = Serving(name, store=store, view=view, limits=limits)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tenant-{name}", daemon=True)

    # -- for other threads

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what is under way, and end the evaluator; a store that hangs is not waited for."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        evaluator = self._serving.evaluator
        if self._thread.is_alive() and evaluator is not None:
            fields = {"tenant": self._name, "reason": "its store, or a computation, does not end"}
            log.error("tenant did not end well", extra={"fields": fields})
            evaluator.process.kill()

    def submit(self, kind: str, *arguments: object, user: bytes | None = None) -> Job:
        """Add a job; `Unavailable` if the tenant does not serve at the moment."""
        if self.view.state != "serving" or self._stopping.is_set():
            raise Unavailable(f"the tenant is {self.view.state}: try again")
        job = Job(kind=kind, user=user, arguments=arguments)
        self.queue.put(job)
        return job

    @property
    def meter(self) -> Meter:
        """How quick it was lately."""
        return self._serving.meter

    @property
    def help_wanted(self) -> bool:
        """Whether an update waits and nobody is helping."""
        return self.view.wants_help and self._serving.help.is_free(now=time.monotonic())

    def processes(self) -> dict[str, int]:
        """Return the process of the evaluator, if there is one."""
        evaluator = self._serving.evaluator
        pid = None if evaluator is None else evaluator.process.pid
        return {} if pid is None else {"evaluator": pid}

    # -- the thread

    def _run(self) -> None:
        backoff = LEAST_BACKOFF_SECONDS
        while not self._stopping.is_set():
            error = self._step()
            if isinstance(error, Refused):  # a store of another deployment: no time will mend it
                self._leave("failed", error)
                break
            if error is None:
                backoff = LEAST_BACKOFF_SECONDS
            else:
                self._leave("starting", error)
                self._stopping.wait(backoff)
                backoff = min(MOST_BACKOFF_SECONDS, 2 * backoff)
        self._finish()

    def _step(self) -> Exception | None:
        """Start an evaluator if there is none, and serve one turn; return what went wrong."""
        try:
            if self._serving.evaluator is None:
                self._open()
            self._turn()
            self._serving.require_evaluator()
        except Exception as error:
            return error
        return None

    def _open(self) -> None:
        """Start an evaluator from the store."""
        store = self._serving.store
        store.open_tenant(self._name, fingerprint=self.view.deployment.fingerprint)
        saved = store.load(self._name)
        start = Start()
        if saved is not None:
            start = Start(
                number=saved.number, head=saved.head, parts=saved.parts, rounds=saved.rounds
            )
        self._serving.begin(self._opener(start), stored=start.number)
        self.view.state, self.view.last_error = "serving", None
        log.info("tenant serves", extra={"fields": {"tenant": self._name}})

    def _leave(self, state: str, error: Exception) -> None:
        """Go on without an evaluator: the last one has ended, or does not do what it should."""
        reason = _reason_of(error)
        if self.view.last_error != reason:
            log.error("tenant stopped", extra={"fields": {"tenant": self._name, "reason": reason}})
        self.view.state, self.view.last_error = state, reason
        evaluator, self._serving.evaluator = self._serving.evaluator, None
        if evaluator is not None:
            evaluator.process.kill()
            evaluator.process.join()
        self.queue.fail_all(Unavailable(GONE))

    def _finish(self) -> None:
        if self._serving.evaluator is not None:
            self._try(lambda: self._turn(last=True))
            self._try(self._serving.evaluator.close)
            self._serving.evaluator = None
        if self.view.state != "failed":
            self.view.state = "stopped"
        self.queue.fail_all(Unavailable("the server is stopping: try again"))

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:
            fields = {"tenant": self._name, "reason": _reason_of(error)}
            log.error("tenant did not end well", extra={"fields": fields})

    # -- a turn

    def _turn(self, *, last: bool = False) -> None:
        """Serve what waits; whoever was not served is told to try again."""
        first = self.queue.take(seconds=0.0 if last else IDLE_SECONDS)
        jobs = [] if first is None else [first]
        why = Unavailable(GONE)
        try:
            self._serving.store_left_over()
            jobs = self._collect(jobs)
            self._serving.serve(jobs)
        except Unavailable as error:  # the store is away: what is left over waits for it
            why = error
            if self.view.last_error != str(error):
                fields = {"tenant": self._name, "reason": str(error)}
                log.warning("tenant waits", extra={"fields": fields})
            self.view.last_error = str(error)
            self.queue.fail_all(error)
            self._stopping.wait(IDLE_SECONDS)
        finally:
            for job in jobs:
                if not job.future.done():
                    job.fail(why)

    def _collect(self, jobs: list[Job]) -> list[Job]:
        """All that waits, up to a number."""
        while len(jobs) < MOST_IN_TURN and (job := self.queue.take(seconds=0.0)):
            jobs.append(job)
        return jobs


def _reason_of(error: Exception) -> str:
    return str(error) if isinstance(error, HelbaError) else f"a fault: {type(error).__name__}"
