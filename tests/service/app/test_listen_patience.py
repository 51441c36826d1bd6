"""What clients leave undone costs a connection and little memory: answers unread, bodies unsent."""

from __future__ import annotations

import asyncio
import re
import resource
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from helba.service import listen
from tests.service.app.calling import SECONDS, app_of, listening, wait_until
from tests.service.app.faking import ASK, TOKEN, FakeTenant
from tests.service.app.test_listen import write_certificate

KEY = bytes(range(256)) * (32 << 10)  # 8 MiB
GET_KEY = b"GET /v1/tenants/main/public-key HTTP/1.1\r\nHost: helba\r\n\r\n"
POST = b"POST /v1/tenants/main/rounds HTTP/1.1\r\nHost: helba\r\nContent-Length: %d\r\n\r\n"


class KeyTenant(FakeTenant):
    def public_key(self) -> bytes:
        return KEY


@pytest.fixture
def transports(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Transport]:
    """Those of all connections, as the server sees them."""
    found: list[asyncio.Transport] = []
    made = listen._Protocol.connection_made

    def note(self: Any, transport: asyncio.Transport) -> None:
        found.append(transport)
        made(self, transport)

    monkeypatch.setattr(listen._Protocol, "connection_made", note)
    return found


@contextmanager
def connected(url: str, *, window: int | None = None) -> Iterator[socket.socket]:
    """A connection; `window` is how many bytes its system takes while nobody reads."""
    with socket.socket() as client:
        client.settimeout(SECONDS)
        if window is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        client.connect(("127.0.0.1", int(url.rpartition(":")[2])))
        yield client


def read_all(client: socket.socket) -> bytes:
    """All that comes until the connection ends, in whatever way."""
    data = b""
    try:
        while part := client.recv(1 << 20):
            data += part
    except (ConnectionResetError, ssl.SSLError):
        pass
    return data


def read_status(client: socket.socket) -> int:
    """The status of the next answer, all of which is read."""
    data, length = b"", None
    while length is None or len(data.partition(b"\r\n\r\n")[2]) < length:
        part = client.recv(1 << 12)
        assert part, "the connection was closed"
        data += part
        head, end, _ = data.partition(b"\r\n\r\n")
        if end:
            length = int(re.findall(rb"(?i)content-length: (\d+)", head)[0])
    return int(data.split()[1])


def test_answer_that_nobody_reads_takes_little_memory_and_ends(
    monkeypatch: pytest.MonkeyPatch, transports: list[asyncio.Transport]
) -> None:
    monkeypatch.setattr(listen, "UNREAD_SECONDS", 1.0)
    with listening(app_of(KeyTenant())) as (url, _), connected(url, window=4096) as client:
        client.sendall(GET_KEY)
        wait_until(lambda: bool(transports) and transports[0].get_write_buffer_size() > 0)
        time.sleep(0.2)
        assert transports[0].get_write_buffer_size() <= listen.PIECE_BYTES
        wait_until(transports[0].is_closing)
        assert len(read_all(client)) < len(KEY) // 2


@pytest.mark.parametrize("ending", ["", "Connection: close\r\n"])
def test_short_answer_that_nobody_reads_ends_as_well(
    monkeypatch: pytest.MonkeyPatch, transports: list[asyncio.Transport], ending: str
) -> None:
    monkeypatch.setattr(listen, "UNREAD_SECONDS", 0.5)
    monkeypatch.setattr(listen, "UNSENT_BYTES", 4096)
    tenant = KeyTenant()
    monkeypatch.setattr(tenant, "public_key", lambda: KEY[: 48 << 10])
    with listening(app_of(tenant)) as (url, _), connected(url, window=4096) as client:
        client.sendall(GET_KEY.replace(b"\r\n\r\n", b"\r\n" + ending.encode() + b"\r\n"))
        wait_until(lambda: bool(transports) and transports[0].get_write_buffer_size() > 0)
        wait_until(lambda: transports[0].get_write_buffer_size() == 0)
        wait_until(transports[0].is_closing)


def test_tls_connection_of_who_says_nothing_more_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "UNREAD_SECONDS", 0.3)
    monkeypatch.setattr(listen, "HEAD_SECONDS", 0.2)
    cert, key = write_certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=str(cert))
    app = app_of(KeyTenant())
    with listening(app, tls_cert=cert, tls_key=key) as (url, _), connected(url) as client:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = trusting.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                client.sendall(outgoing.read())
                incoming.write(client.recv(1 << 16))
        client.sendall(outgoing.read())
        read_all(client)  # which ends, though no goodbye was said


def test_tls_handshake_that_does_not_come_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "HANDSHAKE_SECONDS", 0.2)
    cert, key = write_certificate(tmp_path)
    app = app_of(KeyTenant())
    with listening(app, tls_cert=cert, tls_key=key) as (url, _), connected(url) as client:
        assert read_all(client) == b""


@pytest.mark.parametrize("tls", [False, True])
def test_long_answer_arrives_whole(tmp_path: Path, tls: bool) -> None:
    cert, key = write_certificate(tmp_path)
    options = {"tls_cert": cert, "tls_key": key} if tls else {}
    verify = ssl.create_default_context(cafile=str(cert))
    with listening(app_of(KeyTenant()), **options) as (url, _):
        answer = httpx.get(f"{url}/v1/tenants/main/public-key", verify=verify, timeout=SECONDS)
    assert answer.content == KEY
    assert int(answer.headers["content-length"]) == len(KEY)


def test_answer_that_is_read_slowly_arrives_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "UNREAD_SECONDS", 0.5)
    end = time.monotonic() + 2.0
    with listening(app_of(KeyTenant())) as (url, _), connected(url, window=32 << 10) as client:
        client.sendall(GET_KEY.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        data = bytearray()
        while part := client.recv(16 << 10):
            data += part
            if time.monotonic() < end:
                time.sleep(0.02)
    assert data.endswith(KEY)


def test_body_after_its_answer_costs_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "REST_SECONDS", 0.5)
    with listening(app_of(FakeTenant())) as (url, _), connected(url) as client:
        client.sendall(POST % (1 << 30))
        assert read_status(client) == 401

        def is_closed() -> bool:
            try:
                client.sendall(b".")
            except (ConnectionResetError, BrokenPipeError):
                return True
            return False

        wait_until(is_closed)


def test_body_that_ends_soon_after_its_answer_keeps_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listen, "REST_SECONDS", 0.5)
    known = b"Authorization: Bearer %s\r\nContent-Length" % TOKEN.encode()
    with listening(app_of(FakeTenant())) as (url, _), connected(url) as client:
        for _ in range(2):
            client.sendall(POST % 1000)
            assert read_status(client) == 401
            client.sendall(bytes(1000) + (POST % len(ASK)).replace(b"Content-Length", known))
            time.sleep(0.7)  # the body of who may send one is waited for
            client.sendall(ASK)
            assert read_status(client) == 200


def test_connections_past_the_limit_are_told_so_and_then_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listen, "MOST_CONNECTIONS", 3)
    monkeypatch.setattr(listen, "SPARE_CONNECTIONS", 1)
    with listening(app_of(FakeTenant())) as (url, _):
        clients = [socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), SECONDS)]
        try:
            for _ in range(3):
                clients.append(socket.create_connection(clients[0].getpeername(), SECONDS))
            clients[3].sendall(b"GET /v1/health HTTP/1.1\r\nHost: helba\r\n\r\n")
            assert read_status(clients[3]) == 503
            with connected(url) as fourth, connected(url) as fifth:
                fifth.settimeout(listen.HEAD_SECONDS / 4)
                assert read_all(fifth) == b""
                fourth.close()
            for client in clients[1:]:
                client.close()

            def is_taken() -> bool:
                return httpx.get(f"{url}/v1/health", timeout=SECONDS).status_code == 200

            wait_until(is_taken)
        finally:
            for client in clients:
                client.close()


def test_connections_of_one_address_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "MOST_CONNECTIONS", 8)
    monkeypatch.setattr(listen, "LEAST_OF_ONE", 2)
    with listening(app_of(FakeTenant())) as (url, _):
        clients = [socket.socket() for _ in range(5)]
        for number, client in enumerate(clients):
            client.settimeout(SECONDS)
            client.bind((f"127.0.0.{1 + number // 4}", 0))
            client.connect(("127.0.0.1", int(url.rpartition(":")[2])))
        with connected(url) as sixth:
            sixth.settimeout(listen.HEAD_SECONDS / 4)
            assert read_all(sixth) == b""
        for client in clients:
            client.sendall(b"GET /v1/health HTTP/1.1\r\nHost: helba\r\n\r\n")
            assert read_status(client) == 200
            client.close()


def test_descriptors_are_raised_and_leave_room_beside_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = 1024
    if hard != resource.RLIM_INFINITY and hard <= low:
        pytest.skip(f"this system allows {hard} descriptors")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (low, hard))
        most = listen._allow_connections()
        raised, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert raised > low
        assert most <= raised - listen.RESERVED_DESCRIPTORS
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("limits", "most"),
    [((1024, 1024), 768), ((256, 256), 128), ((1024, 2048), 1792), ((-1, -1), 4096)],
)
def test_connections_are_fewer_than_descriptors(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], most: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    assert listen._allow_connections() == most
