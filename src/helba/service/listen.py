"""An app on a port: started, announced, and stopped so that what is under way gets its answer.

Being told to end (SIGTERM, SIGINT) closes the port, lets requests finish for `grace_seconds`, and
returns. A connection is closed on a client whose head does not arrive within `HEAD_SECONDS`, who
still sends a body `REST_SECONDS` after its answer, or who reads nothing for `UNREAD_SECONDS`. Long
responses leave in pieces: one that nobody reads takes the memory of one piece.
"""

from __future__ import annotations

import asyncio
import functools
import resource
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import h11
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from helba.errors import InvalidInput, RunFailed, require_whole

GRACE_SECONDS = 30.0
HEAD_SECONDS = 20.0
HEAD_BYTES = 16 << 10
HANDSHAKE_SECONDS = 10.0
REST_SECONDS = 2.0
UNREAD_SECONDS = 30.0
KEEP_ALIVE_SECONDS = 75
PIECE_BYTES = 64 << 10
# What the system holds of a response beyond what is under way; else megabytes.
UNSENT_BYTES = 128 << 10
# Past the first all requests are told to come again, past some more connections are not taken.
MOST_CONNECTIONS, SPARE_CONNECTIONS = 4096, 64
# Of one address, which may be that of a proxy.
LEAST_OF_ONE = 1024
# For stores, processes and files.
RESERVED_DESCRIPTORS = 256
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
        _InPieces(app),
        interface="asgi3",
        loop="asyncio",
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_allow_connections(),
        backlog=BACKLOG,
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
        self.server_state = _State()
        self._announce = announce
        self._stopping = stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self.config.ssl is not None:  # of which uvicorn would wait a minute for the handshake
            loop = asyncio.get_running_loop()
            loop.create_server = functools.partial(  # type: ignore[method-assign]
                loop.create_server, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        await super().startup(sockets)
        if self.started:
            self._announce()

    async def on_tick(self, counter: int) -> bool:
        stop = self._stopping is not None and self._stopping.is_set()
        return await super().on_tick(counter) or stop

    def handle_exit(self, sig: int, frame: Any) -> None:
        super().handle_exit(sig, frame)
        self._captured_signals.clear()


class _State(ServerState):
    """What connections share: `addresses` has how many there are of each."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: Counter[str] = Counter()


class _Protocol(H11Protocol):
    """HTTP/1.1, with limits of time for all that a client may leave undone."""

    server_state: _State

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # What is not taken is noticed. Not 0: from 3.11 on TLS would pause with nothing to send.
        transport.set_write_buffer_limits(high=1)
        closing = _Transport(transport, closing=lambda: self._abort_in_time("close"))
        super().connection_made(cast(asyncio.Transport, closing))
        self.server_state.addresses[self._address] += 1
        if self._is_one_too_many():
            transport.abort()
        else:
            self._arm("head", HEAD_SECONDS, self.transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._arm("head", HEAD_SECONDS, self.transport.close)
        else:
            self._disarm("head")
        if not self._has_rest():
            self._disarm("rest")

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._has_rest():
            self._arm("rest", REST_SECONDS, self.transport.close)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._abort_in_time("read")

    def resume_writing(self) -> None:
        self._disarm("read")
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        for what in list(self._timers):
            self._disarm(what)
        addresses = self.server_state.addresses
        addresses[self._address] -= 1
        if addresses[self._address] <= 0:
            del addresses[self._address]
        super().connection_lost(exc)
        for what in list(self._timers):  # which closing may have armed
            self._disarm(what)

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

    @property
    def _address(self) -> str:
        return "" if self.client is None else self.client[0]

    def _has_rest(self) -> bool:
        """Whether a request is answered, and its body is still on its way."""
        return self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete

    def _is_one_too_many(self) -> bool:
        most = self.config.limit_concurrency or MOST_CONNECTIONS
        of_one = max(LEAST_OF_ONE, most // 2)
        here = self.server_state.addresses[self._address]
        return here > of_one or len(self.connections) > most + SPARE_CONNECTIONS

    def _abort_in_time(self, what: str) -> None:
        self._arm(what, UNREAD_SECONDS, self.transport.abort)

    def _arm(self, what: str, seconds: float, action: Callable[[], None]) -> None:
        if what not in self._timers:
            self._timers[what] = self.loop.call_later(seconds, action)

    def _disarm(self, what: str) -> None:
        if what in self._timers:
            self._timers.pop(what).cancel()


class _Transport:
    """A transport that says when it is closed: TLS waits for the other side, however long."""

    def __init__(self, transport: asyncio.Transport, *, closing: Callable[[], None]) -> None:
        self._transport = transport
        self._closing = closing
        self._closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._closed or self._transport.is_closing()

    def close(self) -> None:
        self._closed = True
        self._transport.close()
        self._closing()


class _InPieces:
    """Hands long bodies of responses on in pieces, each when the one before has left."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def cut(message: Message) -> None:
            body = message.get("body", b"")
            if message["type"] != "http.response.body" or len(body) <= PIECE_BYTES:
                await send(message)
                return
            for start in range(0, len(body), PIECE_BYTES):
                end = start + PIECE_BYTES
                more = end < len(body) or message.get("more_body", False)
                await send({**message, "body": body[start:end], "more_body": more})

        await self._app(scope, receive, cut)


def _allow_connections() -> int:
    """Return how many connections there may be, once this process may have as many descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Twice: a connection that has not finished its handshake is not counted.
    wanted = 2 * MOST_CONNECTIONS + RESERVED_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # not allowed here
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return min(MOST_CONNECTIONS, max(soft - RESERVED_DESCRIPTORS, soft // 2))


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
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # connections have it from here
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "not an address"
        raise RunFailed(f"cannot listen on {host} port {port}: {reason}") from error
    return listener
