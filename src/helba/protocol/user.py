"""The user: encrypts contexts, decrypts the answer, plays, and reports what it earned.

It also helps when an update is due: it answers refreshes, checks and openings, whose ciphertexts
show it nothing but noise. Nothing that it sends tells the server which arm it played, what it
earned, or whether a decryption failed.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from helba.bandits.policy import Array, check_context, check_contexts, clip_reward
from helba.bandits.terms import BatchTerms
from helba.engine import Engine, SecretKey
from helba.errors import DamagedData, EngineError, InvalidInput
from helba.protocol.deployment import Deployment
from helba.protocol.messages import (
    ID_BYTES,
    Answer,
    Ask,
    Message,
    Notice,
    Report,
    Task,
    TaskReply,
    TestReply,
    decode,
    encode,
)
from helba.protocol.profiles import profile_of

__all__ = ["Recommendation", "User"]

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


@dataclass(frozen=True, kw_only=True)
class _OpenRound:
    arms: int
    slot: int


class User:
    """One user of a deployment."""

    def __init__(self, deployment: Deployment, *, engine: Engine, secret_key: SecretKey) -> None:
        self.deployment = deployment
        self.profile = profile_of(deployment)
        self._engine = engine
        self._secret_key = secret_key
        self._open: dict[bytes, _OpenRound] = {}
        self.overflows = 0
        self.clipped = 0

    def __repr__(self) -> str:
        return f"<User of {self.deployment.fingerprint}>"

    def read_notice(self, notice: bytes) -> BatchTerms:
        """Return the terms of the batch that the server serves."""
        return self._decode(notice, Notice).terms()

    def ask(self, contexts: object, *, terms: BatchTerms, slot: int = 0) -> bytes:
        """Return an `Ask` for 1 to K contexts, in the slots of user `slot`."""
        rows = check_contexts(self.deployment.settings, contexts)
        packed = self.profile.pack_contexts(rows, terms=terms, slot=slot)
        level = self.profile.context_level
        name = secrets.token_bytes(ID_BYTES)
        self._open[name] = _OpenRound(arms=len(rows), slot=slot)
        return self._encode(
            Ask(round=name, batch=terms.number, slot=slot, parts=self._encrypt(packed, level))
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
        asked = self._open[message.round]
        vector = self._engine.vector_from_bytes(message.parts[0], slots=self.profile.answer_slots)
        riding = message.test is not None
        try:
            values: Array | None = self._engine.decrypt(vector, secret_key=self._secret_key)
        except EngineError:  # a polynomial that exploded: OpenFHE finds too much noise
            values = None
        arm, positive = None, bool(secrets.randbelow(2))
        if values is not None:
            reading = self.profile.read(values, slot=asked.slot, riding=riding)
            low, high = self.profile.entry_range()
            b = reading.comparison[: asked.arms]
            if np.isfinite(b).all() and low <= b.min() and b.max() <= high:
                arm = int(np.argmax(b))
                if reading.test is not None:
                    positive = reading.test > 0.0
        del self._open[message.round]
        if arm is None:
            self.overflows += 1
        reply = None
        if message.test is not None:
            reply = self._encode(TestReply(test=message.test, positive=positive))
        return Recommendation(
            round=message.round,
            arm=secrets.randbelow(asked.arms) if arm is None else arm,
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
        parts = tuple(
            self._engine.vector_to_bytes(self._engine.encrypt(values, level=level))
            for values, (_, level) in zip(packed, self.profile.statistics_shape, strict=True)
        )
        return self._encode(Report(round=round, parts=parts))

    def help(self, task: bytes) -> bytes:
        """Return the share of a task; what it decrypts is noise."""
        message = self._decode(task, Task)
        if len(message.parts) != 1:
            raise DamagedData("a task has one ciphertext")
        (part,), engine, key = message.parts, self._engine, self._secret_key
        if message.work == "refresh":
            refresh = engine.answer_refresh(engine.request_from_bytes(part), secret_key=key)
            share = engine.reply_to_bytes(refresh)
        elif message.work == "opening" and self.profile.opens:
            opening = engine.answer_opening(
                engine.opening_request_from_bytes(part, slots=1), secret_key=key
            )
            share = engine.opening_reply_to_bytes(opening)
        elif message.work == "check" and self.deployment.refresh == "client":
            bits = self._read_signs(part)
            return self._encode(TaskReply(task=message.task, work=message.work, bits=bits))
        else:
            raise DamagedData("a task that this deployment does not have")
        return self._encode(TaskReply(task=message.task, work=message.work, parts=(share,)))

    def _read_signs(self, part: bytes) -> str:
        """The signs of the slots; random ones if the ciphertext cannot be decrypted."""
        vector = self._engine.vector_from_bytes(
            part, slots=self.profile.check_slots, level=self.deployment.parameters.depth
        )
        try:
            values = self._engine.decrypt(vector, secret_key=self._secret_key)
        except EngineError:
            values = np.array([secrets.randbelow(2) - 0.5 for _ in range(vector.slots)])
        return "".join("+" if value > 0.0 else "-" for value in values[:MOST_SIGNS])

    def _encrypt(self, packed: tuple[Array, ...], level: int) -> tuple[bytes, ...]:
        engine = self._engine
        return tuple(
            engine.vector_to_bytes(engine.encrypt(values, level=level)) for values in packed
        )

    def _encode(self, message: Message) -> bytes:
        return encode(message, deployment=self.deployment.fingerprint)

    def _decode(self, data: bytes, kind: type[M]) -> M:
        message = decode(data, deployment=self.deployment.fingerprint)
        if not isinstance(message, kind):
            raise DamagedData(f"a message {kind.__name__} was expected")
        return message
