"""How much a sweep covers: a short form in every run of the tests, the long one in `make soak`."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
SOAK = bool(os.environ.get("HELBA_SOAK"))


def sweep(short: T, *, long: T) -> T:
    """`long` in `make soak`, and `short` everywhere else."""
    return long if SOAK else short


def in_soak(*values: Any, marks: Any = (), id: str | None = None) -> Any:
    """A case of a parametrised test that `make soak` runs and nothing else."""
    own = marks if isinstance(marks, list | tuple) else [marks]
    return pytest.param(*values, marks=[*own, pytest.mark.soak], id=id)
