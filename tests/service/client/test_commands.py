"""`helba client`: what it prints, and that errors are one line without secrets."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helba.cli import main
from helba.service.client import transport
from helba.service.client.account import read_account, read_token, write_account
from helba.service.protocol import vault
from helba.service.protocol.tokens import make_token
from tests.service.client.fake import Fake, serving, write_certificate

WORDS = "correct horse battery staple"
INVITATION = make_token("invitation")


@pytest.fixture(scope="module")
def fake() -> Iterator[Fake]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vault, "COST", vault.Cost(n=16, r=1, p=1))
        patch.setenv("HELBA_PASSPHRASE", WORDS)
        with serving(Fake(secure=True)) as found:
            yield found


def ask(capsys: Any, *command: object) -> Any:
    """The JSON of a command that succeeds."""
    capsys.readouterr()
    assert main(["client", *map(str, command), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def require_refused(capsys: Any, *command: object, code: int = 1, words: str) -> None:
    capsys.readouterr()
    assert main(["client", *map(str, command)]) == code
    captured = capsys.readouterr()
    assert not captured.out
    *said, line = captured.err.splitlines()
    assert all(text.startswith("enrolling at ") for text in said)
    assert line.startswith("helba: ")
    assert words in line
    for secret in (WORDS, INVITATION, "helba_u_"):
        assert secret not in captured.err


def test_client_run_enrols_on_first_use_and_reports(
    fake: Fake, capsys: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "alice"
    command = ["client", "run", folder, "toy", "--authority", fake.url, "--rounds", 5, "--json"]
    assert main(list(map(str, command))) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert report["rounds"] == len(report["arms"]) == 5
    assert report["key"] == fake.key
    assert set(report["arms"]) <= {0, 1}
    assert report["regret"] >= 0.0
    assert report["ask_ms"]["p50"] > 0.0
    assert report["reward_ms"]["p95"] > 0.0
    assert report["bytes_up"] > 0
    assert report["seconds"] > 0.0
    assert f"the collective key is {fake.key}" in captured.err
    assert "nothing is encrypted" in captured.err
    assert read_token(folder) not in captured.err + captured.out
    assert "alice" in fake.names
    again = ask(capsys, "run", folder, "toy", "--rounds", 1)
    assert again["user"] == report["user"]


def test_client_commands_lead_through_a_round(
    fake: Fake, capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bob"
    monkeypatch.setenv("HELBA_INVITATION", INVITATION)
    enrolled = ask(capsys, "enrol", folder, "--authority", fake.url, "--name", "bob b")
    assert (enrolled["name"], enrolled["key"]) == ("bob b", fake.key)
    assert enrolled["tenant"] == "main"
    assert not enrolled["pinned"]
    contexts = tmp_path / "contexts.json"
    contexts.write_text("[[1.0, 0.2], [-0.5, 0.6]]")
    first = ask(capsys, "ask", folder, "--contexts", contexts)
    assert set(first) == {"arm", "round", "overflow"}
    rows = io.TextIOWrapper(io.BytesIO(contexts.read_bytes()))
    monkeypatch.setattr(sys, "stdin", rows)
    second = ask(capsys, "ask", folder, "--contexts", "-")
    drawn = ask(capsys, "ask", folder, "--problem", "toy", "--seed", 3)
    shown = ask(capsys, "status", folder)
    rounds = [each["round"] for each in (first, second, drawn)]
    assert shown["open_rounds"] == rounds
    assert shown["service"]["state"] == "serving"
    assert ask(capsys, "reward", folder, drawn["round"], drawn["reward"])["counted"]
    assert ask(capsys, "reward", folder, first["round"], "-0.25")["counted"]
    assert ask(capsys, "forget", folder, second["round"])["forgotten"]
    assert ask(capsys, "flush", folder)["sent"] == 0
    assert ask(capsys, "help", folder)["tasks"] >= 0
    assert ask(capsys, "status", folder)["open_rounds"] == []


def test_client_watch_helps_until_interrupted(
    fake: Fake, capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from helba.cli.service import client as commands

    folder, naps = tmp_path / "cleo", []
    ask(capsys, "enrol", folder, "--authority", fake.url)

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(commands.time, "sleep", nap)
    assert ask(capsys, "help", folder, "--watch")["tasks"] == 0
    assert len(naps) == 2


def test_client_command_finishes_an_enrolment_that_was_begun(
    fake: Fake, capsys: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "gil"
    fake.order("POST", "enrolments", "broken")
    require_refused(capsys, "enrol", folder, "--authority", fake.url, words="ordered: broken")
    assert "gil" not in fake.names
    assert ask(capsys, "ask", folder, "--problem", "toy")["arm"] in (0, 1)
    assert "gil" in fake.names


def test_client_command_may_be_repeated_with_the_authority_in_another_form(
    fake: Fake, capsys: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "hal"
    ask(capsys, "enrol", folder, "--authority", fake.url)
    account = read_account(folder)
    named = replace(account, authority="https://authority.example")
    write_account(folder, named)
    for url in ("https://Authority.Example:443/", "https://authority.example"):
        drawn = ask(capsys, "ask", folder, "--problem", "toy", "--authority", url)
        assert drawn["arm"] in (0, 1)
    plain = replace(account, authority="http://127.0.0.1")
    write_account(folder, plain)
    ask(capsys, "ask", folder, "--problem", "toy", "--authority", "http://127.0.0.1:80")
    command = ["ask", folder, "--problem", "toy", "--authority"]
    require_refused(capsys, *command, "http://127.0.0.1:81", words="that of hal")
    require_refused(capsys, *command, "nowhere", code=2, words="https://")


def test_client_command_goes_on_with_the_certificates_it_was_given(
    fake: Fake, capsys: Any, tmp_path: Path
) -> None:
    folder, certificate = tmp_path / "ian", write_certificate(tmp_path / "fake.pem")
    with serving(Fake(secure=True), certificate=certificate) as guarded:
        guarded.order("POST", "enrolments", "broken")
        command = ["enrol", folder, "--authority", guarded.url, "--ca", certificate]
        require_refused(capsys, *command, words="ordered: broken")
        assert ask(capsys, "ask", folder, "--problem", "toy")["arm"] in (0, 1)
    assert read_account(folder).ca == str(certificate)
    assert "ian" not in fake.names


def test_client_flush_sends_refused_rewards_again_when_told(
    fake: Fake, capsys: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "joe"
    ask(capsys, "enrol", folder, "--authority", fake.url)
    drawn = ask(capsys, "ask", folder, "--problem", "toy")
    fake.order("POST", "rewards", "helba 409")
    require_refused(capsys, "reward", folder, drawn["round"], "0.5", words="ordered: helba 409")
    left = ask(capsys, "flush", folder)
    assert (left["sent"], list(left["refused_reports"])) == (0, [drawn["round"]])
    done = ask(capsys, "flush", folder, "--refused")
    assert (done["sent"], done["refused_reports"]) == (1, {})


def test_client_help_says_where_an_invitation_is_safer(capsys: Any) -> None:
    for command in ("enrol", "ask", "run"):
        assert main(["client", command, "--help"]) == 0
        shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
        assert "safer in HELBA_INVITATION" in shown


def test_client_shows_people_a_table(fake: Fake, capsys: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "dora")
    command = ["client", "run", folder, "toy", "--authority", fake.url, "--rounds", "2"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    for words in ("regret", "ask_ms p95", "bytes_up"):
        assert words in shown


def test_client_adopts_a_rotated_key_that_was_compared(
    fake: Fake, capsys: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "eve"
    old = fake.key
    assert ask(capsys, "enrol", folder, "--authority", fake.url, "--key", old)["pinned"]
    new = fake.rotate()
    require_refused(capsys, "ask", folder, "--problem", "toy", words=f"is {new} now")
    found = ask(capsys, "adopt", folder, "--key", new)
    assert found == {"old_key": old, "key": new}
    ask(capsys, "ask", folder, "--problem", "toy")


def test_client_errors_are_one_line(
    fake: Fake, capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, folder = tmp_path / "new", tmp_path / "fay"
    require_refused(capsys, "ask", new, "--problem", "toy", words="helba client enrol")
    require_refused(
        capsys, "enrol", new, "--authority", "http://192.0.2.1", code=2, words="reads the token"
    )
    require_refused(capsys, "enrol", new, "--authority", "nowhere", code=2, words="https://")
    ask(capsys, "enrol", folder, "--authority", fake.url)
    require_refused(capsys, "ask", folder, code=2, words="--contexts")
    require_refused(capsys, "ask", folder, "--contexts", new / "no", words="cannot read")
    require_refused(capsys, "ask", folder, "--problem", "nothing", code=2, words="one of toy")
    require_refused(
        capsys, "ask", folder, "--problem", "synthetic", "--seed", -1, code=2, words="0"
    )
    require_refused(capsys, "reward", folder, "xy", "1", code=2, words="hexadecimal")
    require_refused(capsys, "reward", folder, "00" * 16, "1", code=2, words="open")
    require_refused(capsys, "reward", folder, "00" * 16, "much", code=2, words="number")
    require_refused(capsys, "forget", folder, "00" * 16, code=2, words="neither")
    key = ["--authority", fake.url, "--key", "12"]
    require_refused(capsys, "enrol", new, *key, code=2, words="hexadecimal")
    assert not new.exists()
    other = ["--authority", "http://127.0.0.1:1", "--problem", "toy"]
    require_refused(capsys, "ask", folder, *other, words="that of fay")
    damaged = tmp_path / "damaged.json"
    damaged.write_text("[[1")
    require_refused(capsys, "ask", folder, "--contexts", damaged, words="not JSON")
    damaged.write_text('[["a", 1]]')
    require_refused(capsys, "ask", folder, "--contexts", damaged, code=2, words="real numbers")
    monkeypatch.setenv("HELBA_PASSPHRASE", "wrong wrong wrong")
    require_refused(capsys, "status", folder, words="wrong passphrase")


def test_client_says_what_it_waits_for(
    fake: Fake, capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kim"
    ask(capsys, "enrol", folder, "--authority", fake.url)
    monkeypatch.setattr(transport, "TELL_SECONDS", 0.0)
    fake.order("POST", "terms", "busy", "busy")
    assert main(["client", "ask", str(folder), "--problem", "toy", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["arm"] in (0, 1)
    (line,) = captured.err.splitlines()
    assert line == f"{fake.url}: ordered: busy; trying again, for 300 s at most"


def test_client_commands_load_no_http_until_they_run() -> None:
    import subprocess

    script = (
        "import sys, helba.cli.service.client, helba.cli.service.load;"
        "print([n for n in ('httpx', 'fastapi', 'openfhe', 'matplotlib') if n in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert found.stdout.decode().strip() == "[]"
