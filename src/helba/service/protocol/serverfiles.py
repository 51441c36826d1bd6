"""A server's folder: all that it needs to start, and what it was told since.

    deployment.json  public.key  evaluation.key
    users/<id>.enrolment    a user's public key, and the re-encryption key to it
    users/<id>.inward       where data arrives switched: the user's key to the collective one
    users/<id>.token        the hash of the token by which the user is known (`tokens`)
    users/<id>.revoked      empty: this key was enrolled once, and is refused whatever else is there
    authority.sha256        the hash of the authority's token
    ledger.json             the bits that came back, by key
    rotation.key            a rotation that the server has not taken yet
    previous.key            the public key before that, under which a saved state may still be

No secret key is among them. Enrolments, inward keys and rotations hold re-encryption keys, which
are secrets of the server: only its owner can read them, and the folder is private as a whole.

Every file appears whole or not at all; files that must change together do so one after the other. A
server that finds a mixture does not start, and says why; writing the files again mends it. Files in
users/ whose name is no id are nobody's, and are left alone.

Goes with the old service.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from helba.errors import DamagedData, RunFailed
from helba.reference.engine import Engine, get_scheme
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.enrolment import Enrolment, Rotation, name_key
from helba.reference.protocol.serving.directory import Directory
from helba.reference.protocol.serving.ledger import Ledger
from helba.reference.protocol.serving.server import Server
from helba.reference.protocol.wire.messages import ID_BYTES
from helba.service.protocol.files import (
    DEPLOYMENT,
    EVALUATION_KEY,
    PUBLIC_KEY,
    ROTATION,
    USERS,
    delete_file,
    naming,
    read_deployment,
    read_json,
    read_public,
    write_deployment,
)
from helba.service.protocol.keyinfo import describe_key
from helba.service.protocol.snapshot import restore_server
from helba.service.protocol.tokens import TOKEN, drop_token_hash
from helba.service.protocol.vault import (
    make_private_folder,
    read_private,
    write_private,
    write_public,
)

LEDGER, PREVIOUS = "ledger.json", "previous.key"
ENROLMENT, INWARD, REVOKED = ".enrolment", ".inward", ".revoked"
NAME = re.compile(f"[0-9a-f]{{{2 * ID_BYTES}}}")
MOST_BITS = 1 << 62


# -- single files


def enrolment_path(folder: Path, user: bytes) -> Path:
    """Return where a server's folder has the enrolment of a user."""
    return folder / USERS / f"{user.hex()}{ENROLMENT}"


def inward_path(folder: Path, user: bytes) -> Path:
    """Return where a server's folder has the key that switches what a user sends."""
    return folder / USERS / f"{user.hex()}{INWARD}"


# -- what the authority writes


def write_server_files(authority: Authority, folder: Path) -> None:
    """Write all that a server needs into `folder`; what is there already and fits stays.

    A new enrolment is made only for users whose file is missing, damaged, leads from another
    collective key, or lies beside a mark that says revoked. Keys and tokens of users who are no
    longer enrolled are deleted.
    """
    make_private_folder(folder)
    make_private_folder(folder / USERS)
    deployment = authority.deployment
    write_deployment(folder / DEPLOYMENT, deployment)
    public = authority.public_key_bytes()
    key = describe_key(public).owner
    if not _is_key_of(folder / EVALUATION_KEY, key):
        write_public(folder / EVALUATION_KEY, authority.evaluation_key_bytes())
    write_public(folder / PUBLIC_KEY, public)
    members = () if deployment.keys == "shared" else authority.members
    enrolled = {each.id for each in members if not each.revoked}
    drop_users(folder, but=enrolled)
    drop_stale_users(folder, deployment=deployment, key=key)
    for user in enrolled:
        path = enrolment_path(folder, user)
        if not path.exists() or path.with_suffix(REVOKED).exists():
            write_enrolment(folder, user, authority.enrolment_of(user))


def write_rotated_files(rotation: bytes, folder: Path, *, deployment: Deployment) -> None:
    """Write the keys that a rotation brings; those of the old collective key are deleted.

    Users whom it enrols keep their tokens.
    """
    given = Rotation.from_bytes(rotation, deployment=deployment)
    key = describe_key(given.public_key).owner
    make_private_folder(folder)
    make_private_folder(folder / USERS)
    drop_stale_users(folder, deployment=deployment, key=key)
    for data in given.enrolments:
        user = Enrolment.from_bytes(data, deployment=deployment).user
        write_enrolment(folder, user, data)
    for user, path in _user_files(folder, TOKEN):
        if not path.with_suffix(ENROLMENT).exists():
            drop_token_hash(folder, user)
    old = folder / PUBLIC_KEY
    if old.exists() and describe_key(read_public(old)).owner != key:
        write_public(folder / PREVIOUS, read_public(old))
    write_deployment(folder / DEPLOYMENT, deployment)
    write_public(folder / EVALUATION_KEY, given.evaluation_key)
    write_public(folder / PUBLIC_KEY, given.public_key)


def write_enrolment(folder: Path, user: bytes, data: bytes) -> None:
    """Write a user's enrolment; until it is there, one who was revoked stays so."""
    path = enrolment_path(folder, user)
    write_private(path, data)
    delete_file(path.with_suffix(REVOKED))


def drop_rotation(folder: Path) -> None:
    """Delete a rotation that was taken, and the public key before it."""
    delete_file(folder / ROTATION)
    delete_file(folder / PREVIOUS)


def drop_users(folder: Path, *, but: Collection[bytes]) -> None:
    """Delete the keys of all users who are not among `but`, as for `drop_user`."""
    for user in {user for user, _ in _user_files(folder, ENROLMENT, INWARD, TOKEN)} - set(but):
        drop_user(folder, user)


def drop_user(folder: Path, user: bytes) -> None:
    """Delete a user's keys and its token, and remember that it was revoked."""
    write_private(enrolment_path(folder, user).with_suffix(REVOKED), b"")
    drop_token_hash(folder, user)
    delete_file(inward_path(folder, user))
    delete_file(enrolment_path(folder, user))


def drop_stale_users(folder: Path, *, deployment: Deployment, key: bytes) -> None:
    """Delete users' keys that do not come from, or lead to, the collective key of that id.

    Tokens stay: who is enrolled again under the new key keeps its own.
    """
    for _, path in _user_files(folder, ENROLMENT, INWARD):
        try:
            data = read_private(path)
            if path.suffix == INWARD:
                found = describe_key(data).leads_to
            else:
                outward = Enrolment.from_bytes(data, deployment=deployment).outward_key
                found = describe_key(outward).owner
        except DamagedData:
            found = None
        if found != key:
            delete_file(path)


def list_users(folder: Path) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Return the ids of those who are enrolled, and of those who were revoked."""
    revoked = [user for user, _ in _user_files(folder, REVOKED)]
    enrolled = [user for user, _ in _user_files(folder, ENROLMENT) if user not in revoked]
    return tuple(enrolled), tuple(revoked)


def _user_files(folder: Path, *endings: str) -> list[tuple[bytes, Path]]:
    """Users' files, each with the id in its name, in the order of the endings."""
    users = folder / USERS
    paths = [path for ending in endings for path in sorted(users.glob(f"*{ending}"))]
    return [(bytes.fromhex(path.stem), path) for path in paths if NAME.fullmatch(path.stem)]


def _is_key_of(path: Path, key: bytes) -> bool:
    with suppress(RunFailed, DamagedData):
        return describe_key(read_public(path)).owner == key
    return False


# -- what the server reads, and counts


def open_server(
    folder: Path,
    *,
    allow_insecure: bool = False,
    state: bytes | None = None,
    lasting: bool = False,
) -> Server:
    """Return the server of the files in `folder`, from `state` if that is given.

    It counts on from ledger.json, or from the `state` if that counted more. A state from before a
    rotation that waits in the folder is brought under the new key, without what was under way, and
    the rotation is deleted. With `lasting`, the folder stays for as long as the server lives: keys
    of users are read from it when they are needed, and the rotation is the caller's to delete.
    """
    deployment = read_deployment(folder / DEPLOYMENT, allow_insecure=allow_insecure)
    scheme = get_scheme(deployment.scheme)
    options: dict[str, Any] = {
        "parameters": deployment.parameters,
        "allow_insecure": allow_insecure,
    }
    with naming(folder / PUBLIC_KEY):
        public = scheme.public_key_from_bytes(read_public(folder / PUBLIC_KEY), **options)
    with naming(folder / EVALUATION_KEY):
        evaluation = scheme.evaluation_key_from_bytes(
            read_public(folder / EVALUATION_KEY),
            rotations=deployment.rotations,
            bootstrap_slots=deployment.bootstrap_slots,
            **options,
        )
    engine = scheme.engine(public, evaluation_key=evaluation)
    directory = Directory(deployment, scheme=scheme, engine=engine)
    revoked = {user for user, _ in _user_files(folder, REVOKED)}
    for user, _ in _user_files(folder, ENROLMENT):
        if user not in revoked:
            admit_user(directory, user, folder, key=name_key(public))
            if not lasting:
                directory.hold(user)
    directory.bar(revoked)
    if state is None:
        server = Server(deployment, engine=engine, directory=directory)
    elif (folder / ROTATION).exists() and (folder / PREVIOUS).exists():
        server = _restore_rotated(state, folder, engine=engine, directory=directory)
        if not lasting:
            drop_rotation(folder)
    else:
        server = restore_server(state, deployment=deployment, engine=engine, directory=directory)
    budget = server.ledger.budget
    if (folder / LEDGER).exists():
        server.ledger.include(read_ledger(folder / LEDGER, key=name_key(public), budget=budget))
    return server


def admit_user(directory: Directory, user: bytes, folder: Path, *, key: bytes) -> None:
    """Let a server serve the user whose files are in its folder; `key` is the collective one's id.

    The files say that they are whole and lead from that key to the user, or `DamagedData` names
    the one that does not. They are read again whenever they are needed.
    """
    deployment, path, inward = (
        directory.deployment,
        enrolment_path(folder, user),
        inward_path(folder, user),
    )

    def read() -> Enrolment:
        with naming(path):
            return Enrolment.from_bytes(read_private(path), deployment=deployment)

    given = read()
    with naming(path):
        if given.user != user or describe_key(given.public_key).owner != user:
            raise DamagedData("the enrolment names another public key")
        _require_way(given.outward_key, start=key, end=user)
    if inward.exists():
        with naming(inward):
            _require_way(read_private(inward), start=user, end=key)
    directory.admit(
        user,
        enrolment=read,
        inward_key=(lambda: read_private(inward)) if inward.exists() else None,
    )


def _require_way(data: bytes, *, start: bytes, end: bytes) -> None:
    way = describe_key(data)
    if (way.owner, way.leads_to) != (start, end):
        raise DamagedData("the re-encryption key leads from or to another key")


def _restore_rotated(state: bytes, folder: Path, *, engine: Engine, directory: Directory) -> Server:
    """The server of a state that was saved before the last rotation, or after it."""
    deployment, scheme = directory.deployment, get_scheme(directory.deployment.scheme)
    with suppress(DamagedData):
        return restore_server(state, deployment=deployment, engine=engine, directory=directory)
    parameters = deployment.parameters
    old = scheme.public_key_from_bytes(read_public(folder / PREVIOUS), parameters=parameters)
    before = scheme.engine(old)
    server = restore_server(
        state,
        deployment=deployment,
        engine=before,
        directory=Directory(deployment, scheme=scheme, engine=before),
        resume=False,
    )
    rotation = Rotation.from_bytes(read_private(folder / ROTATION), deployment=deployment)
    key = scheme.reencryption_key_from_bytes(rotation.switching_key, parameters=parameters)
    server.move(engine=engine, directory=directory, key=key)
    return server


def write_ledger(server: Server, folder: Path) -> None:
    """Write the bits that were counted, and under which collective key."""
    ledger = server.ledger
    text = {
        "key": name_key(server._engine.public_key).hex(),
        "total": ledger.total,
        "budget": ledger.budget,
        "bits": {user.hex(): bits for user, bits in ledger.as_dict().items()},
    }
    write_public(folder / LEDGER, json.dumps(text, indent=1).encode())


def read_ledger(path: Path, *, key: bytes, budget: int) -> Ledger:
    """Return the counts in a ledger.json; the total is 0 if it is of another collective key."""
    data = read_json(path, read_public(path))
    try:
        bits = {bytes.fromhex(user): _count(bits) for user, bits in data["bits"].items()}
        total = _count(data["total"]) if data["key"] == key.hex() else 0
        if any(len(user) != ID_BYTES for user in bits):
            raise ValueError("not an id")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DamagedData(f"{path}: this is no ledger; without it, counting starts at 0") from None
    return Ledger(budget=budget, bits=bits, total=total)


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MOST_BITS:
        raise ValueError("not a count")
    return value
