"""The authority on disk. What users keep is in `userstore`.

    deployment.json         what all parties agree on
    current.json            which generation of keys counts
    keys-<n>/               public.key  evaluation.key  secret.key (under the passphrase)
    members.json            names, ids, and when they were enrolled or revoked
    users/<id>.public       the public keys of those who are enrolled
    server/                 the server's folder (`serverfiles`)

*Whatever breaks off, what is left opens.* Every file appears whole or not at all. New collective
keys go to a folder of their own, keys-<n+1>; one replacement of current.json makes them count, and
only then the old ones are deleted. With them lies, until it has reached the server's folder, the
rotation that leads the server from the old keys: no secret that is still needed is ever in memory
only. Who opens the folder next, or revokes, finishes what was begun. Users' public keys are written
before members.json names them.

The folder is private, and one command at a time works on it. Deleted keys are unlinked: what the
medium keeps of them is beyond this program. `allow_insecure` is for tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from helba.engine import KeySet, get_scheme
from helba.errors import DamagedData, Refused
from helba.protocol.authority import Authority, Member
from helba.protocol.authorityfiles import (
    CURRENT,
    SERVER,
    Record,
    at_work,
    collective_key_path,
    current_keys,
    delete_keys,
    delete_rest,
    find_member,
    locked,
    now,
    number_of_keys,
    public_path,
    read_members,
    require_free,
    write_members,
)
from helba.protocol.deployment import Deployment
from helba.protocol.files import (
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
from helba.protocol.keyinfo import describe_key, id_of_file
from helba.protocol.serverfiles import (
    drop_users,
    write_enrolment,
    write_rotated_files,
    write_server_files,
)
from helba.protocol.vault import (
    make_private_folder,
    open_secret,
    read_private,
    seal_secret,
    sweep_folder,
    write_private,
    write_public,
)

__all__ = [
    "create_authority",
    "enrol_member",
    "list_members",
    "open_authority",
    "replace_member_key",
    "revoke_member",
    "rotate_authority",
    "save_authority",
    "write_server_folder",
]


# -- the authority


def create_authority(folder: Path, deployment: Deployment, *, passphrase: str) -> Authority:
    """Make the collective keys of a deployment, and keep them in a new folder.

    A folder that holds an authority already is refused, before any key is made.
    """
    require_free(folder)
    make_private_folder(folder)
    with locked(folder):
        require_free(folder)  # or another command was faster
        authority = Authority(deployment)
        _save(authority, folder, passphrase=passphrase)
        return authority


def open_authority(folder: Path, *, passphrase: str, allow_insecure: bool = False) -> Authority:
    """Return the authority in `folder`, with all its keys."""
    with at_work(folder):
        _finish(folder, allow_insecure=allow_insecure)
        return _open(folder, passphrase=passphrase, allow_insecure=allow_insecure)


def save_authority(authority: Authority, folder: Path, *, passphrase: str) -> None:
    """Keep an authority: its members, and its keys in a folder that has none.

    `Refused` if the folder has others: the old ones would be lost, and the server's way from them.
    """
    make_private_folder(folder)
    with locked(folder):
        _save(authority, folder, passphrase=passphrase)


def rotate_authority(
    folder: Path,
    *,
    passphrase: str,
    say: Callable[[str], None] = lambda _: None,
    allow_insecure: bool = False,
) -> Authority:
    """Make new collective keys, and delete the old ones; return the authority that has them.

    The server's folder gets the new keys, enrolments of all users, and rotation.key, by which a
    server that is running goes on with its model. `Refused` if one waits there: by another rotation
    that server would lose its way. `say` is told when the long part begins.
    """
    with at_work(folder):
        _finish(folder, allow_insecure=allow_insecure)
        waiting = folder / SERVER / ROTATION
        if waiting.exists():
            raise Refused(
                f"the collective key was rotated, and is {_current_id(folder).hex()} now, but "
                f"{waiting} has not been taken by the server: let it rotate first, or delete the "
                "file if there is no server that runs or has a state"
            )
        authority = _open(folder, passphrase=passphrase, allow_insecure=allow_insecure)
        enrolled = sum(not member.revoked for member in authority.members)
        say(f"making new collective keys, and enrolments of {enrolled} users")
        rotation = authority.rotate()
        _save(authority, folder, passphrase=passphrase, rotation=rotation)
        _finish(folder, allow_insecure=allow_insecure)
        return authority


def write_server_folder(
    folder: Path, *, passphrase: str, out: Path | None = None, allow_insecure: bool = False
) -> Path:
    """Write the server's folder again, or another one, and return where; what fits there stays.

    In `out` a rotation that waits is not written, so a folder there must be new or of this key.
    """
    with at_work(folder):
        deployment = _finish(folder, allow_insecure=allow_insecure)
        server = folder / SERVER if out is None else out
        if out is not None:
            require_free(out)
            known = out / PUBLIC_KEY
            if known.exists() and id_of_file(known) != _current_id(folder):
                raise Refused(f"{out} is of another collective key: name a new folder")
            path = out / DEPLOYMENT
            if path.exists() and read_deployment(path, allow_insecure=True) != deployment:
                raise Refused(f"{out} is of another deployment: name a new folder")
        authority = _open(folder, passphrase=passphrase, allow_insecure=allow_insecure)
        write_server_files(authority, server)
        return server


# -- its members


def list_members(folder: Path) -> tuple[Record, ...]:
    """Return all whom the authority knows, revoked ones included; no passphrase is needed."""
    collective_key_path(folder)  # is there an authority?
    return tuple(read_members(folder))


def enrol_member(
    folder: Path,
    name: str,
    *,
    public_key: bytes,
    passphrase: str,
    replace: bool = False,
    say: Callable[[str], None] = lambda _: None,
    allow_insecure: bool = False,
) -> Record:
    """Take a user in by its public key, and write its enrolment into the server's folder.

    Where the user's key is replaced, the old enrolment is deleted. Who is enrolled with this key
    already stays so, and what is missing in the server's folder is written. `say` is told when the
    long parts begin.
    """
    with at_work(folder):
        _finish(folder, allow_insecure=allow_insecure)
        say("opening the collective keys, to make a re-encryption key")
        authority = _open(folder, passphrase=passphrase, allow_insecure=allow_insecure)
        server = folder / SERVER
        if not _is_enrolled(authority, name, public_key):
            enrolment = authority.enrol(public_key, name=name, replace=replace)
            _save(authority, folder, passphrase=passphrase)
            make_private_folder(server)
            make_private_folder(server / USERS)
            write_enrolment(server, authority.member(name).id, enrolment)
        say("writing the server's folder")
        write_server_files(authority, server)
        return find_member(read_members(folder), name)


def replace_member_key(
    folder: Path,
    name: str,
    *,
    public_key: bytes,
    passphrase: str,
    say: Callable[[str], None] = lambda _: None,
    allow_insecure: bool = False,
) -> Record:
    """Enrol a user under a new key, in place of the old one."""
    known = find_member(list_members(folder), name)
    if known.revoked:
        raise Refused(f"{name} is revoked: enrol again")
    return enrol_member(
        folder,
        name,
        public_key=public_key,
        passphrase=passphrase,
        replace=True,
        say=say,
        allow_insecure=allow_insecure,
    )


def revoke_member(folder: Path, name: str, *, allow_insecure: bool = False) -> Record:
    """Mark a user as revoked, and delete its keys in the server's folder.

    No secret is used, so no passphrase is needed. A server that kept the re-encryption key can
    still re-encrypt to the user, until the collective key is rotated.
    """
    with at_work(folder):
        deployment = _finish(folder, allow_insecure=allow_insecure)
        if deployment.keys == "shared":
            raise Refused("in this deployment all users share one key: nobody can be revoked")
        records = read_members(folder)
        known = find_member(records, name)
        if known.revoked:
            raise Refused(f"{name} is revoked already")
        gone = Record(name=name, id=known.id, enrolled_at=known.enrolled_at, revoked_at=now())
        write_members(folder, [gone if each is known else each for each in records])
        _finish(folder, allow_insecure=allow_insecure)
        return gone


# -- parts


def _open(folder: Path, *, passphrase: str, allow_insecure: bool) -> Authority:
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
    members = [
        Member(
            name=each.name,
            id=each.id,
            public_key=read_public(public_path(folder, each.id)),
            revoked=each.revoked,
        )
        for each in read_members(folder)
    ]
    return Authority(
        deployment,
        scheme=scheme,
        keys=KeySet(public=public, evaluation=evaluation, secret=secret),
        members=members,
    )


def _save(
    authority: Authority, folder: Path, *, passphrase: str, rotation: bytes | None = None
) -> None:
    deployment, path = authority.deployment, folder / DEPLOYMENT
    known: list[Record] = []
    number, public = 0, authority.public_key_bytes()
    if (folder / CURRENT).exists():
        if read_deployment(path, allow_insecure=True) != deployment:
            raise Refused(f"{folder} holds an authority of another deployment")
        known, number = read_members(folder), number_of_keys(folder)
    else:
        write_deployment(path, deployment)
    new = number == 0 or _current_id(folder) != describe_key(public).owner
    if new and number and rotation is None:
        raise Refused(f"{folder} holds an authority with other keys")
    make_private_folder(folder / USERS)
    for member in authority.members:
        if not public_path(folder, member.id).exists():
            write_public(public_path(folder, member.id), member.public_key)
    write_members(folder, _records(authority.members, known=known))
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


def _current_id(folder: Path) -> bytes:
    return id_of_file(collective_key_path(folder))


def _is_enrolled(authority: Authority, name: str, public_key: bytes) -> bool:
    """Whether the user of that name is enrolled with this very key."""
    kept = next((each for each in authority.members if each.name == name), None)
    if kept is None or kept.revoked:
        return False
    return describe_key(public_key).owner == kept.id


def _finish(folder: Path, *, allow_insecure: bool) -> Deployment:
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


def _records(members: Sequence[Member], *, known: Sequence[Record]) -> list[Record]:
    """What to write of the members, with the times that are known."""
    before = {(each.name, each.id): each for each in known}
    records, today = [], now()
    for member in members:
        old = before.get((member.name, member.id))
        again = old is not None and old.revoked and not member.revoked
        enrolled = today if old is None or again else old.enrolled_at
        revoked = (old and old.revoked_at) or today if member.revoked else None
        records.append(
            Record(name=member.name, id=member.id, enrolled_at=enrolled, revoked_at=revoked)
        )
    return records


def _purpose(deployment: Deployment) -> str:
    return f"collective secret key, {deployment.fingerprint}"
