"""What the authority issues to the server: a user's way to its answers, or a new collective key.

    enrolment   public key of the user | re-encryption key from the collective key to it
    rotation    new public key | new evaluation key | key from the old collective key to the new one
                | an enrolment of every user

Both hold re-encryption keys: they go from the authority to the server and nowhere else, over a
channel that hides and authenticates, and are secrets of the server at rest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from helba.errors import DamagedData
from helba.reference.engine import PublicKey
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.wire.frame import frame, unframe
from helba.reference.protocol.wire.messages import ID_BYTES

MAGIC = b"\x89HELKEY\n"
VERSION = 2
ENROLMENT, ROTATION = 1, 2
MOST_HEAD_BYTES = 1 << 10
MOST_PARTS = 1 << 20
# Whoever uses the collective key itself, in the shared-key mode.
SHARED_ID = bytes(ID_BYTES)


def name_key(key: PublicKey) -> bytes:
    """Return the id by which the parties know the owner of a public key."""
    text = f"{key.parameters.fingerprint} {key.tag} {key.identity}".encode()
    return hashlib.blake2b(text, digest_size=ID_BYTES).digest()


@dataclass(frozen=True, kw_only=True)
class Enrolment:
    """One user's public key, and the key by which the server re-encrypts to it."""

    user: bytes
    public_key: bytes
    outward_key: bytes

    def __repr__(self) -> str:
        return f"<Enrolment of {self.user.hex()}>"

    def to_bytes(self, *, deployment: Deployment) -> bytes:
        """Return the bytes for the server."""
        parts = (self.public_key, self.outward_key)
        return _write(ENROLMENT, parts, deployment=deployment, user=self.user.hex())

    @classmethod
    def from_bytes(cls, data: bytes, *, deployment: Deployment) -> Enrolment:
        """Return the enrolment, its keys still unread, or raise `DamagedData`."""
        return cls._of(*_read(data, kind=ENROLMENT, deployment=deployment))

    @classmethod
    def _of(cls, user: bytes, parts: Sequence[bytes]) -> Enrolment:
        if len(parts) != 2:
            raise DamagedData("an enrolment has two keys")
        return cls(user=user, public_key=parts[0], outward_key=parts[1])


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """A new collective key, the way to it from the old one, and everybody's enrolment under it."""

    public_key: bytes
    evaluation_key: bytes
    switching_key: bytes
    enrolments: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"<Rotation with {len(self.enrolments)} enrolments>"

    def to_bytes(self, *, deployment: Deployment) -> bytes:
        """Return the bytes for the server."""
        parts = (self.public_key, self.evaluation_key, self.switching_key, *self.enrolments)
        return _write(ROTATION, parts, deployment=deployment, user=SHARED_ID.hex())

    @classmethod
    def from_bytes(cls, data: bytes, *, deployment: Deployment) -> Rotation:
        """Return the rotation, its keys still unread, or raise `DamagedData`."""
        _, parts = _read(data, kind=ROTATION, deployment=deployment)
        return cls._of(parts)

    @classmethod
    def _of(cls, parts: Sequence[bytes]) -> Rotation:
        if len(parts) < 3:
            raise DamagedData("a rotation has three keys")
        return cls(
            public_key=parts[0],
            evaluation_key=parts[1],
            switching_key=parts[2],
            enrolments=tuple(parts[3:]),
        )


@dataclass(frozen=True, kw_only=True)
class Issued:
    """What an enrolment or a rotation says to who does not know its deployment.

    `key` is its re-encryption key, `enrolments` how many a rotation has.
    """

    kind: str
    deployment: str
    key: bytes
    enrolments: int = 0

    def __repr__(self) -> str:
        return f"<Issued {self.kind}>"


def is_issued(data: bytes) -> bool:
    """Return whether bytes begin as an enrolment or a rotation does."""
    return data.startswith(MAGIC)


def read_issued(data: bytes) -> Issued:
    """Return what the bytes are, the keys unread, or raise `DamagedData`."""
    kind, named, user, parts = _unframe(data)
    if kind == ENROLMENT:
        enrolment = Enrolment._of(user, parts)
        return Issued(kind="enrolment", deployment=named, key=enrolment.outward_key)
    rotation = Rotation._of(parts)
    return Issued(
        kind="rotation",
        deployment=named,
        key=rotation.switching_key,
        enrolments=len(rotation.enrolments),
    )


def _write(kind: int, parts: Sequence[bytes], *, deployment: Deployment, user: str) -> bytes:
    head = json.dumps({"deployment": deployment.fingerprint, "user": user}, sort_keys=True).encode()
    return frame(magic=MAGIC, version=VERSION, kind=kind, head=head, parts=parts)


def _read(data: bytes, *, kind: int, deployment: Deployment) -> tuple[bytes, list[bytes]]:
    found, named, user, parts = _unframe(data)
    if found != kind:
        raise DamagedData("an enrolment where a rotation is due, or the other way round")
    if named != deployment.fingerprint:
        raise DamagedData("the keys belong to another deployment")
    return user, parts


def _unframe(data: bytes) -> tuple[int, str, bytes, list[bytes]]:
    """Kind, fingerprint of the deployment, id of the user, keys."""
    kind, text, parts = unframe(
        data,
        magic=MAGIC,
        version=VERSION,
        what="an enrolment or rotation",
        most_head=MOST_HEAD_BYTES,
        most_parts=MOST_PARTS,
    )
    try:
        head = json.loads(text.decode())
        named, user = head.pop("deployment"), bytes.fromhex(head.pop("user"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise DamagedData("the head of the enrolment or rotation is none") from None
    if head:
        raise DamagedData("the head of the enrolment or rotation has more than it should")
    if kind not in (ENROLMENT, ROTATION):
        raise DamagedData("this is neither an enrolment nor a rotation")
    if len(user) != ID_BYTES:
        raise DamagedData("the user's id is none")
    return kind, str(named), user, parts
