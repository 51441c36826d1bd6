"""Enrolment of a user over HTTP: keys and token are made here, the authority takes them in.

    deployment, collective key   from the authority
    pair, token                  made in the user's folder, once
    enrolment                    by the authority, which brings it to the server
    inward key                   to the server, where data arrives switched

Each step is finished on disk before the next begins, and may be repeated: after a crash at any
moment the same call goes on with the same keys and token.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from helba.errors import DamagedData, InvalidInput, Refused
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.enrolment import SHARED_ID
from helba.reference.protocol.user import User
from helba.reference.protocol.wire.messages import ID_BYTES
from helba.service.client.account import ACCOUNT, Account, keep_token, read_account, write_account
from helba.service.client.link import ServerLink
from helba.service.client.registry import Registry
from helba.service.client.transport import Patience, check_url
from helba.service.protocol.files import (
    DEPLOYMENT,
    PUBLIC_KEY,
    SECRET_KEY,
    read_deployment,
    read_public,
)
from helba.service.protocol.keyinfo import describe_key, id_of_file
from helba.service.protocol.tokens import hash_token
from helba.service.protocol.userstore import COLLECTIVE_KEY, adopt_key, make_user, open_user
from helba.service.protocol.vault import make_private_folder


def enrol(
    folder: Path,
    *,
    authority: str,
    name: str,
    passphrase: str,
    invitation: str | None = None,
    key: str | None = None,
    server: str | None = None,
    tenant: str | None = None,
    ca: Path | None = None,
    allow_plain_http: bool = False,
    patience: Patience | None = None,
    allow_insecure: bool = False,
) -> User:
    """Enrol a user whose keys are, or will be, in `folder`; return it once the server knows it.

    `key` is the id that the collective key must have: whoever could choose that key would read
    everything, so compare it with the authority's by another way than this. `server` and `tenant`
    are those that the authority names unless told. In a folder where this was begun before, `ca`,
    `allow_plain_http` and that the key was pinned stay as they were.
    """
    account = Account(
        authority=check_url(authority, allow_plain_http=True),
        name=name,
        server="",
        tenant="",
        ca=None if ca is None else str(ca.absolute()),
        allow_plain_http=allow_plain_http,
        pinned=key is not None,
    )
    if (folder / ACCOUNT).exists():
        account = _go_on(folder, account)
    check_url(authority, allow_plain_http=account.allow_plain_http)
    wanted = None if key is None else check_key(key)
    make_private_folder(folder)
    with Registry(account, patience=patience) as registry:
        deployment = Deployment.from_json(registry.deployment(), allow_insecure=allow_insecure)
        collective = registry.public_key()
        _require_key(collective, wanted=wanted)
        home = registry.home()
        account = replace(
            account,
            server=check_url(server or home.url, allow_plain_http=account.allow_plain_http),
            tenant=tenant or home.tenant,
        )
        if (folder / SECRET_KEY).exists():
            _renew_collective(folder, deployment, collective, pinned=account.pinned, wanted=wanted)
            user = open_user(folder, passphrase=passphrase, allow_insecure=allow_insecure)
        else:
            user = make_user(folder, deployment, collective_key=collective, passphrase=passphrase)
        if user.id == SHARED_ID:
            raise Refused("in this deployment all users share one key: nobody enrols")
        token = keep_token(folder)
        write_account(folder, account)
        registry.enrol(
            name,
            public_key=read_public(folder / PUBLIC_KEY),
            token_hash=hash_token(token, kind="user"),
            invitation=invitation,
        )
    if deployment.keys == "switched":
        with account.connect(account.server, token=token, patience=patience) as transport:
            ServerLink(transport, tenant=account.tenant).introduce(user.inward_key_bytes())
    write_account(folder, replace(account, enrolled=True))
    return user


def check_key(key: str) -> str:
    """Return the id of a key, or raise `InvalidInput`."""
    with suppress(ValueError):
        if len(bytes.fromhex(key)) == ID_BYTES:
            return key.lower()
    raise InvalidInput("key", "something else", f"an id: {2 * ID_BYTES} hexadecimal digits")


def _require_key(collective: bytes, *, wanted: str | None) -> None:
    found = describe_key(collective)
    if found.kind != "public key":
        raise DamagedData("what the authority sent is no public key")
    if wanted is not None and found.owner.hex() != wanted:
        raise Refused(f"the collective key of this authority is {found.owner.hex()}, not {wanted}")


def _go_on(folder: Path, account: Account) -> Account:
    """The account with what an earlier call settled; `Refused` if that was of another one."""
    before = read_account(folder)
    if (before.authority, before.name) != (account.authority, account.name):
        raise Refused(f"{folder} is that of {before.name} at {before.authority}")
    return replace(
        account,
        ca=account.ca or before.ca,
        allow_plain_http=account.allow_plain_http or before.allow_plain_http,
        pinned=account.pinned or before.pinned,
    )


def _renew_collective(
    folder: Path, deployment: Deployment, collective: bytes, *, pinned: bool, wanted: str | None
) -> None:
    """Let keys that were made before be used under the collective key of today."""
    insecure = deployment.parameters.security is None  # it was let in: tests
    mine = read_deployment(folder / DEPLOYMENT, allow_insecure=insecure)
    if mine.fingerprint != deployment.fingerprint:
        raise Refused(f"{folder} has keys of another deployment than this authority's")
    new = describe_key(collective).owner
    if id_of_file(folder / COLLECTIVE_KEY) == new:
        return
    if pinned and wanted is None:
        raise Refused(f"the collective key was rotated, and is {new.hex()} now: compare and pin it")
    adopt_key(folder, collective, key=new, allow_insecure=insecure)
