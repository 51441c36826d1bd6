"""What goes into a store and comes out of it. Times are in UTC; ids are bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from helba.errors import InvalidInput

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def require_name(name: str) -> None:
    """Raise `InvalidInput` unless a tenant may be called so."""
    if not NAME.fullmatch(name):
        allowed = "1 to 64 letters, digits, dots, dashes or underscores"
        raise InvalidInput("tenant", repr(name), allowed)


def require_instant(name: str, value: datetime) -> None:
    """Raise `InvalidInput` unless the time says its zone: without, it is no moment."""
    if value.utcoffset() is None:
        raise InvalidInput(name, value, "a time with its zone")


@dataclass(frozen=True, kw_only=True)
class Saved:
    """The last checkpoint of a tenant with all its parts in order, and its open rounds.

    `rounds` has the user of each round that was answered and neither reported nor dropped.
    """

    number: int
    key: bytes
    head: bytes = field(repr=False)
    parts: tuple[bytes, ...] = field(repr=False)
    rounds: dict[bytes, bytes] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class AnsweredRound:
    """A round whose answer is about to leave: it took `seconds`, and was ready at `at`."""

    round: bytes
    user: bytes
    batch: int
    seconds: float
    at: datetime

    def __post_init__(self) -> None:
        require_instant("at", self.at)


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """A round as it is stored."""

    round: bytes
    user: bytes
    batch: int
    seconds: float
    answered_at: datetime
    reported_at: datetime | None
    dropped_at: datetime | None

    @property
    def open(self) -> bool:
        """Whether its reward may still come."""
        return self.reported_at is None and self.dropped_at is None


@dataclass(frozen=True, kw_only=True)
class LedgerCounts:
    """The bits that came back: `total` under the collective key of id `key`, `bits` by user."""

    key: bytes
    total: int
    bits: Mapping[bytes, int] = field(repr=False)
    budget: int


@dataclass(frozen=True, kw_only=True)
class UpdateRecord:
    """Model `number` was adopted at `at`, from that many samples."""

    number: int
    at: datetime
    samples: int

    def __post_init__(self) -> None:
        require_instant("at", self.at)


@dataclass(frozen=True, kw_only=True)
class HistoryPoint:
    """What came in one step of time that starts at `at`.

    `seconds` is the mean time that the answers took, None where there were none.
    """

    at: datetime
    rounds: int
    rewards: int
    updates: int
    seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Rounds of a tenant: all that were answered, those with a reward, and those still open."""

    answered: int
    reported: int
    open: int
