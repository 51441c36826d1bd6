"""Shells ask the command what may come next, through environment variables; so do these tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command

from helba.bandits import BONUSES, PROFILES, SCHEDULES
from helba.cli import app
from helba.lab.algorithm import ALGORITHMS
from helba.lab.command.completion import CHOICES
from helba.lab.play.single import ENGINES
from helba.learning.plan import OPENERS
from helba.problems import PROBLEMS
from helba.reference.planning.request import (
    ARGMAX_CHOICES,
    KEY_MODES,
    REFRESHES,
)
from helba.ring.security import SECURITY_LEVELS

HELBA = [sys.executable, "-m", "helba"]
SHELLS = ["bash", "zsh", "fish"]


def ask(shell: str, line: str) -> str:
    """Return what the command answers to a shell in which `line` was typed."""
    question = {
        "_HELBA_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    environment = {**os.environ, **question}
    done = subprocess.run(HELBA, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_shell_completes_commands_options_and_values(shell: str) -> None:
    commands = ask(shell, "helba ")
    assert all(name in commands for name in ("run", "compare", "plan", "serve"))
    assert "--algorithm" in ask(shell, "helba run toy --alg")
    values = ask(shell, "helba run toy --engine ")
    assert all(name in values for name in CHOICES["engine"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("helba run ", CHOICES["problem"]),
        ("helba run s", ("synthetic",)),
        ("helba compare toy --algorithms oful,rsoful-", ("oful,rsoful-tr",)),
        ("helba compare toy --algorithms uniform,uni", ()),
        ("helba plan --profile ", CHOICES["profile"]),
        ("helba plan --security 1", ("128", "192")),
        ("helba keys create keys --profile ", ("ciphertext", "paper")),
        ("helba authority serve keys --keys ", ("own", "switched")),
        ("helba serve keys --log-level w", ("warning",)),
    ],
)
def test_bash_completes_values(line: str, words: tuple[str, ...]) -> None:
    assert tuple(ask("bash", line).split()) == words


def test_choices_are_those_that_the_code_admits() -> None:
    admitted = {
        "algorithm": ALGORITHMS,
        "argmax": ARGMAX_CHOICES,
        "bonus": BONUSES,
        "engine": ENGINES,
        "keys": KEY_MODES,
        "log level": ("debug", "info", "warning", "error"),
        "opener": OPENERS,
        "problem": PROBLEMS,
        "profile": PROFILES,
        "refresh": REFRESHES,
        "schedule": SCHEDULES,
        "security": tuple(map(str, SECURITY_LEVELS)),
    }
    assert admitted == CHOICES


def options_of(command: Any, path: str = "helba") -> dict[str, Any]:
    """Every parameter below a command, by its path and name."""
    found = {f"{path} {one.name}": one for one in command.params}
    for name, below in getattr(command, "commands", {}).items():
        found |= options_of(below, f"{path} {name}")
    return found


def test_every_option_with_choices_is_completed() -> None:
    options = options_of(get_command(app))
    named = {path: one for path, one in options.items() if path.split()[-1] in CHOICES}
    assert len(named) > 30
    assert [path for path, one in named.items() if not one._custom_shell_complete] == []


def test_completion_loads_nothing_heavy() -> None:
    code = (
        "import atexit, sys; from helba.cli import main;"
        "atexit.register(lambda: print(*({'numpy', 'scipy', 'openfhe'} & set(sys.modules)),"
        " file=sys.stderr)); main()"
    )
    question = {"_HELBA_COMPLETE": "complete_bash", "COMP_WORDS": "helba run ", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **question},
        capture_output=True,
        text=True,
        check=True,
    )
    assert tuple(done.stdout.split()) == CHOICES["problem"]
    assert not done.stderr.strip()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_script_that_is_shown_makes_bash_complete(tmp_path: Any) -> None:
    script = tmp_path / "completion"
    command = tmp_path / "helba"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m helba "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    source = {**environment, "_HELBA_COMPLETE": "source_bash"}
    script.write_bytes(subprocess.run(HELBA, env=source, capture_output=True, check=True).stdout)
    # What bash does when Tab is pressed: call the function that is bound to the command.
    press_tab = (
        f"source {script}; COMP_WORDS=(helba run ''); COMP_CWORD=2; COMP_LINE='helba run ';"
        "function=$(complete -p helba | sed 's/.*-F \\([^ ]*\\).*/\\1/'); $function helba '' run;"
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", press_tab], env=environment, capture_output=True, text=True
    )
    assert tuple(done.stdout.split()) == CHOICES["problem"], done.stderr
