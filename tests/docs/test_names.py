"""Modules, files and tests that a page names are there, under the whole name it gives them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import helba
from tests.docs.pages import PAGES, ROOT, name_of, prose_of, spans_of

SOURCE = ROOT / "src" / "helba"
DOTTED = re.compile(r"(?<![\w./])(?:[a-z_]\w*\.)+\w+")
FILE = re.compile(r"[\w./-]+\.py\b")
TEST = re.compile(r"\btest_\w+\b(?!\.py)")
DIRECTIVE = re.compile(r"^::: (\S+)", re.MULTILINE)


def find_modules() -> dict[str, Path]:
    """The file of each module and package, by its name below `helba`."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if path.name == "__init__.py" else parts)] = path
    return found


MODULES = find_modules()
INNER = [name for name in MODULES if "." in name]
TESTS = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))


def complain(name: str) -> str:
    """Return what is wrong with a dotted name, or nothing; names of other things are none of it."""
    first, _, rest = name.partition(".")
    if first != "helba":
        outer = name.rpartition(".")[0]
        named = (name, outer) if "." in outer else (name,)
        for inner in INNER:
            if any(f".{inner}".endswith(f".{each}") for each in named):
                return f"{name} is in helba.{inner}"
        return ""
    parts = rest.split(".")
    known = max(n for n in range(len(parts) + 1) if ".".join(parts[:n]) in MODULES)
    if known == 0:
        return "" if parts[0] in helba.__all__ else f"there is no {name}"
    if len(parts) == known:
        return ""
    text = MODULES[".".join(parts[:known])].read_text(encoding="utf-8")
    return "" if re.search(rf"\b{parts[known]}\b", text) else f"there is no {name}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_modules_that_page_names_are_there(page: Path) -> None:
    named = [name for span in spans_of(page) for name in DOTTED.findall(FILE.sub("", span))]
    named += DIRECTIVE.findall(prose_of(page))
    wrong = [why for name in named if (why := complain(name))]
    assert not wrong


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_files_and_tests_that_page_names_are_there(page: Path) -> None:
    for span in spans_of(page):
        for name in FILE.findall(span):
            assert (ROOT / name).exists(), name
        for name in TEST.findall(FILE.sub("", span)):
            assert re.search(rf"\b{name}", TESTS), name


@pytest.mark.parametrize(
    "name",
    [
        "helba.rings",
        "helba.ring.ckks.engine",
        "helba.ring.noise.no_such_name",
        "planning.planner",
        "circuits.renewal.bootstrap_renewal",
        "ring.secret",
    ],
)
def test_wrong_name_is_noticed(name: str) -> None:
    assert complain(name)


@pytest.mark.parametrize(
    "name",
    [
        "helba.Client",
        "helba.ring.secret",
        "helba.reference.planning.planner",
        "helba.reference.circuits.renewal.bootstrap_renewal",
        "policy.update",
        "concurrent.futures",
    ],
)
def test_right_name_is_accepted(name: str) -> None:
    assert not complain(name)
