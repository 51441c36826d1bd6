"""The house keeps its size: how many lines the core has, and how many modules a folder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "helba"
APART = ("reference", "lab", "service", "cli/service")  # what the core does without
MOST_LINES = 14_000
MOST_MODULES = 15


def core() -> list[Path]:
    """The modules of the core."""
    found = list(SOURCE.rglob("*.py"))
    apart = [SOURCE / each for each in APART]
    return [path for path in found if not any(each in path.parents for each in apart)]


def test_core_is_small():
    assert 0 < sum(len(path.read_text().splitlines()) for path in core()) <= MOST_LINES


def test_folders_of_the_core_have_few_modules():
    modules = Counter(path.parent for path in core() if path.name != "__init__.py")
    assert {folder: count for folder, count in modules.items() if count > MOST_MODULES} == {}
