"""The work of a reproduction in units, each kept whole or done again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Of every finished unit, by its name: what its work returned.
Results = dict[str, dict[str, Any]]

# How a unit wants to run: alone on all cores (`ckks`: it is timed), or beside others (`light`).
WorkKind = str


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One piece of work: `work(**arguments)`, in a process of its own.

    `work` is a function at the top of a module, `arguments` and what it returns are plain JSON
    values: they are kept in a file of that name, and the arguments enter its fingerprint. What a
    figure is drawn from is part of what is returned, under "rows". `seconds` is a guess, for the
    time left. `command` is what a person types for the same work, if there is such a command.
    """

    name: str
    title: str
    work: Callable[..., dict[str, Any]]
    arguments: dict[str, Any]
    kind: WorkKind
    seconds: float
    command: str | None = None
