"""Calls of an app: within this process, or on a port."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
from fastapi import FastAPI

from helba.errors import HelbaError
from helba.service.app import make_app
from helba.service.listen import run_app
from helba.service.run import TenantSpec, serve
from helba.service.settings import Limits
from tests.service.app.faking import AUTHORITY_TOKEN, TOKEN, FakeTenant

USER_HEADERS = {"Authorization": f"Bearer {TOKEN}"}
AUTHORITY_HEADERS = {"Authorization": f"Bearer {AUTHORITY_TOKEN}"}
SECONDS = 20.0


def app_of(*tenants: FakeTenant, **limits: Any) -> FastAPI:
    return make_app({each.name: each for each in tenants}, limits=Limits(**limits), version="1.2.3")


def call(app: FastAPI, method: str, path: str, **options: Any) -> httpx.Response:
    """One request, in this process."""

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://helba") as client:
            return await client.request(method, path, **options)

    return asyncio.run(send())


def as_user(
    app: FastAPI,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    **options: Any,
) -> httpx.Response:
    """One request of the user, below its tenant."""
    whole = {**USER_HEADERS, **(headers or {})}
    return call(app, method, f"/v1/tenants/main/{path}", headers=whole, **options)


def as_authority(
    app: FastAPI,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    **options: Any,
) -> httpx.Response:
    """One request of the authority, below its tenant."""
    whole = {**AUTHORITY_HEADERS, **(headers or {})}
    return call(app, method, f"/v1/tenants/main/{path}", headers=whole, **options)


def wait_until(condition: Callable[[], bool]) -> None:
    """Come back when it holds; fail if it does not within `SECONDS`."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@contextmanager
def listening(app: FastAPI, **options: Any) -> Iterator[tuple[str, threading.Event]]:
    """The app on a port of this machine: its URL, and what stops it."""
    urls: queue.Queue[str | Exception] = queue.Queue()
    stopping = threading.Event()

    def run() -> None:
        try:
            run_app(
                app,
                host="127.0.0.1",
                port=0,
                ready=urls.put,
                stopping=stopping,
                **options,
            )
        except Exception as error:
            urls.put(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        url = urls.get(timeout=SECONDS)
        if isinstance(url, Exception):
            raise url
        yield url, stopping
    finally:
        stopping.set()
        thread.join(SECONDS)
        assert not thread.is_alive()


@contextmanager
def serving(*specs: TenantSpec, **options: Any) -> Iterator[str]:
    """A whole server of these tenants: its URL."""
    urls: queue.Queue[str | Exception] = queue.Queue()
    stopping = threading.Event()

    def work() -> None:
        try:
            serve(
                specs,
                host="127.0.0.1",
                port=0,
                limits=Limits(),
                ready=urls.put,
                stopping=stopping,
                **options,
            )
        except HelbaError as error:
            urls.put(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        url = urls.get(timeout=SECONDS)
        if isinstance(url, Exception):
            raise url
        yield url
    finally:
        stopping.set()
        thread.join(SECONDS)
        assert not thread.is_alive()
