"""The effects of a message on a party: what it changes for good, and what it sends.

A party is a state machine: `handle(message)` returns `Effects`, and does no I/O. Whoever runs it
stores the changes, all of them or none, and sends the replies after that: so what was acknowledged
was stored. If storing fails, the party is thrown away and begins again from what is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from helba.protocol.message import ID_BYTES, Message

SERVER = b"server".ljust(ID_BYTES, b"\0")
AUTHORITY = b"authority".ljust(ID_BYTES, b"\0")


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """A message on its way to a party."""

    to: bytes
    message: Message


class Change(Protocol):
    """Something that lasts; `apply` is the one place that says how it changes a party's state."""

    def apply(self, state: Any) -> None:
        """Change the state."""


@dataclass(frozen=True, kw_only=True)
class Effects:
    """Changes to store, in order, and replies to send once they are stored."""

    replies: tuple[Envelope, ...] = ()
    changes: tuple[Change, ...] = ()


class Transition:
    """Collects the effects of one message; changes apply to the party's own state at once."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self._replies: list[Envelope] = []
        self._changes: list[Change] = []

    def send(self, message: Message, *, to: bytes) -> None:
        """Send a message, after everything that was sent before."""
        self._replies.append(Envelope(to=to, message=message))

    def commit(self, change: Change) -> None:
        """Apply a change."""
        change.apply(self._state)
        self._changes.append(change)

    def take(self) -> Effects:
        """Return what was collected, and begin anew."""
        effects = Effects(replies=tuple(self._replies), changes=tuple(self._changes))
        self._replies, self._changes = [], []
        return effects
