"""What crosses the border of each party, kept in order: for whoever wants to audit a run.

    transcript = Transcript(deployment)
    authority = RecordedAuthority(deployment, transcript=transcript)
    server = RecordedServer(authority.make_server(), transcript=transcript)
    bandit = ReferenceBandit(settings, authority=authority, server=server)
    ...
    transcript.view_of(SERVER)

A view is what a party holds against the table of who learns what in docs/protocol.md: every byte
that it was sent or has sent. Nothing here prints contents. Bytes are kept as they are, with the
re-encryption keys of enrolments, and in the shared-key mode with the secret key: a transcript is as
secret as the parties of the run together, and is for tests and audits of runs that are not real.

What is no message is not kept: `Server.status`, which is public, and when something was sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from helba.errors import DamagedData, Refused
from helba.reference.protocol.authority import Authority, Member
from helba.reference.protocol.bandit import ServerLink
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.enrolment import name_key
from helba.reference.protocol.serving.server import Server, Status
from helba.reference.protocol.user import User
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import (
    Answer,
    Ask,
    Message,
    Receipt,
    Refusal,
    Report,
    Task,
    TaskReply,
    TestReply,
)

__all__ = [
    "AUTHORITY",
    "EVERYBODY",
    "SERVER",
    "SOMEBODY",
    "Entry",
    "RecordedAuthority",
    "RecordedServer",
    "Shape",
    "Transcript",
]

AUTHORITY, SERVER = "authority", "server"
EVERYBODY, SOMEBODY = "everybody", "somebody"

# Sender, recipient, kind, bytes.
Shape = tuple[str, str, str, int]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One message: who sent it to whom, what it is, and its bytes.

    `kind` is the name of a message of `messages`, with its work where it has one ("Task refresh"),
    or that of a key ("public key", "enrolment", ...).
    """

    source: str
    target: str
    kind: str
    data: bytes = field(repr=False)

    @property
    def shape(self) -> Shape:
        """All that somebody sees who cannot look into it."""
        return self.source, self.target, self.kind, len(self.data)

    def __repr__(self) -> str:
        return f"<{self.kind} from {self.source} to {self.target}, {len(self.data)} bytes>"


class Transcript:
    """The messages of a run of `deployment`, in order.

    Users are named in the order in which they are first seen, "user 1", "user 2", so that two runs
    can be compared although keys and ids differ.
    """

    def __init__(self, deployment: Deployment) -> None:
        self.codec = Codec(deployment)
        self._entries: list[Entry] = []
        self._names: dict[bytes, str] = {}

    def __repr__(self) -> str:
        return f"<Transcript of {len(self._entries)} messages>"

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Everything."""
        return tuple(self._entries)

    def add(self, *, source: str, target: str, kind: str, data: bytes) -> None:
        """Keep one message."""
        self._entries.append(Entry(source=source, target=target, kind=kind, data=data))

    def name_of(self, user: bytes) -> str:
        """Return the name of the user with this id, a new one if it was not seen before."""
        return self._names.setdefault(user, f"user {len(self._names) + 1}")

    def view_of(self, party: str) -> tuple[Entry, ...]:
        """Return what a party sent, or was sent, or could take from what goes to everybody."""
        return tuple(
            entry
            for entry in self._entries
            if party in (entry.source, entry.target) or entry.target == EVERYBODY
        )

    def shapes(self, entries: Iterable[Entry] | None = None) -> tuple[Shape, ...]:
        """Return what can be seen of `entries`, of all unless told, without looking into them."""
        return tuple(each.shape for each in (self._entries if entries is None else entries))

    def decode(self, entry: Entry) -> Message:
        """Return a message of `messages` opened; `DamagedData` for anything else."""
        return self.codec.decode(entry.data)


@runtime_checkable
class _RevokingLink(Protocol):
    def revoke(self, user: bytes) -> None: ...


class RecordedServer:
    """A server that keeps what goes in and out: all calls of `ServerLink`, batches, revocations.

    What arrives is kept whether the server accepts it or raises an error; bytes that are no message
    come from somebody. A task is kept whenever it is fetched. A notice goes to everybody.
    """

    def __init__(self, server: ServerLink, *, transcript: Transcript) -> None:
        self._server = server
        self._transcript = transcript
        self._senders: dict[bytes, str] = {}  # of rounds, tests and tasks, by their names

    def receive(self, data: bytes) -> tuple[bytes, ...]:
        """Pass it on."""
        sender, subject = self._came(data)
        return self._went(self._server.receive(data), to=sender, about=subject)

    def tasks(self, user: bytes) -> tuple[bytes, ...]:
        """Pass it on."""
        return self._went(self._server.tasks(user), to=self._transcript.name_of(user))

    def enrol(self, enrolment: bytes) -> None:
        """Pass it on."""
        self._keep(AUTHORITY, "enrolment", enrolment)
        self._server.enrol(enrolment)

    def introduce(self, user: bytes, inward_key: bytes) -> None:
        """Pass it on."""
        self._keep(self._transcript.name_of(user), "inward key", inward_key)
        self._server.introduce(user, inward_key)

    def revoke(self, user: bytes) -> None:
        """Pass it on; `Refused` if the server cannot."""
        if not isinstance(self._server, _RevokingLink):
            raise Refused("this server revokes nobody")
        self._keep(AUTHORITY, "revocation", user)
        self._server.revoke(user)

    def rotate(self, rotation: bytes) -> tuple[bytes, ...]:
        """Pass it on."""
        self._keep(AUTHORITY, "rotation", rotation)
        return self._went(self._server.rotate(rotation), to=EVERYBODY)

    def notice(self) -> bytes:
        """Pass it on."""
        notice = self._server.notice()
        self._went((notice,), to=EVERYBODY)
        return notice

    def status(self) -> Status:
        """Pass it on."""
        return self._server.status()

    def _keep(self, source: str, kind: str, data: bytes) -> None:
        self._transcript.add(source=source, target=SERVER, kind=kind, data=data)

    def _came(self, data: bytes) -> tuple[str, bytes | None]:
        """Keep a message that arrives; return its sender and what it is about."""
        try:
            message = self._transcript.codec.decode(data)
        except DamagedData:
            self._keep(SOMEBODY, "no message", data)
            return SOMEBODY, None
        sender, subject = SOMEBODY, _subject(message)
        if isinstance(message, Ask | Report | TestReply | TaskReply):
            sender = self._transcript.name_of(message.user)
        if subject is not None:
            self._senders.setdefault(subject, sender)
        self._keep(sender, _kind(message), data)
        return sender, subject

    def _went(
        self, replies: tuple[bytes, ...], *, to: str, about: bytes | None = None
    ) -> tuple[bytes, ...]:
        """Keep what is sent: `to` the sender of what it answers, else to the one it is about."""
        for data in replies:
            message = self._transcript.codec.decode(data)
            subject = _subject(message)
            known = self._senders.get(subject, to) if subject is not None else to
            target = to if subject == about else known
            self._transcript.add(source=SERVER, target=target, kind=_kind(message), data=data)
        return replies


class RecordedAuthority(Authority):
    """An authority that keeps what it is sent, and what it hands to users and servers it makes.

    What it issues later (`enrolment_of`, `rotate`) is kept where it arrives, by `RecordedServer`.
    """

    def __init__(self, deployment: Deployment, *, transcript: Transcript, **options: Any) -> None:
        super().__init__(deployment, **options)
        self._transcript = transcript
        self._handing_over = False

    def enrol(self, public_key: bytes, *, name: str, replace: bool = False) -> bytes:
        """As the authority's."""
        sender = self._transcript.name_of(self._id_of(public_key))
        self._keep(sender, AUTHORITY, "public key", public_key)
        return super().enrol(public_key, name=name, replace=replace)

    def make_user(self, name: str | None = None) -> User:
        """As the authority's."""
        user = super().make_user(name)
        named = self._transcript.name_of(user.id)
        self._keep(AUTHORITY, named, "collective public key", self.public_key_bytes())
        if self.deployment.keys == "shared":
            self._keep(AUTHORITY, named, "collective secret key", self.secret_key_bytes())
        return user

    def make_server(self) -> Server:
        """As the authority's."""
        self._keep(AUTHORITY, SERVER, "collective public key", self.public_key_bytes())
        self._keep(AUTHORITY, SERVER, "evaluation key", self.evaluation_key_bytes())
        self._handing_over = True
        try:
            return super().make_server()
        finally:
            self._handing_over = False

    def _enrolment(self, member: Member) -> bytes:
        data = super()._enrolment(member)
        if self._handing_over:
            self._keep(AUTHORITY, SERVER, "enrolment", data)
        return data

    def _id_of(self, public_key: bytes) -> bytes:
        return name_key(self._read_public(public_key))

    def _keep(self, source: str, target: str, kind: str, data: bytes) -> None:
        self._transcript.add(source=source, target=target, kind=kind, data=data)


def _kind(message: Message) -> str:
    name = type(message).__name__
    return f"{name} {message.work}" if isinstance(message, Task | TaskReply) else name


def _subject(message: Message) -> bytes | None:
    """What a message is about: a round, a test, a task."""
    if isinstance(message, Ask | Answer | Report | Receipt):
        return message.round
    if isinstance(message, TestReply):
        return message.test
    if isinstance(message, Task | TaskReply):
        return message.task
    return message.subject if isinstance(message, Refusal) else None
