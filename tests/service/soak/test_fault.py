"""A full disk, a store that goes away, a client that breaks off: every reward counts once."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from helba.problems import make_problem
from helba.service.client import Client
from tests.service.databases import CONTROL, SERVER, control_postgres, fresh_postgres
from tests.service.soak.audit import Notes, audit, read_notes
from tests.service.soak.killing import playing
from tests.service.soak.player import Notebook, Player, Table
from tests.service.soak.service import ROOT, WORDS, Service, Setting, serving

pytestmark = [pytest.mark.slow, pytest.mark.ckks]
USERS = 3
DISK_BYTES = 16 << 20
# How long a writer waits for SQLite's lock, and longer.
BUSY_SECONDS, AWAY_SECONDS = 1.0, 30.0
# Opens a folder, and is killed when its report is sent, or when the receipt is on its way back.
CUT_OFF = """
import os, signal, sys
from tests.service.soak.player import PATIENCE
from tests.service.soak.service import WORDS
from helba.service.client import Client
folder, moment, round, reward = sys.argv[1:]
client = Client.open(folder, passphrase=WORDS, patience=PATIENCE, allow_insecure=True)
def end(message):
    request = message if moment == "request" else message.request
    if request.url.path.endswith("/rewards"):
        os.kill(os.getpid(), signal.SIGKILL)
client.transport._client.event_hooks = {moment: [end]}
client.reward(round, float(reward))
"""


@contextmanager
def full_disk(disk: Path, size: int) -> Iterator[None]:
    """A disk without room."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(size >> 8))
        except OSError:
            yield
    filler.unlink()


@contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """A SQLite store that another process writes to without end."""
    connection = sqlite3.connect(path, timeout=30.0, isolation_level=None)
    try:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


@contextmanager
def stopped_postgres() -> Iterator[None]:
    """A database server that is down."""
    control_postgres("stop")
    try:
        yield
    finally:
        control_postgres("start")


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """A disk of a few MiB; skips where none can be mounted."""
    path.mkdir()
    size = f"size={DISK_BYTES}"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(path)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def seat(service: Service, *, name: str = "probe") -> Player:
    return table_of(service, name=name).seat_guest(name, seed=9)


def table_of(service: Service, *, name: str = "probe") -> Table:
    return Table(
        authority=service.urls["authority"],
        insecure=True,
        problem="toy",
        notebook=Notebook(service.folder / f"{name}.jsonl"),
    )


def notes_of(service: Service) -> Notes:
    return read_notes(sorted(service.folder.rglob("*.jsonl")))


def require_sound(service: Service) -> Notes:
    """Stop, and compare what was learnt with what was acknowledged."""
    for name in ("authority", "server"):
        assert service.stop(name) == 0
    notes = notes_of(service)
    assert {round for round, _ in notes.receipts} == notes.sent.keys()
    found = audit(service, notes.acknowledged, enrolled=notes.enrolled)
    assert found["faults"] == []
    assert service.complaints() == []
    assert all(not each["refused"] for each in notes.ends)
    return notes


def receipts(service: Service) -> int:
    return len(notes_of(service).receipts)


def play_through(service: Service, away: Callable[[], Any], *, words: str) -> Notes:
    """Users play while the store goes away and comes back; what a request is told meanwhile."""
    probe = seat(service)
    with playing(service, users=USERS, guests=0):
        service.wait("server", lambda: receipts(service) >= 2 * USERS)
        each = next(probe._rounds)
        advice = probe.client.recommend(each.contexts)
        context, reward = each.contexts[advice.arm], float(each.rewards[advice.arm])
        probe._notebook.write(
            "reward",
            user=probe.client.id,
            round=advice.round,
            context=context.tolist(),
            reward=reward,
        )
        report = probe.client._user.report(
            bytes.fromhex(advice.round), context=context, reward=reward
        )
        with away():
            said: list[httpx.Response] = []

            def is_told() -> bool:
                said.append(
                    probe.client.transport._client.post(
                        "v1/tenants/main/rewards",
                        content=report,
                        headers={"Content-Type": "application/octet-stream"},
                        timeout=AWAY_SECONDS,
                    )
                )
                return said[-1].status_code == 503

            service.wait("server", is_told, seconds=AWAY_SECONDS)
            assert words in said[-1].json()["detail"]
            assert int(said[-1].headers["retry-after"]) >= 1
            before = receipts(service)
        service.wait("server", lambda: receipts(service) >= before + 2 * USERS)
        probe.client.reward(advice.round, reward)
        probe.finish()
    return require_sound(service)


def test_full_disk_is_told_and_survived(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        store = f"sqlite:///{disk / 'store.sqlite3'}"
        setting = Setting(insecure=True, store=store, busy_seconds=BUSY_SECONDS)
        with serving(tmp_path, setting=setting) as service:
            play_through(service, lambda: full_disk(disk, DISK_BYTES), words="no room left")


def test_locked_store_is_told_and_survived(tmp_path: Path) -> None:
    setting = Setting(insecure=True, busy_seconds=BUSY_SECONDS)
    with serving(tmp_path, setting=setting) as service:
        path = Path(service.store_url.removeprefix("sqlite:///"))
        play_through(service, lambda: locked_file(path), words="locked")


@pytest.mark.stops_database
@pytest.mark.skipif(
    SERVER is None or CONTROL is None, reason="no PostgreSQL (scripts/with-postgres)"
)
def test_database_that_is_stopped_is_told_and_survived(tmp_path: Path) -> None:
    assert SERVER is not None
    with (
        fresh_postgres(SERVER) as url,
        serving(
            tmp_path, setting=Setting(insecure=True, store=url, busy_seconds=BUSY_SECONDS)
        ) as service,
    ):
        play_through(service, stopped_postgres, words="the store at postgresql://")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service for clients that break off; what was learnt is compared in the end."""
    folder = tmp_path_factory.mktemp("broken")
    with serving(folder, setting=Setting(insecure=True)) as service:
        yield service
        require_sound(service)


def open_round(player: Player) -> tuple[str, float, dict[str, Any]]:
    """A round that has an arm and no reward."""
    each = next(iter(make_problem("toy", seed=3).rounds(1)))
    advice = player.client.recommend(each.contexts)
    context, reward = each.contexts[advice.arm], float(each.rewards[advice.arm])
    note = {"round": advice.round, "context": context.tolist(), "reward": reward}
    player._notebook.write("reward", user=player.client.id, **note)
    return advice.round, reward, note


def test_upload_that_breaks_off_counts_once_when_it_is_sent_again(service: Service) -> None:
    player = seat(service, name="half")
    round, reward, note = open_round(player)
    client = player.client
    report = client._user.report(
        bytes.fromhex(round), context=note["context"], reward=note["reward"]
    )
    host, port = service.urls["server"].removeprefix("http://").split(":")
    head = (
        f"POST /v1/tenants/main/rewards HTTP/1.1\r\nHost: {host}\r\n"
        f"Authorization: {client.transport._client.headers['authorization']}\r\n"
        f"Content-Type: application/octet-stream\r\nContent-Length: {len(report)}\r\n\r\n"
    )
    for part in (0, len(report) // 2, len(report) - 1):
        with socket.create_connection((host, int(port)), timeout=10.0) as connection:
            connection.sendall(head.encode() + report[:part])
    assert client.reward(round, reward)  # True: none of the pieces was counted
    player.finish()


@pytest.mark.parametrize("moment", ["request", "response"])
def test_client_killed_before_its_receipt_counts_once_after_a_flush(
    service: Service, tmp_path: Path, moment: str
) -> None:
    folder, name = tmp_path / "user", f"killed-{moment}"
    player = table_of(service, name=name).seat(folder, name=name, seed=4)
    round, reward, _ = open_round(player)
    player.client.close()
    done = subprocess.run(
        [sys.executable, "-c", CUT_OFF, str(folder), moment, round, repr(reward)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL
    client = Client.open(folder, passphrase=WORDS, allow_insecure=True)
    again = Player(client, notebook=player._notebook, problem="toy", seed=4)
    assert client.flush().sent == 1
    assert client.flush().sent == 0
    again.finish()
    found = dict(notes_of(service).receipts)
    assert found[round] is (moment == "request")  # with a response the server had counted it


def test_notebooks_are_lines_of_json(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path / "book.jsonl")
    notebook.write("reward", user="ab", round="cd", context=[1.0], reward=0.5)
    notebook.write("receipt", user="ab", round="cd", counted=True)
    lines = [json.loads(line) for line in (tmp_path / "book.jsonl").read_text().splitlines()]
    assert [each["kind"] for each in lines] == ["reward", "receipt"]
    assert read_notes([tmp_path / "book.jsonl"]).acknowledged[0].round == "cd"
