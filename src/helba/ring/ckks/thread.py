"""Independent calls into OpenFHE on several threads.

OpenFHE releases the interpreter, and draws from a generator of the thread's own, seeded by the
operating system (a test compares what two threads encrypt). Its own threads gain little on
polynomials of 2^13 coefficients; whole operations side by side gain all there is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["run_all", "set_threads"]

MOST_THREADS = 4  # no step has more than four calls that do not wait for each other

_Result = TypeVar("_Result")
_lock = threading.Lock()
_threads = 1
_pool: ThreadPoolExecutor | None = None
_helping = threading.local()


def set_threads(wanted: str | None) -> None:
    """Use so many threads, as OMP_NUM_THREADS has it (its first number), or all cores."""
    global _threads, _pool
    first = (wanted or "").split(",")[0].strip()
    count = int(first) if first.isdigit() else _count_cores()
    with _lock:
        _threads, pool = max(1, min(MOST_THREADS, count)), _pool
        _pool = None
    if pool is not None:
        pool.shutdown()


def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_all(calls: Sequence[Callable[[], _Result]]) -> list[_Result]:
    """Return what each call returns, in order; the first that fails raises."""
    threads = min(_threads, len(calls))
    if threads < 2 or getattr(_helping, "busy", False):  # helpers do not wait for each other
        return [call() for call in calls]
    shares = [calls[start::threads] for start in range(threads)]
    helpers = [_helpers().submit(_help, share) for share in shares[1:]]
    try:
        found = [[call() for call in shares[0]]]
    finally:  # nothing goes on behind the caller's back
        rest = [helper.exception() or helper.result() for helper in helpers]
    for each in rest:
        if isinstance(each, BaseException):
            raise each
        found.append(each)
    return [found[index % threads][index // threads] for index in range(len(calls))]


def _help(calls: Sequence[Callable[[], _Result]]) -> list[_Result]:
    _helping.busy = True
    return [call() for call in calls]


def _helpers() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(_threads - 1, thread_name_prefix="helba-ring")
        return _pool
