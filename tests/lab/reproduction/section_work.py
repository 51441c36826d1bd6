"""Units of a section done here, one after the other, and the section that they make."""

import csv
import json
from pathlib import Path
from types import ModuleType

from helba.lab.reproduction.scope import Scope
from helba.lab.reproduction.section import Section
from helba.lab.reproduction.unit import Results

TINY = Scope(quick=True, engine="simulate", repetitions=2, horizon=12, encrypted_repetitions=1)


def do_units(chapter: ModuleType, *, scope: Scope = TINY) -> Results:
    """Return the results of all units, as they come back from disk."""
    return {
        unit.name: json.loads(json.dumps(unit.work(**unit.arguments), allow_nan=False))
        for unit in chapter.units(scope)
    }


def read_csv(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a file."""
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return header, rows


def assert_tables_are_on_disk(section: Section, *, folder: Path) -> None:
    """Every table's columns and rows are in the file of its name, every figure's rows in its."""
    assert section.tables
    for table in section.tables:
        header, rows = read_csv(folder / f"{table.name}.csv")
        assert header == list(table.columns)
        assert len(rows) == len(table.rows) > 0
        for written, row in zip(rows, table.rows, strict=True):
            assert len(row) == len(table.columns)
            for cell, value in zip(written, row, strict=True):
                assert cell == ("" if value is None else str(value))
    for figure in section.figures:
        _, rows = read_csv(figure.rows)
        assert rows
        assert figure.png.stat().st_size > 1000
        assert figure.svg.read_text(encoding="utf-8").count("<path") > 5
