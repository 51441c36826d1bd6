"""Authority, server and load on a ring without security, which the commands refuse.

    python -m tests.service.soak.launch authority|server|load JSON

Apart from the ring it is what `helba authority serve --create toy --open`, `helba serve` and
`helba load --json` do.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from helba.errors import HelbaError
from helba.service import loop
from helba.service.log import configure_logs
from helba.service.protocol.authorityfiles import CURRENT
from helba.service.run import TenantSpec, serve
from helba.service.settings import Limits
from helba.service.store import connection

HOST = "127.0.0.1"


def run_authority(*, folder: str, port: int, server: str, horizon: int, bonus: str) -> None:
    """Make the authority if there is none, and serve it to anybody."""
    from helba.service.authority.enroller import Enroller
    from helba.service.authority.run import ServerAddress, serve_authority
    from helba.service.protocol.keystore import create_authority
    from tests.reference.protocol.parties import TOY, deployment_of

    home, words = Path(folder), os.environ["HELBA_PASSPHRASE"]
    if not (home / CURRENT).exists():
        request = replace(TOY, horizon=horizon, bonus=bonus)
        deployment = deployment_of(request, scheme="ckks")
        create_authority(home, deployment, passphrase=words)
    enroller = Enroller(home, passphrase=words, open=True, allow_insecure=True)
    configure_logs("info", sys.stderr)
    serve_authority(
        enroller, server=ServerAddress(url=server), host=HOST, port=port, ready=lambda _: None
    )


def run_server(*, folder: str, port: int, store: str | None, busy_seconds: float | None) -> None:
    """Serve the folder."""
    if busy_seconds is not None:
        connection.BUSY_SECONDS = loop.MOST_BACKOFF_SECONDS = busy_seconds
    configure_logs("info", sys.stderr)
    serve(
        [TenantSpec(name="main", folder=Path(folder))],
        store=store,
        host=HOST,
        port=port,
        limits=Limits(),
        allow_insecure=True,
        ready=lambda _: None,
    )


def run_load(*, out: str, **request: Any) -> None:
    """Put load on the deployment, and print the report."""
    from helba.service.client.load import LoadRequest
    from helba.service.client.load import run_load as run

    print(json.dumps(run(LoadRequest(out=Path(out), allow_insecure=True, **request))))


def main() -> int:
    """Run what the arguments say."""
    runs = {"authority": run_authority, "server": run_server, "load": run_load}
    try:
        runs[sys.argv[1]](**json.loads(sys.argv[2]))
    except HelbaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
