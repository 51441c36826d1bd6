"""What the log says of a request, and that it never says what was sent."""

import asyncio
import io
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from helba.errors import RunFailed
from helba.service import log
from helba.service.log import LIBRARIES, configure_logs, request_id
from helba.service.protocol.tokens import make_token
from tests.service.app.calling import AUTHORITY_HEADERS, app_of, as_authority, as_user, call
from tests.service.app.faking import ASK, AUTHORITY_TOKEN, TOKEN, USER, FakeTenant

NAMES = ("helba.service", *LIBRARIES)


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    loggers = [logging.getLogger(name) for name in NAMES]
    kept = [(each.handlers[:], each.level, each.propagate) for each in loggers]
    stream = io.StringIO()
    configure_logs("info", stream)
    yield stream
    for logger, (handlers, level, propagate) in zip(loggers, kept, strict=True):
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


def lines_of(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_request_is_one_line(stream: io.StringIO) -> None:
    answer = as_user(app_of(FakeTenant()), "POST", "rounds", content=ASK)
    (line,) = lines_of(stream)
    assert line.pop("time").endswith("Z")
    assert line.pop("milliseconds") >= 0
    assert line == {
        "level": "info",
        "event": "request",
        "request_id": answer.headers["x-request-id"],
        "tenant": "main",
        "method": "POST",
        "route": "/v1/tenants/{tenant}/rounds",
        "status": 200,
        "bytes_in": len(ASK),
        "bytes_out": len(answer.content),
    }


def test_request_id_is_taken_over_if_it_is_plain() -> None:
    app = app_of(FakeTenant())
    answer = call(app, "GET", "/v1/health", headers={"X-Request-Id": "abc-123"})
    assert answer.headers["x-request-id"] == "abc-123"
    for given in ("", "a" * 65, "a b", '"', TOKEN, "naïve".encode()):
        made = call(app, "GET", "/v1/health", headers={"X-Request-Id": given})
        assert made.headers["x-request-id"] != given
        assert len(made.headers["x-request-id"]) == 16
    assert request_id.get() is None


def test_log_has_no_token_path_query_or_body(stream: io.StringIO) -> None:
    tenant = FakeTenant()
    app = app_of(tenant)
    as_user(app, "POST", "rounds", content=ASK)
    as_user(app, "POST", "rounds", content=b"secret-body")
    as_authority(app, "PUT", f"members/{USER.hex()}", headers={"Helba-Token-Sha256": TOKEN})
    unknown = make_token("user")
    call(app, "GET", f"/v1/tenants/main/tasks?token={TOKEN}", headers=AUTHORITY_HEADERS)
    call(app, "GET", f"/v1/tenants/{TOKEN}/tasks")
    call(app, "GET", f"/{TOKEN}")
    call(app, TOKEN.upper(), "/v1/health", headers={"X-Request-Id": TOKEN})
    call(app, "GET", "/v1/health", headers={"Authorization": f"Bearer {unknown}"})
    tenant.failing = {"ask": ValueError(f"secret-error {TOKEN}")}
    as_user(app, "POST", "rounds", content=ASK)
    text = stream.getvalue()
    assert len(lines_of(stream)) == 10
    for secret in (TOKEN, TOKEN.upper(), AUTHORITY_TOKEN, unknown, "secret", "payload", USER.hex()):
        assert secret not in text


def test_unexpected_error_is_logged_under_the_reference_that_is_sent(stream: io.StringIO) -> None:
    tenant = FakeTenant()
    tenant.failing = {"ask": KeyError("secret")}
    answer = as_user(app_of(tenant), "POST", "rounds", content=ASK)
    assert answer.status_code == 500
    failure, request = lines_of(stream)
    assert failure["level"] == "error"
    assert failure["error"] == "KeyError"
    assert failure["reference"] == failure["request_id"] == request["request_id"]
    assert failure["reference"] in answer.json()["detail"]
    assert any(place.startswith("post_round:") for place in failure["places"])
    assert request["status"] == 500


def test_error_of_ours_is_logged_with_its_line(stream: io.StringIO) -> None:
    tenant = FakeTenant()
    tenant.failing = {"ask": RunFailed("the disk is full")}
    answer = as_user(app_of(tenant), "POST", "rounds", content=ASK)
    assert lines_of(stream)[0]["line"] == "the disk is full"
    assert "disk" not in answer.text


def test_level_hides_what_is_below(stream: io.StringIO) -> None:
    configure_logs("warning", stream)
    call(app_of(FakeTenant()), "GET", "/v1/health")
    assert stream.getvalue() == ""


def test_exception_in_a_log_call_shows_only_its_type(stream: io.StringIO) -> None:
    try:
        raise ValueError("secret")
    except ValueError:
        logging.getLogger("helba.service.other").exception("two\nlines")
    (line,) = lines_of(stream)
    assert (line["event"], line["error"]) == ("two lines", "ValueError")
    assert "secret" not in stream.getvalue()


@pytest.mark.parametrize("name", LIBRARIES)
def test_library_that_says_the_same_again_and_again_is_one_line(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    library = logging.getLogger(name)
    for number in range(100):
        library.error(f"out of something\nsocket: secret {number}")
    library.warning("another thing")
    first, other = lines_of(stream)
    assert (first["event"], first["level"]) == ("out of something", "error")
    assert other["event"] == "another thing"
    assert "secret" not in stream.getvalue()
    now = time.monotonic() + log.QUIET_SECONDS
    monkeypatch.setattr(time, "monotonic", lambda: now)
    library.error("out of something\nand more")
    assert lines_of(stream)[2]["left_out"] == 99
    assert "left_out" not in first


def test_asyncio_that_cannot_take_connections_is_lines_of_the_log(stream: io.StringIO) -> None:
    async def fail() -> None:
        loop = asyncio.get_running_loop()
        for number in range(10):
            context = {"message": "socket.accept() out of system resource", "socket": number}
            loop.call_exception_handler({**context, "exception": OSError(24, "secret")})

    asyncio.run(fail())
    (line,) = lines_of(stream)
    assert line["event"] == "socket.accept() out of system resource"
    assert line["error"] == "OSError"
