"""The server's folder: what the authority writes into it, and what the server keeps there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from helba.errors import Refused, RunFailed
from helba.service.protocol.keystore import (
    list_members,
    replace_member_key,
)
from helba.service.protocol.serverfiles import open_server, read_ledger, write_server_files
from tests.reference.protocol.folders import (
    WORDS,
    Players,
    enrol,
    files_of,
    insecure_authority,
    new_user,
    opened,
    reopen,
    rotate,
    started,
)

pytestmark = pytest.mark.usefixtures("cheap_vault")


def test_enrolments_that_fit_are_not_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    insecure_authority(folder, users=("ann", "bob"))
    server = folder / "server"
    before = {path: path.stat().st_ino for path in (server / "users").iterdir()}
    evaluation = (server / "evaluation.key").stat().st_ino
    lost, damaged = sorted(before)
    new_user(folder, "eve")
    enrol(folder, "eve")
    assert {path: path.stat().st_ino for path in before} == before
    assert (server / "evaluation.key").stat().st_ino == evaluation
    lost.unlink()
    damaged.write_bytes(damaged.read_bytes()[:-9])
    write_server_files(reopen(folder), server)
    assert len(open_server(server, allow_insecure=True).directory.users) == 3
    old = files_of(server)
    rotate(folder)
    new = files_of(server)
    assert set(new) == {*old, "rotation.key", "previous.key"}
    assert all(new[name] != old[name] for name in old if name != "deployment.json")


def test_enrolment_that_others_can_read_is_told_and_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    insecure_authority(folder, users=("ann",))
    (path,) = (folder / "server" / "users").iterdir()
    path.chmod(0o644)
    for action in (
        lambda: open_server(folder / "server", allow_insecure=True),
        lambda: write_server_files(reopen(folder), folder / "server"),
    ):
        with pytest.raises(RunFailed, match="open to other users: chmod 600"):
            action()


def test_replaced_key_leaves_no_file_of_the_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    insecure_authority(folder, users=("ann",))
    (old,) = list_members(folder)
    new_user(folder, "ann", home="new")
    public = (tmp_path / "new" / "public.key").read_bytes()
    new = replace_member_key(
        folder, "ann", public_key=public, passphrase=WORDS, allow_insecure=True
    )
    names = " ".join(name for name in files_of(folder) if not name.endswith(".revoked"))
    assert old.id.hex() not in names
    assert names.count(new.id.hex()) == 2


def test_rotation_waits_for_the_server_before_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    insecure_authority(folder, users=("ann",))
    rotate(folder)
    before = files_of(folder)
    with pytest.raises(Refused, match="has not been taken"):
        rotate(folder)
    assert files_of(folder) == before
    (folder / "server" / "rotation.key").unlink()
    rotate(folder)
    assert json.loads((folder / "current.json").read_bytes()) == {"keys": "keys-3"}
    assert [path.name for path in folder.glob("keys-*")] == ["keys-3"]


def test_bits_are_counted_on_after_a_new_start(folder: Path) -> None:
    insecure_authority(folder, users=("ann", "bob"))
    ann, bob = opened(folder, "ann"), opened(folder, "bob")
    with started(folder) as server:
        Players(server, scheme="simulate").play([ann, bob], rounds=8)
        first = server.status()
        state = server.save()
        saved = json.loads((folder / "server" / "ledger.json").read_bytes())
    assert (saved["total"], saved["budget"]) == (first.bits, first.bit_budget)
    assert first.bits > 0
    assert sum(saved["bits"].values()) == first.bits
    assert set(saved["bits"]) <= {ann.id.hex(), bob.id.hex()}
    with started(folder) as server:
        assert server.status().bits == first.bits
        Players(server, scheme="simulate").play([ann], rounds=8)
        second = server.status()
        assert second.bits > first.bits
    assert json.loads((folder / "server" / "ledger.json").read_bytes())["total"] == second.bits
    with started(folder, state=state) as server:  # the folder has counted more
        assert server.status().bits == second.bits


def test_bits_are_counted_although_the_server_is_killed(folder: Path) -> None:
    insecure_authority(folder, users=("ann",))
    server = started(folder)
    Players(server, scheme="simulate").play([opened(folder, "ann")], rounds=8)
    bits = server.status().bits
    server.process.kill()
    server.process.join()
    server.close()
    assert bits > 0
    with started(folder) as server:
        assert server.status().bits == bits


def test_ledger_of_another_collective_key_counts_for_users_only(folder: Path) -> None:
    insecure_authority(folder, users=("ann",))
    with started(folder) as server:
        Players(server, scheme="simulate").play([opened(folder, "ann")], rounds=8)
        bits = server.status().bits
    assert bits > 0
    rotate(folder)
    with started(folder) as server:
        assert server.status().bits == 0
    found = read_ledger(folder / "server" / "ledger.json", key=b"any", budget=7)
    assert (found.total, sum(found.as_dict().values())) == (0, bits)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"key": "", "total": -1, "budget": 1, "bits": {}}', b"\xff"]
)
def test_damaged_ledger_does_not_start_a_server(folder: Path, text: bytes) -> None:
    insecure_authority(folder)
    path = folder / "server" / "ledger.json"
    path.write_bytes(text.replace(b'"key": ""', b'"key": "' + key_of(folder) + b'"'))
    with pytest.raises(RunFailed, match=r"cannot start: .*ledger\.json") as caught:
        started(folder)
    assert "\n" not in str(caught.value)


def key_of(folder: Path) -> bytes:
    with started(folder) as server:
        del server
    name = json.loads((folder / "server" / "ledger.json").read_bytes())["key"]
    return str(name).encode()


def test_folder_that_is_deleted_after_the_start_stays_away(folder: Path) -> None:
    insecure_authority(folder, users=("ann",))
    ann = opened(folder, "ann")
    with started(folder) as server:
        shutil.rmtree(folder / "server")
        Players(server, scheme="simulate").play([ann], rounds=2)
        server.save()
        server.revoke(ann.id)
    assert not (folder / "server").exists()


def test_ledger_that_cannot_be_written_is_told_when_the_server_closes(folder: Path) -> None:
    insecure_authority(folder)
    server = started(folder)
    (folder / "server" / "ledger.json").mkdir()
    with pytest.raises(RunFailed, match="cannot write"):
        server.save()
    with pytest.raises(RunFailed, match="cannot write"):
        server.close()
    assert not server.process.is_alive()
    server.close()
