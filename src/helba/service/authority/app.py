"""The HTTP of the key authority: anybody may learn what is public, and who is invited may enrol.

    GET  /v1/health             {"status", "server"}
    GET  /v1/deployment         JSON, as deployment.json
    GET  /v1/public-key         bytes of the collective public key
    GET  /v1/server             {"url", "tenant", "key"}: where users go on, and under which key
    POST /v1/enrolments?name=   bytes of a public key; Helba-Token-Sha256, Authorization: Bearer
                                201, or 202 while the server has not been reached:
                                {"user", "name", "server", "tenant", "delivered"}
    GET  /v1/enrolments/{user}  {"delivered"}
    GET  /metrics               text for Prometheus

No response has a secret: a user makes its keys and its token itself, and sends the public key and
the token's hash. Enrolments are made one at a time, in a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any

from fastapi import FastAPI, Header, Query, Request, Response, Security
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, Field

from helba.errors import DamagedData, Unavailable
from helba.reference.protocol.wire.messages import ID_BYTES
from helba.service.authority.courier import Courier
from helba.service.authority.enroller import Enroller
from helba.service.authority.metric import AuthorityMetrics
from helba.service.failure import Forbidden, NotFound, Unauthorized, add_failure_handlers
from helba.service.front import ServiceHeaders, address_of, read_binary
from helba.service.limit import BytesInFlight, OneCopy, RateLimiter
from helba.service.log import RequestLog
from helba.service.metric import FORMAT
from helba.service.openapi import BYTES, add_openapi, add_route, binary_body, json_of
from helba.service.protocol.authorityfiles import Record
from helba.service.protocol.invitation import NotInvited
from helba.service.protocol.tokens import require_token_hash
from helba.service.schema import Problem

LOOK_SECONDS = 0.02
OBJECT = {"type": "object"}
DESCRIPTION = """The key authority of a helba deployment: what is public, and enrolments.

Users bring a public key, the hash of a token, and an invitation as bearer, unless it is open.
Errors are problems (RFC 9457) with one line for a person.
"""
TAGS = [
    {"name": "public", "description": "Anybody: what users plan and encrypt with."},
    {"name": "enrolment", "description": "Who is invited: enrolments."},
]
INVITATION = HTTPBearer(
    auto_error=False, scheme_name="invitation", description="an invitation, helba_i_..."
)
ENROLLING = (400, 401, 403, 408, 409, 413, 415, 422, 429, 503)


@dataclass(frozen=True, kw_only=True)
class AuthoritySettings:
    """What an operator may set: where users find the server, and limits.

    Enrolments from one address come at `rate_per_second` in the long run, and `burst` at once; at
    most `most_waiting` wait for their turn. An answer waits `delivery_seconds` for the server.
    """

    server_url: str
    tenant: str
    rate_per_second: float = 5.0
    burst: int = 50
    most_waiting: int = 64
    delivery_seconds: float = 10.0


class AuthorityHealth(BaseModel):
    """Whether the authority serves, and whether the server has all that it should."""

    status: str = Field(pattern="^serving$")
    server: str


class Home(BaseModel):
    """Where users go on, and the id of the collective key."""

    url: str
    tenant: str
    key: str


class Enrolled(BaseModel):
    """A user who was taken in, where it goes on, and whether the server has it."""

    user: str
    name: str
    server: str
    tenant: str
    delivered: bool


class Delivered(BaseModel):
    """Whether the server has a user."""

    delivered: bool


def create_app(
    enroller: Enroller, *, courier: Courier, settings: AuthoritySettings, metrics: AuthorityMetrics
) -> FastAPI:
    """Return the app; while it runs, `courier` delivers."""
    counter = _Counter(enroller, courier=courier, settings=settings)

    @asynccontextmanager
    async def live(_: FastAPI) -> AsyncIterator[None]:
        courier.start()
        try:
            yield
        finally:
            await asyncio.to_thread(courier.stop)
            counter.close()

    app = FastAPI(
        title="helba key authority",
        version=version("helba"),
        description=DESCRIPTION,
        openapi_tags=TAGS,
        lifespan=live,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        redirect_slashes=False,
    )
    _add_public_routes(app, enroller=enroller, courier=courier, settings=settings, metrics=metrics)
    _add_enrolments(app, enroller=enroller, courier=courier, counter=counter, metrics=metrics)
    add_openapi(app, models=(Problem, AuthorityHealth, Home, Enrolled, Delivered))
    add_failure_handlers(app)
    app.add_middleware(ServiceHeaders)
    app.add_middleware(RequestLog, observe=metrics.observe_request)
    return app


def _add_public_routes(
    app: FastAPI,
    *,
    enroller: Enroller,
    courier: Courier,
    settings: AuthoritySettings,
    metrics: AuthorityMetrics,
) -> None:
    """Add the routes that anybody may call."""
    limiter = RateLimiter(settings.rate_per_second, settings.burst)
    copy = OneCopy()

    async def get_health() -> Response:
        """Return that the authority serves, and whether the server has all that it should."""
        return JSONResponse({"status": "serving", "server": courier.state})

    def get_deployment() -> Response:
        """Return the deployment: what all parties agree on."""
        return JSONResponse(enroller.deployment_json())

    def get_public_key(request: Request) -> Response:
        """Return the collective public key, for users to encrypt under."""
        limiter.take(address_of(request))
        return Response(copy.of(enroller.public_key()), media_type=BYTES)

    def get_server() -> Response:
        """Return where the server is, and the id of the collective key."""
        return JSONResponse(
            {
                "url": settings.server_url,
                "tenant": settings.tenant,
                "key": enroller.key_id().hex(),
            }
        )

    def get_metrics() -> Response:
        """Return what was counted, as Prometheus reads it."""
        return Response(metrics.render(), headers={"Content-Type": FORMAT})

    def add(path: str, handler: Any, **options: Any) -> None:
        add_route(app, "GET", path, handler, tag="public", **options)

    add("/v1/health", get_health, content=json_of(AuthorityHealth))
    add("/v1/deployment", get_deployment, content={"application/json": {"schema": OBJECT}})
    add("/v1/public-key", get_public_key, content="A public key.", errors=(429,))
    add("/v1/server", get_server, content=json_of(Home))
    add("/metrics", get_metrics, content={"text/plain": {"schema": {"type": "string"}}})


def _add_enrolments(
    app: FastAPI,
    *,
    enroller: Enroller,
    courier: Courier,
    counter: _Counter,
    metrics: AuthorityMetrics,
) -> None:
    """Add the routes of who is invited."""
    settings = counter.settings

    async def post_enrolment(
        request: Request,
        name: Annotated[str, Query(max_length=256, description="the user's")],
        _: Annotated[HTTPAuthorizationCredentials | None, Security(INVITATION)],
        token_hash: Annotated[
            str | None,
            Header(alias="Helba-Token-Sha256", description="of the user's token; always needed"),
        ] = None,
    ) -> Response:
        """Take a user in by its public key."""
        given = _Given(
            name=name,
            token_hash=require_token_hash(token_hash),
            invitation=_bearer(request.headers.get("authorization")),
        )
        record, delivered = await counter.serve(request, given)
        metrics.observe_enrolment()
        return JSONResponse(
            {
                "user": record.id.hex(),
                "name": record.name,
                "server": settings.server_url,
                "tenant": settings.tenant,
                "delivered": delivered,
            },
            status_code=201 if delivered else 202,
            headers={"Location": f"/v1/enrolments/{record.id.hex()}"},
        )

    def get_enrolment(user: str) -> Response:
        """Return whether the server has a user who was enrolled."""
        found = _read_id(user)
        if not any(each.id == found and not each.revoked for each in enroller.records()):
            raise NotFound("nobody of this id is enrolled")
        return JSONResponse({"delivered": courier.has(found)})

    add_route(
        app,
        "POST",
        "/v1/enrolments",
        post_enrolment,
        tag="enrolment",
        success=201,
        later="Taken in; the server has not been reached yet.",
        content=json_of(Enrolled),
        headers={"Location": "where to ask whether the server has the user"},
        body=binary_body("A public key."),
        errors=ENROLLING,
    )
    add_route(
        app,
        "GET",
        "/v1/enrolments/{user}",
        get_enrolment,
        tag="public",
        content=json_of(Delivered),
        errors=(400, 404),
    )


@dataclass(frozen=True, kw_only=True)
class _Given:
    """What a request for an enrolment says beside the key."""

    name: str
    token_hash: str
    invitation: str | None

    def __repr__(self) -> str:
        return "<what a user gave>"


class _Counter:
    """Where requests for enrolments wait for their turn at the enroller."""

    def __init__(
        self, enroller: Enroller, *, courier: Courier, settings: AuthoritySettings
    ) -> None:
        self._enroller = enroller
        self._courier = courier
        self.settings = settings
        self._limiter = RateLimiter(settings.rate_per_second, settings.burst)
        self._turn = ThreadPoolExecutor(max_workers=1, thread_name_prefix="enroller")
        self._most = enroller.most_key_bytes
        self._flight = BytesInFlight(settings.most_waiting * self._most)
        self._waiting = 0

    async def serve(self, request: Request, given: _Given) -> tuple[Record, bool]:
        """Enrol who asks; return what is kept, and whether the server has it."""
        self._limiter.take(address_of(request))
        try:
            self._enroller.admit(given.name, invitation=given.invitation)
            async with read_binary(request, most=self._most, flight=self._flight) as body:
                record = await self._enrol(body, given)
        except NotInvited as error:
            if given.invitation is None:
                raise Unauthorized(str(error)) from None
            raise Forbidden(str(error)) from None
        return record, await self._delivered(record.id)

    async def _enrol(self, public_key: bytes, given: _Given) -> Record:
        if self._waiting >= self.settings.most_waiting:
            raise Unavailable("too many wait here to be enrolled")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._turn,
                lambda: self._enroller.enrol(
                    given.name,
                    public_key=public_key,
                    token_hash=given.token_hash,
                    invitation=given.invitation,
                ),
            )
        finally:
            self._waiting -= 1

    async def _delivered(self, user: bytes) -> bool:
        """Wait until the server was told, or cannot be, or too long."""
        end = time.monotonic() + self.settings.delivery_seconds
        ticket = self._courier.poke()
        while not self._courier.is_done(ticket) and time.monotonic() < end:
            await asyncio.sleep(LOOK_SECONDS)
        return await asyncio.to_thread(self._courier.has, user)

    def close(self) -> None:
        """End the thread, after the enrolment that is under way."""
        self._turn.shutdown(wait=True, cancel_futures=True)


def _bearer(header: str | None) -> str | None:
    """The code in an Authorization header, or None if there is no header."""
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthorized("the invitation must come as Authorization: Bearer")
    return token.strip()


def _read_id(text: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != ID_BYTES or found.hex() != text:
        raise DamagedData(f"an id has {2 * ID_BYTES} hexadecimal digits")
    return found
