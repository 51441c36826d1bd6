"""The time of each operation on this machine, for `helba plan`.

`helba bench kernels --calibrate` measures it and keeps it in the user's cache.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from helba.errors import InvalidInput
from helba.lab.plan.cost import KINDS, SHIPPED, Timing
from helba.reference.numerics.store import cache_directory, write_atomically


def save_timing(seconds: Mapping[str, float]) -> Path:
    """Keep this machine's timings for later plans."""
    if set(seconds) != set(KINDS) or not all(value > 0 for value in seconds.values()):
        raise InvalidInput("seconds", sorted(seconds), f"one positive number for each of {KINDS}")
    path = _timing_path()
    write_atomically(path, json.dumps(dict(seconds), indent=1))
    return path


def load_timing() -> Timing:
    """Return this machine's timings if it has any, else what ships."""
    try:
        found = json.loads(_timing_path().read_text(encoding="utf-8"))
        seconds = {kind: float(found[kind]) for kind in KINDS}
        if all(value > 0 for value in seconds.values()):
            return Timing(seconds=seconds, note="calibrated on this machine")
    except (OSError, ValueError, TypeError, KeyError):
        pass
    return Timing(seconds=SHIPPED, note="shipped; helba bench kernels --calibrate takes your own")


def _timing_path() -> Path:
    return cache_directory() / "shares-timing.json"
