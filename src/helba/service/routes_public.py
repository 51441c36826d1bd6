"""Routes that anybody may call: how the server is, what is public of a tenant, and the page."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from helba.errors import Unavailable
from helba.service.asset import INDEX, send_asset
from helba.service.front import AnyTenant, Front
from helba.service.metric import FORMAT
from helba.service.openapi import BYTES, add_route, json_of
from helba.service.schema import Health, History, Status, TenantReport

MOST_MINUTES = 7 * 24 * 60
TEXT = {"schema": {"type": "string"}}


def _describe_health(front: Front) -> dict[str, Any]:
    states = {name: tenant.state for name, tenant in front.tenants.items()}
    if all(state == "serving" for state in states.values()):
        status = "serving"
    elif set(states.values()) <= {"serving", "starting"}:
        status = "starting"
    else:
        status = "degraded"
    return {"status": status, "tenants": states}


async def get_health(request: Request) -> Response:
    """Return whether the server serves, and the state of each tenant; always 200."""
    return JSONResponse(_describe_health(Front.of(request)))


async def get_ready(request: Request) -> Response:
    """Return 200 once every tenant serves, 503 before."""
    health = _describe_health(Front.of(request))
    if health["status"] != "serving":
        raise Unavailable(f"the server is {health['status']}")
    return JSONResponse(health)


async def get_status(request: Request) -> Response:
    """Return the server's version, and a report of each tenant."""
    front = Front.of(request)
    uptime = time.monotonic() - request.app.state.started
    return JSONResponse(
        {
            "version": request.app.version,
            "uptime_seconds": round(uptime, 3),
            "tenants": [tenant.report() for tenant in front.tenants.values()],
        }
    )


async def get_tenant(tenant: AnyTenant) -> Response:
    """Return the report of a tenant."""
    return JSONResponse(tenant.report())


async def get_history(
    request: Request,
    tenant: AnyTenant,
    minutes: Annotated[int, Query(ge=1, le=MOST_MINUTES)] = 60,
) -> Response:
    """Return how many rounds, rewards and updates there were, in steps of time."""
    Front.of(request).limit_address("history", request)
    return JSONResponse(await tenant.history(minutes=minutes))


async def get_deployment(tenant: AnyTenant) -> Response:
    """Return the deployment: settings, parameters and circuits that all parties agree on."""
    return JSONResponse(tenant.deployment.as_json())


async def get_public_key(request: Request, tenant: AnyTenant) -> Response:
    """Return the collective public key, which users encrypt under."""
    Front.of(request).limit_address("public-key", request)
    return Response(tenant.public_key(), media_type=BYTES)


async def get_metrics(request: Request) -> Response:
    """Return the server's measurements, as Prometheus reads them."""
    return Response(Front.of(request).metrics.as_text(), headers={"Content-Type": FORMAT})


async def get_page(request: Request) -> Response:
    """Return the page that shows how the server is."""
    return send_asset(request.app.state.assets, INDEX, request=request)


async def get_asset(request: Request, asset: Annotated[str, Path()]) -> Response:
    """Return a file of the page."""
    return send_asset(request.app.state.assets, asset, request=request)


def add_public_routes(app: FastAPI) -> None:
    """Add them all."""
    one = "/v1/tenants/{tenant}"

    def add(path: str, handler: Any, **options: Any) -> None:
        add_route(app, "GET", path, handler, tag="public", **options)

    add("/v1/health", get_health, content=json_of(Health))
    add("/v1/ready", get_ready, content=json_of(Health), errors=(503,))
    add("/v1/status", get_status, content=json_of(Status))
    add(one, get_tenant, content=json_of(TenantReport), errors=(404,))
    add(f"{one}/history", get_history, content=json_of(History), errors=(404, 422, 429, 503))
    deployment = {"application/json": {"schema": {"type": "object"}}}
    add(f"{one}/deployment", get_deployment, content=deployment, errors=(404,))
    add(f"{one}/public-key", get_public_key, content="A public key.", errors=(404, 429, 503))
    add("/metrics", get_metrics, content={"text/plain": TEXT})
    add("/", get_page, content={"text/html": TEXT}, errors=(404,))
    kinds = ("text/html", "text/javascript", "text/css", "image/svg+xml")
    add("/page/{asset}", get_asset, content=dict.fromkeys(kinds, TEXT), errors=(404,))
