"""What the HTTP of a server needs of a tenant: the interface, without what is behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.wire.messages import Message
from helba.service.meter import Histogram


class OpenRound(Protocol):
    """A round that was answered and has no reward yet."""

    @property
    def round(self) -> bytes:
        """Its id, which the user made."""

    @property
    def asked_at(self) -> datetime:
        """When it was asked, in UTC."""


class TenantLink(Protocol):
    """One deployment that is served. Coroutines raise `Unavailable` while it cannot be reached.

    `state` is "starting", "serving", "failed" or "stopped". `longest` has the most bytes that a
    body may have, by the last part of its route. Users are named by the ids of their keys.
    """

    @property
    def name(self) -> str:
        """What stands in the path."""

    @property
    def deployment(self) -> Deployment:
        """What is public of it."""

    @property
    def state(self) -> str:
        """How it is."""

    @property
    def longest(self) -> Mapping[str, int]:
        """The most bytes of a body."""

    @property
    def help_wanted(self) -> bool:
        """Whether an update waits for a user who helps."""

    @property
    def batch(self) -> int:
        """The number of the batch that is served."""

    def public_key(self) -> bytes:
        """Return the collective public key."""

    def user_of(self, token_hash: str) -> bytes | None:
        """Return whose token it is, or None."""

    def is_authority(self, token_hash: str) -> bool:
        """Return whether it is the authority's token."""

    def processes(self) -> Mapping[str, int]:
        """Return the ids of its processes, by name."""

    def report(self) -> dict[str, Any]:
        """Return how it is, in plain types."""

    def round_seconds(self) -> Histogram:
        """Return how long rounds took since the start, from question to answer."""

    async def history(self, *, minutes: int) -> dict[str, Any]:
        """Return what happened in the last minutes, in plain types."""

    async def check(self, body: bytes, *, kind: type[Message], user: bytes) -> Any:
        """Return the message of a body, checked, or raise `DamagedData` or `Forbidden`."""

    async def terms(self) -> bytes:
        """Return the notice."""

    async def ask(self, checked: Any) -> Sequence[bytes]:
        """Return the answer of a round, or tasks of it."""

    async def reward(self, checked: Any) -> Sequence[bytes]:
        """Return the receipt of a report, once it is stored."""

    async def test_reply(self, checked: Any) -> None:
        """Take the bit of an update test."""

    async def tasks(self, user: bytes) -> Sequence[bytes]:
        """Return what the user may help with."""

    async def task_reply(self, checked: Any) -> Sequence[bytes]:
        """Take a share; return what follows for this user."""

    async def open_rounds(self, user: bytes) -> Sequence[OpenRound]:
        """Return the rounds of a user that have no reward yet."""

    async def drop_round(self, user: bytes, round: bytes) -> None:
        """Give up a round."""

    async def introduce(self, user: bytes, inward_key: bytes) -> None:
        """Take the key that switches what the user sends."""

    async def enrol(self, user: bytes, enrolment: bytes, *, token_hash: str) -> None:
        """Take a user in."""

    async def revoke(self, user: bytes) -> None:
        """Bar a user."""

    async def rotate(self, rotation: bytes) -> None:
        """Move to new collective keys."""

    def members(self) -> dict[str, Any]:
        """Return who is enrolled and who was revoked, in plain types."""

    def ledger_report(self) -> dict[str, Any]:
        """Return the bits that were told, in plain types."""
