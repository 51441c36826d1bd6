"""Objects that hold secrets: they never print them, are never stored, and stay in one process."""

from __future__ import annotations

import os
from typing import NoReturn

from helba.errors import EngineError

_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


# The number of a process can come again after it has ended; the number of forks tells them apart.
os.register_at_fork(after_in_child=_count_fork)


class Confidential:
    """An object that prints counts only and can be neither pickled nor copied."""

    def _describe(self) -> str:
        """Return what `repr` may show: counts, never values."""
        return ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._describe()})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise EngineError(
            f"expected {type(self).__name__} to stay where it was made, got an attempt to pickle "
            "or copy it"
        )

    def __getstate__(self) -> NoReturn:
        self.__reduce_ex__(0)


class ProcessBound(Confidential):
    """A confidential object that works only in the process that made it.

    After a fork two processes would hold the same offset and seeds, and could answer with the same
    labels for different inputs: the child gets `EngineError` instead.
    """

    def __init__(self) -> None:
        self._process, self._forks = os.getpid(), _forks

    def _require_own_process(self) -> None:
        if os.getpid() != self._process or _forks != self._forks:
            raise EngineError(
                f"expected {type(self).__name__} to be used in process {self._process}, which made "
                f"it, got another, {os.getpid()}: make a new session in every process"
            )
