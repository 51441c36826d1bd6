"""Commands that meet each other, break off or are repeated: no key is lost, and all is mended."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from helba.errors import DamagedData, Refused, RunFailed
from helba.reference.protocol.authority import Authority
from helba.service.protocol import keystore, userstore
from helba.service.protocol.authorityfiles import locked
from helba.service.protocol.keyinfo import describe_key
from helba.service.protocol.keystore import (
    create_authority,
    list_members,
    open_authority,
    revoke_member,
    rotate_authority,
    save_authority,
    write_server_folder,
)
from helba.service.protocol.serverfiles import enrolment_path, open_server
from helba.service.protocol.userstore import open_user, update_user
from helba.service.protocol.vault import change_passphrase, make_private_folder
from tests.reference.protocol.folders import (
    WORDS,
    enrol,
    files_of,
    insecure_authority,
    insecure_deployment,
    new_user,
)

pytestmark = pytest.mark.usefixtures("cheap_vault")


def served(server: Path) -> set[bytes]:
    return set(open_server(server, allow_insecure=True).directory.users)


def write_server(folder: Path, *, out: Path | None = None) -> Path:
    return write_server_folder(folder, passphrase=WORDS, out=out, allow_insecure=True)


# -- two at once


def before_the_lock(action: Callable[[], object]) -> Callable[[Path], None]:
    """What makes a private folder, and then lets another command go first, once."""
    left = [action]

    def make(path: Path) -> None:
        make_private_folder(path)
        if left:
            left.pop()()

    return make


def test_second_create_makes_no_keys_where_the_first_was_faster(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: dict[str, bytes] = {}

    def overtake() -> None:
        insecure_authority(folder)
        first.update(files_of(folder))
        monkeypatch.setattr(keystore, "Authority", lambda *_: pytest.fail("keys were made"))

    monkeypatch.setattr(keystore, "make_private_folder", before_the_lock(overtake))
    with pytest.raises(Refused, match="already"):
        create_authority(folder, insecure_deployment(), passphrase=WORDS)
    assert files_of(folder) == first


def test_second_pair_is_not_made_where_the_first_was_faster(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    insecure_authority(folder)
    first: dict[str, bytes] = {}

    def overtake() -> None:
        new_user(folder, "ann")
        first.update(files_of(folder.parent / "ann"))

    monkeypatch.setattr(userstore, "make_private_folder", before_the_lock(overtake))
    with pytest.raises(Refused, match="already"):
        new_user(folder, "ann")
    assert files_of(folder.parent / "ann") == first


def test_nobody_makes_keys_in_a_folder_where_another_works(folder: Path) -> None:
    insecure_authority(folder)
    for name in ("new", "ann"):
        make_private_folder(folder.parent / name)
    with locked(folder.parent / "new"), pytest.raises(RunFailed, match="another command"):
        create_authority(folder.parent / "new", insecure_deployment(), passphrase=WORDS)
    with locked(folder.parent / "ann"), pytest.raises(RunFailed, match="another command"):
        new_user(folder, "ann")
    assert not files_of(folder.parent / "new")
    assert not files_of(folder.parent / "ann")


def test_other_keys_are_not_saved_over_those_that_are_there(folder: Path) -> None:
    made = insecure_authority(folder, users=("ann",))
    before = files_of(folder)
    with pytest.raises(Refused, match="other keys"):
        save_authority(Authority(made.deployment), folder, passphrase=WORDS)
    rotated = open_authority(folder, passphrase=WORDS, allow_insecure=True)
    rotated.rotate()
    with pytest.raises(Refused, match="other keys"):
        save_authority(rotated, folder, passphrase=WORDS)
    assert files_of(folder) == before
    found = open_authority(folder, passphrase=WORDS, allow_insecure=True)
    save_authority(found, folder, passphrase=WORDS)
    assert [each.name for each in list_members(folder)] == ["ann"]


# -- the same again


def test_enrolling_the_same_key_again_mends_the_server_folder(folder: Path) -> None:
    insecure_authority(folder, users=("ann",))
    (before,) = list_members(folder)
    path = enrolment_path(folder / "server", before.id)
    whole = path.stat().st_ino
    assert enrol(folder, "ann") == before.id
    assert path.stat().st_ino == whole
    path.unlink()
    enrol(folder, "ann")
    assert served(folder / "server") == {before.id}
    assert list_members(folder) == (before,)
    revoke_member(folder, "ann", allow_insecure=True)
    enrol(folder, "ann")
    path.with_suffix(".revoked").write_bytes(b"")  # as if it had broken off there
    path.with_suffix(".revoked").chmod(0o600)
    assert served(folder / "server") == set()
    enrol(folder, "ann")
    assert served(folder / "server") == {before.id}


def test_rotating_again_says_that_it_has_happened(folder: Path) -> None:
    insecure_authority(folder)
    rotated = rotate_authority(folder, passphrase=WORDS, allow_insecure=True)
    key = describe_key(rotated.public_key_bytes()).owner.hex()
    with pytest.raises(Refused, match=rf"was rotated, and is {key} now, .*has not been taken"):
        rotate_authority(folder, passphrase=WORDS, allow_insecure=True)


def test_server_folder_that_was_deleted_is_written_again(folder: Path) -> None:
    insecure_authority(folder, users=("ann", "bob"))
    before = files_of(folder / "server")
    users = served(folder / "server")
    shutil.rmtree(folder / "server")
    assert write_server(folder) == folder / "server"
    assert set(files_of(folder / "server")) == set(before)
    assert served(folder / "server") == users
    out = folder.parent / "elsewhere" / "server"
    assert write_server(folder, out=out) == out
    assert served(out) == users
    write_server(folder, out=out)
    with pytest.raises(DamagedData, match="wrong passphrase"):
        write_server_folder(folder, passphrase="wrong", allow_insecure=True)


def test_server_folder_is_not_written_over_something_else(folder: Path) -> None:
    insecure_authority(folder, users=("ann",))
    out = write_server(folder, out=folder.parent / "out")
    other = folder.parent / "other"
    insecure_authority(other, keys="switched")
    rotate_authority(folder, passphrase=WORDS, allow_insecure=True)
    (folder.parent / "plan").mkdir(mode=0o700)
    shutil.copy(other / "deployment.json", folder.parent / "plan")
    before = files_of(folder.parent)
    for place, words in (
        (out, "another collective key"),
        (other, "holds an authority"),
        (folder.parent / "ann", "holds a user's keys"),
        (other / "server", "another collective key"),
        (folder.parent / "plan", "another deployment"),
    ):
        with pytest.raises(Refused, match=words):
            write_server(folder, out=place)
    assert files_of(folder.parent) == before


# -- what lies about


def test_stray_files_among_the_users_block_nobody(folder: Path) -> None:
    insecure_authority(folder, users=("ann", "bob"))
    ann, bob = (each.id for each in list_members(folder))
    users = folder / "server" / "users"
    strays = ["notes.txt", "x.enrolment", f"{ann.hex()[:8]}.inward", f"{bob.hex()} (1).enrolment"]
    for name in [*strays, "y.revoked"]:
        (users / name).write_bytes(b"?")
    assert served(folder / "server") == {ann, bob}
    revoke_member(folder, "ann", allow_insecure=True)
    rotate_authority(folder, passphrase=WORDS, allow_insecure=True)
    assert served(folder / "server") == {bob}
    assert all((users / name).read_bytes() == b"?" for name in [*strays, "y.revoked"])


# -- what a user adopts


def test_user_adopts_the_key_that_it_was_told(folder: Path) -> None:
    insecure_authority(folder, users=("ann", "bob"))
    home, path = folder.parent / "ann", folder / "keys-2" / "public.key"
    old = describe_key((folder / "keys-1" / "public.key").read_bytes()).owner
    rotate_authority(folder, passphrase=WORDS, allow_insecure=True)
    new = describe_key(path.read_bytes()).owner
    before = files_of(home)
    theirs = folder.parent / "bob" / "public.key"
    with pytest.raises(Refused, match=f"is the key .*, not {new.hex()}"):
        update_user(home, theirs, key=new, allow_insecure=True)
    with locked(home), pytest.raises(RunFailed, match="another command"):
        update_user(home, path, allow_insecure=True)
    assert files_of(home) == before
    assert update_user(home, path, key=new, allow_insecure=True) == (old, new)
    assert update_user(home, path, allow_insecure=True) == (new, new)


def test_passphrase_is_changed_and_nothing_else(folder: Path) -> None:
    insecure_authority(folder, users=("ann",))
    home = folder.parent / "ann"
    path, before = home / "secret.key", files_of(home)
    with pytest.raises(DamagedData, match="wrong passphrase"):
        change_passphrase(path, old="wrong", new="other words")
    assert files_of(home) == before
    change_passphrase(path, old=f"{WORDS} of ann", new="other words")
    assert {name for name, data in files_of(home).items() if data != before[name]} == {"secret.key"}
    open_user(home, passphrase="other words", allow_insecure=True)
    with pytest.raises(DamagedData, match="wrong passphrase"):
        open_user(home, passphrase=f"{WORDS} of ann", allow_insecure=True)


# -- what is loaded


def test_device_of_a_user_loads_no_code_of_server_or_authority() -> None:
    code = (
        "import sys; from helba.service.protocol import create_user, open_user;"
        "parts = 'server', 'serverfiles', 'authority', 'keystore', 'process', 'bandit';"
        "homes = 'helba.reference.protocol', 'helba.service.protocol';"
        "found = {f'{home}.{part}' for home in homes for part in parts} & set(sys.modules);"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_every_public_name_of_the_protocol_loads() -> None:
    import helba.reference.protocol

    for name in helba.reference.protocol.__all__:
        assert getattr(helba.reference.protocol, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing"):
        helba.reference.protocol.nothing  # noqa: B018
