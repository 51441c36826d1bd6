"""The authority as a process: opens the folder, listens, delivers, and ends when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from helba.service.authority.app import AuthoritySettings, create_app
from helba.service.authority.courier import Courier
from helba.service.authority.delivery import Outcome, deliver
from helba.service.authority.enroller import Enroller
from helba.service.authority.link import Link
from helba.service.authority.metric import AuthorityMetrics
from helba.service.listen import run_app
from helba.service.protocol.authorityfiles import SERVER, ensure_server_token
from helba.service.protocol.authoritystate import work_on


@dataclass(frozen=True, kw_only=True)
class ServerAddress:
    """Where the authority reaches the server, and where users do if that is another address."""

    url: str
    tenant: str = "main"
    public_url: str | None = None
    ca: Path | None = None
    plain_http: bool = False

    def connect(self, token: str) -> Link:
        """Return a link with the authority's token; nothing is sent yet."""
        return Link(
            self.url,
            tenant=self.tenant,
            token=token,
            ca=self.ca,
            plain_http=self.plain_http,
        )


def serve_authority(
    enroller: Enroller,
    *,
    server: ServerAddress,
    host: str,
    port: int,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    ready: Callable[[str], None],
    settings: AuthoritySettings | None = None,
    stopping: threading.Event | None = None,
) -> None:
    """Serve until the process is told to end, or `stopping` is set; `ready` gets the URL."""
    metrics = AuthorityMetrics()
    courier = Courier(
        enroller.folder, link=server.connect(enroller.token), observe=metrics.observe_delivery
    )
    if settings is None:
        url = (server.public_url or server.url).rstrip("/")
        settings = AuthoritySettings(server_url=url, tenant=server.tenant)
    app = create_app(enroller, courier=courier, settings=settings, metrics=metrics)
    run_app(
        app,
        host=host,
        port=port,
        tls_cert=tls_cert,
        tls_key=tls_key,
        ready=ready,
        stopping=stopping,
    )


def deliver_once(folder: Path, *, server: ServerAddress, allow_insecure: bool = False) -> Outcome:
    """Bring the server in step with the authority's folder; no passphrase is needed."""
    with work_on(folder, allow_insecure=allow_insecure):
        token = ensure_server_token(folder, server=folder / SERVER)
    link = server.connect(token)
    try:
        return deliver(folder, link=link)
    finally:
        link.close()
