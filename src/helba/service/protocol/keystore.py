"""The authority on disk. What users keep is in `userstore`.

    deployment.json         what all parties agree on
    current.json            which generation of keys counts
    keys-<n>/               public.key  evaluation.key  secret.key (under the passphrase)
    members.json            names, ids, and when they were enrolled or revoked
    users/<id>.public       the public keys of those who are enrolled
    invitations.json        who may enrol itself over HTTP (`service.authority`)
    server.token            by which the server knows the authority
    server/                 the server's folder (`serverfiles`)

*Whatever breaks off, what is left opens.* Every file appears whole or not at all. New collective
keys go to a folder of their own, keys-<n+1>; one replacement of current.json makes them count, and
only then the old ones are deleted. With them lies, until it has reached the server's folder, the
rotation that leads the server from the old keys: no secret that is still needed is ever in memory
only. Who opens the folder next, or revokes, finishes what was begun. Users' public keys are written
before members.json names them.

The folder is private, and one command at a time works on it. Deleted keys are unlinked: what the
medium keeps of them is beyond this program. `allow_insecure` is for tests.

Goes with the old service.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from helba.errors import Refused
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.deployment import Deployment
from helba.service.protocol.authorityfiles import (
    SERVER,
    SERVER_TOKEN,
    Record,
    collective_key_path,
    delete_rest,
    ensure_server_token,
    find_member,
    locked,
    now,
    read_members,
    require_free,
    write_members,
)
from helba.service.protocol.authoritystate import (
    collective_id,
    finish_work,
    read_authority,
    work_on,
    write_authority,
    write_members_of,
)
from helba.service.protocol.files import DEPLOYMENT, PUBLIC_KEY, ROTATION, USERS, read_deployment
from helba.service.protocol.invitation import drop_invitation
from helba.service.protocol.keyinfo import describe_key, id_of_file
from helba.service.protocol.serverfiles import (
    REVOKED,
    enrolment_path,
    write_enrolment,
    write_server_files,
)
from helba.service.protocol.vault import make_private_folder

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
        write_authority(authority, folder, passphrase=passphrase)
        return authority


def open_authority(folder: Path, *, passphrase: str, allow_insecure: bool = False) -> Authority:
    """Return the authority in `folder`, with all its keys."""
    with work_on(folder, allow_insecure=allow_insecure):
        return read_authority(folder, passphrase=passphrase, allow_insecure=allow_insecure)


def save_authority(authority: Authority, folder: Path, *, passphrase: str) -> None:
    """Keep an authority: its members, and its keys in a folder that has none.

    `Refused` if the folder has others: the old ones would be lost, and the server's way from them.
    """
    make_private_folder(folder)
    with locked(folder):
        write_authority(authority, folder, passphrase=passphrase)


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
    with work_on(folder, allow_insecure=allow_insecure):
        waiting = folder / SERVER / ROTATION
        if waiting.exists():
            raise Refused(
                f"the collective key was rotated, and is {collective_id(folder).hex()} now, but "
                f"{waiting} has not been taken by the server: let it rotate first, or delete the "
                "file if there is no server that runs or has a state"
            )
        authority = read_authority(folder, passphrase=passphrase, allow_insecure=allow_insecure)
        enrolled = sum(not member.revoked for member in authority.members)
        say(f"making new collective keys, and enrolments of {enrolled} users")
        rotation = authority.rotate()
        write_authority(authority, folder, passphrase=passphrase, rotation=rotation)
        finish_work(folder, allow_insecure=allow_insecure)
        return authority


def write_server_folder(
    folder: Path, *, passphrase: str, out: Path | None = None, allow_insecure: bool = False
) -> Path:
    """Write the server's folder again, or another one, and return where; what fits there stays.

    In `out` a rotation that waits is not written, so a folder there must be new or of this key. A
    server there will know the authority by its token, which is made if there is none; it learns the
    users' tokens from the authority (`helba authority`).
    """
    with work_on(folder, allow_insecure=allow_insecure) as deployment:
        server = folder / SERVER if out is None else out
        if out is not None:
            require_free(out)
            known = out / PUBLIC_KEY
            if known.exists() and id_of_file(known) != collective_id(folder):
                raise Refused(f"{out} is of another collective key: name a new folder")
            path = out / DEPLOYMENT
            if path.exists() and read_deployment(path, allow_insecure=True) != deployment:
                raise Refused(f"{out} is of another deployment: name a new folder")
        authority = read_authority(folder, passphrase=passphrase, allow_insecure=allow_insecure)
        write_server_files(authority, server)
        if out is not None or (folder / SERVER_TOKEN).exists():
            ensure_server_token(folder, server=server)
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
    with work_on(folder, allow_insecure=allow_insecure):
        say("opening the collective keys, to make a re-encryption key")
        authority = read_authority(folder, passphrase=passphrase, allow_insecure=allow_insecure)
        record = take_in(authority, folder, name, public_key=public_key, replace=replace)
        say("writing the server's folder")
        write_server_files(authority, folder / SERVER)
        return record


def take_in(
    authority: Authority, folder: Path, name: str, *, public_key: bytes, replace: bool = False
) -> Record:
    """Enrol a user with an authority that is open; the caller works on its folder (`work_on`).

    The members are written before the enrolment for the server; done again with the same key, this
    writes what is missing. If it fails, the authority may know more than its folder.
    """
    if not _is_enrolled(authority, name, public_key):
        enrolment = authority.enrol(public_key, name=name, replace=replace)
        write_members_of(authority, folder, known=read_members(folder))
        delete_rest(folder)
    else:
        path = enrolment_path(folder / SERVER, authority.member(name).id)
        if path.exists() and not path.with_suffix(REVOKED).exists():
            return find_member(read_members(folder), name)
        enrolment = authority.enrolment_of(authority.member(name).id)
    make_private_folder(folder / SERVER)
    make_private_folder(folder / SERVER / USERS)
    write_enrolment(folder / SERVER, authority.member(name).id, enrolment)
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
    still re-encrypt to the user, until the collective key is rotated. An invitation that the user
    has is void.
    """
    with work_on(folder, allow_insecure=allow_insecure) as deployment:
        if deployment.keys == "shared":
            raise Refused("in this deployment all users share one key: nobody can be revoked")
        records = read_members(folder)
        known = find_member(records, name)
        if known.revoked:
            raise Refused(f"{name} is revoked already")
        gone = Record(name=name, id=known.id, enrolled_at=known.enrolled_at, revoked_at=now())
        drop_invitation(folder, name)
        write_members(folder, [gone if each is known else each for each in records])
        finish_work(folder, allow_insecure=allow_insecure)
        return gone


# -- parts


def _is_enrolled(authority: Authority, name: str, public_key: bytes) -> bool:
    """Whether the user of that name is enrolled with this very key."""
    kept = next((each for each in authority.members if each.name == name), None)
    if kept is None or kept.revoked:
        return False
    return describe_key(public_key).owner == kept.id
