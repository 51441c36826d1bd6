"""How much and how often: bodies, bytes of all of them, and rates."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.requests import Request

from helba.errors import DamagedData, InvalidInput, Unavailable
from helba.reference.protocol.wire.messages import Report
from helba.service import limit
from helba.service.failure import TooLarge, TooMany, TooSlow
from helba.service.front import Front
from helba.service.limit import BytesInFlight, OneCopy, RateLimiter, Share, read_body, reading_body
from helba.service.settings import Limits
from tests.service.app.calling import (
    SECONDS,
    USER_HEADERS,
    app_of,
    as_user,
    listening,
    wait_until,
)
from tests.service.app.faking import ASK, MOST, TOKEN, FakeTenant, body_of


def request_of(*pieces: bytes, length: str | None = None, stalls: bool = False) -> Request:
    """A request whose body comes in these pieces, and then ends or does not."""
    headers = [] if length is None else [(b"content-length", length.encode())]
    waiting = [
        {"type": "http.request", "body": piece, "more_body": stalls or index < len(pieces) - 1}
        for index, piece in enumerate(pieces)
    ]

    async def receive():
        if waiting:
            return waiting.pop(0)
        await asyncio.sleep(SECONDS)
        raise AssertionError("a body is read past its end")

    return Request({"type": "http", "method": "POST", "headers": headers}, receive)


def gone(*pieces: bytes) -> Request:
    """A request whose client leaves after these pieces."""
    waiting = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]

    async def receive():
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


def test_body_is_read_up_to_its_limit() -> None:
    assert asyncio.run(read_body(request_of(b"ab", b"c"), 3)) == b"abc"
    assert asyncio.run(read_body(request_of(b""), 0)) == b""


def test_declared_length_is_checked_before_the_body() -> None:
    with pytest.raises(TooLarge):
        asyncio.run(read_body(request_of(b"ab", length="1000"), 10))


def test_body_without_a_length_is_checked_while_it_arrives() -> None:
    with pytest.raises(TooLarge):
        asyncio.run(read_body(request_of(*[b"abcd"] * 5), 10))


@pytest.mark.parametrize("length", ["-1", "abc", "1_0", "٣", "9" * 19])
def test_length_that_is_no_number_is_damaged(length: str) -> None:
    request = request_of(b"")
    request.scope["headers"].append((b"content-length", length.encode()))
    with pytest.raises(DamagedData):
        asyncio.run(read_body(request, 10))


def test_body_that_stops_arriving_is_too_slow() -> None:
    with pytest.raises(TooSlow):
        asyncio.run(read_body(request_of(b"a", stalls=True), 10, idle_seconds=0.05))


def test_body_may_not_take_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "MOST_SECONDS", -1.0)
    with pytest.raises(TooSlow):
        asyncio.run(read_body(request_of(b"a", b"b"), 10))


def test_client_that_leaves_in_the_middle_sent_damaged_data() -> None:
    with pytest.raises(DamagedData, match="went away"):
        asyncio.run(read_body(gone(b"ab"), 10))


def test_bytes_in_flight_are_held_until_the_request_is_done() -> None:
    flight = BytesInFlight(10)

    async def read() -> None:
        async with reading_body(request_of(b"abcd"), most=10, flight=flight) as body:
            assert (body, flight.held) == (b"abcd", 4)
            with pytest.raises(Unavailable):
                async with reading_body(request_of(b"1234", b"567"), most=10, flight=flight):
                    raise AssertionError("more than is allowed is in memory")
            assert flight.held == 4

    asyncio.run(read())
    assert flight.held == 0


def test_bytes_in_flight_are_given_back_whatever_happens() -> None:
    flight = BytesInFlight(100)

    async def read(request: Request) -> None:
        async with reading_body(request, most=5, flight=flight, idle_seconds=0.05):
            raise RuntimeError

    for request, error in [
        (request_of(b"abc"), RuntimeError),
        (request_of(b"abc", b"def"), TooLarge),
        (request_of(b"abc", stalls=True), TooSlow),
        (gone(b"abc"), DamagedData),
    ]:
        with pytest.raises(error):
            asyncio.run(read(request))
        assert flight.held == 0


def test_share_of_a_user_is_one_while_any_request_uses_it() -> None:
    front = Front({}, limits=Limits())
    with front.share_of("main", b"ann") as first:
        first.take(5)
        with front.share_of("main", b"ann") as second, front.share_of("main", b"bob") as other:
            assert second is first
            assert other is not first
            first.give_back(5)  # of a request that goes on
        with front.share_of("main", b"ann") as third:
            assert third is first
    assert front._shares == {}
    with pytest.raises(RuntimeError), front.share_of("main", b"ann"):
        raise RuntimeError
    assert front._shares == {}


def test_answers_that_a_user_does_not_read_are_limited() -> None:
    flight = BytesInFlight(10)
    share = Share(flight, most=8)
    with share.holding(9):  # one may always be
        with pytest.raises(TooMany), share.holding(1):
            raise AssertionError("more than its share is in memory")
        with pytest.raises(TooMany):
            share.take(1)
    assert (share.held, flight.held) == (0, 0)
    with share.holding(4), share.holding(4):
        assert share.held == 8


def test_bytes_that_are_read_again_are_kept_once() -> None:
    copy, key = OneCopy(), bytes(range(100))
    first = copy.of(bytes(bytearray(key)))
    assert copy.of(bytes(bytearray(key))) is first
    assert copy.of(b"another") == b"another"


def test_rate_allows_a_burst_and_then_one_after_the_other() -> None:
    now = 0.0
    limiter = RateLimiter(2.0, 3, clock=lambda: now)
    for _ in range(3):
        limiter.take("a")
    with pytest.raises(TooMany) as caught:
        limiter.take("a")
    assert caught.value.retry_after == pytest.approx(0.5)
    limiter.take("b")
    now = 0.5
    limiter.take("a")
    with pytest.raises(TooMany):
        limiter.take("a")
    now = 1000.0
    for _ in range(3):
        limiter.take("a")
    with pytest.raises(TooMany):
        limiter.take("a")


def test_rate_keeps_a_bounded_number_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "MOST_KEYS", 10)
    limiter = RateLimiter(1.0, 1, clock=lambda: 0.0)
    for key in range(100):
        limiter.take(key)
    assert len(limiter._buckets) == 10
    with pytest.raises(TooMany):
        limiter.take(99)
    limiter.take(0)  # forgotten


@pytest.mark.parametrize(("rate", "burst"), [(0.0, 1), (-1.0, 1), (1.0, 0), (float("nan"), 1)])
def test_rate_is_positive(rate: float, burst: int) -> None:
    with pytest.raises(InvalidInput):
        RateLimiter(rate, burst)


def test_user_who_calls_too_often_is_told_when_to_come_again() -> None:
    tenant = FakeTenant()
    app = app_of(tenant, rate_per_second=0.1, burst=2)
    answers = [as_user(app, "GET", "tasks") for _ in range(3)]
    assert [each.status_code for each in answers] == [200, 200, 429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 10
    assert len(tenant.calls) == 2


def test_rate_is_checked_before_the_body_is_read() -> None:
    app = app_of(FakeTenant(), rate_per_second=0.1, burst=1)
    as_user(app, "GET", "tasks")
    assert as_user(app, "POST", "rounds", content=bytes(MOST + 1)).status_code == 429


@pytest.mark.parametrize("route", ["rounds", "rewards", "tests", "tasks"])
def test_body_longer_than_any_message_does_not_reach_the_reader(route: str) -> None:
    tenant = FakeTenant()
    answer = as_user(app_of(tenant), "POST", route, content=bytes(MOST + 1))
    assert answer.status_code == 413
    assert str(MOST) in answer.json()["detail"]
    assert tenant.calls == []


def test_terms_take_no_body() -> None:
    tenant = FakeTenant()
    assert as_user(app_of(tenant), "POST", "terms", content=b"x").status_code == 413
    assert tenant.calls == []


def test_all_bodies_together_are_limited() -> None:
    tenant = FakeTenant()

    async def run() -> tuple[httpx.Response, httpx.Response, int]:
        tenant.answering = asyncio.Event()
        app = app_of(tenant, most_bytes_in_flight=len(ASK) + 10)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://helba") as client:
            path = "/v1/tenants/main/"
            first = asyncio.create_task(
                client.post(f"{path}rounds", content=ASK, headers=USER_HEADERS)
            )
            while "ask" not in [name for name, *_ in tenant.calls]:
                await asyncio.sleep(0.001)
            other = await client.post(
                f"{path}rewards", content=body_of(Report), headers=USER_HEADERS
            )
            tenant.answering.set()
            return await first, other, app.state.front.flight.held

    first, other, held = asyncio.run(asyncio.wait_for(run(), SECONDS))
    assert (first.status_code, other.status_code, held) == (200, 503, 0)
    assert "retry-after" in other.headers


def test_client_that_stops_in_the_middle_of_a_body_leaves_nothing_behind() -> None:
    tenant = FakeTenant()
    app = app_of(tenant)
    head = (
        "POST /v1/tenants/main/rounds HTTP/1.1\r\nHost: helba\r\n"
        f"Authorization: Bearer {TOKEN}\r\nContent-Length: {len(ASK)}\r\n\r\n"
    )
    with listening(app) as (url, _):
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as client:
            client.sendall(head.encode() + ASK[:10])
            wait_until(lambda: app.state.front.flight.held == 10)
        wait_until(lambda: app.state.front.flight.held == 0)
        assert tenant.calls == []
        answer = httpx.post(
            f"{url}/v1/tenants/main/rounds", content=ASK, headers=USER_HEADERS, timeout=SECONDS
        )
    assert answer.status_code == 200
    assert [name for name, *_ in tenant.calls] == ["check", "ask"]


def test_client_that_sends_too_much_gets_its_answer() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield bytes(1 << 16)

    async def send(url: str) -> list[httpx.Response]:
        async with httpx.AsyncClient(timeout=SECONDS) as client:
            path = f"{url}/v1/tenants/main/rounds"
            return [
                await client.post(path, content=bytes(4 << 20), headers=USER_HEADERS),
                await client.post(path, content=pieces(), headers=USER_HEADERS),
            ]

    tenant = FakeTenant()
    with listening(app_of(tenant)) as (url, _):
        answers = asyncio.run(send(url))
    assert [each.status_code for each in answers] == [413, 413]
    assert json.loads(answers[1].content)["title"]
    assert tenant.calls == []
