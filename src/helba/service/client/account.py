"""Where a user's folder says who it is for whom: client.json, and the token.

    client.json     authority, server, tenant, name, certificate; whether the server knows the user
    token           the user's token, in a file that only its owner can read

They lie beside the keys of `helba.service.protocol.userstore`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from helba.errors import DamagedData, Refused, RunFailed
from helba.service.client.transport import Patience, Transport
from helba.service.protocol.files import read_json
from helba.service.protocol.tokens import hash_token, make_token
from helba.service.protocol.vault import read_private, write_private

ACCOUNT, TOKEN = "client.json", "token"


@dataclass(frozen=True, kw_only=True)
class Account:
    """With whom a user is enrolled, by which name; nothing in it is secret.

    `pinned` says that the user compares ids of collective keys by itself: a rotated one is then not
    adopted on the word of the authority alone. `enrolled` says that the server knows the user.
    """

    authority: str
    name: str
    server: str
    tenant: str
    ca: str | None = None
    allow_plain_http: bool = False
    pinned: bool = False
    enrolled: bool = False

    def connect(
        self, url: str, *, token: str | None = None, patience: Patience | None = None
    ) -> Transport:
        """Return a transport to the authority or the server of this account."""
        return Transport(
            url,
            token=token,
            ca=None if self.ca is None else Path(self.ca),
            allow_plain_http=self.allow_plain_http,
            patience=patience,
        )


def read_account(folder: Path) -> Account:
    """Return the account in a folder, or raise `RunFailed` or `DamagedData`."""
    path = folder / ACCOUNT
    if not path.exists():
        raise RunFailed(f"{folder} is enrolled nowhere (helba client enrol does it)")
    data = read_json(path, read_private(path))
    try:
        found = Account(**data)
        texts = (found.authority, found.name, found.server, found.tenant, found.ca or "")
        sound = all(isinstance(each, str) for each in texts)
    except TypeError:
        sound = False
    if not sound:
        raise DamagedData(f"{path}: this describes no account")
    return found


def write_account(folder: Path, account: Account) -> None:
    """Keep an account."""
    write_private(folder / ACCOUNT, json.dumps(asdict(account), indent=1).encode())


def keep_token(folder: Path) -> str:
    """Return the token in a folder; it is made when there is none."""
    if not (folder / TOKEN).exists():
        write_private(folder / TOKEN, make_token("user").encode())
    return read_token(folder)


def read_token(folder: Path) -> str:
    """Return the token in a folder, or raise `RunFailed` or `DamagedData`."""
    path = folder / TOKEN
    token = read_private(path).decode("latin-1").strip()
    try:
        hash_token(token, kind="user")
    except Refused:
        raise DamagedData(f"{path}: this is no token of a user") from None
    return token
