"""The time that OpenFHE itself takes, on all threads; the rest is ours."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any


class TimedContext:
    """OpenFHE's context, whose calls add their time to `seconds`."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self.seconds = 0.0
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = getattr(self._context, name)

        def timed(*arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return operation(*arguments)
            finally:
                spent = time.perf_counter() - began
                with self._lock:
                    self.seconds += spent

        setattr(self, name, timed)  # found at once next time
        return timed
