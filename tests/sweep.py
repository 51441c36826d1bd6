"""How much a sweep covers: a short form in every run of the tests, the long one in `make soak`."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")
SOAK = bool(os.environ.get("HELBA_SOAK"))


def sweep(short: T, *, long: T) -> T:
    """`long` in `make soak`, and `short` everywhere else."""
    return long if SOAK else short
