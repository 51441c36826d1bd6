"""Where a client says what it waits for: to nobody, unless somebody wants to know."""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger("helba.service.client")


class _Teller(logging.Handler):
    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """Say it, as it is."""
        self._say(record.getMessage())


def tell_waits(say: Callable[[str], None]) -> None:
    """Let `say` have a line whenever a request waits for long; it takes the place of an earlier."""
    for handler in [each for each in log.handlers if isinstance(each, _Teller)]:
        log.removeHandler(handler)
    log.setLevel(logging.INFO)
    log.addHandler(_Teller(say))
