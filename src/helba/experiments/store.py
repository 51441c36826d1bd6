"""A results folder that knows which run its rows belong to, so that a run can be resumed.

    OUT/manifest.json                        settings, fingerprint, totals of every finished run
    OUT/rows/<algorithm>-<repetition>.csv    one line a round
    OUT/regret.png, OUT/regret.svg           the plot

A folder belongs to one *fingerprint*: the settings that a row depends on, the version of helba, and
a digest of the source files that compute rows. The repetitions and algorithms asked for are not
part of it, so asking for more of them extends what is there. Under another fingerprint the files
named above are deleted and the work starts afresh; other files in the folder are never touched, and
a folder that has files but no manifest of ours is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from helba.bandits import ALGORITHMS
from helba.errors import InvalidInput
from helba.experiments.rows import write_text
from helba.experiments.runner import Outcome

__all__ = ["Store", "take_fingerprint"]

TOOL = "helba compare"
SECONDS_BETWEEN_SAVES = 0.5
SOURCES = ("numerics", "bandits", "problems", "experiments/runner.py")
ROWS_NAME = re.compile(rf"({'|'.join(map(re.escape, ALGORITHMS))})-\d+\.csv")


def take_fingerprint(settings: dict[str, Any]) -> str:
    """Return a digest of `settings` and of the code that turns them into rows."""
    digest = hashlib.sha256()
    words = {"settings": settings, "helba": version("helba"), "numpy": np.__version__}
    digest.update(json.dumps(words, sort_keys=True).encode())
    root = Path(__file__).parents[1]
    for source in SOURCES:
        path = root / source
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


class Store:
    """The finished runs in a folder; opening it makes the folder ours, or raises `InvalidInput`.

    `afresh` says whether rows of another fingerprint had to go.
    """

    def __init__(self, folder: Path, *, settings: dict[str, Any]) -> None:
        self.folder = folder
        self.settings = settings
        self.fingerprint = take_fingerprint(settings)
        self.finished: dict[str, Outcome] = {}
        self.radius_scale: float | None = None
        self.afresh = False
        self._saved_at = 0.0
        self._open()

    @property
    def manifest(self) -> Path:
        """The path of the manifest."""
        return self.folder / "manifest.json"

    def rows(self, algorithm: str, *, repetition: int) -> Path:
        """Return where the rows of one run are, or will be."""
        return self.folder / "rows" / f"{algorithm}-{repetition}.csv"

    def find(self, algorithm: str, *, repetition: int) -> Outcome | None:
        """Return the totals of a run, or None when it is not finished."""
        path = self.rows(algorithm, repetition=repetition)
        return self.finished.get(path.stem) if path.is_file() else None

    def record(self, algorithm: str, *, repetition: int, outcome: Outcome) -> None:
        """Note that a run is finished, whose rows are already on disk; `save` when all are noted.

        The manifest is written at most every half second: a process that is killed loses no more.
        """
        self.finished[self.rows(algorithm, repetition=repetition).stem] = outcome
        if time.monotonic() - self._saved_at >= SECONDS_BETWEEN_SAVES:
            self.save()

    def save(self) -> None:
        """Write the manifest."""
        content = {
            "tool": TOOL,
            "fingerprint": self.fingerprint,
            "version": version("helba"),
            "settings": self.settings,
            "radius_scale": self.radius_scale,
            "finished": {name: asdict(self.finished[name]) for name in sorted(self.finished)},
        }
        write_text(self.manifest, text=json.dumps(content, indent=1, allow_nan=False) + "\n")
        self._saved_at = time.monotonic()

    def _open(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise InvalidInput("out", self.folder, "a folder, and this is a file")
        if not self.manifest.is_file():
            if self.folder.is_dir() and any(self.folder.iterdir()):
                allowed = f"a new or empty folder, or one that {TOOL} wrote"
                raise InvalidInput("out", self.folder, allowed)
            self.save()
            return
        try:
            content = json.loads(self.manifest.read_text(encoding="utf-8"))
            ours = content["tool"] == TOOL
            self.afresh = content["fingerprint"] != self.fingerprint
            if not self.afresh:
                runs = content["finished"].items()
                self.finished = {name: Outcome(**totals) for name, totals in runs}
                self.radius_scale = content["radius_scale"]
        except (ValueError, KeyError, TypeError, AttributeError):
            ours = False
        if not ours:
            allowed = f"a folder whose manifest.json was written by {TOOL}"
            raise InvalidInput("out", self.folder, allowed)
        if self.afresh:
            self._clear()
            self.save()

    def _clear(self) -> None:
        for path in self.folder.glob("rows/*.csv"):
            if ROWS_NAME.fullmatch(path.name):
                path.unlink()
        for name in ("regret.png", "regret.svg"):
            (self.folder / name).unlink(missing_ok=True)
