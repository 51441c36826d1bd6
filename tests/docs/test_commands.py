"""Every `helba ...` that a page mentions is a command, and every `--option` one of its options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from helba.cli import app
from tests.docs.pages import PAGES, blocks_of, name_of, read, spans_of

APP: Any = get_command(app)

# Options of other programs that pages mention.
FOREIGN = {"--delete", "--exclude", "--upgrade", "--strict"}
SIMULATION = {"--keep", "--messages", "--minutes", "--replay"}  # of `python -m tests.simulation`
PROMPT = re.compile(r"^(?:\w*\$ +)?(helba .*)$")


def mentioned(page: Path) -> list[str]:
    """Commands in inline code, and those that begin a line of a block, without their remarks."""
    found = [span for span in spans_of(page) if span.startswith("helba ")]
    lines = [line for block in blocks_of(page) for line in block.text.splitlines()]
    indented = re.findall(r"^    (helba .*(?:\n      +[\[-].*)*)", read(page), flags=re.MULTILINE)
    found += [" ".join(text.split()) for text in indented]
    for line in lines:
        if (match := PROMPT.match(line)) and not line.startswith("helba 0."):
            found.append(re.split(r" {2,}", match[1])[0])
    return found


def complain(text: str) -> str:
    """Return what is wrong with a command, or nothing."""
    words = re.sub(r"[\[\]]", " ", text).split()[1:]
    command = APP
    arguments = 0
    while words:
        word = words.pop(0).rstrip(",;:")
        if word == "...":
            continue
        if word.startswith("--"):
            option = find_option(command, word.split("=")[0])
            if option is None:
                return f"{command.name} has no {word}"
            if not option.is_flag and "=" not in word and words:
                words.pop(0)
        elif hasattr(command, "commands"):
            if unknown := set(word.split("|")) - set(command.commands):
                return f"{command.name} has no {', '.join(sorted(unknown))}"
            command = command.commands[word.split("|")[0]]
        else:
            arguments += 1
    most = sum(1 for one in command.params if one.param_type_name == "argument")
    return f"{command.name} takes {most} arguments" if arguments > most else ""


def find_option(command: Any, name: str) -> Any:
    for one in command.params:
        if name in one.opts or name in one.secondary_opts or name == "--help":
            return one
    return None


def all_options(command: Any) -> set[str]:
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    for below in getattr(command, "commands", {}).values():
        options |= all_options(below)
    return options


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_that_page_mentions_parse(page: Path) -> None:
    wrong = {text: why for text in mentioned(page) if (why := complain(text))}
    assert not wrong


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_options_that_page_mentions_exist(page: Path) -> None:
    known = all_options(APP) | FOREIGN | SIMULATION
    used = {
        option
        for span in spans_of(page)
        if not span.startswith(("helba ", "pytest ", "rsync ", "scripts/"))
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", span)
    }
    assert used <= known


def test_pages_mention_every_command() -> None:
    said = " ".join(text for page in PAGES for text in (*mentioned(page), *spans_of(page)))
    for name, command in APP.commands.items():
        assert f"helba {name}" in said
        for below in getattr(command, "commands", {}):
            assert re.search(rf"helba {name} (\S*\|)?{below}\b", said), below


@pytest.mark.parametrize(
    "text",
    [
        "helba ran toy",
        "helba run toy --engin ckks",
        "helba run toy synthetic",
        "helba bench round|rounds",
        "helba keys create DIR PROBLEM MORE",
    ],
)
def test_wrong_command_is_noticed(text: str) -> None:
    assert complain(text)


@pytest.mark.parametrize(
    "text",
    ["helba run toy --json", "helba plan --dim d --arms K [--json]", "helba run --engine ckks ..."],
)
def test_right_command_is_accepted(text: str) -> None:
    assert not complain(text)
