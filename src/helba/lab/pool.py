"""Jobs on several processes that can be interrupted at any time without losing finished work."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for_any
from multiprocessing.synchronize import Event
from types import TracebackType
from typing import Any, TypeVar

from helba.errors import RunFailed

Job = TypeVar("Job")
Result = TypeVar("Result")

# One thread a process: the matrices are small and the processes fill the cores.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

# How many jobs a process has waiting: enough to stay busy, few enough to stop at once.
JOBS_AHEAD = 4

_stop: Event | None = None


class Stopped(Exception):
    """Raised inside a job when the whole run is being stopped."""


def check_stop() -> None:
    """Raise `Stopped` when the run is being stopped; a long job calls this now and then."""
    if _stop is not None and _stop.is_set():
        raise Stopped


def count_cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """A pool of spawned processes, each with one thread; in this process when `count` is 1.

    `run` may be called several times. Interrupting it (SIGINT) reaches this process only: running
    jobs end at their next `check_stop`, waiting ones are dropped, and `KeyboardInterrupt` goes on
    to the caller. A program that uses more than one process guards its main module with
    `if __name__ == "__main__"`, since spawned processes import it.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        if self.count > 1:
            context = multiprocessing.get_context("spawn")
            self._event = context.Event()
            self._pool = ProcessPoolExecutor(
                self.count, mp_context=context, initializer=_start, initargs=(self._event,)
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            if error is not None:
                self._event.set()
            self._pool.shutdown(wait=True, cancel_futures=True)

    def run(
        self,
        function: Callable[[Job], Result],
        jobs: Sequence[Job],
        *,
        on_result: Callable[[Job, Result], None],
    ) -> None:
        """Call `function` on each job; `on_result` gets each result here, in order of arrival.

        `function` and the jobs must be importable and picklable. The first job that raises ends
        the run with `RunFailed`, which names the job by its `str`. However the run ends, results
        that have arrived are handed on first, the one being handled at that moment a second time.
        """
        if self._pool is None:
            for job in jobs:
                with _naming(job):
                    result = function(job)
                on_result(job, result)
            return
        pool, waiting, pending = self._pool, iter(jobs), dict[Future[Result], Job]()
        try:
            while True:
                with quiet_children():
                    for job in itertools.islice(waiting, JOBS_AHEAD * self.count - len(pending)):
                        pending[pool.submit(function, job)] = job
                if not pending:
                    return
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    with _naming(pending[future]):
                        result = future.result()
                    on_result(pending[future], result)
                    del pending[future]
        except BaseException:
            self._event.set()
            pool.shutdown(wait=True, cancel_futures=True)
            for future, job in pending.items():
                if _succeeded(future):
                    on_result(job, future.result())
            raise


@contextlib.contextmanager
def _naming(job: object) -> Iterator[None]:
    """Turn what a job raises into `RunFailed`, one line that names the job."""
    try:
        yield
    except BrokenProcessPool as error:
        text = "a worker process ended unexpectedly (out of memory?); finished runs are kept"
        raise RunFailed(text) from error
    except Exception as error:
        raise RunFailed(f"{job} failed: {str(error) or type(error).__name__}") from error


def _succeeded(future: Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


@contextlib.contextmanager
def quiet_children() -> Iterator[None]:
    """Processes started in here have one thread and never see SIGINT.

    The signal mask is inherited, and blocks SIGINT before the first line of Python runs; a handler
    installed by the worker would come too late for a worker that is still importing.
    """
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    mask = getattr(signal, "pthread_sigmask", None)
    old = mask(signal.SIG_BLOCK, {signal.SIGINT}) if mask else None
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if mask:
            mask(signal.SIG_SETMASK, old)


def _start(stop: Event) -> None:
    """Prepare a worker: remember how it is told to stop, and end when its parent is gone."""
    global _stop
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    wait_for_any([sentinel])
    os._exit(1)
