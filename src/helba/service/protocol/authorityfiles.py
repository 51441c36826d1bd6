"""Files of the authority's folder that need no passphrase: members, tokens, which keys count.

`keystore` says what is in the folder; what is here reads and writes single files of it.

Goes with the old service.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from helba.errors import DamagedData, Refused, RunFailed, Unavailable
from helba.reference.protocol.wire.messages import ID_BYTES
from helba.service.protocol.files import (
    PUBLIC_KEY,
    ROTATION,
    SECRET_KEY,
    USERS,
    delete_file,
    read_json,
    read_public,
)
from helba.service.protocol.tokens import (
    hash_token,
    make_token,
    read_authority_hash,
    write_authority_hash,
)
from helba.service.protocol.vault import make_private_folder, read_private, write_private

CURRENT, MEMBERS, SERVER, PUBLIC = "current.json", "members.json", "server", ".public"
SERVER_TOKEN, INVITATIONS = "server.token", "invitations.json"
MOST_SHOWN = 64
# How long a command waits for another one that works on the folder, and how often it looks.
WAIT_SECONDS, LOOK_SECONDS = 2.0, 0.02
GENERATION = re.compile(r"keys-([1-9][0-9]{0,8})")


@dataclass(frozen=True, kw_only=True)
class Record:
    """What members.json says of a user; times are in UTC, as ISO 8601."""

    name: str
    id: bytes
    enrolled_at: str
    revoked_at: str | None = None

    @property
    def revoked(self) -> bool:
        """Whether the user may no longer take part."""
        return self.revoked_at is not None

    @property
    def since(self) -> str:
        """Since when the user has been enrolled, or revoked."""
        return self.revoked_at or self.enrolled_at

    def as_json(self) -> dict[str, Any]:
        """Return it in plain types."""
        return {
            "name": self.name,
            "id": self.id.hex(),
            "revoked": self.revoked,
            "enrolled_at": self.enrolled_at,
            "revoked_at": self.revoked_at,
        }


def read_members(folder: Path) -> list[Record]:
    """Return the members in their order, or raise `RunFailed` or `DamagedData`."""
    path = folder / MEMBERS
    data = read_json(path, read_private(path))
    try:
        records = [_record(each) for each in data["members"]]
        if len({each.name for each in records}) < len(records):
            raise ValueError("a name that comes twice")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DamagedData(f"{path}: this is no list of members") from None
    return records


def _record(data: Any) -> Record:
    record = Record(
        name=data["name"],
        id=bytes.fromhex(data["id"]),
        enrolled_at=data["enrolled_at"],
        revoked_at=data["revoked_at"],
    )
    texts = (record.name, record.enrolled_at, record.since)
    if len(record.id) != ID_BYTES or not all(isinstance(text, str) for text in texts):
        raise ValueError("not a record")
    if record.as_json() != data:
        raise ValueError("not in its one form")
    return record


def write_members(folder: Path, records: Sequence[Record]) -> None:
    """Write the members."""
    text = json.dumps({"members": [each.as_json() for each in records]}, indent=1)
    write_private(folder / MEMBERS, text.encode())


def make_records(
    members: Iterable[tuple[str, bytes, bool]], *, known: Sequence[Record]
) -> list[Record]:
    """Return what to write of members, as (name, id, revoked), with the times that are known."""
    before = {(each.name, each.id): each for each in known}
    records, today = [], now()
    for name, user, revoked in members:
        old = before.get((name, user))
        again = old is not None and old.revoked and not revoked
        enrolled = today if old is None or again else old.enrolled_at
        since = ((old and old.revoked_at) or today) if revoked else None
        records.append(Record(name=name, id=user, enrolled_at=enrolled, revoked_at=since))
    return records


def find_member(records: Sequence[Record], name: str) -> Record:
    """Return the member of that name, or raise `Refused`."""
    for each in records:
        if each.name == name:
            return each
    shown = name if len(name) <= MOST_SHOWN else f"{name[:MOST_SHOWN]}..."
    raise Refused(f"nobody of the name {shown} was enrolled")


def collective_key_path(folder: Path) -> Path:
    """Return where the public key lies that users encrypt under; no passphrase is needed."""
    return current_keys(folder) / PUBLIC_KEY


def current_keys(folder: Path) -> Path:
    """Return the folder of the keys that count."""
    return folder / f"keys-{number_of_keys(folder)}"


def number_of_keys(folder: Path) -> int:
    """Return the number of the generation of keys that counts."""
    _require_authority(folder)
    path = folder / CURRENT
    data = read_json(path, read_public(path))
    match = GENERATION.fullmatch(str(data.get("keys"))) if isinstance(data, dict) else None
    if match is None:
        raise DamagedData(f"{path}: this names no keys")
    return int(match[1])


def public_path(folder: Path, user: bytes) -> Path:
    """Return where the authority keeps a user's public key."""
    return folder / USERS / f"{user.hex()}{PUBLIC}"


def delete_rest(folder: Path) -> None:
    """Delete generations of keys that do not count, and public keys that nobody has."""
    current = current_keys(folder)
    for path in folder.glob("keys-*"):
        if GENERATION.fullmatch(path.name) and path != current:
            delete_keys(path)
    kept = {public_path(folder, each.id) for each in read_members(folder)}
    for path in (folder / USERS).glob(f"*{PUBLIC}"):
        if path not in kept:
            delete_file(path)


def delete_keys(folder: Path) -> None:
    """Delete a generation of keys, secrets first."""
    if not folder.is_dir():
        return
    names = (SECRET_KEY, ROTATION)
    for path in sorted(folder.iterdir(), key=lambda path: path.name not in names):
        delete_file(path)
    try:
        folder.rmdir()
    except OSError as error:
        raise RunFailed(f"cannot delete {folder}: {error.strerror}") from error


def now() -> str:
    """Return the time, in UTC."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def secret_key_path(folder: Path) -> Path:
    """Return where an authority's, or a user's, folder has its sealed secret key."""
    keys = current_keys(folder) if (folder / CURRENT).exists() else folder
    if not (keys / SECRET_KEY).exists():
        raise RunFailed(f"{folder} holds no secret key (helba keys create makes one)")
    return keys / SECRET_KEY


def require_free(folder: Path) -> None:
    """Raise `Refused` if an authority or a user has its keys in the folder."""
    if (folder / CURRENT).exists():
        whole = (folder / SERVER / PUBLIC_KEY).exists()
        rest = "" if whole else f", but no whole server's folder: helba keys server {folder}"
        raise Refused(f"{folder} holds an authority already{rest}")
    if (folder / SECRET_KEY).exists():
        raise Refused(f"{folder} holds a user's keys already")


def _require_authority(folder: Path) -> None:
    if not (folder / CURRENT).is_file():
        raise RunFailed(f"{folder} holds no authority (helba keys create makes one)")


# -- the token by which the server knows the authority


def ensure_server_token(folder: Path, *, server: Path) -> str:
    """Return the authority's token, made if there is none; a server's folder gets its hash.

    The token is kept as it is, for it is sent to the server: the file is private.
    """
    path = folder / SERVER_TOKEN
    if not path.exists():
        write_private(path, make_token("authority").encode())
    token = read_server_token(folder)
    if read_authority_hash(server) != hash_token(token):
        write_authority_hash(server, hash_token(token))
    return token


def read_server_token(folder: Path) -> str:
    """Return the authority's token, or raise `RunFailed` or `DamagedData`."""
    path = folder / SERVER_TOKEN
    token = read_private(path).decode("latin-1").strip()
    try:
        hash_token(token, kind="authority")
    except Refused:
        raise DamagedData(f"{path}: this is no token of an authority") from None
    return token


# -- one command at a time


@contextmanager
def at_work(folder: Path, *, wait_seconds: float = WAIT_SECONDS) -> Iterator[None]:
    """The folder of an authority, private and for this command alone."""
    _require_authority(folder)
    make_private_folder(folder)
    with locked(folder, wait_seconds=wait_seconds):
        yield


@contextmanager
def locked(folder: Path, *, wait_seconds: float = 0.0) -> Iterator[None]:
    """A folder for this command alone; `Unavailable` if another one has it, and keeps it."""
    deadline = time.monotonic() + wait_seconds
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise RunFailed(f"cannot open {folder}: {error.strerror}") from error
    try:
        while not _is_taken(handle):
            if time.monotonic() >= deadline:
                raise Unavailable(f"another command is working on {folder}")
            time.sleep(LOOK_SECONDS)
        yield
    finally:
        os.close(handle)


def _is_taken(handle: int) -> bool:
    """Take the lock of an open folder, if it is free."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
