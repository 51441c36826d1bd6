"""Attacks on their way: many connections side by side, and sockets that speak no HTTP."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx

SECONDS = 60.0
CONNECTIONS = 4
CLOSED = 0  # instead of a status: the server ended the connection


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A request that must change nothing; `chunked` bodies do not say how long they are."""

    name: str
    method: str
    url: str
    headers: dict[str, str | bytes] = field(default_factory=dict, repr=False)
    content: bytes = field(default=b"", repr=False)
    chunked: bool = False


def send_all(attacks: Sequence[Attack]) -> Counter[tuple[str, int]]:
    """Send them, and count by name and status."""
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        parts = [attacks[i::CONNECTIONS] for i in range(CONNECTIONS)]
        return sum(pool.map(_send_some, parts), Counter())


def _send_some(attacks: Sequence[Attack]) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    with httpx.Client(timeout=SECONDS) as client:
        for each in attacks:
            content = _pieces(each.content) if each.chunked else each.content
            try:
                answer = client.request(
                    each.method, each.url, headers=each.headers, content=content
                )
            except (httpx.WriteError, httpx.ReadError, httpx.RemoteProtocolError):
                found[each.name, CLOSED] += 1
            else:
                found[each.name, answer.status_code] += 1
                if answer.status_code >= 500:
                    print(f"{each.name}: {each.method} {each.url}: {answer.text}")
    return found


def _pieces(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), 1 << 14):
        yield data[start : start + (1 << 14)]


GARBAGE = {
    "nothing": b"",
    "noise": bytes(range(256)) * 8,
    "zeros": bytes(4096),
    "line ends": b"\r\n" * 2000,
    "tls": bytes.fromhex("16030100a5010000a10303") + b"\x07" * 160,
    "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "version": b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
    "no host": b"GET /v1/health HTTP/1.1\r\n\r\n",
    "no colon": b"GET /v1/health HTTP/1.1\r\nHost a\r\n\r\n",
    "long line": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "long head": b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    "bad path": b"GET /\xff\xfe\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
    "bad escape": b"GET /v1/tenants/%ff%00%zz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"
    b"ab",
    "negative length": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
    "long length": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 40 + b"\r\n\r\n",
    "bad chunk": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "huge chunk": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"f" * 16
    + b"\r\nab",
    "other coding": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\nab",
    "both": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"
    b"0\r\n\r\n",
    "upgrade": b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade, close\r\n\r\n",
    "half a head": b"POST /v1/tenants/single/rounds HTTP/1.1\r\nHost: a\r\nAuth",
    "pipelined": b"GET /v1/health HTTP/1.1\r\nHost: a\r\n\r\n" * 20 + b"\x00garbage",
}


def send_garbage(url: str, data: bytes) -> list[int]:
    """The statuses that come back on a connection until its end."""
    at = httpx.URL(url)
    assert at.port is not None
    received = b""
    with socket.create_connection((at.host, at.port), timeout=SECONDS) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(1 << 16):
                received += piece
        except (BrokenPipeError, ConnectionResetError):
            pass
    return [int(each[:3]) for each in received.split(b"HTTP/1.1 ")[1:]]
