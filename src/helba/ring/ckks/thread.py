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
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

MOST_THREADS = 4  # no step has more than four calls that do not wait for each other

_Result = TypeVar("_Result")
_threads = 1
_busy = threading.local()
_helpers: list[threading.Thread] = []
_starting = threading.Lock()  # one caller at a time starts helpers
_offers: SimpleQueue[Callable[[], None]] = SimpleQueue()


def set_threads(wanted: str | None) -> None:
    """Use so many threads, as OMP_NUM_THREADS has it (its first number), or all cores."""
    global _threads
    first = (wanted or "").split(",")[0].strip()
    count = int(first) if first.isdigit() else len(os.sched_getaffinity(0))
    _threads = max(1, min(MOST_THREADS, count))


def run_all(calls: Sequence[Callable[[], _Result]]) -> list[_Result]:
    """Return what each call returns, in order, when all that began have ended.

    If some fail, the first of them in that order raises; calls that had not begun are left out. An
    interrupt is raised before any of them.
    """
    threads = min(_threads, len(calls))
    if threads < 2 or getattr(_busy, "here", False):  # all threads have work
        return [call() for call in calls]
    waiting = deque(enumerate(calls))
    results: dict[int, _Result] = {}
    failures: dict[int, BaseException] = {}
    begun: list[threading.Event] = []

    def work() -> None:
        """Make one waiting call after the other, until none is left or one has failed."""
        ended = threading.Event()
        begun.append(ended)  # before it takes a call
        _busy.here = True
        try:
            while not failures:
                try:
                    index, call = waiting.popleft()
                except IndexError:
                    return
                try:
                    results[index] = call()
                except BaseException as error:
                    failures[index] = error
        finally:
            _busy.here = False
            ended.set()

    try:
        try:
            _offer(work, count=threads - 1)
            work()
        finally:
            waiting.clear()  # who has not begun yet finds nothing to do
            for ended in begun:
                while not ended.is_set():
                    try:
                        ended.wait()
                    except KeyboardInterrupt as interrupt:  # noqa: PERF203
                        failures[-1] = interrupt
        if failures:
            raise failures[min(failures)]
        return [results[index] for index in range(len(calls))]
    finally:  # a late helper still holds `work`, and a failure's traceback holds this frame
        results.clear()
        failures.clear()


def _offer(work: Callable[[], None], *, count: int) -> None:
    """Offer work to so many helpers, or to those that there are."""
    with _starting, suppress(RuntimeError):  # no more threads are to be had
        while len(_helpers) < count:
            helper = threading.Thread(target=_help, args=(_offers,), name="helba-ring", daemon=True)
            helper.start()
            _helpers.append(helper)
    for _ in _helpers[:count]:
        _offers.put(work)


def _help(offers: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        offers.get()()


def _forget_helpers() -> None:
    """Begin anew in a forked child, where no helper lives on."""
    global _offers, _starting
    _offers, _starting = SimpleQueue(), threading.Lock()
    _helpers.clear()


os.register_at_fork(after_in_child=_forget_helpers)
