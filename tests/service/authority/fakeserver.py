"""A server that knows only what the authority tells it, on a port of this machine."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Header, Request, Response

from helba.errors import Unavailable
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.enrolment import Enrolment, Rotation
from helba.service.failure import Unauthorized, add_failure_handlers
from helba.service.listen import run_app
from helba.service.protocol.keyinfo import describe_key

STARTING_SECONDS = 20.0


@contextmanager
def on_air(run: Callable[..., None], *, port: int = 0) -> Iterator[str]:
    """The address of something that serves in a thread until the block ends.

    `run` takes what `run_app` does, beside its app.
    """
    found: list[str] = []
    ready, stopping = threading.Event(), threading.Event()

    def tell(url: str) -> None:
        found.append(url)
        ready.set()

    def serve() -> None:
        try:
            run(host="127.0.0.1", port=port, ready=tell, stopping=stopping)
        finally:
            ready.set()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert ready.wait(STARTING_SECONDS)
        assert found, "it does not serve"
        yield found[0]
    finally:
        stopping.set()
        thread.join(STARTING_SECONDS)
        assert not thread.is_alive()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class FakeServer:
    """Keeps members as the API of a server says; `refusal` is raised instead, if there is one."""

    def __init__(self, deployment: Deployment, *, key: bytes, authority_hash: str) -> None:
        self.deployment = deployment
        self.key = key
        self.enrolled: dict[str, str] = {}
        self.revoked: set[str] = set()
        self.outward: dict[str, bytes] = {}
        self.calls: list[str] = []
        self.refusal: Exception | None = None
        self._authority_hash = authority_hash

    @contextmanager
    def serving(self, *, port: int = 0) -> Iterator[str]:
        app = self._app()
        with on_air(lambda **options: run_app(app, **options), port=port) as url:
            yield url

    def _app(self) -> FastAPI:
        app = FastAPI()
        add_failure_handlers(app)
        root = "/v1/tenants/main"

        def note(request: Request) -> None:
            from helba.service.protocol.tokens import hash_token

            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            if hash_token(token, kind="authority") != self._authority_hash:
                raise Unauthorized
            if self.refusal is not None:
                raise self.refusal
            self.calls.append(request.method)

        @app.get(f"{root}/members")
        async def members(request: Request) -> dict[str, Any]:
            note(request)
            self.calls.pop()
            return {
                "key": self.key.hex(),
                "enrolled": self.enrolled,
                "revoked": sorted(self.revoked),
            }

        @app.put(f"{root}/members/{{user}}")
        async def enrol(
            request: Request, user: str, helba_token_sha256: Annotated[str, Header()]
        ) -> Response:
            note(request)
            given = Enrolment.from_bytes(await request.body(), deployment=self.deployment)
            assert given.user.hex() == user
            if describe_key(given.outward_key).owner != self.key:
                raise Unavailable("an enrolment under another collective key")
            self.enrolled[user] = helba_token_sha256
            self.outward[user] = given.outward_key
            self.revoked.discard(user)
            return Response(status_code=204)

        @app.delete(f"{root}/members/{{user}}")
        async def revoke(request: Request, user: str) -> Response:
            note(request)
            self.enrolled.pop(user, None)
            self.revoked.add(user)
            return Response(status_code=204)

        @app.put(f"{root}/rotation")
        async def rotate(request: Request) -> Response:
            note(request)
            given = Rotation.from_bytes(await request.body(), deployment=self.deployment)
            self.key = describe_key(given.public_key).owner
            users = {
                Enrolment.from_bytes(each, deployment=self.deployment).user.hex()
                for each in given.enrolments
            }
            self.enrolled = {user: text for user, text in self.enrolled.items() if user in users}
            return Response(status_code=204)

        return app
