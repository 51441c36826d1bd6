"""`helba authority`: the key authority over HTTP, invitations, and what the server must be told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from helba.cli.service.keys import Folder, Name, PassphraseFile
from helba.errors import InvalidInput, RunFailed
from helba.extras import require_extra
from helba.lab.command.completion import values_of
from helba.lab.command.options import (
    Arms,
    Dim,
    Growth,
    Horizon,
    Json,
    Schedule,
    Security,
    choose_horizon,
    whole_number,
)

if TYPE_CHECKING:
    from helba.service.authority.enroller import Enroller

SERVER_URL, PORT = "http://127.0.0.1:8700", 8701
OPEN = (
    "open: anybody who reaches this address may enrol, and whoever has a user's public key may "
    "take its place; for demonstrations only"
)

app = typer.Typer(help="Enrol users over HTTP, and keep the server in step.")

ServerUrl = Annotated[str, typer.Option("--server", help="address of the server", metavar="URL")]
Tenant = Annotated[str, typer.Option(help="name of the deployment at the server", metavar="NAME")]
Ca = Annotated[
    Path | None,
    typer.Option(help="certificates that the server's must lead to, where they are your own"),
]
PlainHttp = Annotated[
    bool,
    typer.Option("--plain-http", help="allow http to another machine: keys travel in the open"),
]


@app.callback()
def start_authority() -> None:
    """Enrol users over HTTP, and keep the server in step."""


@app.command("serve")
def serve_authority(
    folder: Folder,
    server: ServerUrl = SERVER_URL,
    tenant: Tenant = "main",
    public_server: Annotated[
        str | None,
        typer.Option(help="address of the server for users, where it is another", metavar="URL"),
    ] = None,
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, whole_number(text="port to listen on; 0 is any")] = PORT,
    open_enroller: Annotated[
        bool, typer.Option("--open", help="enrol without invitation: for demonstrations only")
    ] = False,
    create: Annotated[
        str | None,
        typer.Option(
            metavar="PROBLEM",
            help="make the authority first, if DIR holds none: toy, synthetic, fixed-arms, replay",
            autocompletion=values_of("problem"),
        ),
    ] = None,
    dim: Dim = None,
    arms: Arms = None,
    horizon: Horizon = None,
    security: Security = 128,
    schedule: Schedule = "trace",
    growth: Growth = 0.1,
    keys: Annotated[
        str, typer.Option(help="own or switched", autocompletion=values_of("keys", but=("shared",)))
    ] = "own",
    engine: Annotated[
        str,
        typer.Option(
            help="ckks, or simulate: protects nothing",
            autocompletion=values_of("engine", but=("plain",)),
        ),
    ] = "ckks",
    passphrase_file: PassphraseFile = None,
    tls_cert: Annotated[Path | None, typer.Option(help="certificate, to serve https")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="its key")] = None,
    ca: Ca = None,
    plain_http: PlainHttp = False,
    log_level: Annotated[
        str,
        typer.Option(help="debug, info, warning or error", autocompletion=values_of("log level")),
    ] = "info",
    as_json: Json = False,
) -> None:
    """Serve the authority in DIR until told to end; enrol users, and tell the server.

    The server may be started later: what it must know is delivered when it is there.
    """
    require_extra("service", purpose="helba authority serve")
    from helba.cli.service.passphrase import read_passphrase
    from helba.cli.service.serve import is_loopback
    from helba.errors import require_choice
    from helba.lab.progress import note
    from helba.lab.report import print_json
    from helba.service.authority.enroller import Enroller
    from helba.service.authority.link import require_safe_url
    from helba.service.authority.run import ServerAddress
    from helba.service.authority.run import serve_authority as serve
    from helba.service.log import configure_logs
    from helba.service.protocol.authorityfiles import CURRENT

    require_choice("--log-level", log_level, ("debug", "info", "warning", "error"))
    require_safe_url(server, plain_http=plain_http)
    if public_server is not None:
        try:
            require_safe_url(public_server, plain_http=plain_http)
        except InvalidInput as error:
            raise InvalidInput("--public-server", error.value, error.allowed) from None
    if tls_cert is None and not is_loopback(host):
        note(
            f"warning: without --tls-cert, whoever is on the way to {host} can read invitations, "
            "and give users another key: use TLS here, or in a proxy in front of it"
        )
    address = ServerAddress(
        url=server, tenant=tenant, public_url=public_server, ca=ca, plain_http=plain_http
    )
    is_new = not (folder / CURRENT).exists()
    if is_new and create is None:
        raise RunFailed(f"{folder} holds no authority: --create PROBLEM makes one")
    if is_new and keys == "shared":
        raise InvalidInput("--keys", keys, "own or switched: who shares a key need not enrol")
    passphrase = read_passphrase(file=passphrase_file, confirm=is_new)
    if is_new and create is not None:
        sizes = {"dim": dim, "arms": arms, "horizon": choose_horizon(horizon, problem=create)}
        request = {
            "engine": engine,
            "security": security,
            "keys": keys,
        }
        rules = {"schedule": schedule, "growth": growth}
        _create(
            folder,
            problem=create,
            sizes=sizes,
            rules=rules,
            request=request,
            passphrase=passphrase,
        )
    elif create is not None:
        note(f"{folder} holds an authority already: it is served as it is")
    note("opening the collective keys")
    enroller = Enroller(folder, passphrase=passphrase, open=open_enroller)
    if open_enroller:
        note(OPEN)
    configure_logs(log_level, sys.stderr)

    def tell(url: str) -> None:
        report = _describe(enroller, url=url, address=address)
        if as_json:
            print_json(report)
            sys.stdout.flush()
        note(f"serving the authority at {url}, for the server at {server}")
        note(f"compare with users the id of the collective key: {report['key']}")

    serve(
        enroller,
        server=address,
        host=host,
        port=port,
        tls_cert=tls_cert,
        tls_key=tls_key,
        ready=tell,
    )


@app.command("invite")
def invite_user(
    folder: Folder,
    name: Name,
    days: Annotated[float, typer.Option(help="how long the invitation counts")] = 7.0,
    as_json: Json = False,
) -> None:
    """Print a code, once, with which a user may enrol itself under NAME, once.

    To a user who is enrolled it gives the right to a new token, with the same key.
    """
    from helba.lab.progress import note
    from helba.lab.report import print_json
    from helba.service.protocol.authorityfiles import at_work
    from helba.service.protocol.invitation import invite

    with at_work(folder):
        code, made = invite(folder, name, days=days)
    if as_json:
        print_json({"name": name, "invitation": code, "expires_at": made.expires_at})
        return
    note(f"for {name}, until {made.expires_at}; send it by a way that only {name} can read:")
    print(code)


@app.command("sync")
def sync_server(
    folder: Folder,
    server: ServerUrl = SERVER_URL,
    tenant: Tenant = "main",
    ca: Ca = None,
    plain_http: PlainHttp = False,
    as_json: Json = False,
) -> None:
    """Tell the server what it does not know yet, once, and say what; no passphrase is needed."""
    require_extra("service", purpose="helba authority sync")
    from helba.cli.service.keyreport import show_report
    from helba.lab.progress import note
    from helba.service.authority.run import ServerAddress, deliver_once

    address = ServerAddress(url=server, tenant=tenant, ca=ca, plain_http=plain_http)
    outcome = deliver_once(folder, server=address)
    for name, reason in outcome.left.items():
        note(f"the server did not take {name}: {reason}")
    if outcome.waiting:
        note(
            f"without a token, and not told: {', '.join(outcome.waiting)} (helba authority invite)"
        )
    report = {
        "folder": str(folder),
        "server": server,
        "key": outcome.key.hex(),
        "rotated": outcome.rotated,
        "enrolled": list(outcome.enrolled),
        "revoked": [user.hex() for user in outcome.revoked],
        "refused": len(outcome.left),
        "users": len(outcome.held),
    }
    show_report(report, as_json=as_json)
    if outcome.left:
        raise RunFailed(f"the server refused {len(outcome.left)} users")


def _create(
    folder: Path,
    *,
    problem: str,
    sizes: dict[str, Any],
    rules: dict[str, Any],
    request: dict[str, Any],
    passphrase: str,
) -> None:
    """Plan, and make the collective keys; the server's folder is written on opening."""
    from helba.cli.service.keyreport import new_folder
    from helba.lab.play.encrypted import SIMULATOR
    from helba.lab.progress import note
    from helba.lab.runner import settings_for
    from helba.problems import make_problem
    from helba.reference.protocol.bandit import deployment_for
    from helba.service.protocol.authorityfiles import require_free
    from helba.service.protocol.keystore import create_authority

    require_free(folder)
    drawn = make_problem(problem, dim=sizes["dim"], arms=sizes["arms"])
    settings = settings_for(drawn, horizon=sizes["horizon"], **rules)
    with new_folder(folder):
        if request["engine"] == "simulate":
            note(SIMULATOR)
        note("planning")
        deployment = deployment_for(settings, **request)
        note(f"making {len(deployment.rotations) + 1} evaluation keys")
        create_authority(folder, deployment, passphrase=passphrase)


def _describe(enroller: Enroller, *, url: str, address: Any) -> dict[str, Any]:
    return {
        "url": url,
        "folder": str(enroller.folder),
        "server": address.url,
        "tenant": address.tenant,
        "key": enroller.key_id().hex(),
        "open": enroller.open,
    }
