"""Where a passphrase comes from: a file, the environment, or whoever sits at the terminal.

It is never an argument of a command, which every user of the machine could read.
"""

from __future__ import annotations

import os
import stat
import sys
from getpass import getpass
from pathlib import Path

from helba.errors import InvalidInput, RunFailed
from helba.lab.progress import note

VARIABLE, NEW_VARIABLE = "HELBA_PASSPHRASE", "HELBA_NEW_PASSPHRASE"
LEAST_LETTERS = 8
MOST_BYTES = 1 << 12


def read_passphrase(*, file: Path | None, confirm: bool = False, variable: str = VARIABLE) -> str:
    """Return the first line of `file`, else the `variable`, else what is typed at the prompt.

    `confirm` is for a new passphrase: it is asked for twice, and has at least 8 characters. An
    empty variable counts as none. A file that others can open is warned of on stderr.
    """
    if file is not None:
        passphrase = _read_first_line(file)
    elif found := os.environ.get(variable):
        passphrase = found
    else:
        passphrase = _ask(twice=confirm, variable=variable)
    if not passphrase:
        raise InvalidInput("passphrase", "an empty one", "at least one character long")
    if confirm and len(passphrase) < LEAST_LETTERS:
        raise InvalidInput(
            "passphrase", "a shorter one", f"at least {LEAST_LETTERS} characters long"
        )
    return passphrase


def _read_first_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            _warn_if_open(path, os.fstat(file.fileno()))
            line = file.readline(MOST_BYTES + 1)
    except OSError as error:
        raise RunFailed(f"cannot read {path}: {error.strerror}") from error
    if len(line) > MOST_BYTES:
        raise InvalidInput("passphrase", "a longer one", f"at most {MOST_BYTES} bytes long")
    return _decode(line.removesuffix(b"\n").removesuffix(b"\r"))


def _warn_if_open(path: Path, found: os.stat_result) -> None:
    if stat.S_ISREG(found.st_mode) and found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        note(f"{path} is open to other users: chmod 600 {path}")


def _decode(line: bytes) -> str:
    text = line.decode(errors="replace")
    if text.encode() != line:  # an exception of the codec would carry the line
        raise InvalidInput("passphrase", "other bytes", "UTF-8 text")
    return text


def _ask(*, twice: bool, variable: str) -> str:
    if not (sys.stdin and sys.stdin.isatty()):
        ways = f"in a file, in the environment variable {variable}, or typed at a terminal"
        raise InvalidInput("passphrase", "none", f"given {ways}")
    try:
        passphrase = getpass("New passphrase: " if twice else "Passphrase: ")
        same = not twice or getpass("The same again: ") == passphrase
    except EOFError:
        raise InvalidInput("passphrase", "none", "typed at the terminal") from None
    if not same:
        raise InvalidInput("passphrase", "another", "the same both times")
    return passphrase
