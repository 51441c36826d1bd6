"""Work on several cores at once: threads of Python, each with one thread of OpenMP.

OpenFHE releases the interpreter's lock. Its own threads share a single operation, tower by tower,
and a ciphertext near its last level has one tower or two: there whole pieces of work split better.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from helba.errors import require_whole

__all__ = ["run_parallel"]

Item = TypeVar("Item")
Result = TypeVar("Result")

OPENMP = "libgomp.so.1"
MOST_THREADS = 1 << 10


def run_parallel(
    work: Callable[[Item], Result], items: Iterable[Item], *, threads: int
) -> list[Result]:
    """Return the results in the order of the items; with one thread, just one after the other."""
    require_whole("threads", threads, least=1, most=MOST_THREADS)
    if threads == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads, initializer=_use_one_core) as pool:
        return list(pool.map(work, items))


def _use_one_core() -> None:
    """Tell OpenMP so for the calling thread, if it is loaded at all.

    OpenFHE asks for a number of threads in every region, over which `omp_set_num_threads` has no
    power; without any active region it gets one.
    """
    with suppress(OSError):
        loaded = ctypes.CDLL(OPENMP, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        loaded.omp_set_max_active_levels(0)
