"""The steps that every request takes before it acts: tenant, token, rate, body, reader.

In this order: what costs more comes later, and nothing of a body is read for somebody who may not
send one. A route declares who may call it (`UserCaller`, `AuthorityCaller`), and gets the tenant.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from helba.errors import Refused, Unavailable
from helba.reference.protocol.wire import messages
from helba.service.failure import NotFound, Unauthorized, WrongType
from helba.service.limit import BytesInFlight, RateLimiter, Share, reading_body
from helba.service.link import TenantLink
from helba.service.metric import Metrics
from helba.service.openapi import BYTES
from helba.service.protocol.tokens import hash_token
from helba.service.settings import Limits

USER_TOKEN = HTTPBearer(
    auto_error=False, scheme_name="user", description="a user's token, helba_u_..."
)
AUTHORITY_TOKEN = HTTPBearer(
    auto_error=False, scheme_name="authority", description="the authority's token, helba_a_..."
)
Credentials = HTTPAuthorizationCredentials | None
# Of the bytes in flight one user may have this part, or so many.
USERS_AT_ONCE, LEAST_SHARE_BYTES = 8, 1 << 26


class Front:
    """What the routes of one server share."""

    def __init__(self, tenants: Mapping[str, TenantLink], *, limits: Limits) -> None:
        self.tenants = tenants
        self.metrics = Metrics(tenants)
        self.limiter = RateLimiter(limits.rate_per_second, limits.burst)
        self.flight = BytesInFlight(limits.most_bytes_in_flight)
        self._shares: dict[tuple[str, bytes], Share] = {}

    @contextmanager
    def share_of(self, tenant: str, user: bytes) -> Iterator[Share]:
        """What a user may have in memory; it is forgotten when no request uses it any more."""
        key = (tenant, user)
        most = max(LEAST_SHARE_BYTES, self.flight.most // USERS_AT_ONCE)
        share = self._shares.setdefault(key, Share(self.flight, most=most))
        share.uses += 1
        try:
            yield share
        finally:
            share.uses -= 1
            if share.uses == 0:
                del self._shares[key]

    def limit_address(self, what: str, request: Request) -> None:
        """Count a request for `what` from its address, or raise `TooMany`."""
        self.limiter.take((what, address_of(request)))

    @classmethod
    def of(cls, request: Request) -> Front:
        """Return that of the app which a request came to."""
        front = request.app.state.front
        assert isinstance(front, cls)
        return front

    def find(self, name: str) -> TenantLink:
        """Return a tenant, or raise `NotFound`."""
        if name not in self.tenants:
            raise NotFound("there is no tenant of this name")
        return self.tenants[name]


@dataclass(frozen=True, kw_only=True)
class User:
    """A user whose token is known, the tenant it is a user of, and its request."""

    id: bytes
    tenant: TenantLink
    request: Request
    front: Front

    @asynccontextmanager
    async def sending(self, route: str) -> AsyncIterator[bytes]:
        """The body of the request, which counts as in memory until the block ends."""
        most = self.tenant.longest[route]
        with self.front.share_of(self.tenant.name, self.id) as share:
            async with read_binary(self.request, most=most, flight=share) as body:
                yield body

    @asynccontextmanager
    async def saying(self, route: str, *, kind: type[messages.Message]) -> AsyncIterator[Any]:
        """The message in the body, once the reader has checked it; it must name this user."""
        async with self.sending(route) as body:
            yield await self.tenant.check(body, kind=kind, user=self.id)


class UserResponse(Response):
    """Bytes for a user, which count as in memory until they have left."""

    def __init__(self, content: bytes, *, user: User, **options: Any) -> None:
        super().__init__(content, media_type=BYTES, **options)
        self._user = user

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send them; `TooMany` where the user does not read what it asks for."""
        user = self._user
        share_of = user.front.share_of(user.tenant.name, user.id)
        with share_of as share, share.holding(len(self.body)):
            await super().__call__(scope, receive, send)


def address_of(request: Request) -> str:
    """Return where a request comes from."""
    return request.client.host if request.client else ""


@asynccontextmanager
async def read_binary(
    request: Request, *, most: int, flight: BytesInFlight | None = None
) -> AsyncIterator[bytes]:
    """The bytes of a body that is not declared as anything else."""
    declared = request.headers.get("content-type", BYTES).partition(";")[0].strip().lower()
    if declared != BYTES:
        raise WrongType(BYTES)
    async with reading_body(request, most=most, flight=flight) as body:
        yield body


# -- who calls


async def find_tenant(request: Request, tenant: str) -> TenantLink:
    """Return the tenant that the path names."""
    found = Front.of(request).find(tenant)
    request.state.tenant = found.name
    return found


AnyTenant = Annotated[TenantLink, Depends(find_tenant)]


async def find_user(
    request: Request, tenant: AnyTenant, credentials: Annotated[Credentials, Security(USER_TOKEN)]
) -> User:
    """Return who calls, if the tenant serves and the user does not call too often."""
    user = tenant.user_of(_hash_of(credentials, kind="user"))
    if user is None:
        raise Unauthorized
    request.state.tenant_of_user = tenant
    front = Front.of(request)
    front.limiter.take((tenant.name, user))
    _require_serving(tenant)
    return User(id=user, tenant=tenant, request=request, front=front)


async def find_authority(
    tenant: AnyTenant, credentials: Annotated[Credentials, Security(AUTHORITY_TOKEN)]
) -> TenantLink:
    """Return the tenant, if it is its authority that calls."""
    if not tenant.is_authority(_hash_of(credentials, kind="authority")):
        raise Unauthorized
    _require_serving(tenant)
    return tenant


UserCaller = Annotated[User, Depends(find_user)]
AuthorityCaller = Annotated[TenantLink, Depends(find_authority)]


def _hash_of(credentials: Credentials, *, kind: str) -> str:
    try:
        return hash_token("" if credentials is None else credentials.credentials, kind=kind)
    except Refused:
        raise Unauthorized from None


def _require_serving(tenant: TenantLink) -> None:
    if tenant.state != "serving":
        raise Unavailable(f"the tenant is {tenant.state}")


class ServiceHeaders:
    """Adds to every response what browsers need to know, and to users' what the tenant wants."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                headers.append((b"x-content-type-options", b"nosniff"))
                if all(name != b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                tenant: TenantLink | None = scope.get("state", {}).get("tenant_of_user")
                if tenant is not None:
                    headers.append((b"helba-help", b"1" if tenant.help_wanted else b"0"))
                    headers.append((b"helba-batch", str(tenant.batch).encode()))
                message["headers"] = headers
            await send(message)

        await self._app(scope, receive, add)
