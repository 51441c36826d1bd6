"""A server that tells what a test put into it: the page's files, and JSON of the API's shape."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

import helba.service
from helba.service.asset import INDEX, load_assets, send_asset

FOLDER = Path(helba.service.__file__).parent / "page"
LEARNS = [
    {
        "who": "server",
        "learns": "times, sizes, who takes part, and at most one bit a round",
        "never": "contexts, rewards, scores, the arm played, the model",
    },
    {
        "who": "user",
        "learns": "its own recommendation, and the order of its own arms",
        "never": "anything else of the model, data of other users",
    },
    {
        "who": "key authority",
        "learns": "public parameters, names and public keys of users",
        "never": "contexts, rewards, recommendations",
    },
]


def report(name: str = "main", **changes: Any) -> dict[str, Any]:
    """A tenant's report, with `changes`."""
    return {
        "name": name,
        "state": "serving",
        "engine": "ckks",
        "fingerprint": "6c1f0de2a3b94f5787d21e0c94ab53f1",
        "key": "52cbd58d1299796c8d7bb637c5c97414",
        "keys": "own",
        "refresh": "client",
        "security": 128,
        "ring_dim": 16384,
        "dim": 8,
        "arms": 16,
        "horizon": 10000,
        "round": 1284,
        "samples": 1251,
        "updates": 61,
        "rejected": 1,
        "held": 3,
        "enrolled": 37,
        "open_rounds": 12,
        "bits": 1345,
        "bit_budget": 27615,
        "rotation_due": False,
        "batch": 62,
        "last_error": None,
        "waiting": 2,
        "learns": LEARNS,
        "latency_ms": {"p50": 648.2, "p95": 1310.0},
        "rounds_per_second": 0.62,
        "simulated": False,
        **changes,
    }


def history(minutes: int = 60) -> dict[str, Any]:
    """An hour in which rounds come and go; nobody asked in its tenth minute."""
    start = datetime.now(timezone.utc).replace(second=0, microsecond=0) - timedelta(minutes=minutes)
    points = []
    for n in range(minutes):
        rounds = 0 if n == 10 else 20 + (n * 7) % 23 - (n % 5) * 2
        points.append(
            {
                "at": (start + timedelta(minutes=n)).isoformat(),
                "rounds": rounds,
                "rewards": max(0, rounds - n % 4),
                "updates": int(n % 9 == 0 and n != 0) + int(n % 17 == 4),
                "latency_ms": None if rounds == 0 else 600.0 + 40.0 * (n % 7) + 300.0 * (n == 41),
            }
        )
    return {"minutes": minutes, "step_seconds": 60, "points": points}


class Canned:
    """What the server tells at the moment; `failing` is the status of all its answers."""

    def __init__(self) -> None:
        self.tenants: list[dict[str, Any]] = [report()]
        self.failing: int | None = None
        self.asked: list[str] = []
        self.app = self._make_app()

    def _make_app(self) -> FastAPI:
        app, assets = FastAPI(openapi_url=None), load_assets()

        @app.get("/")
        def page(request: Request) -> Response:
            return send_asset(assets, INDEX, request=request)

        @app.get("/page/{asset}")
        def asset(asset: str, request: Request) -> Response:
            return send_asset(assets, asset, request=request)

        @app.get("/v1/status")
        def status() -> Response:
            self.asked.append("status")
            body = {"version": "0.1.0", "uptime_seconds": 11520, "tenants": self.tenants}
            return JSONResponse(body, status_code=self.failing or 200)

        @app.get("/v1/tenants/{tenant}/history")
        def tell_history(tenant: str, minutes: int) -> Response:
            self.asked.append(f"history of {tenant}")
            return JSONResponse(history(minutes), status_code=self.failing or 200)

        return app


@contextmanager
def served(canned: Canned) -> Iterator[str]:
    """Serve on a free port of this machine; yields the address."""
    config = uvicorn.Config(canned.app, host="127.0.0.1", port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    sockets = [config.bind_socket()]
    thread = threading.Thread(target=server.run, kwargs={"sockets": sockets}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join(timeout=10)
        sockets[0].close()
