"""An app on a port: started, announced, and stopped so that what is under way gets its answer.

Being told to end (SIGTERM, SIGINT) closes the port, lets requests finish for `grace_seconds`, and
returns. A head that does not arrive within `HEAD_SECONDS` costs the client its connection.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from helba.errors import InvalidInput, RunFailed, require_whole

__all__ = ["run_app"]

GRACE_SECONDS = 30.0
HEAD_SECONDS = 20.0
HEAD_BYTES = 16 << 10
KEEP_ALIVE_SECONDS = 75
MOST_CONNECTIONS = 4096
BACKLOG = 1024


def run_app(
    app: FastAPI,
    *,
    host: str,
    port: int,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    ready: Callable[[str], None],
    grace_seconds: float = GRACE_SECONDS,
    stopping: threading.Event | None = None,
) -> None:
    """Serve `app` until this process is told to end, or `stopping` is set; port 0 is any.

    `ready` is called with the URL once connections are taken. Raises `RunFailed` if the port is
    taken, or the certificate cannot be read.
    """
    require_whole("port", port, least=0, most=65535)
    if (tls_cert is None) != (tls_key is None):
        raise InvalidInput("--tls-cert", "one without the other", "given together with --tls-key")
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(grace_seconds)),
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    config.load()
    if tls_cert is not None and tls_key is not None:
        config.ssl = _tls_context(tls_cert, tls_key)
    with _bind(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        scheme = "http" if config.ssl is None else "https"
        url = f"{scheme}://{shown}:{listener.getsockname()[1]}"
        server = _Server(config, announce=lambda: ready(url), stopping=stopping)
        asyncio.run(server.serve(sockets=[listener]))


class _Server(uvicorn.Server):
    """Says when it serves; a signal ends it, and is not raised again when it is done."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        announce: Callable[[], None],
        stopping: threading.Event | None,
    ) -> None:
        super().__init__(config)
        self._announce = announce
        self._stopping = stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()

    async def on_tick(self, counter: int) -> bool:
        stop = self._stopping is not None and self._stopping.is_set()
        return await super().on_tick(counter) or stop

    def handle_exit(self, sig: int, frame: Any) -> None:
        super().handle_exit(sig, frame)
        self._captured_signals.clear()


class _Protocol(H11Protocol):
    """HTTP/1.1, with a limit of time for the head of a request."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEAD_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        waiting = self.conn.their_state is h11.IDLE
        if not waiting:
            self._forget_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP; a request whose body broke off there gets no other answer."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:  # an answer is on its way
            self.transport.close()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _unsupported_upgrade_warning(self) -> None:
        """Who asks for another protocol gets this one; that is worth no line in the log."""

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _tls_context(cert: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except OSError as error:  # ssl.SSLError is one
        reason = error.strerror or getattr(error, "reason", None) or "not readable"
        raise RunFailed(f"cannot use the certificate {cert} with {key}: {reason}") from error
    return context


def _no_password() -> str:
    """OpenSSL would ask on the terminal."""
    return ""


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # the protocol is named, or asyncio leaves Nagle's delay on
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "not an address"
        raise RunFailed(f"cannot listen on {host} port {port}: {reason}") from error
    return listener
