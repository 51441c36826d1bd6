"""The process that reads what arrives, before anything else looks at it.

Its memory holds the deployment and public keys: what breaks it takes nothing along. It is no
sandbox: it has the account and the files of the front, so it confines crashes, not code. A
message that passes is of the wanted kind, in the name of the user whose token came with it, with
ciphertexts of the right form; the front only ever sees the plain fields. Keys that pass have the
form of their kind; whether they lead from here to their user, the evaluator sees.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from helba.errors import DamagedData, HelbaError, RunFailed
from helba.reference.engine import Engine, PublicKey, Scheme, get_scheme
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.enrolment import Enrolment, Rotation, name_key
from helba.reference.protocol.profiles.choice import profile_of
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Ask, Message, Report, TaskReply, TestReply
from helba.service.protocol.child import answer_calls, fail_to_start, prepare_child
from helba.service.protocol.files import DEPLOYMENT, read_deployment

MOST_MET = 16  # users' own keys, where data arrives switched: some megabytes each

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


class Stranger(HelbaError):
    """A message under a key that the reader does not know yet."""


class Reader:
    """Reads what is sent to one deployment; `engine` is that of the collective key."""

    def __init__(self, deployment: Deployment, *, scheme: Scheme, engine: Engine) -> None:
        self._deployment = deployment
        self._profile = profile_of(deployment)
        self._codec = Codec(deployment)
        self._scheme = scheme
        self._engine = engine
        self._own: OrderedDict[bytes, Engine] = OrderedDict()  # of users, the last at the end

    # -- messages

    def check(self, route: str, data: bytes, user: bytes) -> tuple[bytes, int | None]:
        """Return what the message is about, and its batch.

        Raises `DamagedData`, `NotYours`, or `Stranger` for data under a key that was not met.
        """
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
            self._require_vectors(message.parts, self._profile.statistics_shape, user=user)
            return message.round, None
        if isinstance(message, TestReply):
            self._require_vectors(message.parts, (), user=user)
            return message.test, None
        self._check_share(message)
        return message.task, None

    def _check_ask(self, ask: Ask) -> tuple[bytes, int]:
        profile = self._profile
        shape = (profile.context_slots, profile.context_level)
        self._require_vectors(ask.parts, (shape,) * profile.context_parts, user=ask.user)
        return ask.round, ask.batch

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
        self, parts: tuple[bytes, ...], shapes: tuple[tuple[int, int], ...], *, user: bytes
    ) -> None:
        if len(parts) != len(shapes):
            raise DamagedData(f"a message of this kind has {len(shapes)} ciphertexts")
        engine = self._engine_of(user) if parts else self._engine
        for part, (slots, level) in zip(parts, shapes, strict=True):
            engine.vector_from_bytes(part, slots=slots, level=level)

    def _engine_of(self, user: bytes) -> Engine:
        """That of the key under which the user's data arrives."""
        if self._deployment.keys != "switched":
            return self._engine
        if user not in self._own:
            raise Stranger("the user's key is not known here")
        self._own.move_to_end(user)
        return self._own[user]

    def meet(self, public_key: bytes) -> None:
        """Know a user's own key from now on; of too many the one not met for longest goes."""
        own = self._public_key(public_key)
        self._own[name_key(own)] = self._scheme.engine(own)
        while len(self._own) > MOST_MET:
            self._own.popitem(last=False)

    # -- keys

    def check_keys(self, route: str, data: bytes) -> bytes | None:
        """Return whose enrolment it is, None for other keys; `DamagedData` if they are none."""
        if route == "members":
            return self._check_enrolment(data)
        if route == "inward-key":
            self._way(data)
            return None
        rotation = Rotation.from_bytes(data, deployment=self._deployment)
        self._public_key(rotation.public_key)
        self._way(rotation.switching_key)
        self._scheme.evaluation_key_from_bytes(
            rotation.evaluation_key,
            parameters=self._deployment.parameters,
            rotations=self._deployment.rotations,
            bootstrap_slots=self._deployment.bootstrap_slots,
        )
        for each in rotation.enrolments:
            self._check_enrolment(each)
        return None

    def _check_enrolment(self, data: bytes) -> bytes:
        enrolment = Enrolment.from_bytes(data, deployment=self._deployment)
        self._public_key(enrolment.public_key)
        self._way(enrolment.outward_key)
        return enrolment.user

    def _public_key(self, data: bytes) -> PublicKey:
        parameters = self._deployment.parameters
        return self._scheme.public_key_from_bytes(data, parameters=parameters)

    def _way(self, data: bytes) -> None:
        parameters = self._deployment.parameters
        self._scheme.reencryption_key_from_bytes(data, parameters=parameters)


def run_reader(pipe: Connection, folder: Path, allow_insecure: bool, public_key: bytes) -> None:
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
        reader = Reader(deployment, scheme=scheme, engine=scheme.engine(public))
    except (HelbaError, OSError, ValueError) as error:
        fail_to_start(pipe, RunFailed(f"the reader cannot start: {error}"))
        return
    calls: dict[str, Callable[..., Any]] = {
        "check": reader.check,
        "meet": reader.meet,
        "check_keys": reader.check_keys,
    }
    answer_calls(pipe, calls, what="reader")
