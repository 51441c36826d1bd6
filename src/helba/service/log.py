"""Logs as JSON lines: one for each request, and one for whatever else happened.

A line has time, level and event. That of a request adds its id, the tenant if there is such a one,
the method, the template of the route (never the path itself), the status, milliseconds and bytes;
no header, query or body is ever in it.
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

__all__ = ["NO_ROUTE", "RequestLog", "configure_logs", "request_id", "route_of"]

NO_ROUTE = "unmatched"
# No underscore: a token that was put there by mistake is not taken over.
PLAIN_ID = re.compile(rb"[A-Za-z0-9-]{1,64}")
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
log = logging.getLogger("helba.service.request")


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, timezone.utc)
        line: dict[str, Any] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "event": " ".join(record.getMessage().split()),
        }
        if request_id.get() is not None:
            line["request_id"] = request_id.get()
        line.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0] is not None:  # its text may carry data
            line["error"] = record.exc_info[0].__name__
        return json.dumps(line, default=str)


def configure_logs(level: str, stream: TextIO) -> None:
    """Write what the service logs, and warnings of the HTTP server, to `stream`."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_JsonLines())
    for name, least in (("helba.service", level.upper()), ("uvicorn.error", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(least)
        logger.propagate = False


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
