"""`helba serve` as people run it, and what the process in front never loads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer

from helba.cli import main
from helba.cli.service.serve import serve
from helba.errors import InvalidInput, RunFailed
from helba.service import run
from tests.service.app.calling import SECONDS, wait_until
from tests.service.keys.keyhome import cheap_keys

COMMAND = """
import sys, typer
from helba.cli.service.serve import serve
if __name__ == "__main__":
    app = typer.Typer()
    app.command()(serve)
    app()
"""


def test_process_in_front_loads_no_openfhe() -> None:
    code = """
import sys
import helba.service.run
from helba.service.app import make_app
from helba.service.settings import Limits
app = make_app({}, limits=Limits(), version="1")
app.openapi()
heavy = {"openfhe", "matplotlib", "sklearn"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_command_is_loaded_without_the_service() -> None:
    code = """
import sys
import helba.cli.service.serve
heavy = {"openfhe", "matplotlib", "fastapi", "uvicorn", "sqlalchemy"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command tells the service, which serves nothing."""
    found: dict[str, Any] = {}

    def note(specs: Any, **options: Any) -> None:
        found.update(options, specs=specs)
        options["ready"]("http://127.0.0.1:1")

    monkeypatch.setattr(run, "serve", note)
    monkeypatch.setattr("helba.service.log.configure_logs", lambda *_: None)
    monkeypatch.delenv("HELBA_STORE", raising=False)
    return found


def invoke(*arguments: str) -> None:
    app = typer.Typer()
    app.command()(serve)
    app(args=list(arguments), standalone_mode=False)


def test_command_serves_one_folder_as_main(told, capsys) -> None:
    invoke("some/folder")
    (spec,) = told["specs"]
    assert (spec.name, spec.folder) == ("main", Path("some/folder"))
    assert (told["host"], told["port"], told["store"]) == ("127.0.0.1", 8700, None)
    assert capsys.readouterr() == ("serving main: http://127.0.0.1:1/\n", "")


def test_command_names_tenants(told, capsys) -> None:
    invoke("one=a", "two=b=c", "/d=e", "--json")
    named = [(each.name, str(each.folder)) for each in told["specs"]]
    assert named == [("one", "a"), ("two", "b=c"), ("main", "/d=e")]
    assert json.loads(capsys.readouterr().out) == {
        "url": "http://127.0.0.1:1",
        "page": "http://127.0.0.1:1/",
        "tenants": ["one", "two", "main"],
    }


def test_command_hands_limits_on(told) -> None:
    invoke(
        *("d", "--rate", "2.5", "--burst", "7"),
        *("--open-rounds", "9", "--port", "0"),
    )
    limits = told["limits"]
    assert (limits.rate_per_second, limits.burst, limits.most_open_rounds) == (2.5, 7, 9)


def test_command_takes_the_store_from_the_environment(told, monkeypatch, capsys) -> None:
    monkeypatch.setenv("HELBA_STORE", "postgresql://someone:secret@db/helba")
    invoke("d")
    assert told["store"] == "postgresql://someone:secret@db/helba"
    invoke("d", "--store", "sqlite:///other")
    assert told["store"] == "sqlite:///other"
    assert "secret" not in "".join(capsys.readouterr())


def test_command_leaves_no_secret_in_the_environment(told, monkeypatch) -> None:
    names = ("HELBA_STORE", "HELBA_PASSPHRASE", "HELBA_NEW_PASSPHRASE", "HELBA_INVITATION")
    for name in names:
        monkeypatch.setenv(name, "postgresql://someone:secret@db/helba")
    monkeypatch.setenv("HELBA_CACHE_DIR", "a/folder")
    invoke("d")
    assert told["store"]
    assert not set(names) & set(os.environ)
    assert os.environ["HELBA_CACHE_DIR"] == "a/folder"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.0.1"])
def test_command_does_not_warn_of_this_machine(told, host: str, capsys) -> None:
    invoke("d", "--host", host)
    assert told["host"] == host
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org", "10.0.0.1"])
def test_command_warns_where_others_can_read(told, host: str, capsys) -> None:
    invoke("d", "--host", host)
    assert capsys.readouterr().err.startswith("warning: without --tls-cert")
    invoke("d", "--host", host, "--tls-cert", "c", "--tls-key", "k")
    assert (told["tls_cert"], told["tls_key"]) == (Path("c"), Path("k"))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("d", "--tls-cert", "c"),
        ("d", "--tls-key", "k"),
        ("d", "--log-level", "loud"),
        ("d", "--rate", "0"),
        ("d", "--burst", "0"),
        ("a b=d",),
    ],
)
def test_command_refuses_what_is_inadmissible(told, arguments: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput):
        invoke(*arguments)
    assert told == {}


def test_command_of_a_folder_that_is_none_fails_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="no server's folder"):
        invoke(str(tmp_path), "--port", "0")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority's folder of a simulated deployment."""
    home = tmp_path_factory.mktemp("made") / "home"
    with contextmanager(cheap_keys)():
        assert main(["keys", "create", str(home), "toy", "--engine", "simulate"]) == 0
    return home


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_command_serves_a_simulated_deployment_until_it_is_told_to_end(
    home: Path, tmp_path: Path, number: signal.Signals
) -> None:
    script = tmp_path / "command.py"
    script.write_text(COMMAND)
    process = subprocess.Popen(
        [sys.executable, str(script), str(home / "server"), "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        wait_until(lambda: httpx.get(f"{url}/v1/ready", timeout=SECONDS).status_code == 200)
        report = httpx.get(f"{url}/v1/tenants/main", timeout=SECONDS).json()
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (report["state"], report["simulated"]) == ("serving", True)
    assert process.returncode == 0
    assert stdout == ""
    first, *lines = stderr.splitlines()
    assert "simulator" in first
    events = [json.loads(line)["event"] for line in lines]
    assert "request" in events
    assert "Traceback" not in stderr
