"""The power is cut at every change of the disk: what is left opens, and nothing is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from helba.errors import Refused, RunFailed
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.enrolment import Rotation
from helba.service.protocol import authorityfiles
from helba.service.protocol.keyinfo import describe_key
from helba.service.protocol.keystore import (
    list_members,
    revoke_member,
)
from helba.service.protocol.serverfiles import open_server, write_server_files
from helba.service.protocol.userstore import open_user
from helba.service.protocol.vault import read_private
from tests.reference.protocol.folders import (
    WORDS,
    copy_of,
    enrol,
    insecure_authority,
    new_user,
    reopen,
    rotate,
)

pytestmark = pytest.mark.usefixtures("cheap_vault")


def key_of(authority: Authority) -> bytes:
    return describe_key(authority.public_key_bytes()).owner


class Crash(BaseException):
    """No code of ours runs any more."""


class Fuse:
    """Lets so many changes of the disk pass, then fails; files under way are left lying."""

    def __init__(self, patch: pytest.MonkeyPatch, *, after: int | None = None) -> None:
        self.changes, self._after, self._crashed = 0, after, False
        self._unlink = os.unlink
        for owner, name in ((os, "replace"), (Path, "unlink"), (Path, "rmdir"), (Path, "mkdir")):
            patch.setattr(owner, name, self._guard(getattr(owner, name)))
        if after is not None:
            patch.setattr(os, "unlink", self._refuse)

    def _guard(self, action: Callable[..., object]) -> Callable[..., object]:
        def guarded(*arguments: object, **options: object) -> object:
            if self.changes == self._after:
                self._crashed = True
                raise Crash
            self.changes += 1
            return action(*arguments, **options)

        return guarded

    def _refuse(self, *arguments: object, **options: object) -> None:
        if self._crashed:
            raise OSError("no time to clean up")
        self._unlink(*arguments, **options)  # type: ignore[arg-type]


def do_rotate(folder: Path) -> None:
    rotate(folder)


def do_revoke(folder: Path) -> None:
    revoke_member(folder, "ann", allow_insecure=True)


def do_enrol(folder: Path) -> None:
    enrol(folder, "eve")


def do_replace(folder: Path) -> None:
    enrol(folder, "ann", home="eve", replace=True)


@pytest.mark.parametrize("action", [do_rotate, do_revoke, do_enrol, do_replace])
def test_crash_at_any_change_leaves_an_authority_that_opens(
    tmp_path: Path, action: Callable[[Path], None]
) -> None:
    home = tmp_path / "home" / "authority"
    insecure_authority(home, users=("ann", "bob"))
    new_user(home, "eve")
    old, members = reopen(home), {each.name for each in list_members(home)}
    ended = set()
    changes = count_changes(copy_of(home, tmp_path / "whole"), action)
    assert changes >= 2
    for number in range(changes):
        folder = copy_of(home, tmp_path / str(number))
        server = old.make_server()
        with pytest.MonkeyPatch.context() as patch:
            Fuse(patch, after=number)
            with pytest.raises(Crash):
                action(folder)
        found = reopen(folder)
        names = {each.name for each in found.members}
        assert members <= names <= {*members, "eve"}
        if action is do_rotate:  # opening has mended the server's folder
            open_server(folder / "server", allow_insecure=True)
            served = (folder / "server" / "public.key").read_bytes()
            assert served == found.public_key_bytes()
        write_server_files(found, folder / "server")
        kept = open_server(folder / "server", allow_insecure=True)
        assert set(kept.directory.users) == {m.id for m in found.members if not m.revoked}
        assert len(list(folder.glob("keys-*"))) == 1
        waiting = folder / "server" / "rotation.key"
        assert waiting.exists() == (key_of(found) != key_of(old))
        if waiting.exists():  # the server in memory comes along
            rotation = read_private(waiting)
            server.rotate(rotation)
            assert (
                Rotation.from_bytes(rotation, deployment=found.deployment).public_key
                == found.public_key_bytes()
            )
        known = tuple(sorted((each.name, each.id, each.revoked) for each in found.members))
        ended.add((key_of(found) != key_of(old), known))
    assert len(ended) == 2  # before and after, and nothing in between


@pytest.mark.parametrize("action", [do_rotate, do_enrol, do_replace])
def test_command_that_crashed_can_be_repeated(
    tmp_path: Path, action: Callable[[Path], None]
) -> None:
    home = tmp_path / "home" / "authority"
    insecure_authority(home, users=("ann", "bob"))
    new_user(home, "eve")
    old = key_of(reopen(home))
    for number in range(count_changes(copy_of(home, tmp_path / "whole"), action)):
        folder = copy_of(home, tmp_path / str(number))
        with pytest.MonkeyPatch.context() as patch:
            Fuse(patch, after=number)
            with pytest.raises(Crash):
                action(folder)
        now = key_of(reopen(folder))
        if now == old:
            action(folder)
        else:
            with pytest.raises(Refused, match=f"was rotated, and is {now.hex()} now"):
                action(folder)
        assert (key_of(reopen(folder)) != old) == (action is do_rotate)
        assert json.loads((folder / "current.json").read_bytes())["keys"] in ("keys-1", "keys-2")
        server = open_server(folder / "server", allow_insecure=True)
        enrolled = {each.id for each in list_members(folder) if not each.revoked}
        assert set(server.directory.users) == enrolled


def test_crash_while_an_authority_is_made_leaves_none_or_a_whole_one(tmp_path: Path) -> None:
    changes = count_changes(tmp_path / "whole" / "authority", insecure_authority)
    none = 0
    for number in range(changes):
        folder = tmp_path / str(number) / "authority"
        with pytest.MonkeyPatch.context() as patch:
            Fuse(patch, after=number)
            with pytest.raises(Crash):
                insecure_authority(folder)
        if (folder / authorityfiles.CURRENT).exists():
            write_server_files(reopen(folder), folder / "server")
        else:
            none += 1
            insecure_authority(folder)
        open_server(folder / "server", allow_insecure=True)
    assert 3 < none < changes


def test_crash_while_a_user_is_made_leaves_none_or_a_whole_one(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    insecure_authority(folder)
    number = 0
    while True:
        with pytest.MonkeyPatch.context() as patch:
            Fuse(patch, after=number)
            try:
                new_user(folder, "ann")
                break
            except Crash:
                number += 1
        with pytest.raises(RunFailed, match="holds no user's keys"):
            open_user(tmp_path / "ann", passphrase=f"{WORDS} of ann", allow_insecure=True)
    assert number >= 4
    open_user(tmp_path / "ann", passphrase=f"{WORDS} of ann", allow_insecure=True)


def count_changes(folder: Path, action: Callable[[Path], object]) -> int:
    with pytest.MonkeyPatch.context() as patch:
        fuse = Fuse(patch)
        action(folder)
    return fuse.changes
