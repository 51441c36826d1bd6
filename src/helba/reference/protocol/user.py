"""The user: encrypts contexts, decrypts the answer, plays, and reports what it earned.

It encrypts under the collective key, which it cannot decrypt, and decrypts what comes to it under
its own. (Where keys are "shared" both are the same; where they are "switched" it encrypts under its
own key, too.)

It also helps when an update is due, and with its own rounds: it answers refreshes, checks and
openings, whose ciphertexts show it nothing but noise. Nothing that it sends tells a server that
follows the protocol which arm it played, what it earned, or whether a decryption failed.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from helba.bandits.policy import Array, check_context, check_contexts, clip_reward
from helba.errors import DamagedData, EngineError, InvalidInput, Refused
from helba.reference.engine import Engine, KeyPair, Scheme
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.enrolment import SHARED_ID, name_key
from helba.reference.protocol.profiles.choice import profile_of
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import (
    ID_BYTES,
    Answer,
    Ask,
    Message,
    Notice,
    Report,
    Task,
    TaskReply,
    TestReply,
)
from helba.reference.twin.terms import BatchTerms

# Signs that a check reads, at most: the first slots.
MOST_SIGNS = 64
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """What a user learns from an answer: the arm, for the round of that id.

    `overflow` says that the scores left the range that the radius promises, with probability delta
    at most: the answer means nothing then, and the arm is drawn at random. `reply` is the bit of
    the update test that rode along, to be sent back; None if there was none.
    """

    round: bytes
    arm: int
    overflow: bool
    reply: bytes | None

    def __repr__(self) -> str:
        return "<Recommendation>"


class User:
    """One user of a deployment; `engine` is that of the collective key, `keys` are its own.

    In the shared-key mode the pair is the collective one.
    """

    def __init__(
        self, deployment: Deployment, *, scheme: Scheme, engine: Engine, keys: KeyPair
    ) -> None:
        shared = deployment.keys == "shared"
        if keys.public.belongs_to(engine.public_key) != shared:
            raise InvalidInput(
                "keys", "another pair", f"that of a user whose keys are {deployment.keys}"
            )
        self.deployment = deployment
        self.profile = profile_of(deployment)
        self._codec = Codec(deployment)
        self._scheme = scheme
        self._engine = engine
        self._own = engine if shared else scheme.engine(keys.public)
        self._secret_key = keys.secret
        self.id = SHARED_ID if shared else name_key(keys.public)
        self._open: dict[bytes, int] = {}  # the arms of rounds
        self.overflows = 0
        self.clipped = 0

    def __repr__(self) -> str:
        return f"<User of {self.deployment.fingerprint}>"

    def public_key_bytes(self) -> bytes:
        """Return its own public key, for the authority."""
        return self._scheme.public_key_to_bytes(self._own.public_key)

    def inward_key_bytes(self) -> bytes:
        """Return the key that switches its ciphertexts to the collective key: for the server only.

        It is the paper's (Appendix C.2). It holds the user's secret key under the collective one:
        the authority, who has that, must not get it.
        """
        key = self._scheme.make_reencryption_key(
            self._secret_key, recipient=self._engine.public_key
        )
        return self._scheme.reencryption_key_to_bytes(key)

    def adopt(self, public_key: bytes, *, secret_key: bytes | None = None) -> None:
        """Go on under a new collective key; rounds that are open stay so.

        Only where keys are shared it needs the new secret key, too.
        """
        scheme, parameters = self._scheme, self.deployment.parameters
        key = scheme.public_key_from_bytes(public_key, parameters=parameters)
        engine = scheme.engine(key)
        if self.deployment.keys == "shared":
            if secret_key is None:
                raise InvalidInput("secret_key", "none", "that of the new shared key")
            self._secret_key = scheme.secret_key_from_bytes(secret_key, parameters=parameters)
            self._own = engine
        self._engine = engine

    def read_notice(self, notice: bytes) -> BatchTerms:
        """Return the terms of the batch that the server serves."""
        message = self._decode(notice, Notice)
        if message.key != name_key(self._engine.public_key):
            raise Refused("the collective key was rotated: get the new public key first")
        return message.terms()

    def ask(self, contexts: object, *, terms: BatchTerms) -> bytes:
        """Return an `Ask` for 1 to K contexts."""
        rows = check_contexts(self.deployment.settings, contexts)
        packed = self.profile.pack_contexts(rows, terms=terms)
        levels = [self.profile.context_level] * len(packed)
        name = secrets.token_bytes(ID_BYTES)
        self._open[name] = len(rows)
        return self._encode(
            Ask(
                user=self.id,
                round=name,
                batch=terms.number,
                parts=self._encrypt(packed, levels),
            )
        )

    def forget(self, ask: bytes) -> None:
        """Drop a round that the server refused."""
        self._open.pop(self._decode(ask, Ask).round, None)

    def read(self, answer: bytes) -> Recommendation:
        """Decrypt an `Answer` to a round that this user asked for."""
        message = self._decode(answer, Answer)
        if message.round not in self._open:
            raise InvalidInput("answer", "one of another round", "to a round that was asked for")
        if len(message.parts) != 1:
            raise DamagedData("an answer has one ciphertext")
        arms = self._open[message.round]
        vector = self._own.vector_from_bytes(message.parts[0], slots=self.profile.answer_slots)
        riding = message.test is not None
        try:
            values: Array | None = self._own.decrypt(vector, secret_key=self._secret_key)
        except EngineError:  # a polynomial that exploded: OpenFHE finds too much noise
            values = None
        arm, positive = None, bool(secrets.randbelow(2))
        if values is not None:
            reading = self.profile.read(values, riding=riding)
            low, high = self.profile.entry_range()
            b = reading.comparison[:arms]
            if np.isfinite(b).all() and low <= b.min() and b.max() <= high:
                arm = int(np.argmax(b))
                if reading.test is not None:
                    positive = reading.test > 0.0
        del self._open[message.round]
        if arm is None:
            self.overflows += 1
        reply = None
        if message.test is not None:
            reply = self._encode(TestReply(user=self.id, test=message.test, positive=positive))
        return Recommendation(
            round=message.round,
            arm=secrets.randbelow(arms) if arm is None else arm,
            overflow=arm is None,
            reply=reply,
        )

    def report(self, round: bytes, *, context: object, reward: object) -> bytes:
        """Return a `Report`: what playing `context` in `round` earned, now or much later."""
        settings = self.deployment.settings
        row = check_context(settings, context)
        earned, clipped = clip_reward(settings, reward)
        self.clipped += clipped
        packed = self.profile.pack_statistics(row, reward=earned)
        levels = [level for _, level in self.profile.statistics_shape]
        return self._encode(Report(user=self.id, round=round, parts=self._encrypt(packed, levels)))

    def help(self, task: bytes) -> bytes:
        """Return the share of a task; what it decrypts is noise."""
        message = self._decode(task, Task)
        if len(message.parts) != 1:
            raise DamagedData("a task has one ciphertext")
        (part,), own, key = message.parts, self._own, self._secret_key
        engine, under = self._engine, self._engine.public_key
        if message.work == "refresh":
            refresh = own.answer_refresh(own.request_from_bytes(part), secret_key=key, under=under)
            share = engine.reply_to_bytes(refresh)
        elif message.work == "opening" and self.profile.opens:
            opening = own.answer_opening(
                own.opening_request_from_bytes(part, slots=1), secret_key=key, under=under
            )
            share = engine.opening_reply_to_bytes(opening)
        elif message.work == "check" and self.deployment.refresh == "client":
            bits = self._read_signs(part)
            return self._encode(
                TaskReply(user=self.id, task=message.task, work=message.work, bits=bits)
            )
        else:
            raise DamagedData("a task that this deployment does not have")
        return self._encode(
            TaskReply(user=self.id, task=message.task, work=message.work, parts=(share,))
        )

    def _read_signs(self, part: bytes) -> str:
        """The signs of the slots; random ones if the ciphertext cannot be decrypted."""
        vector = self._own.vector_from_bytes(
            part, slots=self.profile.check_slots, level=self.deployment.parameters.depth
        )
        try:
            values = self._own.decrypt(vector, secret_key=self._secret_key)
        except EngineError:
            values = np.array([secrets.randbelow(2) - 0.5 for _ in range(vector.slots)])
        return "".join("+" if value > 0.0 else "-" for value in values[:MOST_SIGNS])

    def _encrypt(self, packed: Sequence[Array], levels: Sequence[int]) -> tuple[bytes, ...]:
        engine = self._own if self.deployment.keys == "switched" else self._engine
        return tuple(
            engine.vector_to_bytes(engine.encrypt(values, level=level))
            for values, level in zip(packed, levels, strict=True)
        )

    def _encode(self, message: Message) -> bytes:
        return self._codec.encode(message)

    def _decode(self, data: bytes, kind: type[M]) -> M:
        message = self._codec.decode(data)
        if not isinstance(message, kind):
            raise DamagedData(f"a message {kind.__name__} was expected")
        return message
