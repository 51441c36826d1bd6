"""A tenant as one file: the server's folder, and what its store has of it.

    export_tenant(folder, file=file, url=url, name="main")
    import_tenant(file, folder=other_folder, url=other_url, name="main")

The members of the file (see `bundle`) are

    folder/...              files of the server's folder: none that is hidden, no lock, no store
    parts/<digest>          the parts of the last checkpoint
    rows/<table>/<number>   rows, as lines of JSON

A server may run while its tenant is exported: the rows are those of one moment, and the files did
not change from before it until the end. The folder holds secrets of the server, the re-encryption
keys: so does the file, which is for its owner only. Only one server must go on from it.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from helba.errors import DamagedData, InvalidInput, Refused, RunFailed
from helba.service.protocol.files import DEPLOYMENT, read_deployment
from helba.service.protocol.serverfiles import LEDGER
from helba.service.protocol.vault import make_private_folder
from helba.service.store.bundle import BundleReader, BundleWriter, MemberFile, is_sound
from helba.service.store.commit import DIGEST_BYTES, add_rows
from helba.service.store.migration import latest_version
from helba.service.store.record import require_name
from helba.service.store.row import TABLES, pack_rows, unpack_rows
from helba.service.store.store import Store
from helba.service.store.table import checkpoint, part, round_, tenant

STORE = "store.sqlite3"
LOCK = ".lock"  # says which process is at work here, and is nothing elsewhere
FORMAT, VERSION = "helba tenant", 1
ATTEMPTS = 3
MOST_BYTES = 1 << 30
BLOCK = 1 << 20


def default_url(folder: Path) -> str:
    """Return the store that a server's folder has unless told otherwise."""
    return f"sqlite:///{(folder / STORE).absolute()}"


# -- export


def export_tenant(
    folder: Path, *, file: Path, url: str | None = None, name: str = "main"
) -> dict[str, Any]:
    """Write a tenant into a file, and return what was written.

    The file appears whole or not at all, in place of one that is there. `RunFailed` if there is no
    such tenant, or the folder keeps changing; `Refused` if folder and store do not belong together.
    """
    if folder.resolve() in file.resolve().parents:
        raise InvalidInput("FILE", file, f"outside of {folder}")
    fingerprint = read_deployment(folder / DEPLOYMENT, allow_insecure=True).fingerprint
    with Store(url or default_url(folder), create=False) as store:
        found = store.tenants().get(name)
        if found is None:
            raise RunFailed(f"the store at {store.place} has no tenant {name!r}")
        if found != fingerprint:
            raise Refused(f"tenant {name!r} of the store is of another deployment than {folder}")
        facts = {"format": FORMAT, "version": VERSION, "tables": latest_version()}
        facts |= {"name": name, "fingerprint": fingerprint}
        for _ in range(ATTEMPTS):
            try:
                counts = _write_once(file, folder=folder, store=store, facts=facts)
            except OSError as error:
                raise RunFailed(f"cannot write {file}: {error.strerror or error}") from None
            if counts is not None:
                return facts | {"store": store.place} | counts
    raise RunFailed(f"{folder} changes all the time: try again")


def _write_once(
    file: Path, *, folder: Path, store: Store, facts: dict[str, Any]
) -> dict[str, int] | None:
    """Write the file, and return what is in it; None if the folder changed meanwhile."""
    before = _list_files(folder, store=store)
    with BundleWriter(file) as bundle:
        rounds = _write_rows(bundle, store=store, name=facts["name"])
        if not _write_files(bundle, folder, names=before):
            return None
        if _without_ledger(_list_files(folder, store=store)) != _without_ledger(before):
            return None
        bundle.finish(facts)
    return {"files": len(before), "rounds": rounds}


def _list_files(folder: Path, *, store: Store) -> dict[str, tuple[int, int, int]]:
    """The files of a folder, each with what tells that it was replaced."""
    hidden = {folder / (STORE + end) for end in ("", "-wal", "-shm", "-journal")}
    if store.file is not None:
        hidden |= {Path(str(store.file) + end) for end in ("", "-wal", "-shm", "-journal")}
    hidden = {path.absolute() for path in hidden}
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if is_sound(name) and path.suffix != LOCK and path.absolute() not in hidden:
            with suppress(FileNotFoundError):
                if path.is_file():
                    state = path.stat()
                    found[name] = (state.st_size, state.st_mtime_ns, state.st_ino)
    return found


def _without_ledger(files: dict[str, tuple[int, int, int]]) -> dict[str, tuple[int, int, int]]:
    """All but the count of bits: a server rewrites it at every turn, and the store has it, too."""
    return {name: state for name, state in files.items() if name != LEDGER}


def _write_rows(bundle: BundleWriter, *, store: Store, name: str) -> int:
    """Add parts and rows, as they are at one moment; how many rounds that were."""
    rounds = 0
    with store.read() as connection:
        mine = part.c.tenant == name
        for digest in list(connection.scalars(select(part.c.digest).where(mine))):
            data = connection.scalar(select(part.c.data).where(mine, part.c.digest == digest))
            bundle.add(f"parts/{digest.hex()}", bytes(data or b""))
        for table in TABLES.values():
            for number, lines in enumerate(pack_rows(connection, table, tenant=name)):
                bundle.add(f"rows/{table.name}/{number}", lines)
                if table is round_:
                    rounds += lines.count(b"\n")
    return rounds


def _write_files(
    bundle: BundleWriter, folder: Path, *, names: dict[str, tuple[int, int, int]]
) -> bool:
    """Add the files; False if one of them is no longer there, or not as long."""
    for name, (size, _, _) in names.items():
        try:
            opened = (folder / name).open("rb")
        except FileNotFoundError:
            return False
        with opened as file:
            found = os.fstat(file.fileno()).st_size
            if found != size and name != LEDGER:
                return False
            bundle.add_file(f"folder/{name}", file, size=found)
    return True


# -- import


def import_tenant(
    file: Path, *, folder: Path, url: str | None = None, name: str | None = None
) -> dict[str, Any]:
    """Make a folder and a tenant from a file, and return what was made.

    The folder must be new or empty, and the store without a tenant of that name, which is that of
    the file unless told. What fails leaves nothing behind; what is killed leaves a folder to
    delete. `DamagedData` if the file is damaged, `Refused` if it is of another version of helba.
    """
    with BundleReader(file) as bundle:
        facts = bundle.facts
        if facts.get("format") != FORMAT:
            raise DamagedData(f"{file} is no archive of a tenant")
        if (facts.get("version"), facts.get("tables")) != (VERSION, latest_version()):
            raise Refused(f"{file} was written by another version of helba")
        chosen, fingerprint = name or str(facts.get("name")), str(facts.get("fingerprint"))
        require_name(chosen)
        with _new_folder(folder), Store(url or default_url(folder)) as store:
            staging = folder / f".{secrets.token_hex(8)}.tmp"
            make_private_folder(staging)
            with store.write() as connection:
                if connection.scalar(select(tenant.c.name).where(tenant.c.name == chosen)):
                    raise Refused(f"the store at {store.place} has a tenant {chosen!r} already")
                row = {"name": chosen, "fingerprint": fingerprint}
                connection.execute(tenant.insert().values(**row))
                counts = _read_members(bundle, connection, name=chosen, staging=staging)
                _check_parts(connection, chosen)
                found = read_deployment(staging / DEPLOYMENT, allow_insecure=True).fingerprint
                if found != fingerprint:
                    raise DamagedData(f"{file} is of another deployment than it says")
                _move_files(staging, folder)
            place = store.place
    return facts | {"name": chosen, "store": place} | counts


@contextmanager
def _new_folder(folder: Path) -> Iterator[None]:
    """A private folder that is empty, and is so again, or gone, if what is done in it fails."""
    made = not folder.exists()
    make_private_folder(folder)
    if any(folder.iterdir()):
        raise Refused(f"{folder} is not empty")
    try:
        yield
    except BaseException as error:
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        if made:
            folder.rmdir()
        if isinstance(error, OSError):
            raise RunFailed(f"cannot write into {folder}: {error.strerror}") from None
        raise


def _read_members(
    bundle: BundleReader, connection: Connection, *, name: str, staging: Path
) -> dict[str, int]:
    """Put files into `staging` and rows into the store; how many there were."""
    counts = {"files": 0, "rounds": 0}
    for member, file in bundle.members():
        kind, _, rest = member.partition("/")
        table = TABLES.get(rest.partition("/")[0])
        if kind == "folder" and rest and not rest.startswith(STORE):
            _write_file(staging / rest, file)
            counts["files"] += 1
        elif kind == "parts" and file.left <= MOST_BYTES:
            data = file.read()
            if file.digest() != rest:
                raise DamagedData("the archive has a part of another digest")
            row = {"tenant": name, "digest": bytes.fromhex(rest), "data": data}
            add_rows(connection, part, [row])
        elif kind == "rows" and table is not None and file.left <= MOST_BYTES:
            rows = unpack_rows(file.read(), table=table, tenant=name)
            add_rows(connection, table, rows)
            counts["rounds"] += len(rows) if table is round_ else 0
        else:
            raise DamagedData("the archive has a member that is none of a tenant")
    return counts


def _write_file(path: Path, file: MemberFile) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with open(handle, "wb") as out:
        shutil.copyfileobj(file, out, BLOCK)
        out.flush()
        os.fsync(handle)


def _check_parts(connection: Connection, name: str) -> None:
    """Refuse a checkpoint that lacks a part, and parts of none."""
    chosen = select(checkpoint.c.digests).where(checkpoint.c.tenant == name)
    listed = connection.scalar(chosen) or b""
    wanted = {listed[i : i + DIGEST_BYTES] for i in range(0, len(listed), DIGEST_BYTES)}
    if wanted != set(connection.scalars(select(part.c.digest).where(part.c.tenant == name))):
        raise DamagedData("the archive lacks parts of its state, or has others")


def _move_files(staging: Path, folder: Path) -> None:
    """Move all from `staging` up into the folder; without the deployment, no server starts."""
    for path in sorted(staging.iterdir(), key=lambda each: each.name == DEPLOYMENT):
        if (folder / path.name).exists():
            raise DamagedData("the archive has a file in the place of the store")
        path.rename(folder / path.name)
    staging.rmdir()
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
