"""Invitations: who may enrol itself over HTTP, under which name, with a code that counts once.

    invitations.json    name, hash of the code, until when, and the key that used it

The code is a token (`tokens`), told to the user outside of this program. It is bound to the first
key that comes with it: that key may come again with it, after an answer was lost or for a new
token, and no other may. A name has one invitation at a time; who is revoked loses it. Who calls
works on the authority's folder alone.

Goes with the old service.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from helba.errors import DamagedData, InvalidInput, Refused, require_between
from helba.reference.protocol.authority import MOST_NAME
from helba.reference.protocol.wire.messages import ID_BYTES
from helba.service.protocol.authorityfiles import INVITATIONS
from helba.service.protocol.files import read_json
from helba.service.protocol.tokens import hash_token, make_token, require_token_hash, same_hash
from helba.service.protocol.vault import read_private, write_private

MOST_DAYS = 366.0
FORM = "%Y-%m-%dT%H:%M:%SZ"


class NotInvited(Refused):
    """The code does not let its holder enrol under this name."""


@dataclass(frozen=True, kw_only=True)
class Invitation:
    """What is kept of an invitation; `used_by` is the id of the key that came with the code."""

    name: str
    code_hash: str = field(repr=False)
    expires_at: str
    used_by: bytes | None = None

    @property
    def expired(self) -> bool:
        """Whether its time is over."""
        return datetime.now(timezone.utc).strftime(FORM) >= self.expires_at

    @property
    def open(self) -> bool:
        """Whether nobody used it yet, and somebody may."""
        return self.used_by is None and not self.expired

    def as_json(self) -> dict[str, Any]:
        """Return it in plain types."""
        return {
            "name": self.name,
            "code_sha256": self.code_hash,
            "expires_at": self.expires_at,
            "used_by": None if self.used_by is None else self.used_by.hex(),
        }


def invite(folder: Path, name: str, *, days: float) -> tuple[str, Invitation]:
    """Make an invitation in place of any that the name has; return its code, which is not kept."""
    require_between("days", days, 0.0, MOST_DAYS)
    if not 1 <= len(name) <= MOST_NAME or not name.isprintable() or name != name.strip():
        raise InvalidInput("name", "another", f"1 to {MOST_NAME} printable characters")
    code = make_token("invitation")
    until = datetime.now(timezone.utc) + timedelta(days=days)
    made = Invitation(name=name, code_hash=hash_token(code), expires_at=until.strftime(FORM))
    others = [each for each in _read(folder) if each.name != name and not each.expired]
    _write(folder, [*others, made])
    return code, made


def find_invitation(folder: Path, name: str) -> Invitation | None:
    """Return the invitation of a name, if it has one."""
    return next((each for each in _read(folder) if each.name == name), None)


def require_invited(folder: Path, name: str, *, code: str) -> Invitation:
    """Return the invitation that the code is of, or raise `NotInvited`."""
    try:
        given = hash_token(code, kind="invitation")
    except Refused:
        raise NotInvited("this is no invitation") from None
    found = find_invitation(folder, name)
    if found is None or not same_hash(found.code_hash, given):
        raise NotInvited("this invitation is not for this name, or not valid any more")
    if found.expired:
        raise NotInvited(f"this invitation ended at {found.expires_at}: ask for a new one")
    return found


def claim_invitation(folder: Path, name: str, *, code: str, user: bytes) -> bool:
    """Bind the invitation of a name to the key of id `user`; return whether it was free before.

    `NotInvited` if the code is not that of the name, came too late, or with another key before.
    """
    found = require_invited(folder, name, code=code)
    if found.used_by is None:
        _put(folder, replace(found, used_by=user))
        return True
    if found.used_by != user:
        raise NotInvited("this invitation was used, with another key: ask for a new one")
    return False


def release_invitation(folder: Path, name: str) -> None:
    """Let the invitation of a name be used again: what it was used for did not succeed."""
    found = find_invitation(folder, name)
    if found is not None:
        _put(folder, replace(found, used_by=None))


def drop_invitation(folder: Path, name: str) -> None:
    """Delete the invitation of a name, if it has one."""
    kept = _read(folder)
    left = [each for each in kept if each.name != name]
    if len(left) < len(kept):
        _write(folder, left)


def _put(folder: Path, invitation: Invitation) -> None:
    _write(
        folder,
        [invitation if each.name == invitation.name else each for each in _read(folder)],
    )


def _read(folder: Path) -> list[Invitation]:
    path = folder / INVITATIONS
    if not path.exists():
        return []
    data = read_json(path, read_private(path))
    try:
        return [_invitation(each) for each in data["invitations"]]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DamagedData(f"{path}: this is no list of invitations") from None


def _invitation(data: Any) -> Invitation:
    used = data["used_by"]
    found = Invitation(
        name=data["name"],
        code_hash=require_token_hash(data["code_sha256"]),
        expires_at=data["expires_at"],
        used_by=None if used is None else bytes.fromhex(used),
    )
    datetime.strptime(found.expires_at, FORM)
    if not isinstance(found.name, str) or len(found.used_by or bytes(ID_BYTES)) != ID_BYTES:
        raise ValueError("not an invitation")
    return found


def _write(folder: Path, invitations: Sequence[Invitation]) -> None:
    text = json.dumps({"invitations": [each.as_json() for each in invitations]}, indent=1)
    write_private(folder / INVITATIONS, text.encode())
