"""Archives that were changed, cut off or never were any: nothing of them is left behind."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helba.errors import DamagedData, HelbaError, Refused, RunFailed
from helba.service.store import Store, archive
from helba.service.store.archive import default_url, export_tenant, import_tenant
from tests.service.databases import fresh_database
from tests.service.store.contents import rows_at, rows_of


def repack(
    file: Path,
    *,
    change: Callable[[str, bytes], bytes | None] = lambda _, data: data,
    facts: dict[str, Any] | None = None,
    more: list[tuple[tarfile.TarInfo, bytes]] | None = None,
    honest: bool = True,
) -> None:
    """Change the members of an archive; an honest manifest says what they are then."""
    with tarfile.open(file) as tar:
        found = [(m.name, tar.extractfile(m).read()) for m in tar]  # type: ignore[union-attr]
    manifest = json.loads(found.pop()[1]) | (facts or {})
    members = []
    for name, data in found:
        changed = change(name, data)
        if changed is not None:
            info = tarfile.TarInfo(name)
            info.size = len(changed)
            members.append((info, changed))
    members += more or []
    if honest:
        manifest["members"] = [
            {"name": i.name, "bytes": i.size, "sha256": hashlib.sha256(data).hexdigest()}
            for i, data in members
        ]
    text = json.dumps(manifest).encode()
    last = tarfile.TarInfo("manifest.json")
    last.size = len(text)
    with tarfile.open(file, "w") as tar:
        for info, data in [*members, (last, text)]:
            tar.addfile(info, io.BytesIO(data))


def plain(name: str, data: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    return info, data


def link(name: str, kind: bytes) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    return info, b""


def require_refused(file: Path, tmp_path: Path, *, match: str, kind: type[HelbaError]) -> None:
    """Neither in a new folder, nor in an empty one, nor in a store, is anything left behind."""
    new, empty = tmp_path / "new", tmp_path / "empty"
    empty.mkdir(mode=0o700)
    with fresh_database() as url:
        for folder, store in ((new, None), (empty, None), (new, url), (empty, url)):
            with pytest.raises(kind, match=match):
                import_tenant(file, folder=folder, url=store)
            assert not new.exists()
            assert list(empty.iterdir()) == []
        with Store(url) as opened:
            assert not any(rows_of(opened).values())


DAMAGED = r"no archive of (helba|a tenant)|the archive (has|lacks)|another deployment than it says"
ROW = b'{"number":1,"at":0,"samples":1}\n'
CHANGES: dict[str, dict[str, Any]] = {
    "path up": {"more": [plain("folder/../../evil")]},
    "absolute path": {"more": [plain("/tmp/evil")]},
    "hidden file": {"more": [plain("folder/.evil")]},
    "store": {"more": [plain("folder/store.sqlite3")]},
    "link": {"more": [link("folder/evil", tarfile.SYMTYPE)]},
    "hard link": {"more": [link("folder/evil", tarfile.LNKTYPE)]},
    "device": {"more": [link("folder/evil", tarfile.CHRTYPE)]},
    "other kind": {"more": [plain("evil/x")]},
    "other table": {"more": [plain("rows/helba_tenant/0", b"{}\n")]},
    "other columns": {"more": [plain("rows/helba_update/9", b'{"x":1}\n')]},
    "bad number": {"more": [plain("rows/helba_update/9", ROW.replace(b"1,", b"1e400,", 1))]},
    "large number": {"more": [plain("rows/helba_update/9", ROW.replace(b"0", b"9" * 30))]},
    "not JSON": {"more": [plain("rows/helba_update/9", b"x\n")]},
    "part that was changed": {"change": lambda n, d: b"x" if n.startswith("parts") else d},
    "part that is missing": {"change": lambda n, d: None if n.startswith("parts") else d},
    "part of none": {
        "change": lambda n, d: None if n.startswith("rows/helba_checkpoint") else d,
    },
    "twice": {"more": [plain("folder/a"), plain("folder/a")]},
    "not announced": {"more": [plain("folder/a")], "honest": False},
    "file that was changed": {
        "change": lambda n, d: d[:-1] + bytes([d[-1] ^ 1]) if n == "folder/public.key" else d,
        "honest": False,
    },
    "file as a folder": {"more": [plain("folder/public.key/x")]},
    "other deployment": {"facts": {"fingerprint": "cd" * 32}},
    "other format": {"facts": {"format": "something"}},
}


@pytest.mark.parametrize("name", CHANGES)
def test_archive_that_was_changed_leaves_nothing_behind(
    folder: Path, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "f"
    export_tenant(folder, file=file)
    repack(file, **CHANGES[name])
    if name == "file as a folder":
        require_refused(file, tmp_path, match="cannot write into", kind=RunFailed)
    else:
        require_refused(file, tmp_path, match=DAMAGED, kind=DamagedData)
    assert not Path("/tmp/evil").exists()
    assert not (tmp_path / "evil").exists()


def test_archive_that_was_repacked_alike_is_taken(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "f"
    export_tenant(folder, file=file)
    repack(file)
    import_tenant(file, folder=tmp_path / "new")
    assert rows_at(default_url(tmp_path / "new")) == rows_at(default_url(folder))


@pytest.mark.parametrize("facts", [{"version": 2}, {"tables": "9999"}])
def test_archive_of_another_version_is_refused(
    folder: Path, tmp_path: Path, facts: dict[str, Any]
) -> None:
    file = tmp_path / "f"
    export_tenant(folder, file=file)
    repack(file, facts=facts)
    require_refused(file, tmp_path, match="another version of helba", kind=Refused)


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_archive_that_was_cut_off_is_refused(folder: Path, tmp_path: Path, part: float) -> None:
    file = tmp_path / "f"
    export_tenant(folder, file=file)
    data = file.read_bytes()
    file.write_bytes(data[: int(part * (len(data) - 10240))])
    require_refused(file, tmp_path, match="no archive of helba", kind=DamagedData)


def test_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"hello " * 1000)
    require_refused(file, tmp_path, match="no archive of helba", kind=DamagedData)
    with pytest.raises(RunFailed, match="cannot read"):
        import_tenant(tmp_path / "none", folder=tmp_path / "new")


def test_import_that_fails_in_the_end_leaves_nothing_behind(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "f"
    export_tenant(folder, file=file)
    whole = archive._move_files

    def fail(*arguments: Path) -> None:
        whole(*arguments)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive, "_move_files", fail)
    require_refused(file, tmp_path, match="No space left", kind=RunFailed)
