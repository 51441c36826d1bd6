"""Results for people and for programs: a table, or one strict JSON object, on stdout."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table


def strict(value: Any) -> Any:
    """Return `value` in types that strict JSON has; a number that is not finite becomes None."""
    if isinstance(value, Mapping):
        return {str(name): strict(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(item) for item in value]
    if isinstance(value, np.generic):
        return strict(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def flatten(report: Mapping[str, Any], *, under: str = "") -> dict[str, object]:
    """Return the values of a report without its levels: {"a": {"b": 1}} becomes {"a b": 1}."""
    flat: dict[str, object] = {}
    for name, value in report.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, under=f"{under}{name} ")
        else:
            listed = isinstance(value, (list, tuple))
            flat[under + name] = ", ".join(map(str, value)) if listed else value
    return flat


def print_json(report: Mapping[str, Any]) -> None:
    """Print exactly one JSON object."""
    print(json.dumps(strict(report), indent=2, allow_nan=False), flush=True)


def print_table(
    title: str | None, *, columns: Sequence[str], rows: Sequence[Sequence[object]]
) -> None:
    """Print a table; numbers to four digits and on the right, what is not there as a dash."""
    if sys.stdout is None:  # closed by the caller
        return
    table = Table(title=title, show_header=any(columns), title_justify="left")
    for index, name in enumerate(columns):
        numeric = all(isinstance(row[index], (int, float, type(None))) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    # Into a file or a pipe a table is as wide as it needs to be.
    width = None if sys.stdout.isatty() else 200
    Console(markup=False, highlight=False, width=width).print(table)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
