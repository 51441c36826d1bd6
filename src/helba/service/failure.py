"""What goes wrong, as HTTP says it: one place turns errors into `application/problem+json`.

    DamagedData, WrongVector      400   a message that is none, or of another key
    Unauthorized                  401   no token, or one that nobody has
    Forbidden                     403   a token of somebody else, or of one who was revoked
    NotFound                      404
    TooSlow                       408   a body that does not arrive
    Refused                       409   the protocol says no; the detail is its reason
    TooLarge                      413
    WrongType                     415
    InvalidInput                  422   says what is allowed, and not what was given
    TooMany                       429   with Retry-After, where waiting alone will do
    Unavailable                   503   with Retry-After
    any other                     500   a reference to the log, and nothing else

A body is {"title", "status", "detail"}. The log has the type of an unexpected error and where it
was raised; neither has what was sent.
"""

from __future__ import annotations

import json
import logging
import math
import secrets
import traceback
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from helba.errors import DamagedData, HelbaError, InvalidInput, Refused, Unavailable, WrongVector

PROBLEM = "application/problem+json"
RETRY_SECONDS = 2
CLIENT_CLOSED = 499  # nobody reads it; the log does

log = logging.getLogger("helba.service.failure")


class Unauthorized(Refused):
    """The request has no token, or one that nobody has."""

    def __init__(self, text: str = "a token that is known here is needed") -> None:
        super().__init__(text)


class Forbidden(Refused):
    """The token is known, and does not allow this."""


class NotFound(Refused):
    """There is no such thing here."""


class TooLarge(Refused):
    """A body is longer than any that is admissible; `most` is how long it may be, in bytes."""

    def __init__(self, most: int) -> None:
        super().__init__(f"the body may have at most {most} bytes")
        self.most = most


class TooSlow(Refused):
    """A body stopped arriving."""

    def __init__(self, text: str = "the body did not arrive in time") -> None:
        super().__init__(text)


class WrongType(Refused):
    """A body is declared as something that is not read here."""

    def __init__(self, allowed: str) -> None:
        super().__init__(f"the content type must be {allowed}")


class TooMany(Refused):
    """Who asks does so too often, or has too much open.

    `retry_after` is in seconds, None where waiting does not help.
    """

    def __init__(
        self, retry_after: float | None, text: str = "too many requests: wait before the next"
    ) -> None:
        super().__init__(text)
        self.retry_after = retry_after


STATUS: dict[type[HelbaError], int] = {
    DamagedData: 400,
    WrongVector: 400,
    Unauthorized: 401,
    Forbidden: 403,
    NotFound: 404,
    TooSlow: 408,
    Refused: 409,
    TooLarge: 413,
    WrongType: 415,
    InvalidInput: 422,
    TooMany: 429,
    Unavailable: 503,
}


def make_problem(status: int, detail: str, *, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response that says what is wrong, in one line."""
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    body = {"title": title, "status": status, "detail": " ".join(detail.split())}
    return Response(
        json.dumps(body).encode(),
        status_code=status,
        media_type=PROBLEM,
        headers=dict(headers or {}),
    )


def add_failure_handlers(app: FastAPI) -> None:
    """Let `app` answer every error with a problem; call it before other middleware is added."""
    app.add_exception_handler(HelbaError, _answer_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http)
    app.add_exception_handler(ClientDisconnect, _answer_gone)
    app.add_middleware(_Unexpected)


async def _answer_error(request: Request, error: Exception) -> Response:
    for kind in type(error).__mro__:
        status = STATUS.get(kind)
        if status is not None:
            detail = str(error)
            if isinstance(error, InvalidInput):  # what was given may be anything
                detail = f"{error.name} must be {error.allowed}"
            return make_problem(status, detail, headers=_headers_of(error))
    return _answer_unexpected(request.scope, error)


def _headers_of(error: Exception) -> dict[str, str]:
    if isinstance(error, Unauthorized):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, TooMany) and error.retry_after is not None:
        return {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
    if isinstance(error, Unavailable):
        return {"Retry-After": str(RETRY_SECONDS)}
    if isinstance(error, TooLarge | TooSlow):  # the rest of the body is not wanted
        return {"Connection": "close"}
    return {}


async def _answer_invalid(request: Request, error: Exception) -> Response:  # noqa: ARG001
    assert isinstance(error, RequestValidationError)
    places = sorted({".".join(map(str, each["loc"])) for each in error.errors()})
    return make_problem(422, f"not admissible: {', '.join(places)}")


async def _answer_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = error.headers
    if error.status_code == 404:
        detail = "there is nothing at this path"
    elif error.status_code == 405:
        detail = "this path does not take the method"
        headers = {"Allow": ", ".join(_methods_at(request))}
    else:
        detail = str(error.detail)
    return make_problem(error.status_code, detail, headers=headers)


def _methods_at(request: Request) -> list[str]:
    """All that any route of the path takes; the router names those of the first only."""
    routes = [each for each in request.app.routes if each.matches(request.scope)[0] != Match.NONE]
    return sorted({method for each in routes for method in getattr(each, "methods", None) or ()})


async def _answer_gone(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return make_problem(CLIENT_CLOSED, "the client went away")


def _answer_unexpected(scope: Scope, error: Exception) -> Response:
    reference = str(scope.get("state", {}).get("request_id") or secrets.token_hex(8))
    places = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    extra = {"reference": reference, "error": type(error).__name__, "places": places[-8:]}
    if isinstance(error, HelbaError):  # its line is made for a person, and carries no data
        extra["line"] = " ".join(str(error).split())
    log.error("unexpected error", extra={"fields": extra})
    return make_problem(500, f"something went wrong here; the log has it under {reference}")


class _Unexpected:
    """Answers what no handler knows, while nothing of a response has left."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception as error:
            if scope["type"] != "http" or started:
                raise
            await _answer_unexpected(scope, error)(scope, receive, send)
