"""The sections of a reproduction by name, in the order in which the report has them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from helba.errors import require_choice
from helba.lab.reproduction.scope import Scope
from helba.lab.reproduction.section import Section
from helba.lab.reproduction.unit import Results, Unit

SECTIONS = ("figure1", "figure2", "table1", "bounds", "comparison", "scaling", "replay")


class Chapter(Protocol):
    """The module of a section: it lists the work that it needs, and writes it up."""

    def units(self, scope: Scope) -> list[Unit]:
        """Return what must be done before the section can be written."""

    def assemble(self, results: Results, *, scope: Scope, folder: Path) -> Section:
        """Write tables and figures to `folder` and return the section."""


def choose_chapters(names: Sequence[str]) -> dict[str, Chapter]:
    """Return the sections of these names."""
    for name in names:
        require_choice("section", name, SECTIONS)
    here = __name__.rpartition(".")[0] + ".part"
    return {name: cast(Chapter, import_module(f"{here}.{name}")) for name in names}
