"""A results folder that knows which run its rows belong to, so that a run can be resumed.

    OUT/manifest.json                        settings, fingerprint, totals of every finished run
    OUT/rows/<algorithm>-<repetition>.csv    one line a round
    OUT/regret.png, OUT/regret.svg           the plot
    OUT/.lock                                held while a process works in the folder

A folder belongs to one *fingerprint*: the settings that a row depends on, the version of helba, and
a digest of the source files that compute rows. The repetitions and algorithms asked for are not
part of it, so asking for more of them extends what is there. A folder of another fingerprint is
refused, unless it may be overwritten: then the files named above are deleted and the work starts
afresh. Other files in the folder are never touched, and a folder that has files but no manifest of
ours is refused. A run whose rows are missing or damaged counts as not finished.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from helba.errors import InvalidInput
from helba.lab.algorithm import ALGORITHMS
from helba.lab.lock import LOCK, FolderLock
from helba.lab.rows import holds_run, write_text
from helba.lab.runner import Outcome

TOOL = "helba compare"
SECONDS_BETWEEN_SAVES = 0.5
SOURCES = (
    *("errors.py", "numerics", "bandits", "problems", "reference/numerics", "reference/twin"),
    *(f"lab/{name}.py" for name in ("algorithm", "runner", "rows")),
    *(f"lab/comparison/{name}.py" for name in ("compare", "tuning", "store")),
)
ROWS_NAME = re.compile(rf"({'|'.join(map(re.escape, ALGORITHMS))})-\d+\.csv")


def take_fingerprint(settings: dict[str, Any], *, sources: Sequence[str] = SOURCES) -> str:
    """Return a digest of `settings` and of the code that turns them into rows.

    `sources` are files and folders of the package. The version of scikit-learn, which holds the
    data of the replay problem, counts unless `settings` name another problem.
    """
    digest = hashlib.sha256()
    packages = ["helba", "numpy", "scipy"]
    if settings.get("problem", "replay") == "replay":
        packages.append("scikit-learn")
    versions = {name: version(name) for name in packages}
    words = {"settings": settings, "versions": versions}
    digest.update(json.dumps(words, sort_keys=True).encode())
    root = Path(__file__).parents[2]
    for source in sources:
        path = root / source
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


class Store:
    """The finished runs in a folder; opening it makes the folder ours, or raises `InvalidInput`.

    `tuning` keeps the regrets of tuning runs, so that an interrupted tuning goes on. Use it as a
    context manager: it holds the folder's lock.
    """

    def __init__(self, folder: Path, *, settings: dict[str, Any], overwrite: bool = False) -> None:
        self.folder = folder
        self.settings = settings
        self.fingerprint = take_fingerprint(settings)
        self.finished: dict[str, Outcome] = {}
        self.tuning: dict[str, float] = {}
        self.radius_scale: float | None = None
        self._saved_at = 0.0
        self._lock: FolderLock | None = None
        if folder.exists() and not folder.is_dir():
            raise InvalidInput("out", folder, "a folder, and this is a file")
        try:
            self._open(overwrite=overwrite)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others work in the folder."""
        if self._lock is not None:
            self._lock.close()

    @property
    def manifest(self) -> Path:
        """The path of the manifest."""
        return self.folder / "manifest.json"

    def rows(self, algorithm: str, *, repetition: int) -> Path:
        """Return where the rows of one run are, or will be."""
        return self.folder / "rows" / f"{algorithm}-{repetition}.csv"

    def find(self, algorithm: str, *, repetition: int) -> Outcome | None:
        """Return the totals of a run, or None when it is not finished."""
        return self.finished.get(self.rows(algorithm, repetition=repetition).stem)

    def record(self, algorithm: str, *, repetition: int, outcome: Outcome) -> None:
        """Note that a run is finished, whose rows are already on disk; `save` when all are noted.

        The manifest is written at most every half second: a process that is killed loses no more.
        """
        self.finished[self.rows(algorithm, repetition=repetition).stem] = outcome
        self._save_soon()

    def record_tuning(self, run: str, *, regret: float) -> None:
        """Note the regret of a tuning run."""
        self.tuning[run] = regret
        self._save_soon()

    def _save_soon(self) -> None:
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
            "tuning": self.tuning,
            "finished": {name: asdict(self.finished[name]) for name in sorted(self.finished)},
        }
        write_text(self.manifest, text=json.dumps(content, indent=1, allow_nan=False) + "\n")
        self._saved_at = time.monotonic()

    def _open(self, *, overwrite: bool) -> None:
        if not self.manifest.is_file():
            if self.folder.is_dir() and any(path.name != LOCK for path in self.folder.iterdir()):
                allowed = f"a new or empty folder, or one that {TOOL} wrote"
                raise InvalidInput("out", self.folder, allowed)
            self._lock = FolderLock(self.folder)
            self.save()
            return
        self._read()  # is it ours to lock?
        self._lock = FolderLock(self.folder)
        content = self._read()
        same = content["fingerprint"] == self.fingerprint
        if same and self._load(content):
            return
        if not overwrite:
            found = "a damaged manifest" if same else self._difference(content["settings"])
            allowed = f"another folder, or add --overwrite: this one holds {found}"
            raise InvalidInput("out", self.folder, allowed)
        self._clear()
        self.save()

    def _read(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(self.manifest.read_text(encoding="utf-8"))
            ours = content["tool"] == TOOL and isinstance(content["settings"], dict)
            if ours and isinstance(content["fingerprint"], str):
                return content
        except (ValueError, KeyError, TypeError):
            pass
        allowed = f"a folder whose manifest.json was written by {TOOL}"
        raise InvalidInput("out", self.folder, allowed)

    def _load(self, content: dict[str, Any]) -> bool:
        """Take over the finished runs whose rows are whole; False if the manifest is damaged."""
        try:
            outcomes = {name: Outcome(**run) for name, run in content["finished"].items()}
            self.tuning, self.radius_scale = dict(content["tuning"]), content["radius_scale"]
        except (KeyError, TypeError, ValueError, AttributeError):
            return False
        for name, outcome in outcomes.items():
            path = self.folder / "rows" / f"{name}.csv"
            if holds_run(path, rounds=self.settings["horizon"], regret=outcome.regret):
                self.finished[name] = outcome
        return True

    def _difference(self, held: dict[str, Any]) -> str:
        """Say what a folder of another fingerprint holds."""
        for name, value in self.settings.items():
            if held.get(name) != value:
                return f"rows with {name} {held.get(name)}, not {value}"
        return "rows made by another version"

    def _clear(self) -> None:
        for path in self.folder.glob("rows/*.csv"):
            if ROWS_NAME.fullmatch(path.name):
                path.unlink()
        for name in ("regret.png", "regret.svg"):
            (self.folder / name).unlink(missing_ok=True)
