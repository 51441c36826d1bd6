"""The authority at work: its folder opened once, and users taken in one after the other.

`helba keys` may work on the same folder: every enrolment takes the folder's lock, and what changed
on disk since the last one is read first. An enrolment that returned is on disk, whole.

Who comes is let in by an invitation, or, with open enrolment, by a name that is free. Asking again
with the same name and key is no error: an answer may have been lost, and the token of the last call
counts. With open enrolment this is all that protects a token: whoever has a user's public key may
replace it. It is for demonstrations.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helba.errors import DamagedData, HelbaError, Refused, RunFailed, Unavailable
from helba.reference.engine import get_scheme
from helba.reference.protocol.authority import Authority
from helba.service.protocol.authorityfiles import (
    CURRENT,
    MEMBERS,
    SERVER,
    Record,
    collective_key_path,
    ensure_server_token,
    read_members,
)
from helba.service.protocol.authoritystate import read_authority, renew_members, work_on
from helba.service.protocol.files import DEPLOYMENT, read_json, read_public
from helba.service.protocol.invitation import (
    NotInvited,
    claim_invitation,
    find_invitation,
    release_invitation,
    require_invited,
)
from helba.service.protocol.keyinfo import describe_key
from helba.service.protocol.keystore import take_in
from helba.service.protocol.serverfiles import write_server_files
from helba.service.protocol.tokens import require_token_hash, write_token_hash
from helba.service.protocol.vault import read_private

WAIT_SECONDS = 10.0
# A user's public key is as long as the collective one, up to how well either packs.
SPARE_BYTES = 1 << 16

log = logging.getLogger("helba.service.authority")


@dataclass(frozen=True, kw_only=True)
class _Stamp:
    """What tells whether somebody else changed the folder."""

    current: bytes
    members: bytes


class Enroller:
    """An authority that stays open, in one folder; its calls are safe in any thread.

    Opening writes what the server's folder lacks. With `open`, names that nobody has or is invited
    to need no invitation.
    """

    def __init__(
        self,
        folder: Path,
        *,
        passphrase: str,
        open: bool = False,
        allow_insecure: bool = False,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self.folder = folder
        self.open = open
        self._passphrase = passphrase
        self._allow_insecure = allow_insecure
        self._wait_seconds = wait_seconds
        self._lock = threading.Lock()
        self._stamp: _Stamp | None = None
        with self._work():
            self._authority = self._read()
            write_server_files(self._authority, self.server)
            self.token = ensure_server_token(folder, server=self.server)
        self.deployment = self._authority.deployment

    def __repr__(self) -> str:
        way = "open" if self.open else "by invitation"
        return f"<Enroller of {self.deployment.fingerprint}, {way}>"

    @property
    def server(self) -> Path:
        """The server's folder that the authority keeps."""
        return self.folder / SERVER

    # -- what anybody may know

    def deployment_json(self) -> Any:
        """Return the deployment in plain types."""
        path = self.folder / DEPLOYMENT
        return read_json(path, read_public(path))

    def public_key(self) -> bytes:
        """Return the collective public key that counts now."""
        try:
            return read_public(collective_key_path(self.folder))
        except RunFailed:  # deleted by a rotation, between its name and its bytes
            return read_public(collective_key_path(self.folder))

    def key_id(self) -> bytes:
        """Return the id of the collective public key."""
        return describe_key(self.public_key()).owner

    def records(self) -> list[Record]:
        """Return all members, revoked ones included."""
        return read_members(self.folder)

    @property
    def most_key_bytes(self) -> int:
        """How long the bytes of a user's public key may be."""
        return 2 * len(self.public_key()) + SPARE_BYTES

    # -- enrolments

    def admit(self, name: str, *, invitation: str | None) -> None:
        """Raise `NotInvited` unless a user of that name may try; nothing is kept of it."""
        if invitation is not None:
            with _own_fault():
                require_invited(self.folder, name, code=invitation)
        elif not self.open:
            raise NotInvited("an invitation is needed")

    def enrol(
        self, name: str, *, public_key: bytes, token_hash: str, invitation: str | None = None
    ) -> Record:
        """Take a user in by its public key, and keep the hash of the token it will show the server.

        When this returns, the enrolment is in the folder, and the server's folder in it has what a
        server needs. `DamagedData` is about the key only. `Refused` if the name is enrolled with
        another key; `Unavailable` if a command works on the folder for long.
        """
        require_token_hash(token_hash)
        self.admit(name, invitation=invitation)
        with self._lock:
            user = self._read_key(public_key)
            with _own_fault(), self._work():
                authority = self._renew()
                known = next((each for each in self.records() if each.name == name), None)
                if known is not None and not known.revoked and known.id != user:
                    raise Refused(f"{name} is enrolled with another key")
                with self._claimed(name, known, user=user, invitation=invitation):
                    record = take_in(authority, self.folder, name, public_key=public_key)
                write_token_hash(self.server, record.id, token_hash)
                self._stamp = self._read_stamp()
        log.info("enrolled", extra={"fields": {"user": record.id.hex()}})
        return record

    def _read_key(self, data: bytes) -> bytes:
        """The id of a user's public key, once all of it has been read."""
        found, deployment = describe_key(data), self.deployment
        if (found.kind, found.scheme) != ("public key", deployment.scheme):
            raise DamagedData("this is no public key of this deployment")
        scheme = get_scheme(deployment.scheme)
        scheme.public_key_from_bytes(data, parameters=deployment.parameters)
        return found.owner

    @contextmanager
    def _claimed(
        self, name: str, known: Record | None, *, user: bytes, invitation: str | None
    ) -> Iterator[None]:
        """The right to enrol under a name; it stays unused if the enrolment is refused."""
        if invitation is None:
            self._require_free(name, known)
            yield
            return
        fresh = claim_invitation(self.folder, name, code=invitation, user=user)
        try:
            yield
        except HelbaError:
            if fresh:
                release_invitation(self.folder, name)
            raise

    def _require_free(self, name: str, known: Record | None) -> None:
        reserved = find_invitation(self.folder, name)
        if not self.open or (known is not None and known.revoked):
            raise NotInvited("an invitation is needed")
        if known is None and reserved is not None and reserved.open:
            raise NotInvited("somebody else is invited under this name")

    # -- the folder

    @contextmanager
    def _work(self) -> Iterator[None]:
        """The folder for this thread alone; an error leaves the members to be read again."""
        try:
            with work_on(
                self.folder, allow_insecure=self._allow_insecure, wait_seconds=self._wait_seconds
            ):
                yield
        except Unavailable:
            raise Unavailable("another command is working on the authority's folder") from None
        except BaseException:
            if self._stamp is not None:
                self._stamp = _Stamp(current=self._stamp.current, members=b"")
            raise

    def _renew(self) -> Authority:
        """The authority as its folder has it now."""
        stamp, before = self._read_stamp(), self._stamp
        if before is None or stamp.current != before.current:
            self._authority = self._read()
        elif stamp.members != before.members:
            self._authority = renew_members(self._authority, self.folder)
        self._stamp = stamp
        return self._authority

    def _read(self) -> Authority:
        self._stamp = self._read_stamp()
        return read_authority(
            self.folder, passphrase=self._passphrase, allow_insecure=self._allow_insecure
        )

    def _read_stamp(self) -> _Stamp:
        return _Stamp(
            current=read_public(self.folder / CURRENT),
            members=read_private(self.folder / MEMBERS),
        )


@contextmanager
def _own_fault() -> Iterator[None]:
    """What is damaged here is of the authority's folder, and not of who asks."""
    try:
        yield
    except DamagedData as error:
        raise RunFailed(str(error)) from error
