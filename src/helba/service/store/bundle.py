"""A file of named members, each with its digest: it is whole, or it is none.

The file is a tar. Its last member, manifest.json, says what the others are: name, length and
SHA-256 of each, in their order. A file that was cut off has none.

    with BundleWriter(path) as bundle:          with BundleReader(path) as bundle:
        bundle.add("a", data)                       bundle.facts["kind"]
        bundle.add_file("b", open_file)             for name, file in bundle.members(): ...
        bundle.finish({"kind": "example"})

It appears under its name when it is finished, readable by its owner only. What is read may come
from anywhere: each member is a plain file with a sound name, each is as long as announced before
it is read, and reading it to its end checks the digest. Anything else is `DamagedData`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from helba.errors import DamagedData, RunFailed

MANIFEST = "manifest.json"
MOST_MANIFEST_BYTES = 1 << 28
MOST_NAME, MOST_PARTS = 255, 8
BLOCK = 1 << 20
# Neither links nor devices, nor files with holes, which are longer than the archive.
PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)


def is_sound(name: str) -> bool:
    """Whether a name stays below the folder it is used in, and is no hidden file's."""
    parts = name.split("/")
    return len(parts) <= MOST_PARTS and all(
        part and not part.startswith(".") and "\0" not in part and len(part) <= MOST_NAME
        for part in parts
    )


class BundleWriter:
    """A bundle that is being written beside its place; it gets its name in `finish`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._aside = path.parent / f".{secrets.token_hex(8)}.tmp"
        self._members: list[dict[str, Any]] = []
        handle = os.open(self._aside, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        self._file = open(handle, "wb")  # noqa: SIM115 - closed in __exit__
        self._tar = tarfile.TarFile(
            fileobj=self._file, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8"
        )

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        with suppress(OSError):
            self._aside.unlink()  # not there if it was finished

    def add(self, name: str, data: bytes) -> None:
        """Add a member of these bytes."""
        self.add_file(name, io.BytesIO(data), size=len(data))

    def add_file(self, name: str, file: IO[bytes], *, size: int) -> None:
        """Add a member of the next `size` bytes of a file; OSError if it has fewer."""
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, 0o600
        reading = MemberFile(file, size=size)
        self._tar.addfile(info, reading)
        self._members.append({"name": name, "bytes": size, "sha256": reading.digest()})

    def finish(self, facts: dict[str, Any]) -> None:
        """Add the manifest with these facts, and put the file into its place."""
        manifest = json.dumps(facts | {"members": self._members}, indent=1).encode("ascii")
        info = tarfile.TarInfo(MANIFEST)
        info.size, info.mode = len(manifest), 0o600
        self._tar.addfile(info, io.BytesIO(manifest))
        self._tar.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        os.replace(self._aside, self._path)
        handle = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class MemberFile:
    """The next `size` bytes of a file, and the digest of what was read of them."""

    def __init__(self, file: IO[bytes], *, size: int) -> None:
        self._file = file
        self.left = size
        self._hash = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes; nothing at the end."""
        try:
            data = self._file.read(self.left if size < 0 else min(size, self.left))
        except tarfile.TarError:  # the file ends before its time: some are left
            data = b""
        self.left -= len(data)
        self._hash.update(data)
        return data

    def digest(self) -> str:
        """Return the SHA-256 of what was read."""
        return self._hash.hexdigest()


class BundleReader:
    """A bundle, with the `facts` of its manifest; `DamagedData` if the file is no whole one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._tar = tarfile.open(path, mode="r:", errorlevel=2)  # noqa: SIM115
        except tarfile.TarError:
            raise DamagedData(f"{path} is no archive of helba, or it is damaged") from None
        except OSError as error:
            raise RunFailed(f"cannot read {path}: {error.strerror}") from None
        try:
            self.facts, self._announced = self._read_manifest()
        except BaseException:
            self._tar.close()
            raise

    def __enter__(self) -> BundleReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._tar.close()

    def members(self) -> Iterator[tuple[str, MemberFile]]:
        """Yield each member but the manifest; what is not read of one is read before the next."""
        for info in self._infos[:-1]:
            size, digest = self._announced[info.name]
            file = self._tar.extractfile(info)
            if file is None:
                raise self._damaged()
            member = MemberFile(file, size=size)
            yield info.name, member
            while member.read(BLOCK):
                pass
            if member.left or member.digest() != digest:
                raise self._damaged()

    def _read_manifest(self) -> tuple[dict[str, Any], dict[str, tuple[int, str]]]:
        try:
            self._infos = self._tar.getmembers()
            last = self._infos[-1]
            if last.name != MANIFEST or not _is_plain(last) or last.size > MOST_MANIFEST_BYTES:
                raise ValueError("no manifest")
            file = self._tar.extractfile(last)
            facts = json.loads(b"" if file is None else file.read())
            listed = facts.pop("members")
            announced = {each["name"]: (each["bytes"], each["sha256"]) for each in listed}
            found = {info.name: info.size for info in self._infos[:-1]}
            sound = (
                all(_is_plain(info) and is_sound(info.name) for info in self._infos[:-1])
                and len(found) == len(self._infos) - 1 == len(listed)
                and {name: size for name, (size, _) in announced.items()} == found
            )
        except (tarfile.TarError, OSError, ValueError, KeyError, TypeError, AttributeError,
                IndexError, RecursionError):  # fmt: skip
            sound = False
        if not sound:
            raise self._damaged()
        return facts, announced

    def _damaged(self) -> DamagedData:
        return DamagedData(f"{self._path} is no archive of helba, or it is damaged")


def _is_plain(info: tarfile.TarInfo) -> bool:
    return info.type in PLAIN and info.sparse is None
