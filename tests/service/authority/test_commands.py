"""`helba authority`: invitations, one delivery, and what is refused before anything is made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helba.cli import main
from helba.cli.service.authority import app
from helba.errors import InvalidInput, RunFailed
from helba.service.authority.enroller import Enroller
from helba.service.protocol.authorityfiles import SERVER
from helba.service.protocol.keystore import revoke_member
from helba.service.protocol.tokens import read_token_hashes
from tests.reference.protocol.folders import WORDS, files_of
from tests.service.authority.office import NOWHERE, fake_server, new_hash, public_key_of


def run(*arguments: object) -> None:
    app(args=[str(each) for each in arguments], standalone_mode=False)


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELBA_PASSPHRASE", WORDS)


@pytest.fixture
def made(folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder that `helba keys create` made."""
    assert main(["keys", "create", str(folder), "--engine", "simulate"]) == 0
    capsys.readouterr()
    return folder


def ask(capsys: Any, *arguments: object) -> dict[str, Any]:
    run(*arguments, "--json")
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_invite_prints_a_code_that_enrols_once(made: Path, capsys: Any) -> None:
    run("invite", made, "ann", "--days", "1")
    captured = capsys.readouterr()
    code = captured.out.strip()
    assert code not in captured.err
    assert not any(code.encode() in data for data in files_of(made).values())
    other = ask(capsys, "invite", made, "bob")
    assert set(other) == {"name", "invitation", "expires_at"}
    enroller = Enroller(made, passphrase=WORDS)
    for name, invitation in (("ann", code), ("bob", other["invitation"])):
        key = public_key_of(enroller.deployment)
        enroller.enrol(name, public_key=key, token_hash=new_hash(), invitation=invitation)
    assert [each.name for each in enroller.records()] == ["ann", "bob"]


def test_sync_says_what_the_server_was_told(made: Path, capsys: Any) -> None:
    enroller = Enroller(made, passphrase=WORDS, open=True)
    key = public_key_of(enroller.deployment)
    user = enroller.enrol("ann", public_key=key, token_hash=new_hash()).id
    server = fake_server(enroller)
    with server.serving() as url:
        first = ask(capsys, "sync", made, "--server", url)
        assert (first["enrolled"], first["revoked"], first["users"]) == (["ann"], [], 1)
        revoke_member(made, "ann")
        second = ask(capsys, "sync", made, "--server", url)
        assert (second["enrolled"], second["revoked"], second["users"]) == ([], [user.hex()], 0)
    assert read_token_hashes(made / SERVER) == {}
    with pytest.raises(RunFailed, match="cannot be reached"):
        run("sync", made, "--server", NOWHERE)


def test_wrong_passphrase_is_refused_before_anything_is_served(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELBA_PASSPHRASE", "something else")
    with pytest.raises(Exception, match="wrong passphrase"):
        run("serve", made, "--port", 0)
    assert not (made / "server.token").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("serve",), "holds no authority: --create PROBLEM makes one"),
        (("serve", "--server", "http://10.1.1.1"), "--plain-http"),
        (("serve", "--public-server", "http://10.1.1.1"), "--public-server.*--plain-http"),
        (("serve", "--public-server", "ftp://example.org"), "--public-server"),
        (("serve", "--public-server", "https://me:word@example.org"), "--public-server"),
        (("serve", "--create", "toy", "--log-level", "loud"), "one of debug"),
        (("serve", "--create", "toy", "--keys", "shared"), "who shares a key need not enrol"),
        (("serve", "--create", "nonsense"), "one of "),
        (("sync",), "holds no authority"),
        (("invite", "ann"), "holds no authority"),
    ],
)
def test_what_cannot_be_is_refused_and_makes_nothing(
    folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    command, *rest = arguments
    with pytest.raises((InvalidInput, RunFailed), match=words):
        run(command, folder, *rest)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("arguments", "warned"),
    [
        (("--host", "0.0.0.0"), True),
        (("--host", "0.0.0.0", "--tls-cert", "c", "--tls-key", "k"), False),
        (("--host", "::1"), False),
        ((), False),
    ],
)
def test_serve_warns_where_others_can_read(
    folder: Path, capsys: Any, arguments: tuple[str, ...], warned: bool
) -> None:
    with pytest.raises(RunFailed, match="holds no authority"):
        run("serve", folder, *arguments)
    assert capsys.readouterr().err.startswith("warning: without --tls-cert") == warned


def test_invitations_that_cannot_be_are_refused(made: Path) -> None:
    for name, days in (("", 1), (" ann", 1), ("a\nb", 1), ("x" * 65, 1), ("ann", 0), ("ann", 1000)):
        with pytest.raises(InvalidInput):
            run("invite", made, name, "--days", days)
    assert not (made / "invitations.json").exists()
