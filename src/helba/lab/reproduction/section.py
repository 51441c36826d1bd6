"""A part of the report: text, tables, figures and the runs behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table; cells are text, numbers or None. `name` is that of its CSV file, without ending."""

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture, drawn as PNG and SVG, and the table of the rows that it was drawn from."""

    caption: str
    png: Path
    svg: Path
    rows: Path


@dataclass(frozen=True, kw_only=True)
class Section:
    """One part of the report.

    `runs` are the encrypted or plain runs behind it, as `SingleRun.as_json` returns them, each with
    a "title" and the "command" that repeats it: the report lists parameters and security of each.
    """

    name: str
    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    runs: Sequence[dict[str, Any]] = ()
