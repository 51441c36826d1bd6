"""Files and folders that only their owner can open: they appear whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from helba.errors import HelbaError, RunFailed
from helba.service.protocol.vault import (
    make_private_folder,
    read_private,
    write_private,
    write_public,
)

SECRET = b"the number of the beast, and of the bank account: 666"


def require_silent(error: BaseException) -> None:
    """One line, and the secret neither in it, nor in its arguments or what it came from."""
    assert "\n" not in str(error)
    seen: BaseException | None = error
    while seen is not None:
        for text in (str(seen), repr(seen), repr(seen.args), repr(vars(seen))):
            assert repr(SECRET)[2:-1] not in text
        seen = seen.__cause__ or seen.__context__


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize(
    ("mask", "public"), [(0o000, 0o644), (0o022, 0o644), (0o027, 0o640), (0o077, 0o600)]
)
def test_files_have_their_modes(
    tmp_path: Path, umask: Callable[[int], int], mask: int, public: int
) -> None:
    (tmp_path / "old").touch(mode=0o666)
    (tmp_path / "old").chmod(0o666)
    umask(mask)
    for name in ("new", "old"):
        write_private(tmp_path / name, SECRET)
        assert mode_of(tmp_path / name) == 0o600
        assert read_private(tmp_path / name) == SECRET
        write_public(tmp_path / name, b"public")
        assert mode_of(tmp_path / name) == public
        assert (tmp_path / name).read_bytes() == b"public"
    make_private_folder(tmp_path / "a" / "b")
    assert mode_of(tmp_path / "a" / "b") == 0o700


def test_file_is_private_before_anything_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: Callable[[int], int]
) -> None:
    umask(0)
    found = []
    monkeypatch.setattr(os, "fsync", lambda handle: found.append(os.fstat(handle)))
    write_private(tmp_path / "key", SECRET)
    file, folder = found
    assert (stat.S_IMODE(file.st_mode), file.st_size) == (0o600, len(SECRET))
    assert folder.st_ino == tmp_path.stat().st_ino


@pytest.mark.parametrize("write", [write_private, write_public])
@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Path, bytes], None],
    step: str,
    failure: BaseException,
) -> None:
    def fail(*_: object) -> None:
        raise failure

    path = tmp_path / "key"
    write(path, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises((RunFailed, KeyboardInterrupt)) as caught:
            write(path, SECRET)
    if isinstance(failure, OSError):
        assert str(caught.value) == f"cannot write {path}: No space left"
    require_silent(caught.value)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_write_where_it_cannot_be_fails_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for path in ("folder", "missing/key", "file/key", "x" * 300):
        with pytest.raises(RunFailed, match=r"^cannot write ") as caught:
            write_private(tmp_path / path, SECRET)
        require_silent(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_write_replaces_a_link_and_leaves_its_target(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"target")
    link.symlink_to(target)
    write_private(link, SECRET)
    assert target.read_bytes() == b"target"
    assert not link.is_symlink()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o666])
def test_file_that_others_can_open_is_not_read(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    write_private(path, SECRET)
    path.chmod(mode)
    with pytest.raises(RunFailed, match="open to other users: chmod 600 ") as caught:
        read_private(path)
    require_silent(caught.value)
    path.chmod(0o600)
    assert read_private(path) == SECRET
    path.chmod(0o400)
    assert read_private(path) == SECRET


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    make_private_folder(tmp_path / "folder")
    for name in ("pipe", "folder"):
        with pytest.raises(RunFailed, match=r"is not a regular file$"):
            read_private(tmp_path / name)
    with pytest.raises(RunFailed, match=r"^cannot read .*missing: No such file or directory$"):
        read_private(tmp_path / "missing")


def test_what_belongs_to_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_private(tmp_path / "key", SECRET)
    make_private_folder(tmp_path / "folder")
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(RunFailed, match=r"key belongs to another user$"):
        read_private(tmp_path / "key")
    with pytest.raises(RunFailed, match=r"folder belongs to another user$"):
        make_private_folder(tmp_path / "folder")


def test_reading_leaves_no_file_open(tmp_path: Path) -> None:
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        pytest.skip("needs /proc")
    path = tmp_path / "key"
    write_private(path, SECRET)
    before = len(list(folder.iterdir()))
    for mode in (0o600, 0o644) * 5:
        path.chmod(mode)
        for place in (path, tmp_path):
            with suppress(RunFailed):
                read_private(place)
    assert len(list(folder.iterdir())) == before


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o710, 0o701, 0o755, 0o777])
def test_folder_that_others_can_enter_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "folder"
    make_private_folder(path)
    make_private_folder(path)
    path.chmod(mode)
    with pytest.raises(RunFailed, match="open to other users: chmod 700 "):
        make_private_folder(path)
    assert mode_of(path) == mode


def test_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0o600)
    with pytest.raises(RunFailed, match=r"file is not a folder$"):
        make_private_folder(tmp_path / "file")
    with pytest.raises(RunFailed, match=r"^cannot make the folder "):
        make_private_folder(tmp_path / "file" / "inner")


def test_every_refusal_is_an_error_of_helba(tmp_path: Path) -> None:
    with pytest.raises(HelbaError):
        read_private(tmp_path / "missing")
    with pytest.raises(HelbaError):
        write_public(tmp_path / "missing" / "key", b"public")
