"""Replies that no helba server gives: absurd waits, trickles, refusals of a proxy."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from helba.errors import DamagedData, InvalidInput, Unavailable
from helba.service.client import transport as module
from helba.service.client.transport import Patience, Rejected, Transport, find_refusal

HURRIED = Patience(
    deadline_seconds=0.5, reply_seconds=10.0, first_wait_seconds=0.02, longest_wait_seconds=0.2
)
PROBLEM = "application/problem+json"


@contextmanager
def answering(reply: Callable[[socket.socket], None]) -> Iterator[str]:
    """The URL of a listener that reads a head from each connection, and lets `reply` answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, suppress(OSError):
                        connection.recv(1 << 16)
                        reply(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(10.0)
            assert not thread.is_alive()


def say(status: int, *headers: str, body: str = "") -> Callable[[socket.socket], None]:
    head = [f"HTTP/1.1 {status} Words", f"Content-Length: {len(body)}", "Connection: close"]
    text = "\r\n".join([*head, *headers, "", body])
    return lambda connection: connection.sendall(text.encode())


@pytest.mark.parametrize("digits", [10, 400, 5000])
@pytest.mark.parametrize("status", [429, 503])
def test_wait_of_many_digits_is_longer_than_any_deadline(status: int, digits: int) -> None:
    asked = f"Retry-After: {digits * '9'}"
    with (
        answering(say(status, asked)) as url,
        Transport(url, patience=HURRIED) as transport,
        pytest.raises(Unavailable, match=f"HTTP {status}"),
    ):
        transport.request("GET", "v1/health")
    assert transport.retries == 0


def test_numbers_of_many_digits_in_other_headers_count_as_none() -> None:
    with (
        answering(say(200, f"Helba-Batch: {5000 * '1'}")) as url,
        Transport(url, patience=HURRIED) as transport,
    ):
        reply = transport.request("GET", "v1/health")
    assert reply.batch is None


@pytest.mark.parametrize("seconds", [0, 1])
def test_client_waits_longer_each_time_and_as_long_as_it_is_told(
    monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    waits: list[float] = []

    def wait(length: float) -> None:
        waits.append(length)
        if len(waits) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(module.time, "sleep", wait)
    patience = Patience(deadline_seconds=60.0, first_wait_seconds=0.1, longest_wait_seconds=1.6)
    with (
        answering(say(503, f"Retry-After: {seconds}")) as url,
        Transport(url, patience=patience) as transport,
        pytest.raises(KeyboardInterrupt),
    ):
        transport.request("GET", "v1/health")
    for number, length in enumerate(waits):
        longest = 0.1 * 2**number
        assert max(seconds, longest / 2) <= length <= max(seconds, longest)


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_reply_that_trickles_is_given_up_at_the_deadline(coding: str) -> None:
    def trickle(connection: socket.socket) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nContent-Encoding: {coding}\r\n\r\n"
        connection.sendall(head.encode())
        # ten bytes begin a file of gzip, and its name has no end
        for byte in itertools.chain(b"\x1f\x8b\x08\x08\0\0\0\0\0\0", itertools.repeat(ord("x"))):
            connection.sendall(bytes([byte]))
            time.sleep(0.02)

    start = time.monotonic()
    with (
        answering(trickle) as url,
        Transport(url, patience=HURRIED) as transport,
        pytest.raises(Unavailable, match="in time"),
    ):
        transport.request("GET", "v1/health")
    assert time.monotonic() - start < 5.0


# -- who says no


@pytest.mark.parametrize("status", [400, 404, 409, 413, 415, 422])
def test_refusal_tells_whether_it_is_helbas(status: int) -> None:
    problem = json.dumps({"title": "no", "status": status, "detail": "so it is"})
    kind = f"Content-Type: {PROBLEM}"
    with answering(say(status, kind, body=problem)) as url:
        found = refusal_at(url)
        assert (found.status, found.by_helba, str(found)) == (status, True, "so it is")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/html", "<html>no</html>"),
        ("application/json", '{"status": 404, "detail": "no"}'),
        (PROBLEM, '{"status": 500, "detail": "no"}'),
        (PROBLEM, "[404]"),
    ],
)
def test_refusal_of_a_proxy_is_not_helbas_and_says_so(kind: str, body: str) -> None:
    with answering(say(404, f"Content-Type: {kind}", body=body)) as url:
        found = refusal_at(url)
        assert (found.status, found.by_helba) == (404, False)
        assert str(found).startswith(url)
        assert "no answer of helba's" in str(found)


def refusal_at(url: str) -> Rejected:
    with (
        Transport(url, patience=HURRIED) as transport,
        pytest.raises((Rejected, DamagedData, InvalidInput)) as caught,
    ):
        transport.request("GET", "v1/health")
    found = find_refusal(caught.value)
    assert found is not None
    return found
