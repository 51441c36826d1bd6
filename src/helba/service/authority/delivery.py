"""Brings the server in step with the authority's folder, again and again, until it is.

    rotation    one that waits in the folder goes first, until the server says that it has taken it
    revoked     users whom the server has, and the folder has not
    enrolled    users whom the server lacks, or knows by another token

What is to be done follows each time from what the server says and the folder has: nothing is kept
in memory, so nothing is lost. The folder is read without its lock. What it says may be older than
the moment, never older than what the server said before: nobody who is enrolled is taken for
revoked. Users without a token, whom `helba keys enrol` took in, wait until they have one.

The server may work on the very folder that the authority writes for it. It then has files of which
it was not told, so that revocations are repeated once, whatever it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from helba.errors import Refused, RunFailed, Unavailable
from helba.reference.protocol.enrolment import SHARED_ID
from helba.service.authority.link import Known, Link
from helba.service.protocol.authorityfiles import SERVER, at_work, read_members
from helba.service.protocol.authoritystate import collective_id
from helba.service.protocol.files import ROTATION
from helba.service.protocol.serverfiles import drop_rotation, enrolment_path, list_users
from helba.service.protocol.tokens import read_token_hashes
from helba.service.protocol.vault import read_private

WAIT_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a delivery did, by names and ids; `left` says whom the server did not take, and why.

    `held` is what the server has now: users, and the hash of the token of each.
    """

    key: bytes
    rotated: bool
    enrolled: tuple[str, ...]
    revoked: tuple[bytes, ...]
    waiting: tuple[str, ...]
    left: Mapping[str, str]
    held: Mapping[bytes, str | None] = field(repr=False)

    @property
    def changed(self) -> bool:
        """Whether the server was told anything."""
        return self.rotated or bool(self.enrolled or self.revoked)


def deliver(folder: Path, *, link: Link, told: set[bytes] | None = None) -> Outcome:
    """Bring the server in step with the authority in `folder`, as far as it lets.

    `told` are users of whose revocation the server was told before; more are added.
    `Unavailable` if the server is away: what it took before stays. `Refused` if it knows neither
    the authority nor a way to its key. What it refuses of a single user stands in `left`.
    """
    known = link.members()
    before, rotation = known.key, _waiting_rotation(folder, of=known.key)
    if rotation is not None:
        link.rotate(rotation)
        known = link.members()
        _drop_taken(folder, key=known.key)
    if known.key != collective_id(folder):
        raise Unavailable("the server is not under the authority's collective key yet")
    rotated = known.key != before
    told = set() if told is None else told
    return _tell_members(folder, link=link, known=known, rotated=rotated, told=told)


def _tell_members(
    folder: Path, *, link: Link, known: Known, rotated: bool, told: set[bytes]
) -> Outcome:
    server = folder / SERVER
    names = {each.id: each.name for each in read_members(folder) if not each.revoked}
    hashes = read_token_hashes(server)
    held = dict(known.enrolled)
    gone = [user for user in held if user not in names and user != SHARED_ID]
    told.difference_update(names)
    others = sorted(set(list_users(server)[1]).difference(names, gone, told))
    _tell_revoked(link, known=gone, others=others)
    told.update(gone, others)
    for user in gone:
        del held[user]
    enrolled, waiting, left = [], [], {}
    for user, name in names.items():
        token_hash = hashes.get(user)
        if token_hash is None:
            waiting.append(name)
        elif held.get(user) != token_hash:
            try:
                enrolment = read_private(enrolment_path(server, user))
                link.enrol(user, enrolment=enrolment, token_hash=token_hash)
            except Unavailable:
                raise
            except (Refused, RunFailed) as error:
                left[name] = str(error)
                continue
            held[user] = token_hash
            enrolled.append(name)
    return Outcome(
        key=known.key,
        rotated=rotated,
        enrolled=tuple(enrolled),
        revoked=tuple(gone),
        waiting=tuple(waiting),
        left=left,
        held=held,
    )


def _tell_revoked(link: Link, *, known: list[bytes], others: list[bytes]) -> None:
    """Have users revoked: those whom the server names, and those whom it may have in memory."""
    for user in known:
        link.revoke(user)
    for user in others:
        with suppress(Refused):  # it never knew the user
            link.revoke(user)


def _waiting_rotation(folder: Path, *, of: bytes) -> bytes | None:
    """The rotation that waits, or None; `Refused` if a server under another key needs one."""
    path = folder / SERVER / ROTATION
    if not path.exists() and collective_id(folder) != of:
        with at_work(folder, wait_seconds=WAIT_SECONDS):  # one may be under way
            key = collective_id(folder)
        if not path.exists() and key != of:
            raise Refused(
                f"the server is under the collective key {of.hex()}, the authority under "
                f"{key.hex()}, and no rotation waits: the server needs its folder anew"
            )
    return read_private(path) if path.exists() else None


def _drop_taken(folder: Path, *, key: bytes) -> None:
    """Delete the rotation that the server took, unless it did so itself.

    While the file is there, no further rotation is made, and the next pass sends it again.
    """
    server = folder / SERVER
    if not (server / ROTATION).exists():
        return
    try:
        with at_work(folder, wait_seconds=WAIT_SECONDS):
            if collective_id(folder) == key:
                drop_rotation(server)
    except Unavailable:
        return
