"""The time that OpenFHE itself takes; the rest is ours."""

from __future__ import annotations

import time
from typing import Any


class TimedContext:
    """OpenFHE's `context`, whose calls add their time to `seconds`; for one thread."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.context, name)

        def timed(*arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return operation(*arguments)
            finally:
                self.seconds += time.perf_counter() - began

        setattr(self, name, timed)  # found at once next time
        return timed
