"""The messages of the protocol, and the heads of their bytes.

    user                                server
      ---- Ask: encrypted contexts ----->
      <--- Answer: encrypted comparison --      the user decrypts, and plays
      ---- TestReply: one bit ---------->       if an update test rode along
      ---- Report: encrypted statistics ->
      <--- Receipt -----------------------
      <--- Task: refresh, check, opening -      whoever is online helps with an update
      ---- TaskReply ------------------->
      <--- Refusal -----------------------      instead of an answer or a receipt

What a user sends names its key (`user`); what it gets is encrypted under that key.

The bytes (`codec`) have a head, a JSON object of the message's plain fields and the deployment's
fingerprint, and parts, ciphertexts in the engine's own format that are not looked at here. Whatever
does not fit raises `DamagedData`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

from helba.errors import DamagedData
from helba.reference.twin.terms import BatchTerms

ID_BYTES = 16
MOST_NUMBER = 1 << 53

M = TypeVar("M", bound="Message")


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message: plain fields, and `parts`, which are ciphertexts."""

    kind: ClassVar[int]
    parts: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {sum(map(len, self.parts))} bytes>"


@dataclass(frozen=True, kw_only=True, repr=False)
class Notice(Message):
    """Server to everybody: the terms of the batch that is served, and the collective key's id."""

    kind: ClassVar[int] = 1
    key: bytes
    number: int
    start: int
    samples: int
    last_round: int
    residual: float
    estimate_error: float

    @classmethod
    def from_terms(cls, terms: BatchTerms, *, key: bytes) -> Notice:
        """Return the message of these terms."""
        numbers = {field.name: getattr(terms, field.name) for field in fields(terms)}
        return cls(key=key, **numbers)

    def terms(self) -> BatchTerms:
        """Return the terms, checked."""
        names = [field.name for field in fields(BatchTerms)]
        return BatchTerms(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True, kw_only=True, repr=False)
class Ask(Message):
    """User to server: contexts for batch `batch`."""

    kind: ClassVar[int] = 2
    user: bytes
    round: bytes
    batch: int


@dataclass(frozen=True, kw_only=True, repr=False)
class Answer(Message):
    """Server to user: the comparison vector; `test` names the update test in it, if any."""

    kind: ClassVar[int] = 3
    round: bytes
    test: bytes | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class TestReply(Message):
    """User to server: the sign of an update test, still flipped."""

    __test__ = False  # not pytest's
    kind: ClassVar[int] = 4
    user: bytes
    test: bytes
    positive: bool


@dataclass(frozen=True, kw_only=True, repr=False)
class Report(Message):
    """User to server: the statistics of the arm played in a round, and of its reward."""

    kind: ClassVar[int] = 5
    user: bytes
    round: bytes


@dataclass(frozen=True, kw_only=True, repr=False)
class Receipt(Message):
    """Server to user: the report is part of the statistics; `counted` is false for a duplicate."""

    kind: ClassVar[int] = 6
    round: bytes
    counted: bool


@dataclass(frozen=True, kw_only=True, repr=False)
class Refusal(Message):
    """Server to user: why a message changed nothing, in one line."""

    kind: ClassVar[int] = 7
    subject: bytes
    reason: str


@dataclass(frozen=True, kw_only=True, repr=False)
class Task(Message):
    """Server to whoever is online: help with a "refresh", a "check" or an "opening"."""

    kind: ClassVar[int] = 8
    task: bytes
    work: str


@dataclass(frozen=True, kw_only=True, repr=False)
class TaskReply(Message):
    """The helper's share: a part for a refresh or an opening, `bits` for a check."""

    kind: ClassVar[int] = 9
    user: bytes
    task: bytes
    work: str
    bits: str | None = None


def subject_of(message: Report | TestReply | TaskReply) -> bytes:
    """Return what a refusal of this message is about."""
    if isinstance(message, Report):
        return message.round
    return message.test if isinstance(message, TestReply) else message.task


KINDS: dict[int, type[Message]] = {
    each.kind: each
    for each in (Notice, Ask, Answer, TestReply, Report, Receipt, Refusal, Task, TaskReply)
}


def head_of(message: Message, *, deployment: str) -> bytes:
    """Return the head of a message of the deployment with this fingerprint."""
    head: dict[str, Any] = {"deployment": deployment}
    for field in fields(message):
        value = getattr(message, field.name)
        if field.name != "parts":
            head[field.name] = value.hex() if isinstance(value, bytes) else value
    return json.dumps(head, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def message_of(kind: int, *, head: bytes, parts: Sequence[bytes], deployment: str) -> Message:
    """Return the message, checked as far as its form goes, or raise `DamagedData`."""
    if kind not in KINDS:
        raise DamagedData("a message of an unknown kind")
    return _build(KINDS[kind], head=_parse_head(head, deployment=deployment), parts=parts)


def _parse_head(text: bytes, *, deployment: str) -> dict[str, Any]:
    try:
        head = json.loads(text.decode())
    except (ValueError, RecursionError):
        raise DamagedData("the head of the message is no JSON") from None
    if not isinstance(head, dict):
        raise DamagedData("the head of the message is no object")
    if head.pop("deployment", None) != deployment:
        raise DamagedData("the message belongs to another deployment")
    return head


def _build(kind: type[M], *, head: dict[str, Any], parts: Sequence[bytes]) -> M:
    wanted = {field.name: str(field.type) for field in fields(kind) if field.name != "parts"}
    if set(head) != set(wanted):
        raise DamagedData(f"the fields are not those of a message {kind.__name__}")
    values = {name: _READERS[wanted[name]](head[name]) for name in wanted}
    return kind(**values, parts=tuple(parts))


def _whole(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MOST_NUMBER:
        raise DamagedData("a number of the message is none")
    return value


def _real(value: object) -> float:
    if type(value) not in (int, float):
        raise DamagedData("a number of the message is none")
    if not 0 <= value < MOST_NUMBER:  # type: ignore[operator]
        raise DamagedData("a number of the message is out of range")
    return float(value)  # type: ignore[arg-type]


def _bit(value: object) -> bool:
    if type(value) is not bool:
        raise DamagedData("a bit of the message is none")
    return value


def _text(value: object) -> str:
    if type(value) is not str:
        raise DamagedData("a text of the message is none")
    return value


def _name(value: object) -> bytes:
    try:
        name = bytes.fromhex(_text(value))
    except ValueError:
        name = b""
    if len(name) != ID_BYTES:
        raise DamagedData("an id of the message is none")
    return name


def _maybe(read: Callable[[object], Any]) -> Callable[[object], Any]:
    return lambda value: None if value is None else read(value)


_READERS: dict[str, Callable[[object], Any]] = {
    "int": _whole,
    "float": _real,
    "bool": _bit,
    "str": _text,
    "bytes": _name,
    "bytes | None": _maybe(_name),
    "str | None": _maybe(_text),
}
