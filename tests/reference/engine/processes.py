"""Start a module of the tests in a process of its own, by spawn and never by fork."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def run_module(name: str, *arguments: str, timeout: float = 120.0) -> Any:
    """Return what `python -m name` prints as JSON; a crash or an error fails the test."""
    done = subprocess.run(
        [sys.executable, "-m", name, *arguments],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{name} ended with {done.returncode}: {done.stderr[-2000:]}"
    return json.loads(done.stdout)
