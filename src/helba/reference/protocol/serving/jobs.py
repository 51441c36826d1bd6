"""Computations of the server that may have to wait for a user's help.

A job is a generator: it yields a request and goes on with what comes back. A `Renewal` comes back
as a vector with its levels, a `Check` as a bool, an `Opening` as numbers. What has come back is
kept, so that a job can be saved: its inputs and this record bring a new generator to the same
place, since everything between is deterministic, but for the secrets of a check that is out, which
are saved with it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from helba.reference.circuits.levels import Renewal
from helba.reference.engine import EncryptedVector

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Check:
    """Whether the signs that a helper reads in the first slots of `vector` are these `signs`."""

    vector: EncryptedVector
    signs: tuple[int, ...]

    def __repr__(self) -> str:
        return "<Check>"


@dataclass(frozen=True, kw_only=True)
class Opening:
    """The values of `vector`, through a mask that hides them from the helper."""

    vector: EncryptedVector


Request = Renewal | Check | Opening
Result = EncryptedVector | bool | Array
JobSteps = Generator[Request, Any, Any]


class Job:
    """A generator of requests with the results it was given so far.

    `request` is what it waits for, None when it has ended with `value`.
    """

    def __init__(self, steps: JobSteps, *, record: Sequence[Result] = ()) -> None:
        self._steps = steps
        self.record: list[Result] = []
        self.request: Request | None = None
        self.value: Any = None
        self._advance(lambda: next(self._steps))
        for result in record:
            self.resume(result)

    def resume(self, result: Result) -> None:
        """Go on with the result of the request."""
        self.record.append(result)
        self._advance(lambda: self._steps.send(result))

    def _advance(self, move: Callable[[], Request]) -> None:
        try:
            self.request = move()
        except StopIteration as end:
            self.request, self.value = None, end.value
