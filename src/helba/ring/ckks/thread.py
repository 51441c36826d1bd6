"""Independent calls into OpenFHE on several threads.

OpenFHE releases the interpreter, and draws from a generator of the thread's own, seeded by the
operating system (a test compares what threads encrypt). Its own threads gain little on polynomials
of 2^13 coefficients; whole operations side by side gain all there is.

Helpers are threads that wait for work. The caller works too, and waits only for helpers that have
begun: where there are none, or they are late, it does all of it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

MOST_THREADS = 4  # no step has more than four calls that do not wait for each other

_Result = TypeVar("_Result")
_threads = 1
_busy = threading.local()


def set_threads(wanted: str | None) -> None:
    """Use so many threads, as OMP_NUM_THREADS has it (its first number), or all cores."""
    global _threads
    first = (wanted or "").split(",")[0].strip()
    count = int(first) if first.isdigit() else _count_cores()
    _threads = max(1, min(MOST_THREADS, count))


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_all(calls: Sequence[Callable[[], _Result]]) -> list[_Result]:
    """Return what each call returns, in order, when all that began have ended.

    If some fail, the first of them in that order raises; calls that had not begun are left out.
    """
    threads = min(_threads, len(calls))
    if threads < 2 or getattr(_busy, "here", False):  # all threads have work
        return [call() for call in calls]
    work = _Work(calls)
    try:
        _helpers.offer(work, count=threads - 1)
        work.do()
    finally:
        work.wait()
    return work.take_results()


class _Work:
    """Calls that wait, and what came of the others."""

    def __init__(self, calls: Sequence[Callable[[], Any]]) -> None:
        self._waiting = deque(enumerate(calls))
        self._helpers: list[threading.Event] = []  # of those that have begun: set when they ended
        self._results: list[Any] = [None] * len(calls)
        self._failures: dict[int, BaseException] = {}

    def help(self) -> None:
        """Do the same in another thread."""
        ended = threading.Event()
        self._helpers.append(ended)  # before it takes a call
        try:
            self.do()
        finally:
            ended.set()

    def do(self) -> None:
        """Make one waiting call after the other, until none is left or one has failed."""
        _busy.here = True
        try:
            while not self._failures:
                try:
                    index, call = self._waiting.popleft()
                except IndexError:
                    return
                try:
                    self._results[index] = call()
                except BaseException as error:
                    self._failures[index] = error
        finally:
            _busy.here = False

    def wait(self) -> None:
        """Wait for helpers, so that nothing goes on behind the caller's back.

        Who has not begun yet finds nothing to do. An interrupt is raised when all have ended.
        """
        self._waiting.clear()
        interrupt: KeyboardInterrupt | None = None
        for ended in self._helpers:
            while not ended.is_set():
                try:
                    ended.wait()
                except KeyboardInterrupt as error:  # noqa: PERF203
                    interrupt = error
        if interrupt is not None:
            raise interrupt

    def take_results(self) -> list[Any]:
        """Return the results, or raise the first failure; this object then holds neither."""
        results, self._results = self._results, []
        if not self._failures:
            return results
        try:
            raise self._failures[min(self._failures)]
        finally:  # this frame is in the failure's traceback
            self._failures.clear()


class _Helpers:
    """Threads that wait for work, as many as were ever asked for."""

    def __init__(self) -> None:
        self._offers: SimpleQueue[_Work] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0

    def offer(self, work: _Work, *, count: int) -> None:
        """Offer work to so many helpers, or to those that there are."""
        with self._lock:
            try:
                while self._count < count:
                    threading.Thread(target=self._help, name="helba-ring", daemon=True).start()
                    self._count += 1
            except RuntimeError:  # no more threads are to be had
                count = self._count
        for _ in range(count):
            self._offers.put(work)

    def _help(self) -> None:
        while True:
            self._offers.get().help()


_helpers = _Helpers()


def _forget_helpers() -> None:
    """Begin anew in a forked child, where no helper lives on."""
    global _helpers
    _helpers = _Helpers()


os.register_at_fork(after_in_child=_forget_helpers)
