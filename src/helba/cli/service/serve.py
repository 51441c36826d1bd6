"""`helba serve`: the server's HTTP, for one deployment or several."""

from __future__ import annotations

import ipaddress
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from helba.errors import InvalidInput, require_choice
from helba.extras import require_extra
from helba.lab.command.completion import CHOICES, values_of
from helba.lab.command.options import Json, whole_number

STORE_VARIABLE = "HELBA_STORE"
DEFAULT_NAME = "main"
LEVELS = CHOICES["log level"]


def _file(text: str) -> Any:
    return typer.Option(metavar="FILE", help=text, parser=Path)


def serve(
    folders: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]DIR...",
            help=f"server's folders, each with the name of its tenant: {DEFAULT_NAME} unless told",
        ),
    ],
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, whole_number(text="port to listen on; 0 is any")] = 8700,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help=f"one store for all tenants, or {STORE_VARIABLE}; else a file in each folder",
        ),
    ] = None,
    rate: Annotated[float, typer.Option(help="requests of a user in a second")] = 20.0,
    burst: Annotated[int, whole_number(text="requests of a user at once")] = 60,
    open_rounds: Annotated[
        int, whole_number(text="rounds that a user may have without a reward")
    ] = 64,
    tls_cert: Annotated[Path | None, _file("certificate, with its chain (PEM)")] = None,
    tls_key: Annotated[Path | None, _file("its private key (PEM)")] = None,
    log_level: Annotated[
        str, typer.Option(help=", ".join(LEVELS), autocompletion=values_of("log level"))
    ] = "info",
    as_json: Json = False,
) -> None:
    """Serve deployments over HTTP until told to end; logs are JSON lines on stderr."""
    require_extra("service", purpose="helba serve")
    from helba.lab.progress import note
    from helba.service.log import configure_logs
    from helba.service.protocol.child import forget_secrets
    from helba.service.run import TenantSpec
    from helba.service.run import serve as run
    from helba.service.settings import Limits

    require_choice("--log-level", log_level, LEVELS)
    if (tls_cert is None) != (tls_key is None):
        raise InvalidInput("--tls-cert", "one without the other", "given together with --tls-key")
    specs = [TenantSpec(name=name, folder=folder) for name, folder in map(_split, folders)]
    limits = Limits(rate_per_second=rate, burst=burst, most_open_rounds=open_rounds)
    if tls_cert is None and not is_loopback(host):
        note(
            f"warning: without --tls-cert, whoever is on the way to {host} can read users' tokens: "
            "use TLS here, or in a proxy in front of it"
        )
    store = store or os.environ.get(STORE_VARIABLE) or None
    forget_secrets()
    for spec in specs:
        _warn_if_simulated(spec.name, spec.folder)
    configure_logs(log_level, sys.stderr)

    def announce(url: str) -> None:
        names = [spec.name for spec in specs]
        if as_json:
            line = json.dumps({"url": url, "page": f"{url}/", "tenants": names})
        else:
            line = f"serving {', '.join(names)}: {url}/"
        print(line, flush=True)

    run(
        specs,
        store=store,
        host=host,
        port=port,
        limits=limits,
        tls_cert=tls_cert,
        tls_key=tls_key,
        ready=announce,
    )


def _split(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not equals or "/" in name or not folder:
        return DEFAULT_NAME, Path(text)
    return name, Path(folder)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _warn_if_simulated(name: str, folder: Path) -> None:
    from helba.errors import HelbaError
    from helba.lab.play.encrypted import SIMULATOR
    from helba.lab.progress import note
    from helba.service.protocol.files import DEPLOYMENT, read_deployment

    try:
        simulated = read_deployment(folder / DEPLOYMENT, allow_insecure=True).scheme == "simulate"
    except HelbaError:
        return  # whoever opens it says so
    if simulated:
        note(f"{name}: {SIMULATOR}")
