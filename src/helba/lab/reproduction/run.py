"""The whole reproduction: units, sections and one report, in a folder that can be resumed.

    OUT/report.html   everything in one file that needs no other
    OUT/report.json   the same for programs

See `result` for the rest of the folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helba.errors import Interrupted, RunFailed, require_at_least
from helba.extras import require_extra
from helba.lab.pool import count_cores
from helba.lab.progress import note
from helba.lab.report import strict
from helba.lab.reproduction.catalogue import choose_chapters
from helba.lab.reproduction.drawing.html import write_html
from helba.lab.reproduction.environment import describe_environment
from helba.lab.reproduction.execution import distinct, run_missing
from helba.lab.reproduction.result import SavedResults
from helba.lab.reproduction.scope import Scope
from helba.lab.reproduction.section import Section
from helba.lab.reproduction.unit import Unit
from helba.lab.rows import write_text
from helba.reference.engine import get_scheme


def reproduce(
    sections: Sequence[str],
    *,
    scope: Scope,
    out: Path,
    jobs: int | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Do what is missing of these sections, write them to `out`, and return the report.

    When a unit fails, `RunFailed` says so, and when the run is interrupted, `Interrupted`;
    finished units stay. `MissingPackage` at the start where figures cannot be drawn.
    """
    require_extra("lab", purpose="the report on the paper")
    processes = count_cores() if jobs is None else jobs
    require_at_least("jobs", processes, 1)
    chapters = choose_chapters(sections)
    units = distinct([unit for chapter in chapters.values() for unit in chapter.units(scope)])
    if any(unit.kind == "ckks" for unit in units):
        _require_openfhe()
    with SavedResults(out, units=units, overwrite=overwrite) as kept:
        before = set(kept.results)
        run_missing(units, kept=kept, processes=processes)
        try:
            note("writing tables, figures and the report")
            written = [
                chapter.assemble(kept.results, scope=scope, folder=out / name)
                for name, chapter in chapters.items()
            ]
            environment = {"asked for": scope.describe(), **describe_environment()}
            report = {
                "scope": scope.as_json(),
                "environment": environment,
                "sections": [_describe(section, folder=out) for section in written],
                "units": [_describe_unit(unit, kept=kept, before=before) for unit in units],
                "report": "report.html",
            }
            write_html(written, path=out / "report.html", environment=environment)
            text = json.dumps(strict(report), indent=1, allow_nan=False)
            write_text(out / "report.json", text=text + "\n")
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted: all {len(units)} units are finished and kept, the report is not "
                "written; the same command writes it"
            ) from None
    return report


def _require_openfhe() -> None:
    try:
        get_scheme("ckks")
    except RunFailed as error:
        raise RunFailed(f"{error}: add --engine simulate") from error


def _describe(section: Section, *, folder: Path) -> dict[str, Any]:
    return {
        "name": section.name,
        "title": section.title,
        "paragraphs": list(section.paragraphs),
        "tables": [
            {
                "name": table.name,
                "caption": table.caption,
                "columns": list(table.columns),
                "rows": [list(row) for row in table.rows],
            }
            for table in section.tables
        ],
        "figures": [
            {
                "caption": figure.caption,
                **{
                    name: str(getattr(figure, name).relative_to(folder))
                    for name in ("png", "svg", "rows")
                },
            }
            for figure in section.figures
        ],
        "runs": list(section.runs),
    }


def _describe_unit(unit: Unit, *, kept: SavedResults, before: set[str]) -> dict[str, Any]:
    return {
        "name": unit.name,
        "title": unit.title,
        "kind": unit.kind,
        "command": unit.command,
        "seconds": kept.seconds[unit.name],
        "finished": kept.finished[unit.name],
        "finished_before": unit.name in before,
        "file": str(kept.path_of(unit).relative_to(kept.folder)),
    }
