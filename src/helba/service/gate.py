"""The process that reads what users send, before anything else looks at it.

It knows the deployment and the collective public key, nothing else: a message that would break it
takes nothing along. What passes is a message of the wanted kind, in the name of the user whose
token came with it, with ciphertexts of the right form; the front only ever sees the plain fields.

Where data arrives switched, ciphertexts are under users' own keys, and only their envelopes are
read here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from helba.engine import Engine, get_scheme
from helba.engine.envelope import require_digest
from helba.errors import DamagedData, HelbaError, RunFailed
from helba.protocol.child import answer_calls, fail_to_start, prepare_child
from helba.protocol.codec import Codec
from helba.protocol.deployment import Deployment
from helba.protocol.files import DEPLOYMENT, read_deployment
from helba.protocol.messages import Ask, Message, Report, TaskReply, TestReply
from helba.protocol.profiles import profile_of

__all__ = ["KINDS", "Checked", "NotYours", "run_gate"]

KINDS: dict[str, type[Message]] = {
    "rounds": Ask,
    "rewards": Report,
    "tests": TestReply,
    "tasks": TaskReply,
}


class NotYours(HelbaError):
    """A message in the name of another user than the one who sends it."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A message that passed: who sends it, what it is about, and its bytes."""

    route: str
    user: bytes
    subject: bytes
    data: bytes = field(repr=False)
    batch: int | None = None
    slot: int | None = None


class Gate:
    """Reads the messages of one deployment; `engine` is that of the collective key."""

    def __init__(self, deployment: Deployment, *, engine: Engine) -> None:
        self._profile = profile_of(deployment)
        self._codec = Codec(deployment)
        self._engine = engine
        self._switched = deployment.keys == "switched"

    def check(self, route: str, data: bytes, user: bytes) -> tuple[bytes, int | None, int | None]:
        """Return what the message is about, its batch and slot; `DamagedData` or `NotYours`."""
        message = self._codec.decode(data)
        kind = KINDS[route]
        if not isinstance(message, Ask | Report | TestReply | TaskReply) or (
            type(message) is not kind
        ):
            raise DamagedData(f"a message {kind.__name__} was expected")
        if message.user != user:
            raise NotYours("the message is in the name of another user than the token")
        if isinstance(message, Ask):
            return self._check_ask(message)
        if isinstance(message, Report):
            self._require_vectors(message.parts, self._profile.statistics_shape)
            return message.round, None, None
        if isinstance(message, TestReply):
            self._require_vectors(message.parts, ())
            return message.test, None, None
        self._check_share(message)
        return message.task, None, None

    def _check_ask(self, ask: Ask) -> tuple[bytes, int, int]:
        profile = self._profile
        shape = (profile.context_slots, profile.context_level)
        self._require_vectors(ask.parts, (shape,) * profile.context_parts)
        if ask.slot >= profile.deployment.users:
            raise DamagedData("the message names slots that there are not")
        return ask.round, ask.batch, ask.slot

    def _check_share(self, reply: TaskReply) -> None:
        if reply.work == "check":
            if reply.bits is None or set(reply.bits) - {"+", "-"} or reply.parts:
                raise DamagedData("a check is answered by signs")
            return
        if len(reply.parts) != 1 or reply.bits is not None:
            raise DamagedData("a share is one ciphertext")
        if reply.work == "refresh":
            self._engine.reply_from_bytes(reply.parts[0])
        else:
            self._engine.opening_reply_from_bytes(reply.parts[0])

    def _require_vectors(
        self, parts: tuple[bytes, ...], shapes: tuple[tuple[int, int], ...]
    ) -> None:
        if len(parts) != len(shapes):
            raise DamagedData(f"a message of this kind has {len(shapes)} ciphertexts")
        for part, (slots, level) in zip(parts, shapes, strict=True):
            if self._switched:
                require_digest(part)
            else:
                self._engine.collect(slots=slots, level=level).read(part)


def run_gate(pipe: Connection, folder: Path, allow_insecure: bool, public_key: bytes) -> None:
    """The process: open deployment and collective key, then answer calls until told to stop."""
    prepare_child()
    try:
        deployment = read_deployment(folder / DEPLOYMENT, allow_insecure=allow_insecure)
        scheme = get_scheme(deployment.scheme)
        public = scheme.public_key_from_bytes(
            public_key,
            parameters=deployment.parameters,
            allow_insecure=allow_insecure,
        )
        gate = Gate(deployment, engine=scheme.engine(public))
    except (HelbaError, OSError, ValueError) as error:
        fail_to_start(pipe, RunFailed(f"the gate cannot start: {error}"))
        return
    calls: dict[str, Callable[..., Any]] = {"check": gate.check}
    answer_calls(pipe, calls, what="gate")
