"""No measured number without the command that made it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, name_of, read, sections_of

MARKED = re.compile(r"<!-- BEGIN (\S+) -->\n(.*?)<!-- END (\S+) -->", re.DOTALL)
# A command to type, a test that holds the number, or code that prints it.
COMMAND = re.compile(
    r"`(?:helba|make|pytest|scripts/[a-z-]+) [^`]+`|^ *\$ helba |[(`]tests/|^```python",
    re.MULTILINE,
)
MEASURED = re.compile(
    r"(?<![\w^.-])\d+(?:\.\d+)?(?:e-?\d+)?"
    r"(?:%| (?:s|ms|seconds?|minutes?|h|[kMG]B|[MG]iB|times)(?!\w))"
    r"|half a second|a quarter of a second"
)
# Set, not measured: limits of the planner, and what a passphrase is made to cost.
SET = {"2 GiB", "4 GiB", "1 GiB", "128 MiB"}
DECIMAL = re.compile(r"\|\s*\**\d+\.\d+(?:e-?\d+)?\**\s*(?=\|)")


def unexplained(section: str) -> list[str]:
    """Measured numbers of a section that names no command."""
    if COMMAND.search(section):
        return []
    return [match[0] for match in MEASURED.finditer(section) if match[0] not in SET]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_measured_numbers_of_page_have_their_command(page: Path) -> None:
    for section in sections_of(page):
        assert not unexplained(section), section.splitlines()[0]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_marked_tables_of_page_name_their_command(page: Path) -> None:
    text = read(page)
    assert text.count("<!-- BEGIN ") == len(MARKED.findall(text))
    for match in MARKED.finditer(text):
        assert match[1] == match[3]
        before = text[: match.start()].rstrip().rsplit("\n\n", 1)[-1]
        assert COMMAND.search(before + match[2]), match[1]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tables_of_measured_numbers_are_marked(page: Path) -> None:
    left = MARKED.sub("", re.sub(r"```.*?```", "", read(page), flags=re.DOTALL))
    assert not DECIMAL.findall(left)


def test_marked_tables_are_those_that_make_tables_writes() -> None:
    script = (Path(__file__).resolve().parents[2] / "scripts" / "document").read_text()
    marked = {match[1] for page in PAGES for match in MARKED.finditer(read(page))}
    assert marked
    for name in marked:
        assert f'"{name}": ' in script


def test_number_without_a_command_is_noticed() -> None:
    assert unexplained("## Speed\nAn argmax takes 0.4 s.") == ["0.4 s"]
    assert unexplained("## Speed\nAn argmax takes 0.4 s (`helba bench kernels`).") == []
    assert unexplained("## Words\nThree times, in 12 rounds.") == []
