"""Routes of the key authority: who may take part, new collective keys, and the ledger."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Header, Path, Request, Response
from fastapi.responses import JSONResponse

from helba.service.front import AuthorityCaller, read_binary
from helba.service.openapi import add_route, binary_body, json_of
from helba.service.schema import Ledger, Members

Id = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="the id of a user's key")]
TokenHash = Annotated[
    str, Header(alias="Helba-Token-Sha256", pattern="^[0-9a-f]{64}$", description="of its token")
]
GETTING = (401, 404, 422, 503)
SENDING = (400, 401, 404, 408, 409, 413, 415, 422, 503)


async def get_members(tenant: AuthorityCaller) -> Response:
    """Return who is enrolled and who was revoked, and under which collective key."""
    return JSONResponse(tenant.members())


async def put_member(
    request: Request, tenant: AuthorityCaller, id: Id, token_hash: TokenHash
) -> Response:
    """Take a user in: its enrolment, and the hash of its token."""
    async with read_binary(request, most=tenant.longest["members"]) as enrolment:
        await tenant.enrol(bytes.fromhex(id), enrolment, token_hash=token_hash)
    return Response(status_code=204)


async def delete_member(tenant: AuthorityCaller, id: Id) -> Response:
    """Bar a user: its keys and its token are deleted."""
    await tenant.revoke(bytes.fromhex(id))
    return Response(status_code=204)


async def put_rotation(request: Request, tenant: AuthorityCaller) -> Response:
    """Move everything to new collective keys."""
    async with read_binary(request, most=tenant.longest["rotation"]) as rotation:
        await tenant.rotate(rotation)
    return Response(status_code=204)


async def get_ledger(tenant: AuthorityCaller) -> Response:
    """Return the bits that users told of what they decrypted."""
    return JSONResponse(tenant.ledger_report())


def add_authority_routes(app: FastAPI) -> None:
    """Add them all."""
    one = "/v1/tenants/{tenant}"

    def add(method: str, path: str, handler: Any, **options: Any) -> None:
        add_route(app, method, f"{one}/{path}", handler, tag="authority", **options)

    add("GET", "members", get_members, content=json_of(Members), errors=GETTING)
    enrolment = binary_body("An enrolment.")
    add("PUT", "members/{id}", put_member, success=204, body=enrolment, errors=SENDING)
    add("DELETE", "members/{id}", delete_member, success=204, errors=(*GETTING, 409))
    rotation = binary_body("A rotation.")
    add("PUT", "rotation", put_rotation, success=204, body=rotation, errors=SENDING)
    add("GET", "ledger", get_ledger, content=json_of(Ledger), errors=GETTING)
