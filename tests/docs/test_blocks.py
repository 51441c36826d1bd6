"""Every block runs, in the order of its page, and prints what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.output import agrees
from tests.docs.pages import PAGES, Block, Story, blocks_of, stories_of

LANGUAGES = {"python", "console", "text"}
STORIES = [story for page in PAGES for story in stories_of(page)]


def params() -> list[object]:
    return [
        pytest.param(
            story,
            marks=[pytest.mark.ckks, pytest.mark.slow] if story.needs_openfhe else [],
            id=story.name,
        )
        for story in STORIES
    ]


class Shell:
    """Runs commands in a folder; what is exported lasts until the end of the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        bin_folder = Path(sys.executable).parent
        self.environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}

    def run(self, command: str) -> tuple[int, str]:
        """Return the exit code, and stdout, or stderr of a command that failed."""
        if export := re.fullmatch(r"export (\w+)=\"?([^\"]*)\"?", command):
            self.environment[export[1]] = export[2]
            return 0, ""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        return done.returncode, done.stderr if done.returncode else done.stdout


def commands_of(block: Block) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that follows it."""
    start, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not start, f"{block.where} does not begin with a command"
    assert parts, f"{block.where} has no command"
    split = [part.partition("\n") for part in parts]
    return [(command, shown) for command, _, shown in split]


def run_console(block: Block, shell: Shell) -> None:
    for command, shown in commands_of(block):
        code, printed = shell.run(command)
        refused = shown.startswith("helba: ")
        assert (code != 0) == refused, f"{block.where}: {command}: {printed}"
        if shown:
            same = agrees(shown, printed=printed, numbers_vary=block.numbers_vary)
            assert same, f"{block.where}: {command}\n{printed}"


@pytest.mark.parametrize("story", params())
def test_blocks_of_page_run_and_print_what_it_shows(
    story: Story,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shell = Shell(tmp_path)
    names: dict[str, object] = {"__name__": "documentation"}
    printed = ""
    for block in story.blocks:
        if block.language == "console":
            run_console(block, shell)
        elif block.language == "python":
            exec(compile(block.text, block.where, "exec"), names)
            printed = capsys.readouterr().out
            assert printed.strip(), f"{block.where} prints nothing"
        elif block.is_output:
            same = agrees(block.text, printed=printed, numbers_vary=block.numbers_vary)
            assert same, f"{block.where}\n{printed}"


def test_every_block_says_what_it_is() -> None:
    for page in PAGES:
        for block in blocks_of(page):
            assert block.language in LANGUAGES, block.where


def test_stories_cover_tutorial_guides_and_readme() -> None:
    pages = {block.page for story in STORIES for block in story.blocks}
    assert {"README.md", "docs/tutorial.md", "docs/how-to/users.md"} <= pages
    assert any(story.needs_openfhe for story in STORIES)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a 3", "a 4"),
        ("a 3", "a 3 b"),
        ("a ... c", "a b d"),
        ("... b", "a b c"),
        ("a b", "b a"),
        ("│ a │ b │", "│ a │ c │"),
    ],
)
def test_other_output_is_noticed(shown: str, printed: str) -> None:
    assert not agrees(shown, printed=printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a 3.00", "a   3.01"),
        ("...\nb 1\n...", "a\n┃ b │ 1 ┃ c"),
        ("key " + "0" * 32, "key " + "f" * 32),
        ("a ...", "a"),
    ],
)
def test_same_output_is_accepted(shown: str, printed: str) -> None:
    assert agrees(shown, printed=printed)


def test_numbers_may_vary_only_where_it_is_said() -> None:
    assert agrees("took 3 s", printed="took 9 s", numbers_vary=True)
    assert not agrees("took 3 s", printed="took 9 h", numbers_vary=True)
    assert not agrees("took 3 s", printed="took 9 s")
