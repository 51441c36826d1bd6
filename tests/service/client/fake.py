"""A small server and authority over HTTP, on the protocol's own parties, with faults to order.

Both are one app on a loopback port: `Fake` has no batches, no store and no other processes. What a
fault does to the next request of a route:

    busy    503, and nothing was done
    slow    429, and nothing was done
    cut     the connection breaks, and nothing was done
    lost    what was asked for is done, and the connection breaks before the reply
    broken  500

and "proxy 404" or "helba 404" a refusal of that status, of a proxy or of helba itself. "portal" is
a page in place of what was asked for, with 200.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi import FastAPI, Request, Response

from helba.errors import DamagedData, HelbaError, InvalidInput, Refused
from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.serving.work import AnswerWork
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Ask, Refusal, TaskReply
from helba.service.body import pack_messages
from helba.service.client import Account, Client, Patience
from helba.service.protocol.keyinfo import describe_key
from helba.service.protocol.tokens import hash_token, make_token
from tests.reference.protocol.parties import TOY, authority_of, plan_of

BINARY = "application/octet-stream"
START_SECONDS = 10.0
QUICK = Patience(
    deadline_seconds=5.0, connect_seconds=2.0, reply_seconds=4.0, first_wait_seconds=0.01
)
STATUS = {"busy": 503, "slow": 429, "broken": 500}


class Fake:
    """Authority, server and HTTP; `faults` maps (method, last part of the path) to what comes."""

    def __init__(
        self, request: PlanRequest = TOY, *, scheme: str = "simulate", secure: bool = False
    ) -> None:
        if secure:  # what the command line insists on, even of the simulator
            self.authority = Authority(Deployment.from_plan(plan_of(request), scheme=scheme))
        else:
            self.authority = authority_of(request, scheme=scheme)
        self.server = self.authority.make_server()
        self.deployment = self.authority.deployment
        self.codec = Codec(self.deployment)
        self.tokens: dict[str, bytes] = {}
        self.names: dict[str, tuple[bytes, str]] = {}
        self.faults: dict[tuple[str, str], list[str]] = {}
        self.seen: Counter[tuple[str, str]] = Counter()
        self.bodies: dict[str, list[bytes]] = {}
        self.invitation: str | None = None
        self.undelivered = 0
        self.url = ""
        self.app = self._make_app()

    # -- what a test does behind the users' backs

    def rotate(self) -> str:
        """New collective keys, at the server and the authority; the id of the new one."""
        self.server.rotate(self.authority.rotate())
        return self.key

    @property
    def key(self) -> str:
        return describe_key(self.authority.public_key_bytes()).owner.hex()

    def order(self, method: str, path: str, *faults: str) -> None:
        self.faults.setdefault((method, path), []).extend(faults)

    def new_client(self, name: str = "ann", **options: Any) -> Client:
        """A client in memory, enrolled."""
        user, token = self.authority.make_user(name), make_token("user")
        self.server.enrol(self.authority.enrolment_of(user.id))
        self.tokens[hash_token(token)] = user.id
        if self.deployment.keys == "switched":
            self.server.introduce(user.id, user.inward_key_bytes())
        account = Account(authority=self.url, name=name, server=self.url, tenant="main")
        return Client(user, account=account, token=token, **{"patience": QUICK, **options})

    # -- HTTP

    def _make_app(self) -> FastAPI:
        app = FastAPI()
        tenant = "/v1/tenants/main"
        for method, path, handle in (
            ("POST", f"{tenant}/terms", self._terms),
            ("POST", f"{tenant}/rounds", self._rounds),
            ("POST", f"{tenant}/rewards", self._rewards),
            ("POST", f"{tenant}/tests", self._tests),
            ("GET", f"{tenant}/tasks", self._tasks),
            ("POST", f"{tenant}/tasks", self._task_replies),
            ("PUT", f"{tenant}/inward-key", self._inward_key),
        ):
            app.add_api_route(path, self._for_users(handle), methods=[method])

        @app.delete(f"{tenant}/rounds/{{round}}")
        def drop(round: str) -> Response:
            found = self.server.rounds.pop(bytes.fromhex(round), None)
            return Response(status_code=204) if found else _problem(404, "no such round")

        @app.get(f"{tenant}/public-key")
        @app.get("/v1/public-key")
        def public_key() -> Response:
            return Response(self.authority.public_key_bytes(), media_type=BINARY)

        @app.get(tenant)
        def report() -> Any:
            return {"name": "main", "state": "serving", "updates": self.server.updates}

        @app.get("/v1/deployment")
        def deployment() -> Any:
            return self.deployment.as_json()

        @app.get("/v1/server")
        def server() -> Any:
            return {"url": self.url, "tenant": "main", "key": self.key}

        @app.post("/v1/enrolments")
        async def enrol(request: Request, name: str) -> Response:
            return self._enrol(
                name,
                public_key=await request.body(),
                token_hash=request.headers["Helba-Token-Sha256"],
                invitation=request.headers.get("Authorization"),
            )

        @app.get("/v1/enrolments/{user}")
        def enrolment(user: str) -> Any:
            self.undelivered -= 1
            return {"delivered": self.undelivered <= 0, "user": user}

        @app.get("/metrics")
        def metrics() -> Response:
            lines = ['helba_cpu_seconds_total{process="front"} 1.5']
            lines += ['helba_resident_bytes{process="front"} 1e+06']
            return Response("\n".join(lines), media_type="text/plain")

        app.add_middleware(_Faults, fake=self)
        return app

    def _for_users(self, handle: Any) -> Any:
        async def answer(request: Request) -> Response:
            scheme, _, token = request.headers.get("Authorization", "").partition(" ")
            try:
                user = self.tokens.get(hash_token(token)) if scheme == "Bearer" else None
            except Refused:
                user = None
            if user is None:
                return _problem(401, "a token that is known here is needed")
            body = await request.body()
            self.bodies.setdefault(request.url.path.rsplit("/", 1)[-1], []).append(body)
            try:
                response: Response = handle(user, body)
            except DamagedData as error:
                return _problem(400, str(error))
            except InvalidInput as error:
                return _problem(422, str(error))
            except HelbaError as error:
                return _problem(409, str(error))
            waits = any(not isinstance(work, AnswerWork) for work in self.server.worker.work)
            response.headers["Helba-Help"] = "1" if waits else "0"
            response.headers["Helba-Batch"] = str(self.server.terms.number)
            return response

        return answer

    def _terms(self, user: bytes, body: bytes) -> Response:
        assert user
        assert not body
        return Response(self.server.notice(), media_type=BINARY)

    def _rounds(self, user: bytes, body: bytes) -> Response:
        ask = self.codec.decode(body)
        assert isinstance(ask, Ask)
        replies = self._receive(body)
        return _list(replies or self._tasks_of(ask.round, user=user))

    def _rewards(self, user: bytes, body: bytes) -> Response:
        assert user
        return _list(self._receive(body)[:1])

    def _tests(self, user: bytes, body: bytes) -> Response:
        assert user
        self._receive(body)
        return Response(status_code=204)

    def _tasks(self, user: bytes, body: bytes) -> Response:
        assert not body
        return _list(list(self.server.tasks(user)))

    def _task_replies(self, user: bytes, body: bytes) -> Response:
        reply = self.codec.decode(body)
        assert isinstance(reply, TaskReply)
        work = self.server.worker.find(reply)
        replies = self._receive(body)
        if not replies and isinstance(work, AnswerWork):
            replies = self._tasks_of(work.asked, user=user)
        return _list(replies)

    def _inward_key(self, user: bytes, body: bytes) -> Response:
        self.server.introduce(user, body)
        return Response(status_code=204)

    def _receive(self, body: bytes) -> list[bytes]:
        replies = self.server.receive(body)
        for reply in replies:
            message = self.codec.decode(reply)
            if isinstance(message, Refusal):
                raise Refused(message.reason)
        return list(replies)

    def _tasks_of(self, round: bytes, *, user: bytes) -> list[bytes]:
        open_work = [work for work in self.server.worker.work if work.open_to(user)]
        tasks = zip(open_work, self.server.tasks(user), strict=True)
        return [task for work, task in tasks if round == getattr(work, "asked", None)]

    def _enrol(
        self, name: str, *, public_key: bytes, token_hash: str, invitation: str | None
    ) -> Response:
        if self.invitation is not None and invitation != f"Bearer {self.invitation}":
            return _problem(403, "this invitation is not for this name")
        known = self.names.get(name)
        try:
            if known is None:
                self.server.enrol(self.authority.enrol(public_key, name=name))
        except HelbaError as error:
            return _problem(409, str(error))
        member = self.authority.member(name)
        if member.public_key != public_key:
            return _problem(409, f"{name} is enrolled with another key")
        self.names[name] = (member.id, token_hash)
        self.tokens[token_hash] = member.id
        text = {"user": member.id.hex(), "name": name, "delivered": self.undelivered <= 0}
        return Response(json.dumps(text), status_code=201, media_type="application/json")


class _Faults:
    """Does to the next request of a route what was ordered."""

    def __init__(self, app: Any, fake: Fake) -> None:
        self._app = app
        self._fake = fake

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        route = scope["method"], scope["path"].rsplit("/", 1)[-1]
        self._fake.seen[route] += 1
        waiting = self._fake.faults.get(route)
        fault = waiting.pop(0) if waiting else None
        if fault in STATUS:
            response = _problem(STATUS[fault], f"ordered: {fault}")
            response.headers["Retry-After"] = "0"
            await response(scope, receive, send)
            return
        refusal = _refusal(fault or "")
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        if fault == "lost":

            async def swallow(_: Any) -> None:
                return

            await self._app(scope, receive, swallow)
        if fault in ("lost", "cut"):
            head = [(b"content-length", b"100")]
            await send({"type": "http.response.start", "status": 200, "headers": head})
            return  # no body: the connection is closed
        await self._app(scope, receive, send)


def _problem(status: int, detail: str) -> Response:
    text = json.dumps({"title": "no", "status": status, "detail": detail})
    return Response(text, status_code=status, media_type="application/problem+json")


def _refusal(fault: str) -> Response | None:
    who, _, status = fault.partition(" ")
    if who == "helba":
        return _problem(int(status), f"ordered: {fault}")
    if who in ("proxy", "portal"):
        return Response("<html></html>", status_code=int(status or 200), media_type="text/html")
    return None


def _list(messages: list[bytes]) -> Response:
    return Response(pack_messages(messages), media_type=BINARY)


@contextmanager
def serving(fake: Fake, *, certificate: Path | None = None) -> Iterator[Fake]:
    """The fake on a free port, until the end of the block; with TLS if it has a certificate."""
    config = uvicorn.Config(
        fake.app,
        host="127.0.0.1",
        port=0,
        log_config=None,
        ws="none",
        lifespan="off",
        ssl_certfile=certificate,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        end = time.monotonic() + START_SECONDS
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < end
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        fake.url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{port}"
        yield fake
    finally:
        server.should_exit = True
        thread.join(START_SECONDS)
        assert not thread.is_alive()


def write_certificate(path: Path) -> Path:
    """A certificate for 127.0.0.1 that nobody signed but itself, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "fake")])
    now = datetime.now(timezone.utc)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(hours=1))
    address = x509.IPAddress(IPv4Address("127.0.0.1"))
    builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    made = builder.sign(key, hashes.SHA256())
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + secret)
    return path
