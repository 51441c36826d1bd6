"""The HTTP of a server: `make_app` puts routes, limits, logs and measurements together.

The app knows tenants by `TenantLink` only. It loads no OpenFHE and keeps nothing: what must not be
lost is the tenants' to store.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from fastapi import FastAPI

from helba.service.asset import load_assets
from helba.service.failure import add_failure_handlers
from helba.service.front import Front, ServiceHeaders
from helba.service.link import TenantLink
from helba.service.log import RequestLog
from helba.service.openapi import add_openapi
from helba.service.routes_authority import add_authority_routes
from helba.service.routes_public import add_public_routes
from helba.service.routes_user import add_user_routes
from helba.service.settings import Limits

DESCRIPTION = """Linear contextual bandits that learn from encrypted data.

Users and the key authority call with a bearer token. Messages are bytes; what is in them is under
keys that this server does not have. Errors are problems (RFC 9457) with one line for a person.
"""
TAGS = [
    {"name": "public", "description": "Anybody: how the server is, and what is public."},
    {"name": "user", "description": "Users: rounds, rewards, and help with updates."},
    {"name": "authority", "description": "The key authority: members and keys."},
]


def make_app(tenants: Mapping[str, TenantLink], *, limits: Limits, version: str) -> FastAPI:
    """Return the app that serves these tenants, by name."""
    app = FastAPI(
        title="helba",
        version=version,
        description=DESCRIPTION,
        openapi_tags=TAGS,
        openapi_url="/v1/openapi.json",
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.front = Front(tenants, limits=limits)
    app.state.assets = load_assets()
    app.state.started = time.monotonic()
    add_public_routes(app)
    add_user_routes(app)
    add_authority_routes(app)
    add_openapi(app)
    add_failure_handlers(app)
    app.add_middleware(ServiceHeaders)
    app.add_middleware(RequestLog, observe=app.state.front.metrics.count_request)
    return app
