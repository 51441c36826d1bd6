"""Rows on disk: comma-separated, one line a round.

`write_rows` writes a file whole or not at all; `RowFile` writes each row as it comes, so that a run
that is interrupted keeps those it has.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from helba.errors import RunFailed
from helba.lab.runner import Row

COLUMNS = tuple(field.name for field in fields(Row))


def write_text(path: Path, *, text: str) -> None:
    """Write `text` to `path` so that a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_rows(path: Path, *, rows: Iterable[Row]) -> None:
    """Write `rows` to `path` with a header line; true is 1, false 0, not applicable is empty."""
    write_text(path, text="".join(_lines(rows)))


class RowFile:
    """A file of rows that grows, line by line; use it as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> RowFile:
        self._file = self.path.open("w", encoding="utf-8", newline="")
        self._file.writelines(_lines(()))
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, row: Row) -> None:
        """Add one row; it is on disk when this returns, unless the machine fails."""
        self._file.write(_line(row))
        self._file.flush()


def read_column(path: Path, *, column: str) -> NDArray[np.float64]:
    """Return one column of a file that `write_rows` wrote, an empty cell as NaN."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            index = next(reader).index(column)
            return np.array([float(line[index] or "nan") for line in reader])
    except (OSError, ValueError, IndexError, StopIteration) as error:
        raise RunFailed(f"cannot read the {column} of {path}: delete it and run again") from error


def holds_run(path: Path, *, rounds: int, regret: float) -> bool:
    """Return True if the file has a line for each round and ends with this cumulative regret."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        header, last = lines[0].split(","), lines[-1].split(",")
        return len(lines) == rounds + 1 and float(last[header.index("regret")]) == regret
    except (OSError, ValueError, IndexError):
        return False


def _lines(rows: Iterable[Row]) -> Iterator[str]:
    yield ",".join(COLUMNS) + "\n"
    for row in rows:
        yield _line(row)


def _line(row: Row) -> str:
    return ",".join(_cell(getattr(row, name)) for name in COLUMNS) + "\n"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, bool) else repr(value)
