"""A server, from folders to a port and back: open, start, serve, stop.

Tenants start in the background, so that the server says how it is while keys are loaded. Being told
to end, it answers what is under way; then the tenants store what they have and end their processes.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from helba.errors import HelbaError, InvalidInput, RunFailed
from helba.service.app import make_app
from helba.service.listen import run_app
from helba.service.memory import give_memory_back
from helba.service.protocol.files import DEPLOYMENT
from helba.service.settings import Limits
from helba.service.store import Store
from helba.service.tenant import Tenant

LOCK, STORE = "serve.lock", "store.sqlite3"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

log = logging.getLogger("helba.service.run")


@dataclass(frozen=True, kw_only=True)
class TenantSpec:
    """A tenant that is to be served: what stands in its paths, and its server's folder."""

    name: str
    folder: Path

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            allowed = "of letters, digits, '.', '_' and '-', at most 64"
            raise InvalidInput("name of a tenant", repr(self.name[:64]), allowed)


def serve(
    tenants: Sequence[TenantSpec],
    *,
    store: str | None = None,
    host: str,
    port: int,
    limits: Limits,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    allow_insecure: bool = False,
    ready: Callable[[str], None],
    stopping: threading.Event | None = None,
) -> None:
    """Serve the tenants until this process is told to end, or `stopping` is set.

    All of them are in the `store`, or each in a file of its folder. `ready` gets the URL. Raises
    `RunFailed` if a folder is served already or is none, if the port is taken, or if a store cannot
    be opened.
    """
    _require_distinct(tenants)
    give_memory_back()
    with ExitStack() as stack:
        for spec in tenants:
            stack.enter_context(hold_folder(spec.folder))
        shared = None if store is None else stack.enter_context(Store(store))
        opened = {
            spec.name: Tenant(
                spec.name,
                spec.folder,
                store=shared or stack.enter_context(Store(f"sqlite:///{spec.folder / STORE}")),
                limits=limits,
                allow_insecure=allow_insecure,
            )
            for spec in tenants
        }
        stack.callback(_stop_all, list(opened.values()))

        def announce(url: str) -> None:
            for tenant in opened.values():
                threading.Thread(target=_start, args=(tenant,), daemon=True).start()
            ready(url)

        run_app(
            make_app(opened, limits=limits, version=version("helba")),
            host=host,
            port=port,
            tls_cert=tls_cert,
            tls_key=tls_key,
            ready=announce,
            stopping=stopping,
        )


def _require_distinct(tenants: Sequence[TenantSpec]) -> None:
    names = [each.name for each in tenants]
    if not names:
        raise InvalidInput("tenants", "none", "at least one")
    if len(set(names)) < len(names):
        raise InvalidInput("names of tenants", ", ".join(names), "different: NAME=DIR names one")


def _start(tenant: Tenant) -> None:
    try:
        tenant.start()
    except HelbaError as error:
        log.error("tenant failed", extra={"fields": {"tenant": tenant.name, "line": str(error)}})
    except Exception as error:  # the others serve on
        fields = {"tenant": tenant.name, "error": type(error).__name__}
        log.error("tenant failed", extra={"fields": fields})


def _stop_all(tenants: Sequence[Tenant]) -> None:
    """Stop them side by side: each waits for its processes."""
    threads = [threading.Thread(target=tenant.stop) for tenant in tenants]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """A server's folder, for this server alone; `RunFailed` if another one serves it.

    The lock is a file's, as the authority's commands lock the folder itself. It ends with this
    process, however it ends.
    """
    _require_server(folder)
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise RunFailed(f"cannot write to {folder}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunFailed(f"another server serves {folder}") from None
        yield
    finally:
        os.close(handle)


def _require_server(folder: Path) -> None:
    if (folder / DEPLOYMENT).is_file():
        return
    if (folder / "server" / DEPLOYMENT).is_file():
        raise RunFailed(f"{folder} is the authority's: the server's folder is {folder / 'server'}")
    raise RunFailed(f"{folder} is no server's folder (helba keys create makes DIR/server)")
