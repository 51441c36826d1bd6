"""A user on disk: its own pair, and the collective key that it encrypts under.

    deployment.json  collective.key  public.key     for anybody to read
    secret.key                                      under the passphrase; it never leaves the device

The folder is private. It is complete when secret.key is there, which is written last.

Goes with the old service.
"""

from __future__ import annotations

from pathlib import Path

from helba.errors import DamagedData, InvalidInput, Refused, RunFailed
from helba.reference.engine import KeyPair, PublicKey, get_scheme
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.enrolment import name_key
from helba.reference.protocol.user import User
from helba.service.protocol.authorityfiles import CURRENT, collective_key_path, locked, require_free
from helba.service.protocol.files import (
    DEPLOYMENT,
    PUBLIC_KEY,
    SECRET_KEY,
    naming,
    read_deployment,
    read_public,
    write_deployment,
)
from helba.service.protocol.vault import (
    make_private_folder,
    open_secret,
    read_private,
    seal_secret,
    write_private,
    write_public,
)

COLLECTIVE_KEY = "collective.key"


def create_user(
    folder: Path, *, deployment_folder: Path, passphrase: str, allow_insecure: bool = False
) -> User:
    """Make a pair of keys here, on the user's device, and keep it in a new folder.

    `deployment_folder` has deployment.json and the collective public.key; an authority's, a
    server's or another user's folder will do. The user sends its public.key to the authority.
    """
    require_free(folder)
    deployment = read_deployment(deployment_folder / DEPLOYMENT, allow_insecure=allow_insecure)
    _require_own_keys(deployment)
    collective = _read_public(_find_collective(deployment_folder), deployment=deployment)
    return _make(folder, deployment, collective=collective, passphrase=passphrase)


def make_user(
    folder: Path, deployment: Deployment, *, collective_key: bytes, passphrase: str
) -> User:
    """Make a pair as `create_user` does, for a deployment and a collective key that were sent.

    Both must come over a channel that authenticates: who chooses the key reads what is sent.
    """
    require_free(folder)
    _require_own_keys(deployment)
    collective = _public_of(collective_key, deployment=deployment)
    return _make(folder, deployment, collective=collective, passphrase=passphrase)


def _make(folder: Path, deployment: Deployment, *, collective: PublicKey, passphrase: str) -> User:
    make_private_folder(folder)
    with locked(folder):
        require_free(folder)  # or another command was faster
        scheme = get_scheme(deployment.scheme)
        keys = scheme.generate_pair(deployment.parameters)
        user = User(deployment, scheme=scheme, engine=scheme.engine(collective), keys=keys)
        write_deployment(folder / DEPLOYMENT, deployment)
        write_public(folder / COLLECTIVE_KEY, scheme.public_key_to_bytes(collective))
        write_public(folder / PUBLIC_KEY, scheme.public_key_to_bytes(keys.public))
        secret = scheme.secret_key_to_bytes(keys.secret)
        sealed = seal_secret(secret, passphrase=passphrase, purpose=_purpose(keys.public))
        write_private(folder / SECRET_KEY, sealed)
        return user


def open_user(folder: Path, *, passphrase: str, allow_insecure: bool = False) -> User:
    """Return the user whose keys are in `folder`."""
    deployment = _open_folder(folder, allow_insecure=allow_insecure)
    scheme = get_scheme(deployment.scheme)
    collective = _read_public(folder / COLLECTIVE_KEY, deployment=deployment)
    public = _read_public(folder / PUBLIC_KEY, deployment=deployment)
    path = folder / SECRET_KEY
    sealed = read_private(path)
    with naming(path):
        opened = open_secret(sealed, passphrase=passphrase, purpose=_purpose(public))
        secret = scheme.secret_key_from_bytes(opened, parameters=deployment.parameters)
        if not secret.belongs_to(public):
            raise DamagedData("the secret key belongs to another public key")
    keys = KeyPair(public=public, secret=secret)
    return User(deployment, scheme=scheme, engine=scheme.engine(collective), keys=keys)


def update_user(
    folder: Path, public_key: Path, *, key: bytes | None = None, allow_insecure: bool = False
) -> tuple[bytes, bytes]:
    """Adopt a new collective public key, after a rotation; return the ids of the old and the new.

    No secret is used, and the user's own keys stay. The file comes from the authority, over a
    channel that authenticates; where `key` is given, it must be the id of what is in the file.
    """
    deployment = _open_folder(folder, allow_insecure=allow_insecure)
    with locked(folder):
        new = _read_public(public_key, deployment=deployment)
        if key is not None and name_key(new) != key:
            raise Refused(f"{public_key} is the key {name_key(new).hex()}, not {key.hex()}")
        return _adopt(folder, new, deployment=deployment)


def adopt_key(
    folder: Path, public_key: bytes, *, key: bytes, allow_insecure: bool = False
) -> tuple[bytes, bytes]:
    """Adopt a collective public key that was sent, as `update_user` does one in a file."""
    deployment = _open_folder(folder, allow_insecure=allow_insecure)
    with locked(folder):
        new = _public_of(public_key, deployment=deployment)
        if name_key(new) != key:
            raise Refused(f"what was sent is the key {name_key(new).hex()}, not {key.hex()}")
        return _adopt(folder, new, deployment=deployment)


def _adopt(folder: Path, new: PublicKey, *, deployment: Deployment) -> tuple[bytes, bytes]:
    if new.belongs_to(_read_public(folder / PUBLIC_KEY, deployment=deployment)):
        raise InvalidInput("public_key", "the user's own", "the collective key")
    old = _read_public(folder / COLLECTIVE_KEY, deployment=deployment)
    data = get_scheme(deployment.scheme).public_key_to_bytes(new)
    write_public(folder / COLLECTIVE_KEY, data)
    return name_key(old), name_key(new)


def _open_folder(folder: Path, *, allow_insecure: bool) -> Deployment:
    if not (folder / SECRET_KEY).exists() or not (folder / COLLECTIVE_KEY).exists():
        raise RunFailed(f"{folder} holds no user's keys (helba keys create --user makes them)")
    make_private_folder(folder)
    return read_deployment(folder / DEPLOYMENT, allow_insecure=allow_insecure)


def _find_collective(folder: Path) -> Path:
    if (folder / CURRENT).exists():
        return collective_key_path(folder)
    other = folder / COLLECTIVE_KEY
    return other if other.exists() else folder / PUBLIC_KEY


def _read_public(path: Path, *, deployment: Deployment) -> PublicKey:
    data = read_public(path)
    with naming(path):
        return _public_of(data, deployment=deployment)


def _public_of(data: bytes, *, deployment: Deployment) -> PublicKey:
    scheme = get_scheme(deployment.scheme)
    return scheme.public_key_from_bytes(data, parameters=deployment.parameters)


def _require_own_keys(deployment: Deployment) -> None:
    if deployment.keys == "shared":
        raise Refused("in this deployment all users share one key: nobody makes a pair")


def _purpose(key: PublicKey) -> str:
    return f"secret key of user {name_key(key).hex()}"
