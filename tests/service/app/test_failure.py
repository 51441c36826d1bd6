"""Errors as problems, on an app of any kind."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from helba.errors import (
    DamagedData,
    HelbaError,
    InvalidInput,
    LevelsExhausted,
    MissingKey,
    OutOfRange,
    Refused,
    RunFailed,
    Unavailable,
    WrongVector,
)
from helba.service import failure
from helba.service.failure import (
    Forbidden,
    NotFound,
    TooLarge,
    TooMany,
    TooSlow,
    Unauthorized,
    WrongType,
    add_failure_handlers,
)
from tests.service.app.calling import call


def app_that_raises(error: Exception) -> FastAPI:
    app = FastAPI()
    add_failure_handlers(app)

    @app.get("/")
    async def fail() -> Any:
        raise error

    return app


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DamagedData("no message"), 400),
        (WrongVector("another key"), 400),
        (Unauthorized(), 401),
        (Forbidden("another user"), 403),
        (NotFound("no tenant"), 404),
        (TooSlow(), 408),
        (Refused("batch 3 is over"), 409),
        (TooLarge(10), 413),
        (WrongType("application/octet-stream"), 415),
        (TooMany(1.0), 429),
        (Unavailable("starting"), 503),
    ],
)
def test_error_has_its_status_and_its_line(error: HelbaError, status: int) -> None:
    answer = call(app_that_raises(error), "GET", "/")
    assert answer.status_code == status
    assert answer.json() == {
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": str(error),
    }
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "error",
    [
        RunFailed("secret"),
        LevelsExhausted("secret"),
        MissingKey("secret"),
        OutOfRange("secret"),
        HelbaError("secret"),
        ValueError("secret"),
        KeyError("secret"),
    ],
)
def test_error_of_the_server_says_nothing_but_a_reference(error: Exception) -> None:
    answer = call(app_that_raises(error), "GET", "/")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "the log has it under" in answer.json()["detail"]


def test_inadmissible_value_is_not_repeated() -> None:
    error = InvalidInput("slot", "secret", "below 4")
    answer = call(app_that_raises(error), "GET", "/")
    assert (answer.status_code, answer.json()["detail"]) == (422, "slot must be below 4")


@pytest.mark.parametrize(("seconds", "shown"), [(0.0, "1"), (0.2, "1"), (1.5, "2"), (60.0, "60")])
def test_wait_is_said_in_whole_seconds(seconds: float, shown: str) -> None:
    answer = call(app_that_raises(TooMany(seconds)), "GET", "/")
    assert answer.headers["retry-after"] == shown


def test_detail_is_one_line() -> None:
    answer = call(app_that_raises(Refused("one\n\ttwo")), "GET", "/")
    assert answer.json()["detail"] == "one two"


def test_status_of_the_framework_becomes_a_problem() -> None:
    answer = call(
        app_that_raises(HTTPException(418, "a teapot", headers={"X-Tea": "1"})), "GET", "/"
    )
    assert answer.json() == {"title": HTTPStatus(418).phrase, "status": 418, "detail": "a teapot"}
    assert answer.headers["x-tea"] == "1"
    unknown = call(app_that_raises(HTTPException(599, "odd")), "GET", "/")
    assert unknown.json()["title"] == "Error"


def test_client_that_left_is_no_error_of_the_server() -> None:
    answer = call(app_that_raises(ClientDisconnect()), "GET", "/")
    assert answer.status_code == failure.CLIENT_CLOSED


def test_error_in_the_middle_of_a_response_is_not_hidden() -> None:
    app = FastAPI()
    add_failure_handlers(app)

    async def pieces() -> Any:
        yield b"one"
        raise ValueError("broken")

    @app.get("/")
    async def stream() -> Any:
        return StreamingResponse(pieces())

    with pytest.raises(ValueError, match="broken"):
        call(app, "GET", "/")
