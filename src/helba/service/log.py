"""Logs as JSON lines: one for each request, and one for whatever else happened.

A line has time, level and event. That of a request adds its id, the tenant if there is such a one,
the method, the template of the route (never the path itself), the status, milliseconds and bytes;
no header, query or body is ever in it. Warnings of the HTTP server and of asyncio are lines as
well: of each kind one in `QUIET_SECONDS`, with the number of those that were left out.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import time
from collections.abc import Callable
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import Any, TextIO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

NO_ROUTE = "unmatched"
# No underscore: a token that was put there by mistake is not taken over.
PLAIN_ID = re.compile(rb"[A-Za-z0-9-]{1,64}")
LIBRARIES = ("uvicorn.error", "asyncio")
QUIET_SECONDS = 10.0
MOST_KINDS = 256
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
log = logging.getLogger("helba.service.request")


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, timezone.utc)
        text = record.getMessage()
        if record.name in LIBRARIES:  # further lines may show arguments
            text = text.partition("\n")[0]
        line: dict[str, Any] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": " ".join(text.split()),
        }
        if request_id.get() is not None:
            line["request_id"] = request_id.get()
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0] is not None:  # its text may carry data
            line["error"] = record.exc_info[0].__name__
        return json.dumps(line, default=str)


class _Seldom(logging.Filter):
    """Lets one record of a kind through in `QUIET_SECONDS`, which says how many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[tuple[str, str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        error = (record.exc_info or (None,))[0]
        kind = (
            record.name,
            str(record.msg).partition("\n")[0],
            "" if error is None else error.__name__,
        )
        until, left_out = self._kinds.get(kind, (0.0, 0))
        now = time.monotonic()
        if now < until:
            self._kinds[kind] = (until, left_out + 1)
            return False
        if len(self._kinds) >= MOST_KINDS:
            self._kinds.clear()
        self._kinds[kind] = (now + QUIET_SECONDS, 0)
        if left_out:
            record.fields = {**getattr(record, "fields", {}), "left_out": left_out}
        return True


def configure_logs(level: str, stream: TextIO) -> None:
    """Write what the service logs, and warnings of what it rests on, to `stream`."""

    def write(name: str, least: str, *filters: logging.Filter) -> None:
        handler = logging.StreamHandler(stream)
        handler.setFormatter(_JsonLines())
        for each in filters:
            handler.addFilter(each)
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(least)
        logger.propagate = False

    write("helba.service", level.upper())
    for name in LIBRARIES:
        write(name, "WARNING", _Seldom())


def route_of(scope: Scope) -> str:
    """Return the template of the route that a request met, once it was routed."""
    return str(getattr(scope.get("route"), "path", NO_ROUTE))


class RequestLog:
    """Gives each request an id, and logs one line when it is done; add it last, to be outermost.

    `X-Request-Id` is taken over where it is short and plain. `observe` is told the template of the
    route, the status and the seconds.
    """

    def __init__(
        self, app: ASGIApp, *, observe: Callable[[str, int, float], None] | None = None
    ) -> None:
        self._app = app
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and log what came of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"x-request-id", b"")
        name = given.decode() if PLAIN_ID.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = name
        mark = request_id.set(name)
        start, status, bytes_in, bytes_out = time.perf_counter(), 0, 0, 0

        async def count_in() -> Message:
            nonlocal bytes_in
            message = await receive()
            bytes_in += len(message.get("body", b""))
            return message

        async def count_out(message: Message) -> None:
            nonlocal status, bytes_out
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", name.encode())]
            bytes_out += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, count_in, count_out)
        finally:
            seconds = time.perf_counter() - start
            route, method = route_of(scope), scope["method"]
            log.info(
                "request",
                extra={
                    "fields": {
                        "tenant": scope["state"].get("tenant"),
                        "method": method if method in METHODS else "other",
                        "route": route,
                        "status": status,
                        "milliseconds": round(1e3 * seconds, 1),
                        "bytes_in": bytes_in,
                        "bytes_out": bytes_out,
                    }
                },
            )
            request_id.reset(mark)
            if self._observe is not None:
                self._observe(route, status, seconds)
