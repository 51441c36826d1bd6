"""`helba keys` on the simulator: what it says, what it refuses, and that nothing is lost then."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helba.cli import main
from helba.service.protocol.process import ServerProcess
from tests.service.keys.keyhome import (
    WORDS,
    ask,
    files_of,
    key_of,
    require_refused,
    user_of,
)

# -- what it does


def test_keys_create_makes_folders_and_says_what_they_are(capsys: Any, tmp_path: Path) -> None:
    sizes = ["--dim", "3", "--arms", "4", "--horizon", "50"]
    options = ["--engine", "simulate", "--schedule", "public", "--keys", "switched"]
    report, said = ask(capsys, "create", tmp_path / "dir", "synthetic", *sizes, *options)
    assert report["keys"] == "switched"
    assert report["parameters"]["security"] == 128
    for words in ("nothing is encrypted", "planning", "evaluation keys"):
        assert words in said
    deployment = json.loads((tmp_path / "dir" / "deployment.json").read_text())
    settings = deployment["settings"]
    assert [settings[name] for name in ("dim", "arms", "horizon")] == [3, 4, 50]
    assert settings["schedule"] == "public"
    with ServerProcess(Path(report["server"])) as server:
        assert server.status().users == 0
    report, said = ask(capsys, "create", tmp_path / "ann", *user_of(tmp_path))
    assert "send" in said
    assert Path(report["public_key"]).exists()


def test_keys_paper_profile_has_its_own_bonus(capsys: Any, tmp_path: Path) -> None:
    ask(capsys, "create", tmp_path / "dir", "--engine", "simulate", "--profile", "paper")
    settings = json.loads((tmp_path / "dir" / "deployment.json").read_text())["settings"]
    assert (settings["profile"], settings["bonus"]) == ("paper", "sqrt")


def test_keys_story_of_a_user(capsys: Any, home: Path) -> None:
    folder, users = home / "dir", home / "dir" / "server" / "users"
    listed, _ = ask(capsys, "list", folder)
    states = {member["name"]: member["state"] for member in listed["members"]}
    assert states == {"ann": "enrolled", "bob": "enrolled"}
    assert (listed["bits"], listed["rotation_due"]) == (None, None)
    ids = {member["name"]: member["key"] for member in listed["members"]}
    assert {path.name for path in users.iterdir()} == {f"{i}.enrolment" for i in ids.values()}

    report, said = ask(capsys, "revoke", folder, "ann")
    assert (report["revoked"], report["id"]) == (True, ids["ann"])
    assert "could still re-encrypt to it until the collective key is rotated" in said
    assert not (users / f"{ids['ann']}.enrolment").exists()

    report, _ = ask(capsys, "enrol", folder, "ann", *key_of(home, "eve"))
    assert report["id"] not in ids.values()
    new = home / "new"
    ask(capsys, "create", new, *user_of(home))
    report, _ = ask(capsys, "rotate", folder, "--user-key", "bob", *key_of(home, "new"))
    assert {path.name for path in users.iterdir()} > {f"{report['id']}.enrolment"}
    assert not (users / f"{ids['bob']}.enrolment").exists()

    report, said = ask(capsys, "rotate", folder)
    assert report["enrolments"] == 2
    assert report["key"] != listed["key"]
    assert "making new collective keys" in said
    assert Path(report["rotation"]).stat().st_mode & 0o777 == 0o600
    adopted, _ = ask(capsys, "rotate", new, "--public-key", report["public_key"])
    assert adopted["key"] == report["key"]
    with ServerProcess(folder / "server") as server:
        assert server.status().users == 2
    _, said = ask(capsys, "revoke", folder, "ann")
    assert "must take" in said


def test_keys_list_shows_the_bits_and_asks_for_rotation(capsys: Any, home: Path) -> None:
    folder = home / "dir"
    listed, _ = ask(capsys, "list", folder)
    ann = listed["members"][0]["key"]
    budget = listed["bit_budget"]
    ledger = {"key": listed["key"], "total": budget + 1, "budget": budget, "bits": {ann: 12}}
    (folder / "server" / "ledger.json").write_text(json.dumps(ledger))
    listed, _ = ask(capsys, "list", folder)
    assert (listed["bits"], listed["rotation_due"]) == (budget + 1, True)
    assert [member["bits"] for member in listed["members"]] == [12, 0]
    assert main(["keys", "list", str(folder)]) == 0
    shown = capsys.readouterr().out
    for words in ("ann", ann, "enrolled", "since", "12", f"{budget + 1} of {budget}", "rotate"):
        assert words in shown
    ledger["bits"] = {ann: budget + 1}
    (folder / "server" / "ledger.json").write_text(json.dumps(ledger))
    listed, _ = ask(capsys, "list", folder)
    assert listed["replacement_due"] == ["ann"]
    ask(capsys, "rotate", folder)
    listed, _ = ask(capsys, "list", folder)
    assert (listed["bits"], listed["rotation_due"]) == (0, False)


def test_keys_list_where_all_share_one_key(capsys: Any, home: Path) -> None:
    assert main(["keys", "list", str(home / "shared")]) == 0
    assert "all users share" in capsys.readouterr().out


def test_keys_show_needs_no_passphrase_and_shows_no_secret(
    capsys: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(capsys, "rotate", home / "dir")
    monkeypatch.delenv("HELBA_PASSPHRASE")
    for name, kind in (
        ("dir", "authority's folder"),
        ("dir/server", "server's folder"),
        ("ann", "user's folder"),
    ):
        report, _ = ask(capsys, "show", home / name)
        assert (report["kind"], report["mode"]) == (kind, "700")
        assert not any("error" in file or "warning" in file for file in report["files"])
        assert not [file for file in report["files"] if file["kind"] == "unknown"]
        assert main(["keys", "show", str(home / name)]) == 0
        assert "deployment.json" in capsys.readouterr().out
    kinds = {
        "dir/keys-2/public.key": "public key",
        "dir/keys-2/evaluation.key": "evaluation key",
        "dir/keys-2/secret.key": "sealed secret",
        "dir/deployment.json": "deployment",
        "dir/server/rotation.key": "rotation",
    }
    for name, kind in kinds.items():
        report, _ = ask(capsys, "show", home / name)
        assert report["kind"] == kind
        assert report["bytes"] == (home / name).stat().st_size
        if kind != "sealed secret":
            assert report["security"] == "none: simulated"
            assert report["parameters"]["ring_dim"] >= 1 << 13
    report, _ = ask(capsys, "show", home / "ann" / "public.key")
    listed, _ = ask(capsys, "list", home / "dir")
    assert report["owner"] == listed["members"][0]["key"]


def test_keys_show_warns_of_secrets_that_are_open(capsys: Any, home: Path) -> None:
    path = home / "ann" / "secret.key"
    path.chmod(0o644)
    report, _ = ask(capsys, "show", path)
    assert "chmod 600" in report["warning"]
    (home / "ann").chmod(0o755)
    report, _ = ask(capsys, "show", home / "ann")
    assert "chmod 700" in report["warning"]


def test_keys_take_the_passphrase_from_a_file(
    capsys: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELBA_PASSPHRASE", "something else")
    words = home / "words"
    words.write_text(f"{WORDS}\n")
    report, _ = ask(
        capsys, "enrol", home / "dir", "eve", *key_of(home, "eve"), "--passphrase-file", words
    )
    assert report["name"] == "eve"


def test_keys_passphrase_is_in_no_file(home: Path, capsys: Any) -> None:
    ask(capsys, "rotate", home / "dir")
    for name, (data, _) in files_of(home).items():
        assert WORDS.encode() not in data, name


def test_keys_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from helba.cli import main; main(['keys', '--help']);"
        "heavy = {'openfhe', 'cryptography', 'helba.reference.protocol'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


# -- what it refuses


def test_keys_usage_errors_are_one_line_and_code_2(
    capsys: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, free = home / "dir", home / "free"
    before = files_of(home)
    simulate = ["--engine", "simulate"]
    cases: list[tuple[list[object], str]] = [
        (["create", free, "--user"], "--deployment"),
        (["create", free, "--deployment", folder], "--user"),
        (["create", free, "chess", *simulate], "'chess'"),
        (["create", free, "--engine", "tfhe"], "'tfhe'"),
        (["create", free, *simulate, "--keys", "none"], "'none'"),
        (["create", free, *simulate, "--security", "100"], "128, 192, 256"),
        (["create", free, *simulate, "--dim", "x"], "whole number"),
        (["create", free, *simulate, "--profile", "shares"], "one of ciphertext, paper"),
        (["enrol", folder, "eve"], "--public-key"),
        (["enrol", folder, " eve", *key_of(home, "eve")], "printable"),
        (["rotate", folder, "--user-key", "ann"], "--public-key"),
        (["rotate", folder, *key_of(home, "eve")], "--user-key"),
        (["rotate", home / "ann"], "--public-key"),
        (["rotate", home / "ann", *key_of(home, "ann")], "collective"),
        (["revoke", folder], "NAME"),
        ([], "command"),
    ]
    for command, words in cases:
        require_refused(capsys, *command, code=2, words=words)
    monkeypatch.setenv("HELBA_PASSPHRASE", "short")
    require_refused(capsys, "create", free, *simulate, code=2, words="at least 8")
    monkeypatch.delenv("HELBA_PASSPHRASE")
    require_refused(capsys, "rotate", folder, code=2, words="passphrase")
    assert files_of(home) == before
    assert not free.exists()


def test_keys_refusals_are_one_line_and_lose_nothing(capsys: Any, home: Path) -> None:
    folder, shared = home / "dir", home / "shared"
    before = files_of(home)
    cases: list[tuple[list[object], str]] = [
        (["create", folder, "--engine", "simulate"], "holds an authority already"),
        (["create", home / "ann", *user_of(home)], "holds a user's keys already"),
        (["create", home / "x", "--user", "--deployment", home], "deployment.json"),
        (["create", home / "x", "--user", "--deployment", shared], "share one key"),
        (["enrol", folder, "ann", *key_of(home, "eve")], "ann is enrolled already"),
        (["enrol", folder, "eve", *key_of(home, "ann")], "another name"),
        (["enrol", folder, "eve", "--public-key", home / "nothing"], "cannot read"),
        (["enrol", folder, "eve", "--public-key", home / "ann" / "secret.key"], "helba"),
        (["enrol", shared, "eve", *key_of(home, "eve")], "share one key"),
        (["enrol", home / "ann", "eve", *key_of(home, "eve")], "holds no authority"),
        (["list", home / "ann"], "holds no authority"),
        (["list", home / "nowhere"], "holds no authority"),
        (["revoke", folder, "eve"], "nobody of the name eve"),
        (["revoke", shared, "eve"], "share one key"),
        (["revoke", home, "eve"], "holds no authority"),
        (["rotate", home], "holds no authority"),
        (["rotate", folder, "--user-key", "eve", *key_of(home, "eve")], "nobody of the name eve"),
        (["show", home / "nothing"], "cannot read"),
        (["show", home], "without keys"),
    ]
    for command, words in cases:
        require_refused(capsys, *command, words=words)
    assert files_of(home) == before
    ask(capsys, "revoke", folder, "ann")
    before = files_of(home)
    require_refused(capsys, "revoke", folder, "ann", words="ann is revoked already")
    require_refused(
        capsys, "rotate", folder, "--user-key", "ann", *key_of(home, "eve"), words="enrol again"
    )
    assert files_of(home) == before
    ask(capsys, "rotate", folder)
    before = files_of(home)
    require_refused(capsys, "rotate", folder, words="has not been taken")
    assert files_of(home) == before


def test_keys_wrong_passphrase_is_one_line_and_loses_nothing(
    capsys: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, before = home / "dir", files_of(home)
    monkeypatch.setenv("HELBA_PASSPHRASE", "wrong horse")
    for command in (
        ["enrol", folder, "eve", *key_of(home, "eve")],
        ["enrol", folder, "ann", *key_of(home, "eve"), "--replace"],
        ["rotate", folder],
        ["rotate", folder, "--user-key", "ann", *key_of(home, "eve")],
    ):
        require_refused(capsys, *command, words="wrong passphrase")
    assert files_of(home) == before


@pytest.mark.parametrize(
    "name",
    [
        "deployment.json",
        "current.json",
        "members.json",
        "keys-1/public.key",
        "keys-1/evaluation.key",
        "keys-1/secret.key",
    ],
)
def test_keys_damaged_or_missing_file_is_one_line(capsys: Any, home: Path, name: str) -> None:
    folder, path = home / "dir", home / "dir" / name
    whole = path.read_bytes()
    for data in (whole[: len(whole) // 2], whole[:30] + b"\x00" + whole[31:], b"", None):
        path.unlink()
        if data is not None:
            path.write_bytes(data)
            path.chmod(0o600)
        before = files_of(home)
        words = "authority" if name == "current.json" and data is None else name
        require_refused(capsys, "rotate", folder, words=words)
        require_refused(capsys, "enrol", folder, "eve", *key_of(home, "eve"), words=words)
        assert files_of(home) == before
        if data is not None and name.endswith(".key"):
            require_refused(capsys, "show", path, words=name)
        path.write_bytes(whole)
        path.chmod(0o600)


def test_keys_folder_that_is_not_private_is_refused(capsys: Any, home: Path) -> None:
    folder = home / "dir"
    for path, words in (
        (folder, "chmod 700"),
        (folder / "keys-1" / "secret.key", "chmod 600"),
        (folder / "members.json", "chmod 600"),
    ):
        before = path.stat().st_mode
        path.chmod(0o755)
        require_refused(capsys, "rotate", folder, words=words)
        path.chmod(before)
    (home / "ann").chmod(0o755)
    require_refused(
        capsys, "rotate", home / "ann", *key_of(home, "bob"), words="open to other users"
    )
    (home / "open").mkdir(mode=0o755)
    require_refused(capsys, "create", home / "open", *user_of(home), words="chmod 700")


def test_keys_damaged_public_key_of_a_user_is_refused(capsys: Any, home: Path) -> None:
    path = home / "eve" / "public.key"
    path.write_bytes(path.read_bytes()[:-1])
    before = files_of(home / "dir")
    require_refused(capsys, "enrol", home / "dir", "eve", *key_of(home, "eve"), words="bytes")
    require_refused(capsys, "show", path, words="public.key")
    assert files_of(home / "dir") == before
