"""A folder that keeps every finished unit, so that a reproduction can be resumed.

    OUT/paper.json              that the folder is ours
    OUT/units/<name>-<id>.json  what one unit returned; the id is a digest of its arguments
    OUT/<section>/              tables, figures and their rows, written anew from the units
    OUT/report.html, .json      the whole
    OUT/.lock                   held while a process works in the folder

A unit belongs to a *fingerprint*: its arguments, the versions of helba and what it computes with,
and a digest of the source files that compute it. Units of other arguments lie beside each other, so
that a quick reproduction and a full one share a folder and what they have in common. Units that
other code made are refused, or made again with `overwrite`; a damaged file counts as not finished.
A folder that has files but no paper.json of ours is refused.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from helba.errors import InvalidInput
from helba.lab.comparison.store import take_fingerprint
from helba.lab.lock import LOCK, FolderLock
from helba.lab.report import strict
from helba.lab.reproduction.unit import Results, Unit
from helba.lab.rows import write_text

TOOL = "helba paper"
MANIFEST = "paper.json"
# What computes, not what writes up: a new caption makes no run anew.
SOURCES = (
    *("errors.py", "numerics", "bandits", "problems", "reference"),
    *("lab/runner.py", "lab/rows.py", "lab/comparison/tuning.py"),
    *(f"lab/play/{name}.py" for name in ("encrypted", "single", "stopwatch", "tie")),
)


def fingerprint_of(unit: Unit) -> str:
    """Return a digest of the unit's arguments and of the code that does its work."""
    words = {"work": unit.work.__qualname__, "arguments": unit.arguments}
    text = json.dumps(words, sort_keys=True, allow_nan=False)
    return _digest(_code_fingerprint() + _source_of(unit.work) + text)


class SavedResults:
    """The finished units in a folder; opening it makes the folder ours, or raises `InvalidInput`.

    `results` are what the finished ones of `units` returned, `seconds` what they took, `finished`
    when they were done, by name. `damaged` says how many files could not be read. Use it as a
    context manager: it holds the folder's lock.
    """

    def __init__(self, folder: Path, *, units: Sequence[Unit], overwrite: bool = False) -> None:
        self.folder = folder
        self.results: Results = {}
        self.seconds: dict[str, float] = {}
        self.finished: dict[str, str] = {}
        self.damaged = 0
        if folder.exists() and not folder.is_dir():
            raise InvalidInput("out", folder, "a folder, and this is a file")
        _require_ours(folder)
        self._lock = FolderLock(folder)
        try:
            _require_ours(folder)
            self._load(units, overwrite=overwrite)
            write_text(folder / MANIFEST, text=json.dumps({"tool": TOOL}) + "\n")
            for part in folder.glob("units/.*.part"):  # of a process that was killed
                part.unlink()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> SavedResults:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others work in the folder."""
        self._lock.close()

    def path_of(self, unit: Unit) -> Path:
        """Return where the unit is kept, or will be."""
        arguments = _digest(json.dumps(unit.arguments, sort_keys=True))[:8]
        return self.folder / "units" / f"{unit.name}-{arguments}.json"

    def record(self, unit: Unit, *, result: dict[str, Any], seconds: float) -> None:
        """Keep what a unit returned: when this returns, it is on disk as a whole."""
        plain = strict(result)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        content = {
            "unit": unit.name,
            "title": unit.title,
            "command": unit.command,
            "arguments": unit.arguments,
            "fingerprint": fingerprint_of(unit),
            "finished": now,
            "seconds": seconds,
            "digest": _digest(_canonical(plain)),
            "result": plain,
        }
        write_text(self.path_of(unit), text=json.dumps(content, allow_nan=False) + "\n")
        self._note(unit, content=content)

    def _note(self, unit: Unit, *, content: dict[str, Any]) -> None:
        self.results[unit.name] = content["result"]
        self.seconds[unit.name] = content["seconds"]
        self.finished[unit.name] = content["finished"]

    def _load(self, units: Sequence[Unit], *, overwrite: bool) -> None:
        others = 0
        for unit in units:
            path = self.path_of(unit)
            if not path.exists():
                continue
            content = _read(path)
            if content is None:
                self.damaged += 1
            elif content["fingerprint"] != fingerprint_of(unit):
                others += 1
            else:
                self._note(unit, content=content)
        if others and not overwrite:
            found = f"{others} of {len(units)} units that another version made"
            allowed = f"another folder, or add --overwrite: this one holds {found}"
            raise InvalidInput("out", self.folder, allowed)


def _require_ours(folder: Path) -> None:
    """Refuse a folder that holds what another command or person put there."""
    manifest = folder / MANIFEST
    if manifest.is_file():
        try:
            if json.loads(manifest.read_text(encoding="utf-8"))["tool"] == TOOL:
                return
        except (OSError, ValueError, KeyError, TypeError):
            pass
        raise InvalidInput("out", folder, f"a folder whose {MANIFEST} was written by {TOOL}")
    if folder.is_dir() and any(not _is_trace(path.name) for path in folder.iterdir()):
        raise InvalidInput("out", folder, f"a new or empty folder, or one that {TOOL} wrote")


def _is_trace(name: str) -> bool:
    """Return True if a file is what we leave when killed before the manifest is there."""
    return name == LOCK or (name.startswith(f".{MANIFEST}.") and name.endswith(".part"))


def _read(path: Path) -> dict[str, Any] | None:
    """Return the content of a unit's file, or None if it is damaged."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        whole = content["digest"] == _digest(_canonical(content["result"]))
        known = content["fingerprint"] and content["finished"]
        if whole and known and isinstance(content["result"], dict):
            content["seconds"] = float(content["seconds"])
            return content
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def _code_fingerprint() -> str:
    try:
        library = version("openfhe")
    except PackageNotFoundError:
        library = "none"
    return take_fingerprint({"openfhe": library}, sources=SOURCES)


@functools.cache
def _source_of(work: Callable[..., Any]) -> str:
    """Return a digest of the module that the work is written in."""
    path = inspect.getsourcefile(work)
    return "" if path is None else _digest(Path(path).read_text(encoding="utf-8"))
