"""What a client must not lose: rounds that wait for a reward, and reports under way.

    rounds/<id>.json     contexts, arm, and the reward once it is reported
    reports/<id>.bin     the report, as it was first sent
    refused/<id>.json    a reward that the server refused, and why; it can be taken back
    refused/<id>.bin     its report, where the round itself is not known

All of it is the user's own data in the clear, in a private folder and files that only their owner
can read. A round is written before it is asked for (without an arm) and again before its arm is
returned; a report before it is first sent. All go when the server has acknowledged the reward.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from helba.errors import DamagedData, InvalidInput, RunFailed
from helba.reference.protocol.wire.messages import ID_BYTES
from helba.service.protocol.files import delete_file, naming, read_json
from helba.service.protocol.vault import (
    make_private_folder,
    read_private,
    sweep_folder,
    write_private,
)

ROUNDS, REPORTS, REFUSED = "rounds", "reports", "refused"


@dataclass(frozen=True, kw_only=True)
class PendingRound:
    """A round of this user; `arm` is None until it is answered, `reward` until it is reported.

    `key` is the id of the collective key that the report is under.
    """

    round: str
    contexts: list[list[float]] = field(repr=False)
    asked_at: float = field(default_factory=time.time)
    arm: int | None = field(default=None, repr=False)
    context: list[float] | None = field(default=None, repr=False)
    reward: float | None = field(default=None, repr=False)
    key: str | None = None

    @classmethod
    def from_json(cls, data: Any) -> PendingRound:
        """Return the round that `asdict` described, or raise `DamagedData`."""
        try:
            found = cls(**data)
            check_round(found.round)
            sound = isinstance(found.contexts, list) and isinstance(found.asked_at, (int, float))
        except (TypeError, InvalidInput):
            sound = False
        if not sound:
            raise DamagedData("this describes no round")
        return found


class Outbox(Protocol):
    """Where a client keeps its rounds and reports."""

    def put_round(self, round: PendingRound) -> None:
        """Keep a round, in place of what was kept of it."""
        ...

    def find_round(self, round: str) -> PendingRound | None:
        """Return a round that is kept."""
        ...

    def rounds(self) -> list[PendingRound]:
        """Return all rounds, the oldest first."""
        ...

    def put_report(self, round: str, report: bytes) -> None:
        """Keep the bytes of a report."""
        ...

    def find_report(self, round: str) -> bytes | None:
        """Return the report of a round."""
        ...

    def reports(self) -> list[str]:
        """Return the rounds whose reports are under way."""
        ...

    def drop(self, round: str) -> None:
        """Delete all that is kept of a round."""
        ...

    def set_aside(self, round: str, *, reason: str) -> None:
        """Keep a refused reward apart, with the reason: it is no longer under way."""
        ...

    def take_back(self, round: str) -> bool:
        """Put a refused reward under way again; False if there is nothing to send of it."""
        ...

    def refused(self) -> dict[str, str]:
        """Return the refused rounds, and why."""
        ...


class MemoryOutbox:
    """Keeps everything until the process ends: for tests and load, not for rewards that matter."""

    def __init__(self) -> None:
        self._rounds: dict[str, PendingRound] = {}
        self._reports: dict[str, bytes] = {}
        self._refused: dict[str, str] = {}
        self._aside: dict[str, tuple[PendingRound | None, bytes | None]] = {}

    def put_round(self, round: PendingRound) -> None:
        """Keep a round, in place of what was kept of it."""
        self._rounds[round.round] = round

    def find_round(self, round: str) -> PendingRound | None:
        """Return a round that is kept."""
        return self._rounds.get(round)

    def rounds(self) -> list[PendingRound]:
        """Return all rounds, the oldest first."""
        return list(self._rounds.values())

    def put_report(self, round: str, report: bytes) -> None:
        """Keep the bytes of a report."""
        self._reports[round] = report

    def find_report(self, round: str) -> bytes | None:
        """Return the report of a round."""
        return self._reports.get(round)

    def reports(self) -> list[str]:
        """Return the rounds whose reports are under way."""
        return list(self._reports)

    def drop(self, round: str) -> None:
        """Delete all that is kept of a round."""
        self._rounds.pop(round, None)
        self._reports.pop(round, None)
        self._refused.pop(round, None)
        self._aside.pop(round, None)

    def set_aside(self, round: str, *, reason: str) -> None:
        """Keep a refused reward apart, with the reason: it is no longer under way."""
        kept = self._rounds.pop(round, None), self._reports.pop(round, None)
        self._refused[round], self._aside[round] = reason, kept

    def take_back(self, round: str) -> bool:
        """Put a refused reward under way again; False if there is nothing to send of it."""
        kept, report = self._aside.pop(round, (None, None))
        self._refused.pop(round, None)
        if kept is not None:
            self._rounds[round] = kept
        if report is not None:
            self._reports[round] = report
        return kept is not None or report is not None

    def refused(self) -> dict[str, str]:
        """Return the refused rounds, and why."""
        return dict(self._refused)


class FolderOutbox:
    """Keeps rounds and reports in a user's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in (ROUNDS, REPORTS, REFUSED):
            make_private_folder(folder / name)
            sweep_folder(folder / name)

    def put_round(self, round: PendingRound) -> None:
        """Keep a round, in place of what was kept of it."""
        write_private(self._round(round.round), json.dumps(asdict(round)).encode())

    def find_round(self, round: str) -> PendingRound | None:
        """Return a round that is kept."""
        return _read_round(self._round(round))

    def rounds(self) -> list[PendingRound]:
        """Return all rounds, the oldest first."""
        read = [_read_round(path) for path in (self._folder / ROUNDS).glob("*.json")]
        found = [each for each in read if each is not None]
        return sorted(found, key=lambda each: (each.asked_at, each.round))

    def put_report(self, round: str, report: bytes) -> None:
        """Keep the bytes of a report."""
        write_private(self._report(round), report)

    def find_report(self, round: str) -> bytes | None:
        """Return the report of a round."""
        return _read_if_there(self._report(round))

    def reports(self) -> list[str]:
        """Return the rounds whose reports are under way."""
        return sorted(path.stem for path in (self._folder / REPORTS).glob("*.bin"))

    def drop(self, round: str) -> None:
        """Delete all that is kept of a round, the report first: a round alone is only open."""
        self._drop_open(round)
        self._drop_aside(round)

    def set_aside(self, round: str, *, reason: str) -> None:
        """Keep a refused reward apart, with the reason: it is no longer under way."""
        found, report = self.find_round(round), self.find_report(round)
        kept = {"round": round} if found is None else asdict(found)
        if found is None and report is not None:
            write_private(self._aside(round, "bin"), report)
        write_private(self._aside(round, "json"), json.dumps({**kept, "reason": reason}).encode())
        self._drop_open(round)

    def take_back(self, round: str) -> bool:
        """Put a refused reward under way again; False if there is nothing to send of it.

        It is deleted from where it was last: what a crash leaves twice is sent and dropped as one.
        """
        path = self._aside(round, "json")
        data, report = _read_if_there(path), _read_if_there(self._aside(round, "bin"))
        if data is None:
            return False
        if report is not None:
            self.put_report(round, report)
        else:
            with naming(path):
                found = _refused_round(read_json(path, data))
            if found is None:
                return False
            self.put_round(found)
        self._drop_aside(round)
        return True

    def refused(self) -> dict[str, str]:
        """Return the refused rounds, and why."""
        found = {}
        for path in sorted((self._folder / REFUSED).glob("*.json")):
            kept = _read_if_there(path)
            if kept is not None:
                data = read_json(path, kept)
                found[path.stem] = str(data.get("reason")) if isinstance(data, dict) else "?"
        return found

    def _drop_open(self, round: str) -> None:
        delete_file(self._report(round))
        delete_file(self._round(round))

    def _drop_aside(self, round: str) -> None:
        for path in (self._aside(round, "json"), self._aside(round, "bin")):
            if path.exists():  # as a rule there is none, and deleting costs a write to the disk
                delete_file(path)

    def _round(self, round: str) -> Path:
        return self._folder / ROUNDS / f"{check_round(round)}.json"

    def _report(self, round: str) -> Path:
        return self._folder / REPORTS / f"{check_round(round)}.bin"

    def _aside(self, round: str, ending: str) -> Path:
        return self._folder / REFUSED / f"{check_round(round)}.{ending}"


def check_round(round: str) -> str:
    """Return the id of a round, or raise `InvalidInput`: it becomes part of a file's name."""
    try:
        name = bytes.fromhex(round)
    except (ValueError, TypeError):
        name = b""
    if len(name) != ID_BYTES or name.hex() != round:
        raise InvalidInput("round", "something else", f"{2 * ID_BYTES} hexadecimal digits")
    return round


def _read_if_there(path: Path) -> bytes | None:
    """The bytes of a file; None if it is not there, or another process deletes it meanwhile."""
    try:
        return read_private(path)
    except RunFailed:
        if path.exists():
            raise
        return None


def _refused_round(data: Any) -> PendingRound | None:
    """The round that was set aside; None if no reward of it is known."""
    if not isinstance(data, dict) or data.get("reward") is None:
        return None
    return PendingRound.from_json({name: data[name] for name in data if name != "reason"})


def _read_round(path: Path) -> PendingRound | None:
    data = _read_if_there(path)
    if data is None:
        return None
    with naming(path):
        return PendingRound.from_json(read_json(path, data))
