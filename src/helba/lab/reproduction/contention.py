"""Tells if a measurement had the processors it wanted, or waited for others to leave them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

# From this share of waiting on, a time says more about the machine than about the work.
DISTURBED = 0.05


def waiting_share(folder: Path = Path("/proc/self/task")) -> float | None:
    """Return which share of the time that this process's threads could have run they waited.

    Linux counts it for every thread that still lives (schedstat: nanoseconds on a processor, then
    waiting for one); None where nobody does.
    """
    ran = waited = 0
    try:
        for thread in folder.iterdir():
            fields = (thread / "schedstat").read_text(encoding="ascii").split()
            ran, waited = ran + int(fields[0]), waited + int(fields[1])
    except (OSError, ValueError, IndexError):
        return None
    return waited / (ran + waited) if ran + waited else None


def say_disturbed(runs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a paragraph about runs, by their labels, that waited for a processor; or none."""
    shares = {label: run.get("waiting_share") or 0.0 for label, run in runs.items()}
    listed = ", ".join(
        f"{label} ({share:.0%})" for label, share in shares.items() if share > DISTURBED
    )
    if not listed:
        return []
    return [
        "Not a clean measurement: threads waited for a processor for a share of the time in "
        f"{listed}. Do not rely on these times, nor on ratios and exponents made from them."
    ]
