"""A tenant: one deployment that is served, with an evaluator and a reader of its own.

The front's event loop calls coroutines; a thread serves them (`loop`), and another has messages and
keys read by the reader (`readerlink`); what anybody may ask of the store has a third. Who may call
is known by hashes of tokens, which lie in the tenant's folder; members and keys change one at a
time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from helba.errors import DamagedData, Refused, Unavailable
from helba.reference.protocol.serving.server import Status
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Message
from helba.service.checkpoint import Checkpoint
from helba.service.evaluator import Outcome, Reply, Start, run_evaluator
from helba.service.failure import Forbidden
from helba.service.limit import OneCopy
from helba.service.loop import Loop
from helba.service.meter import Histogram
from helba.service.protocol.child import ChildProcess
from helba.service.protocol.files import DEPLOYMENT, PUBLIC_KEY, read_deployment, read_public
from helba.service.protocol.serverfiles import list_users
from helba.service.protocol.tokens import (
    drop_token_hash,
    read_authority_hash,
    read_token_hashes,
    same_hash,
    write_token_hash,
)
from helba.service.reader import KINDS, Checked, NotYours
from helba.service.readerlink import ReaderLink
from helba.service.settings import Limits
from helba.service.store import Store
from helba.service.view import View

STEP_SECONDS = 60
# How long a history is shown again, how many are, and how many may wait to be looked up.
HISTORY_SECONDS, KEPT_HISTORIES, MOST_HISTORIES = 5.0, 64, 8
# Keys that the authority or a user sends: larger than any of the deployments that can be planned.
MOST_KEY_BYTES = 1 << 28


@dataclass(frozen=True, kw_only=True)
class OpenRound:
    """A round of a user that has no reward yet."""

    round: bytes
    asked_at: datetime


class Tenant:
    """The deployment in `folder` (`protocol.serverfiles`), served under `name`.

    `start` returns at once; `state` says when it serves.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        store: Store,
        limits: Limits | None = None,
        allow_insecure: bool = False,
    ) -> None:
        self.name = name
        self.deployment = read_deployment(folder / DEPLOYMENT, allow_insecure=allow_insecure)
        if self.deployment.keys == "shared":
            raise Refused(
                f"{folder}: in this deployment all users share the secret key, which no server "
                "can give them (helba run --keys shared has them in one process)"
            )
        self._folder = folder
        self._allow_insecure = allow_insecure
        self._store = store
        self._view = View(self.deployment, on_key=lambda: self._reader.prepare())
        self._loop = Loop(
            name,
            store=store,
            opener=self._open_evaluator,
            view=self._view,
            limits=limits or Limits(),
        )
        self._reader = ReaderLink(
            name,
            folder,
            view=self._view,
            allow_insecure=allow_insecure,
            most_waiting=(limits or Limits()).most_waiting,
        )
        self._histories = _Histories(name, read=self._read_history)
        self._copy = OneCopy()
        self._change = asyncio.Lock()  # of members or keys
        self._members_lock = threading.Lock()
        self._users = {text: user for user, text in read_token_hashes(folder).items()}
        self._authority = read_authority_hash(folder)
        self.longest = _longest(Codec(self.deployment))

    def __repr__(self) -> str:
        return f"<Tenant {self.name}, {self.state}>"

    # -- life

    def start(self) -> None:
        """Open keys and state in the background, and serve."""
        self._loop.start()

    def stop(self) -> None:
        """Finish what is under way, and end the processes."""
        self._loop.stop()
        self._reader.stop()
        self._histories.stop()

    @property
    def state(self) -> str:
        """Return "starting", "serving", "failed" or "stopped"."""
        return self._view.state

    @property
    def help_wanted(self) -> bool:
        """Whether an update waits for a helper."""
        return self._loop.help_wanted

    @property
    def batch(self) -> int:
        """The number of the batch that is served."""
        return self._view.batch

    def processes(self) -> dict[str, int]:
        """Return the processes of the tenant, by name."""
        pid = self._reader.process
        return self._loop.processes() | ({} if pid is None else {"reader": pid})

    # -- what users send

    async def check(self, body: bytes, *, kind: type[Message], user: bytes) -> Checked:
        """Return what a body says, read in the reader, or raise `DamagedData` or `Forbidden`."""
        route = next(name for name, each in KINDS.items() if each is kind)
        try:
            subject, batch = await self._reader.check(route, body, user=user)
        except NotYours as error:
            raise Forbidden(str(error)) from None
        return Checked(route=route, user=user, subject=subject, data=body, batch=batch)

    async def terms(self) -> bytes:
        """Return the terms of the batch that is served."""
        if self._view.notice is None:
            raise Unavailable(f"the tenant is {self.state}: try again")
        return self._view.notice

    async def ask(self, checked: Checked) -> list[bytes]:
        """Return the answer to an ask, or what its user must do for it."""
        return list(await self._submit("ask", checked, user=checked.user))

    async def reward(self, checked: Checked) -> list[bytes]:
        """Return the receipt of a report, when the store has what was learned from it."""
        return list(await self._submit("reward", checked, user=checked.user))

    async def test_reply(self, checked: Checked) -> None:
        """Take the reply to an update test in."""
        await self._submit("test", checked, user=checked.user)

    async def task_reply(self, checked: Checked) -> list[bytes]:
        """Take a share in; return the answer or the next task that it leads to, if any."""
        return list(await self._submit("help", checked, user=checked.user))

    async def tasks(self, user: bytes) -> list[bytes]:
        """Return what the user's rounds wait for, and what an update needs, if nobody helps."""
        return list(await self._submit("tasks", user, user=user))

    async def open_rounds(self, user: bytes) -> list[OpenRound]:
        """Return the rounds of a user that have no reward yet."""
        found = await asyncio.to_thread(self._store.open_rounds, self.name, user)
        return [OpenRound(round=each.round, asked_at=each.answered_at) for each in found]

    async def drop_round(self, user: bytes, round: bytes) -> None:
        """Give a round up."""
        await self._submit("drop", user, round, user=user)

    async def introduce(self, user: bytes, inward_key: bytes) -> None:
        """Take the user's own key for data that arrives switched."""
        await self._reader.check_keys("inward-key", inward_key, user=user)
        await self._submit("control", "introduce", user, inward_key, user=user)

    # -- what the authority says

    async def enrol(self, user: bytes, enrolment: bytes, *, token_hash: str) -> None:
        """Serve a user from now on, who shows the token of this hash."""
        async with self._change:
            if await self._reader.check_keys("members", enrolment) != user:
                raise DamagedData("the enrolment is of another user")
            await self._submit("control", "enrol", enrolment)
            await asyncio.to_thread(write_token_hash, self._folder, user, token_hash)
            self._know(user, token_hash)

    async def revoke(self, user: bytes) -> None:
        """Refuse a user from now on, and delete its keys."""
        self._know(user, None)  # whatever else is under way
        async with self._change:
            self._know(user, None)
            await self._submit("control", "bar", user)
            await asyncio.to_thread(drop_token_hash, self._folder, user)

    async def rotate(self, rotation: bytes) -> None:
        """Go on under a new collective key, with the same model."""
        async with self._change:
            await self._reader.check_keys("rotation", rotation)
            await self._submit("control", "take_rotation", rotation)

    def _know(self, user: bytes, token_hash: str | None) -> None:
        """Know a user by the token of this hash alone, or by none."""
        with self._members_lock:
            users = {text: known for text, known in self._users.items() if known != user}
            self._users = users if token_hash is None else {**users, token_hash: user}

    def user_of(self, token_hash: str) -> bytes | None:
        """Return the user who has the token of this hash, if any."""
        return self._users.get(token_hash)

    def is_authority(self, token_hash: str) -> bool:
        """Whether the token of this hash is the authority's."""
        return self._authority is not None and same_hash(self._authority, token_hash)

    def members(self) -> dict[str, Any]:
        """Return who is served, with the hashes of their tokens, and who was revoked."""
        enrolled, revoked = list_users(self._folder)
        hashes = {user: text for text, user in self._users.items()}
        key = self._view.key
        return {
            "key": None if key is None else key.hex(),
            "enrolled": {user.hex(): hashes.get(user, "") for user in enrolled},
            "revoked": [user.hex() for user in revoked],
        }

    # -- what anybody may see

    def public_key(self) -> bytes:
        """Return the collective public key."""
        return self._view.public_key or self._copy.of(read_public(self._folder / PUBLIC_KEY))

    def ledger_report(self) -> dict[str, Any]:
        """Return the bits that were told, in the form of ledger.json."""
        status, key = self._view.status, self._view.key
        return {
            "key": None if key is None else key.hex(),
            "total": None if status is None else status.bits,
            "budget": None if status is None else status.bit_budget,
            "bits": {user.hex(): bits for user, bits in self._view.bits.items()},
        }

    def report(self) -> dict[str, Any]:
        """Return how the tenant is: plan, progress, speed, and who learns what."""
        meter = self._loop.meter
        return {
            "name": self.name,
            **self._view.report(),
            "waiting": len(self._loop.queue),
            "latency_ms": meter.latency_ms(),
            "rounds_per_second": meter.rounds_per_second(),
        }

    def round_seconds(self) -> Histogram:
        """Return how long rounds took since the start, from question to answer."""
        return self._loop.meter.histogram()

    async def history(self, *, minutes: int = 60) -> dict[str, Any]:
        """Return rounds, rewards, updates and latency over time, as of some seconds ago."""
        return await self._histories.find(minutes)

    def _read_history(self, minutes: int) -> dict[str, Any]:
        step = STEP_SECONDS * max(1, -(-minutes // 120))
        points = self._store.history(self.name, minutes=minutes, step_seconds=step)
        return {
            "minutes": minutes,
            "step_seconds": step,
            "points": [
                {
                    "at": each.at.isoformat(),
                    "rounds": each.rounds,
                    "rewards": each.rewards,
                    "updates": each.updates,
                    "latency_ms": None if each.seconds is None else round(1e3 * each.seconds, 1),
                }
                for each in points
            ],
        }

    # -- parts

    async def _submit(self, kind: str, *arguments: object, user: bytes | None = None) -> Any:
        job = self._loop.submit(kind, *arguments, user=user)
        return await asyncio.wrap_future(job.future)

    def _open_evaluator(self, start: Start) -> ChildProcess:
        arguments = (self._folder, self._allow_insecure, start)
        replies = (Outcome, Reply, Checkpoint, Status)
        return ChildProcess(run_evaluator, *arguments, what="tenant", replies=replies)


class _Histories:
    """Has histories read one at a time; each is shown for some seconds, to whoever asks.

    Coroutines are for one event loop.
    """

    def __init__(self, name: str, *, read: Callable[[int], dict[str, Any]]) -> None:
        self._read = read
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"history-{name}")
        self._found: dict[int, tuple[float, Future[dict[str, Any]]]] = {}

    async def find(self, minutes: int) -> dict[str, Any]:
        """Return that of the last minutes; `Unavailable` while too many others are looked up."""
        now = time.monotonic()
        self._found = {
            each: (at, future)
            for each, (at, future) in self._found.items()
            if not future.done() or (now - at < HISTORY_SECONDS and _is_good(future))
        }
        if minutes not in self._found:
            if sum(not future.done() for _, future in self._found.values()) >= MOST_HISTORIES:
                raise Unavailable("too many histories are looked up at once: try again")
            try:
                self._found[minutes] = (now, self._thread.submit(self._read, minutes))
            except RuntimeError:
                raise Unavailable("the tenant is stopping: try again") from None
            while len(self._found) > KEPT_HISTORIES:
                del self._found[next(iter(self._found))]
        return await asyncio.shield(asyncio.wrap_future(self._found[minutes][1]))

    def stop(self) -> None:
        """Finish the one that is being read."""
        self._thread.shutdown(cancel_futures=True)


def _is_good(future: Future[Any]) -> bool:
    return not future.cancelled() and future.exception() is None


def _longest(codec: Codec) -> Mapping[str, int]:
    """The most bytes of a body, by route."""
    longest = {route: codec.longest(kind) for route, kind in KINDS.items()}
    keys = dict.fromkeys(("members", "rotation", "inward-key"), MOST_KEY_BYTES)
    return {**longest, **keys, "rotation": 8 * MOST_KEY_BYTES}
