"""A tenant that keeps what it is told, and says what a test wants it to say."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from helba.errors import DamagedData
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.wire.frame import frame
from helba.reference.protocol.wire.messages import Answer, Ask, Message, Receipt, Report, Task
from helba.service.failure import Forbidden
from helba.service.meter import BOUNDS, Histogram
from helba.service.protocol.tokens import hash_token, make_token
from tests.reference.protocol.parties import TOY, deployment_of

USER, OTHER = bytes(range(16)), bytes(range(16, 32))
ROUND = bytes(range(32, 48))
TOKEN, OTHER_TOKEN, AUTHORITY_TOKEN = (
    make_token("user"),
    make_token("user"),
    make_token("authority"),
)
MOST = 4096
ROUTES = ("rounds", "rewards", "tests", "tasks", "inward-key", "members", "rotation")


def message_bytes(kind: type[Message], *, length: int = 256) -> bytes:
    """Bytes that begin as such a message does."""
    return frame(
        magic=b"\x89HELMSG\n", version=3, kind=kind.kind, head=b"{}", parts=[], length=length
    )


def body_of(kind: type[Message], *, user: bytes = USER) -> bytes:
    """What the fake's reader takes for a message of that kind."""
    return kind.__name__.encode() + b"|" + user + b"|payload-that-nobody-logs"


@dataclass(frozen=True)
class OpenRound:
    round: bytes
    asked_at: datetime


class FakeTenant:
    """As `Tenant`; `failing` has errors to raise, by the name of the method."""

    def __init__(self, name: str = "main", *, keys: str = "own") -> None:
        self.name = name
        self.state = "serving"
        self.keys = keys
        self.longest: Mapping[str, int] = dict.fromkeys(ROUTES, MOST)
        self.help_wanted = False
        self.batch = 7
        self.calls: list[tuple[Any, ...]] = []
        self.failing: dict[str, Exception] = {}
        self.answering: asyncio.Event | None = None
        self.tokens = {hash_token(TOKEN): USER, hash_token(OTHER_TOKEN): OTHER}

    @property
    def deployment(self) -> Deployment:
        found = deployment_of(TOY, scheme="simulate")
        return replace(found, keys=self.keys)

    def _note(self, name: str, *values: Any) -> None:
        self.calls.append((name, *values))
        if name in self.failing:
            raise self.failing[name]

    def public_key(self) -> bytes:
        self._note("public_key")
        return b"the collective key"

    def user_of(self, token_hash: str) -> bytes | None:
        return self.tokens.get(token_hash)

    def is_authority(self, token_hash: str) -> bool:
        return token_hash == hash_token(AUTHORITY_TOKEN)

    def processes(self) -> dict[str, int]:
        return {"evaluator": 1 << 30, "reader": 1 << 30}  # there are no such processes

    def report(self) -> dict[str, Any]:
        self._note("report")
        deployment = self.deployment
        parameters, settings = deployment.parameters, deployment.settings
        return {
            **{"name": self.name, "state": self.state, "engine": "simulate", "key": "ab"},
            **{"fingerprint": deployment.fingerprint, "keys": "own"},
            **{"refresh": "client", "security": None, "ring_dim": parameters.ring_dim},
            **{"dim": settings.dim, "arms": settings.arms, "horizon": 130},
            **{"round": 3, "samples": 2, "updates": 5, "rejected": 0, "held": 0, "enrolled": 2},
            **{"open_rounds": 4, "bits": 11, "bit_budget": 1000, "rotation_due": False},
            **{"batch": self.batch, "last_error": None, "waiting": 6, "simulated": True},
            **{"learns": [{"who": "server", "learns": "times", "never": "rewards"}]},
            **{"latency_ms": {"p50": 1.5, "p95": None}, "rounds_per_second": 0.0},
        }

    def round_seconds(self) -> Histogram:
        return Histogram(within=(0, 1, *[2] * (len(BOUNDS) - 1)), seconds=0.04)

    async def history(self, *, minutes: int) -> dict[str, Any]:
        self._note("history", minutes)
        point = {"at": "2026-01-01T00:00:00Z", "rounds": 1, "rewards": 1, "updates": 0}
        return {"minutes": minutes, "step_seconds": 60, "points": [{**point, "latency_ms": None}]}

    async def check(self, body: bytes, *, kind: type[Message], user: bytes) -> Any:
        self._note("check", kind, user)
        name, _, rest = body.partition(b"|")
        if name != kind.__name__.encode():
            raise DamagedData("the message is none")
        if rest[:16] != user:
            raise Forbidden("the message is in the name of another user than the token")
        return body

    async def terms(self) -> bytes:
        self._note("terms")
        return b"a notice"

    async def ask(self, checked: Any) -> list[bytes]:
        self._note("ask", checked)
        if self.answering is not None:
            await self.answering.wait()
        return [message_bytes(Answer)]

    async def reward(self, checked: Any) -> list[bytes]:
        self._note("reward", checked)
        return [message_bytes(Receipt)]

    async def test_reply(self, checked: Any) -> None:
        self._note("test_reply", checked)

    async def tasks(self, user: bytes) -> list[bytes]:
        self._note("tasks", user)
        return [message_bytes(Task), message_bytes(Task, length=300)]

    async def task_reply(self, checked: Any) -> list[bytes]:
        self._note("task_reply", checked)
        return []

    async def open_rounds(self, user: bytes) -> list[OpenRound]:
        self._note("open_rounds", user)
        return [OpenRound(ROUND, datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc))]

    async def drop_round(self, user: bytes, round: bytes) -> None:
        self._note("drop_round", user, round)

    async def introduce(self, user: bytes, inward_key: bytes) -> None:
        self._note("introduce", user, inward_key)

    async def enrol(self, user: bytes, enrolment: bytes, *, token_hash: str) -> None:
        self._note("enrol", user, enrolment, token_hash)

    async def revoke(self, user: bytes) -> None:
        self._note("revoke", user)

    async def rotate(self, rotation: bytes) -> None:
        self._note("rotate", rotation)

    def members(self) -> dict[str, Any]:
        self._note("members")
        return {"key": "ab", "enrolled": {USER.hex(): hash_token(TOKEN)}, "revoked": [OTHER.hex()]}

    def ledger_report(self) -> dict[str, Any]:
        self._note("ledger_report")
        return {"key": "ab", "total": 11, "budget": 1000, "bits": {USER.hex(): 11}}


ASK, REPORT = body_of(Ask), body_of(Report)
