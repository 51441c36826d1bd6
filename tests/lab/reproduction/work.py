"""Work for units of tests: importable, so that other processes can do it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from helba.errors import RunFailed
from helba.lab.reproduction.unit import Unit


def double(*, number: int, mark: str | None = None) -> dict[str, Any]:
    """Return twice the number; leave a mark of every call in a file if told."""
    if mark is not None:
        with Path(mark).open("a", encoding="utf-8") as file:
            file.write(f"{number}\n")
    print("doubling", file=sys.stderr)
    return {"number": 2 * number, "rows": [number, 2.0 * number], "process": os.getpid()}


def fail(**_: Any) -> dict[str, Any]:
    raise RunFailed("no luck")


def die(**_: Any) -> dict[str, Any]:
    os._exit(9)


def interrupt(**_: Any) -> dict[str, Any]:
    raise KeyboardInterrupt


def interrupt_parent(**_: Any) -> dict[str, Any]:
    os.kill(os.getppid(), signal.SIGINT)
    while True:
        signal.pause()


def unit(name: str, *, work: Any = double, kind: str = "light", **arguments: Any) -> Unit:
    return Unit(
        name=name, title=f"unit {name}", work=work, arguments=arguments, kind=kind, seconds=1.0
    )
