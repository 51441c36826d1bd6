"""An authority read from its folder, and written there; `keystore` says what the folder has.

Who calls works on the folder alone: inside `work_on`, which first ends what broke off before.

Goes with the old service.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from helba.errors import DamagedData, Refused
from helba.reference.engine import KeySet, get_scheme
from helba.reference.protocol.authority import Authority, Member
from helba.reference.protocol.deployment import Deployment
from helba.service.protocol.authorityfiles import (
    CURRENT,
    SERVER,
    WAIT_SECONDS,
    Record,
    at_work,
    collective_key_path,
    current_keys,
    delete_keys,
    delete_rest,
    make_records,
    number_of_keys,
    public_path,
    read_members,
    write_members,
)
from helba.service.protocol.files import (
    DEPLOYMENT,
    EVALUATION_KEY,
    PUBLIC_KEY,
    ROTATION,
    SECRET_KEY,
    USERS,
    delete_file,
    naming,
    read_deployment,
    read_public,
    write_deployment,
)
from helba.service.protocol.keyinfo import describe_key, id_of_file
from helba.service.protocol.serverfiles import drop_users, write_rotated_files
from helba.service.protocol.vault import (
    make_private_folder,
    open_secret,
    read_private,
    seal_secret,
    sweep_folder,
    write_private,
    write_public,
)


@contextmanager
def work_on(
    folder: Path, *, allow_insecure: bool = False, wait_seconds: float = WAIT_SECONDS
) -> Iterator[Deployment]:
    """The folder for this command alone, after what broke off before has been finished."""
    with at_work(folder, wait_seconds=wait_seconds):
        yield finish_work(folder, allow_insecure=allow_insecure)


def read_authority(folder: Path, *, passphrase: str, allow_insecure: bool = False) -> Authority:
    """Return the authority in a folder that the caller works on (`work_on`)."""
    deployment = read_deployment(folder / DEPLOYMENT, allow_insecure=allow_insecure)
    scheme, parameters, keys = (
        get_scheme(deployment.scheme),
        deployment.parameters,
        current_keys(folder),
    )
    sealed = read_private(keys / SECRET_KEY)
    with naming(keys / SECRET_KEY):
        opened = open_secret(sealed, passphrase=passphrase, purpose=_purpose(deployment))
        secret = scheme.secret_key_from_bytes(opened, parameters=parameters)
    with naming(keys / PUBLIC_KEY):
        public = scheme.public_key_from_bytes(read_public(keys / PUBLIC_KEY), parameters=parameters)
    with naming(keys / EVALUATION_KEY):
        evaluation = scheme.evaluation_key_from_bytes(
            read_public(keys / EVALUATION_KEY),
            parameters=parameters,
            rotations=deployment.rotations,
            bootstrap_slots=deployment.bootstrap_slots,
        )
    if not secret.belongs_to(public) or not evaluation.belongs_to(public):
        raise DamagedData(f"the keys in {keys} do not belong together")
    return Authority(
        deployment,
        scheme=scheme,
        keys=KeySet(public=public, evaluation=evaluation, secret=secret),
        members=_read_members(folder),
    )


def renew_members(authority: Authority, folder: Path) -> Authority:
    """Return the authority with the members in its folder, whose keys must be the same."""
    return Authority(
        authority.deployment,
        scheme=authority._scheme,
        keys=authority._keys,
        members=_read_members(folder),
    )


def _read_members(folder: Path) -> list[Member]:
    return [
        Member(
            name=each.name,
            id=each.id,
            public_key=read_public(public_path(folder, each.id)),
            revoked=each.revoked,
        )
        for each in read_members(folder)
    ]


def write_authority(
    authority: Authority, folder: Path, *, passphrase: str, rotation: bytes | None = None
) -> None:
    """Write members, and keys that the folder has not; others are replaced by a rotation only."""
    deployment, path = authority.deployment, folder / DEPLOYMENT
    known: list[Record] = []
    number, public = 0, authority.public_key_bytes()
    if (folder / CURRENT).exists():
        if read_deployment(path, allow_insecure=True) != deployment:
            raise Refused(f"{folder} holds an authority of another deployment")
        known, number = read_members(folder), number_of_keys(folder)
    else:
        write_deployment(path, deployment)
    new = number == 0 or collective_id(folder) != describe_key(public).owner
    if new and number and rotation is None:
        raise Refused(f"{folder} holds an authority with other keys")
    write_members_of(authority, folder, known=known)
    if new:
        keys = folder / f"keys-{number + 1}"
        delete_keys(keys)
        make_private_folder(keys)
        write_public(keys / PUBLIC_KEY, public)
        write_public(keys / EVALUATION_KEY, authority.evaluation_key_bytes())
        secret = authority.secret_key_bytes()
        sealed = seal_secret(secret, passphrase=passphrase, purpose=_purpose(deployment))
        write_private(keys / SECRET_KEY, sealed)
        if rotation is not None:
            write_private(keys / ROTATION, rotation)
        write_public(folder / CURRENT, json.dumps({"keys": keys.name}).encode())
    delete_rest(folder)


def write_members_of(authority: Authority, folder: Path, *, known: Sequence[Record]) -> None:
    """Write the members and their public keys, with the times that are known of them."""
    make_private_folder(folder / USERS)
    for member in authority.members:
        if not public_path(folder, member.id).exists():
            write_public(public_path(folder, member.id), member.public_key)
    members = [(each.name, each.id, each.revoked) for each in authority.members]
    write_members(folder, make_records(members, known=known))


def collective_id(folder: Path) -> bytes:
    """Return the id of the collective key that counts."""
    return id_of_file(collective_key_path(folder))


def finish_work(folder: Path, *, allow_insecure: bool) -> Deployment:
    """End what broke off: a rotation on its way to the server, keys of old, users who are gone."""
    deployment = read_deployment(folder / DEPLOYMENT, allow_insecure=allow_insecure)
    server, rotation = folder / SERVER, current_keys(folder) / ROTATION
    if rotation.exists():
        data = read_private(rotation)
        with naming(rotation):
            write_rotated_files(data, server, deployment=deployment)
        write_private(server / ROTATION, data)
        delete_file(rotation)
    drop_users(server, but=[each.id for each in read_members(folder) if not each.revoked])
    delete_rest(folder)
    for each in (folder, folder / USERS, current_keys(folder), server, server / USERS):
        sweep_folder(each)
    return deployment


def _purpose(deployment: Deployment) -> str:
    return f"collective secret key, {deployment.fingerprint}"
