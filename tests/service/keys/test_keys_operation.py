"""`helba keys` for who runs it: what is said, what is mended, and what is refused in time."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from helba.cli import main
from helba.cli.service.keyreport import new_folder
from helba.errors import Refused
from helba.service.protocol.authorityfiles import locked
from helba.service.protocol.process import ServerProcess
from tests.service.keys.keyhome import (
    WORDS,
    ask,
    files_of,
    key_of,
    require_refused,
    user_of,
)

SIMULATE = ["--engine", "simulate"]


def out_of(capsys: Any, *command: object) -> str:
    """What a command that succeeds prints for people."""
    capsys.readouterr()
    assert main(["keys", *map(str, command)]) == 0
    return str(capsys.readouterr().out)


# -- what broke off


def test_keys_create_that_broke_off_at_the_server_goes_on(capsys: Any, tmp_path: Path) -> None:
    folder = tmp_path / "dir"
    folder.mkdir(mode=0o700)
    (folder / "server").write_text("in the way")
    assert main(["keys", "create", str(folder), *SIMULATE]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("helba: ")
    assert f"the keys are made, go on: helba keys server {folder}" in last
    (folder / "server").unlink()
    require_refused(capsys, "create", folder, *SIMULATE, words=f"helba keys server {folder}")
    report, _ = ask(capsys, "server", folder)
    assert (report["server"], report["enrolments"]) == (str(folder / "server"), 0)
    with ServerProcess(folder / "server") as server:
        assert server.status().users == 0
    capsys.readouterr()
    assert main(["keys", "create", str(folder), *SIMULATE]) == 1
    assert "helba keys server" not in capsys.readouterr().err


def test_keys_server_writes_the_folder_again_or_elsewhere(capsys: Any, home: Path) -> None:
    folder = home / "dir"
    shutil.rmtree(folder / "server")
    report, _ = ask(capsys, "server", folder)
    listed, _ = ask(capsys, "list", folder)
    assert (report["key"], report["enrolments"]) == (listed["key"], 2)
    report, _ = ask(capsys, "server", folder, "--out", home / "out")
    for place in (folder / "server", Path(report["server"])):
        with ServerProcess(place) as server:
            assert server.status().users == 2
    ask(capsys, "rotate", folder)
    require_refused_after_notes(capsys, "server", folder, "--out", home / "out")
    _, said = ask(capsys, "server", folder, "--out", home / "new")
    assert "rotation.key as well" in said
    assert "goes to the server's machine" in " ".join(out_of(capsys, "server", "--help").split())


def require_refused_after_notes(capsys: Any, *command: object) -> None:
    capsys.readouterr()
    assert main(["keys", *map(str, command)]) == 1
    assert "another collective key" in capsys.readouterr().err.splitlines()[-1]


def test_keys_enrol_again_with_the_same_key(capsys: Any, home: Path) -> None:
    folder = home / "dir"
    before, _ = ask(capsys, "list", folder)
    for path in (folder / "server" / "users").iterdir():
        path.unlink()
    report, said = ask(capsys, "enrol", folder, "ann", *key_of(home, "ann"))
    assert report["done"] == "enrolled"
    assert "opening the collective keys" in said
    assert len(list((folder / "server" / "users").iterdir())) == 2
    after, _ = ask(capsys, "list", folder)
    assert after == before


# -- what was counted


def test_keys_list_without_a_ledger_says_so(capsys: Any, home: Path) -> None:
    folder, line = home / "dir", "no ledger here: copy the server's ledger.json"
    listed, _ = ask(capsys, "list", folder)
    assert listed["bits"] is listed["rotation_due"] is listed["replacement_due"] is None
    assert [member["bits"] for member in listed["members"]] == [None, None]
    shown = out_of(capsys, "list", folder)
    assert line in shown
    assert f"collective key {listed['key']}, - of {listed['bit_budget']} bits" in shown
    ann = listed["members"][0]["key"]
    ledger = {"key": listed["key"], "total": 7, "budget": 9, "bits": {ann: 7}}
    (home / "copied.json").write_text(json.dumps(ledger))
    listed, _ = ask(capsys, "list", folder, "--ledger", home / "copied.json")
    assert (listed["bits"], listed["rotation_due"], listed["replacement_due"]) == (7, False, [])
    assert [member["bits"] for member in listed["members"]] == [7, 0]
    assert line not in out_of(capsys, "list", folder, "--ledger", home / "copied.json")
    require_refused(capsys, "list", folder, "--ledger", home / "none", words="cannot read")


# -- what a user adopts


def test_keys_user_adopts_the_collective_key_it_was_told(capsys: Any, home: Path) -> None:
    folder, ann = home / "dir", home / "ann"
    old, _ = ask(capsys, "list", folder)
    rotated, said = ask(capsys, "rotate", folder)
    assert f"compare with them the id of the collective key: {rotated['key']}" in said
    assert rotated["key"] in out_of(capsys, "list", folder)
    strong = [*SIMULATE, "--security", "192"]
    ask(capsys, "create", home / "other", *strong)
    before = files_of(ann)
    new, theirs = ["--public-key", rotated["public_key"]], key_of(home, "bob")
    for command, code, words in (
        ([*key_of(home, "ann")], 2, "the user's own"),
        (["--public-key", home / "other" / "server" / "public.key"], 1, "public.key: "),
        (["--public-key", folder / "server" / "evaluation.key"], 1, "evaluation.key: "),
        ([*theirs, "--key", rotated["key"]], 1, f"not {rotated['key']}"),
        ([*new, "--key", old["key"]], 1, f"is the key {rotated['key']}"),
        ([*new, "--key", "xyz"], 2, "hexadecimal"),
    ):
        require_refused(capsys, "rotate", ann, *command, code=code, words=words)
    require_refused(capsys, "rotate", folder, "--key", old["key"], code=2, words="user's folder")
    assert files_of(ann) == before
    report, said = ask(capsys, "rotate", ann, *new)
    assert (report["old_key"], report["key"]) == (old["key"], rotated["key"])
    assert f"{old['key']} -> {rotated['key']}" in said
    assert "compare it with helba keys list at the authority" in said
    _, said = ask(capsys, "rotate", home / "bob", *new, "--key", rotated["key"])
    assert "compare" not in said


# -- what files are


def test_keys_show_names_every_file(capsys: Any, home: Path) -> None:
    folder = home / "dir"
    listed, _ = ask(capsys, "list", folder)
    ask(capsys, "revoke", folder, "ann")
    ask(capsys, "rotate", folder)
    with ServerProcess(folder / "server"):
        pass
    (folder / "server" / ".0123456789abcdef.tmp").write_bytes(b"half")
    report, _ = ask(capsys, "show", folder)
    files = {file["path"]: file for file in report["files"]}
    assert not [file for file in files.values() if file["kind"] == "unknown" or "error" in file]
    ann, bob = (member["key"] for member in listed["members"])
    kinds = {
        f"server/users/{ann}.revoked": "mark of a revoked key",
        f"server/users/{bob}.enrolment": "enrolment",
        "server/previous.key": "previous public key",
        "server/rotation.key": "rotation",
        "server/ledger.json": "ledger",
        "current.json": "name of the keys that count",
        "server/.0123456789abcdef.tmp": "leftover of a write that broke off",
    }
    assert {name: files[name]["kind"] for name in kinds} == kinds
    assert files[f"server/users/{ann}.revoked"]["owner"] == ann
    assert files[f"server/users/{bob}.enrolment"]["leads_to"] == bob
    assert files["server/previous.key"]["owner"] == listed["key"]
    rotation = files["server/rotation.key"]
    assert (rotation["owner"], rotation["enrolments"]) == (listed["key"], 1)
    assert {file["security"] for file in files.values() if "security" in file} == {
        "none: simulated"
    }


def test_keys_show_says_that_a_ledger_or_mark_is_damaged(capsys: Any, home: Path) -> None:
    for name in ("server/ledger.json", "server/x.revoked", "current.json"):
        (home / "dir" / name).write_text("[]")
        require_refused(capsys, "show", home / "dir" / name, words=name)


# -- what is said


def test_keys_say_what_to_send_and_compare(capsys: Any, tmp_path: Path) -> None:
    server = tmp_path / "dir" / "server"
    switched = [*SIMULATE, "--keys", "switched"]
    report, said = ask(capsys, "create", tmp_path / "dir", *switched)
    assert f"send {server / 'deployment.json'} and {server / 'public.key'} to the users" in said
    assert f"compare with them the id of the collective key: {report['key']}" in said
    _, said = ask(capsys, "create", tmp_path / "ann", *user_of(tmp_path))
    assert "inward key" in said
    for command in (["enrol", tmp_path / "dir", "ann", *key_of(tmp_path, "ann")],):
        _, said = ask(capsys, *command)
        assert "users must give the server their inward key" in said
    _, said = ask(capsys, "rotate", tmp_path / "dir")
    assert "users must give the server their inward key" in said
    _, said = ask(capsys, "revoke", tmp_path / "dir", "ann")
    assert "inward" not in said


def test_keys_say_that_no_command_shares_the_secret_key(capsys: Any, tmp_path: Path) -> None:
    _, said = ask(capsys, "create", tmp_path / "dir", *SIMULATE, "--keys", "shared")
    assert "no command shares the secret key" in said
    assert "live in one process" in said
    assert "send" not in said


def test_keys_passphrase_file_that_others_can_read_is_warned_of(capsys: Any, home: Path) -> None:
    words = home / "words"
    words.write_text(f"{WORDS}\n")
    enrol = ["enrol", home / "dir", "ann", *key_of(home, "ann"), "--passphrase-file", words]
    words.chmod(0o640)
    _, said = ask(capsys, *enrol)
    assert f"{words} is open to other users: chmod 600 {words}" in said
    words.chmod(0o600)
    _, said = ask(capsys, *enrol)
    assert "open to other users" not in said


def test_keys_help_tells_how_long_a_passphrase_is(capsys: Any) -> None:
    assert "at least 8 characters" in " ".join(out_of(capsys, "create", "--help").split())


# -- what is refused in time


def test_keys_of_a_user_take_no_options_of_a_plan(capsys: Any, home: Path) -> None:
    cases = [["toy"], ["--dim", "3"], ["--security", "128"], ["--keys", "own"], [*SIMULATE]]
    for options in cases:
        command = ["create", home / "new", *options, *user_of(home)]
        require_refused(capsys, *command, code=2, words="without options of a plan")
    assert not (home / "new").exists()


def test_keys_paths_and_names_that_are_too_long_are_one_short_line(capsys: Any, home: Path) -> None:
    folder, name = home / "dir", "n" * 5000
    for path in (home / ("p" * 300), Path("/".join(["p" * 200] * 25))):
        for command in (
            ["create", path, *SIMULATE],
            ["create", home / "new", "--user", "--deployment", path],
            ["enrol", folder, "eve", "--public-key", path],
            ["enrol", folder, "eve", *key_of(home, "eve"), "--passphrase-file", path],
            ["list", path],
            ["list", folder, "--ledger", path],
            ["revoke", path, "ann"],
            ["rotate", path],
            ["server", folder, "--out", path],
            ["passphrase", path],
            ["show", path],
        ):
            require_refused(capsys, *command, code=2, words="the path is too long")
    for code, command in (
        (2, ["enrol", folder, name, *key_of(home, "eve")]),
        (1, ["revoke", folder, name]),
        (1, ["rotate", folder, "--user-key", name, *key_of(home, "eve")]),
    ):
        capsys.readouterr()
        assert main(["keys", *map(str, command)]) == code
        assert len(capsys.readouterr().err) < 300


def test_keys_folder_is_checked_before_the_passphrase_is_asked_for(
    capsys: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HELBA_PASSPHRASE")
    (home / "open").mkdir(mode=0o755)
    os.chmod(home / "open", 0o755)
    for options in (SIMULATE, user_of(home)):
        require_refused(capsys, "create", home / "open", *options, words="chmod 700")
        require_refused(capsys, "create", home / "new", *options, code=2, words="passphrase")
        assert not (home / "new").exists()


def test_keys_folder_that_another_command_works_on_stays(tmp_path: Path) -> None:
    """Two `create` on one folder: the one that made it is refused while the other makes keys."""
    folder = tmp_path / "dir"
    with ExitStack() as other:
        with suppress(Refused), new_folder(folder):
            other.enter_context(locked(folder))
            raise Refused("the other was faster")
        assert folder.exists()
    folder.rmdir()
    with suppress(Refused), new_folder(folder):
        raise Refused("nobody else is there")
    assert not folder.exists()


def test_keys_enrol_names_the_file_before_the_passphrase_is_asked_for(
    capsys: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = home / "dir"
    ask(capsys, "create", home / "other", *SIMULATE, "--security", "192")
    ask(capsys, "create", home / "fay", "--user", "--deployment", home / "other")
    monkeypatch.delenv("HELBA_PASSPHRASE")
    for path, words in (
        (home / "fay" / "public.key", "another deployment's parameters"),
        (folder / "server" / "public.key", "the collective key"),
        (folder / "server" / "evaluation.key", "evaluation key"),
        (folder / "deployment.json", "no"),
    ):
        for command in (["enrol", folder, "eve"], ["rotate", folder, "--user-key", "ann"]):
            line = f"{path}: "
            require_refused(capsys, *command, "--public-key", path, words=line)
            require_refused(capsys, *command, "--public-key", path, words=words)


# -- another passphrase


@pytest.mark.parametrize("name", ["dir", "ann"])
def test_keys_passphrase_is_changed(
    capsys: Any, home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = home / name
    before = files_of(folder)
    require_refused(capsys, "passphrase", home, words="no secret key")
    require_refused(capsys, "passphrase", folder, code=2, words="HELBA_NEW_PASSPHRASE")
    monkeypatch.setenv("HELBA_NEW_PASSPHRASE", "short")
    require_refused(capsys, "passphrase", folder, code=2, words="at least 8")
    monkeypatch.setenv("HELBA_NEW_PASSPHRASE", "other words")
    with monkeypatch.context() as patch:
        patch.setenv("HELBA_PASSPHRASE", "wrong")
        require_refused(capsys, "passphrase", folder, words="secret.key: wrong passphrase")
    assert files_of(folder) == before
    report, said = ask(capsys, "passphrase", folder)
    assert "still open with the old passphrase" in said
    changed = {path for path, found in files_of(folder).items() if found != before[path]}
    assert changed == {str(Path(report["secret_key"]).relative_to(folder))}
    if name == "dir":
        require_refused(capsys, "rotate", folder, words="wrong passphrase")
        monkeypatch.setenv("HELBA_PASSPHRASE", "other words")
        ask(capsys, "rotate", folder)
