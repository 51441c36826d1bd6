"""Folders that `helba keys` made on the simulator, and what its commands say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helba.cli import main
from helba.service.protocol import vault

WORDS = "correct horse battery staple"
OPENING = "opening the collective keys, to make a re-encryption key"


def cheap_keys() -> Iterator[None]:
    """For a fixture of a module: passphrases that cost little, and one in the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vault, "COST", vault.Cost(n=16, r=1, p=1))
        patch.setenv("HELBA_PASSPHRASE", WORDS)
        yield


def make_home(home: Path) -> Path:
    """An authority with ann and bob, whom it enrolled; eve has a pair; cleo shares a key."""
    assert main(["keys", "create", str(home / "dir"), "--engine", "simulate"]) == 0
    for name in ("ann", "bob", "eve"):
        assert main(["keys", "create", str(home / name), *user_of(home)]) == 0
    for name in ("ann", "bob"):
        assert main(["keys", "enrol", str(home / "dir"), name, *key_of(home, name)]) == 0
    shared = ["--engine", "simulate", "--keys", "shared"]
    assert main(["keys", "create", str(home / "shared"), *shared]) == 0
    return home


def copy_home(made: Path, place: Path) -> Path:
    shutil.copytree(made, place)
    place.chmod(0o700)
    return place


def user_of(home: Path) -> list[str]:
    return ["--user", "--deployment", str(home / "dir")]


def key_of(home: Path, name: str) -> list[str]:
    return ["--public-key", str(home / name / "public.key")]


def files_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def ask(capsys: Any, *command: object) -> Any:
    """The JSON of a command that succeeds, and what it says beside."""
    capsys.readouterr()
    assert main(["keys", *map(str, command), "--json"]) == 0
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return json.loads(captured.out), captured.err


def require_refused(capsys: Any, *command: object, code: int = 1, words: str = "") -> None:
    """One line, the code, and no output; how far it came may be said before."""
    capsys.readouterr()
    assert main(["keys", *map(str, command)]) == code
    captured = capsys.readouterr()
    assert not captured.out
    *said, line = captured.err.splitlines()
    assert set(said) <= {OPENING}, captured.err
    assert line.startswith("helba: ")
    assert words in line
    assert WORDS not in captured.err
