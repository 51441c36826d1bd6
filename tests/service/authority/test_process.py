"""The authority as a process, started by its command: what it says, and what a kill costs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from helba.service.protocol.authorityfiles import SERVER
from helba.service.protocol.authoritystate import collective_id
from helba.service.protocol.files import read_deployment
from helba.service.protocol.keystore import list_members
from helba.service.protocol.tokens import hash_token, read_authority_hash, read_token_hashes
from tests.reference.protocol.folders import WORDS
from tests.service.authority.fakeserver import FakeServer, free_port
from tests.service.authority.office import ask, new_hash, public_key_of, wait_until
from tests.sweep import sweep

pytestmark = pytest.mark.slow
COMMAND = "import sys; from helba.cli.service.authority import app; app(sys.argv[1:])"
CREATE = ("--create", "toy", "--engine", "simulate")
WORKERS, KILLS, ENROLMENTS = 3, sweep(2, long=3), sweep(4, long=8)


def run(*arguments: object, words: str = WORDS) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *map(str, arguments)],
        env={**os.environ, "HELBA_PASSPHRASE": words},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Running:
    """A process that serves, and what it said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert process.stdout is not None
        lines = []
        while (line := process.stdout.readline()) and line != "}\n":
            lines.append(line)
        self.report: dict[str, Any] = json.loads("".join(lines) + "}") if lines else {}

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.said.extend(self.process.stderr)

    def end(self, number: int) -> int:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        code = self.process.wait(timeout=30)
        self._reader.join(10)
        return code


@contextmanager
def started(folder: Path, *options: object) -> Iterator[Running]:
    with run("serve", folder, "--open", "--port", 0, "--json", *options) as process:
        running = Running(process)
        try:
            assert running.report, "".join(running.said)
            yield running
        finally:
            running.end(signal.SIGKILL)


def client_of(running: Running) -> httpx.Client:
    return httpx.Client(base_url=running.report["url"], timeout=30.0, trust_env=False)


def test_one_command_makes_serves_and_ends_when_told(tmp_path: Path) -> None:
    folder, port = tmp_path / "keys", free_port()
    place = ("--server", f"http://127.0.0.1:{port}")
    with started(folder, *CREATE, *place) as running:
        assert running.report["key"] == collective_id(folder).hex()
        assert (folder / SERVER / "evaluation.key").exists()
        deployment, key = read_deployment(folder / "deployment.json"), collective_id(folder)
        with client_of(running) as client:
            answer = ask(client, "ann", public_key=public_key_of(deployment))
            assert answer.status_code == 202
            text = read_authority_hash(folder / SERVER)
            assert text is not None
            server = FakeServer(deployment, key=key, authority_hash=text)
            with server.serving(port=port):  # the server is started second
                wait_until(lambda: client.get(answer.headers["location"]).json()["delivered"])
                assert set(server.enrolled) == {answer.json()["user"]}
        assert running.end(signal.SIGTERM) == 0
        said = "".join(running.said)
        assert "for demonstrations only" in said
        assert "Traceback" not in said
        token = (folder / "server.token").read_text()
        for secret in (WORDS, token, hash_token(token)):
            assert secret not in said
    with started(folder, *CREATE, *place) as running:  # the same command again
        assert running.report["key"] == key.hex()
        assert running.end(signal.SIGINT) == 0
        assert any("served as it is" in line for line in running.said)


def test_kill_loses_no_enrolment_that_was_acknowledged(tmp_path: Path) -> None:
    folder, port = tmp_path / "keys", free_port()
    place = ("--server", f"http://127.0.0.1:{port}")
    acknowledged: dict[bytes, str] = {}
    asked = 0

    def work(running: Running, keys: list[bytes], first: int, enough: threading.Event) -> None:
        with client_of(running) as client, suppress(httpx.TransportError):
            for number, key in enumerate(keys, first):
                text = new_hash()
                answer = ask(client, f"user {number}", public_key=key, token_hash=text)
                assert answer.status_code in (201, 202), answer.text
                acknowledged[bytes.fromhex(answer.json()["user"])] = text
                if len(acknowledged) % ENROLMENTS == 0:
                    enough.set()

    for _ in range(KILLS):
        with started(folder, *CREATE, *place) as running:
            deployment = read_deployment(folder / "deployment.json")
            enough, threads = threading.Event(), []
            for _ in range(WORKERS):
                keys = [public_key_of(deployment) for _ in range(15)]
                threads.append(threading.Thread(target=work, args=(running, keys, asked, enough)))
                asked += len(keys)
            for thread in threads:
                thread.start()
            assert enough.wait(60.0)
            running.end(signal.SIGKILL)
            for thread in threads:
                thread.join(60.0)
        kept = {each.id for each in list_members(folder) if not each.revoked}
        assert acknowledged.keys() <= kept
        hashes = read_token_hashes(folder / SERVER)
        assert {user: hashes[user] for user in acknowledged} == acknowledged
    assert len(acknowledged) >= KILLS * ENROLMENTS // 2
    text = read_authority_hash(folder / SERVER)
    assert text is not None
    server = FakeServer(deployment, key=collective_id(folder), authority_hash=text)
    with server.serving(port=port), started(folder, *place):
        wanted = {user.hex(): text for user, text in acknowledged.items()}
        wait_until(lambda: wanted.items() <= server.enrolled.items(), seconds=60.0)
