"""Whether what is asked for fits into the memory that is free.

A process that takes too much is killed, without a word, in the middle of a run.
"""

from __future__ import annotations

import re
from pathlib import Path

from helba.errors import EngineError
from helba.reference.planning.parameters import Parameters
from helba.reference.planning.sizes import working_bytes

MEMINFO = Path("/proc/meminfo")
CONTROL_GROUP = Path("/sys/fs/cgroup")


def require_memory(parameters: Parameters, *, keys: int) -> None:
    """Raise `EngineError` if `keys` keys, and ciphertexts to work with, cannot fit.

    Nothing is raised where the free memory is not known. Bootstrapping's own keys are not counted.
    """
    needed, free = working_bytes(parameters, keys=keys), free_memory()
    if free is not None and needed > free:
        raise EngineError(
            f"{keys} evaluation keys of N = {parameters.ring_dim}, depth {parameters.depth}, and "
            f"what is computed with them, take about {needed / 1e9:.1f} GB of memory; "
            f"{free / 1e9:.1f} GB are free"
        )


def free_memory() -> int | None:
    """Return the bytes that this process may still take, by system and control group; Linux."""
    found = []
    try:
        match = re.search(r"^MemAvailable:\s+(\d+) kB$", MEMINFO.read_text(), re.MULTILINE)
        if match is not None:
            found.append(1024 * int(match[1]))
    except OSError:
        pass
    try:
        most, current = ((CONTROL_GROUP / f"memory.{n}").read_text() for n in ("max", "current"))
        found.append(int(most) - int(current))  # "max" is no number: no limit
    except (OSError, ValueError):
        pass
    return max(0, min(found)) if found else None
