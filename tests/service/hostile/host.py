"""A whole server as a process of its own: prints its URL, and serves until it is told to end.

Takes one argument, JSON: "store", and "tenants", folders by name. Rings may be without security,
and no user is too quick.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from helba.service.log import configure_logs
from helba.service.run import TenantSpec, serve
from helba.service.settings import Limits

WITHOUT_HASTE = Limits(rate_per_second=1e9, burst=1 << 30)


def main() -> None:
    given = json.loads(sys.argv[1])
    configure_logs("warning", sys.stderr)
    serve(
        [TenantSpec(name=name, folder=Path(folder)) for name, folder in given["tenants"].items()],
        store=given["store"],
        host="127.0.0.1",
        port=0,
        limits=WITHOUT_HASTE,
        allow_insecure=True,
        ready=lambda url: print(url, flush=True),
    )


if __name__ == "__main__":
    main()
