"""The machine of a report: software, processor and memory, and nothing that names a person.

No host name, no user name and no path; what cannot be found out is None.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import helba
from helba.lab.pool import count_cores

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
PACKAGES = ("numpy", "scipy", "matplotlib", "scikit-learn")
SECONDS_TO_ANSWER = 60


def describe_environment() -> dict[str, Any]:
    """Return what the results may depend on, in plain types."""
    return {
        "helba": helba.__version__,
        "commit": _find_commit(Path(__file__).resolve().parent),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "openfhe": _find_openfhe(),
        **{name: _version(name) for name in PACKAGES},
        "processor": _find_processor(),
        "architecture": platform.machine() or None,
        "cores": count_cores(),
        "memory_bytes": _find_memory(),
        "system": _find_system(),
        "threads": {name: os.environ.get(name, "not set") for name in THREAD_VARIABLES},
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _find_openfhe() -> str | None:
    """Return the version of OpenFHE if it can be loaded; a process of its own tries, not this."""
    version = _version("openfhe")
    if version is None or _run([sys.executable, "-c", "import openfhe"]) is None:
        return None
    return ".".join(version.split(".")[:3])


def _find_commit(folder: Path) -> str | None:
    """Return the commit of a checkout that holds this file, with a word if it was changed since."""
    here = ["git", "-C", str(folder)]
    if _run([*here, "ls-files", "--error-unmatch", str(Path(helba.__file__).resolve())]) is None:
        return None
    commit = _run([*here, "rev-parse", "HEAD"])
    if not commit:
        return None
    return f"{commit}, with changes" if _run([*here, "status", "--porcelain"]) else commit


def _find_processor() -> str | None:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or None
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.processor() or None


def _find_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on Windows
        return None


def _find_system() -> str:
    kernel = f"{platform.system()} {platform.release()}"
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {kernel}"
    except (OSError, KeyError):
        return kernel


def _run(command: list[str]) -> str | None:
    """Return what a command prints, None if it fails or is not there."""
    try:
        finished = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=SECONDS_TO_ANSWER,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return finished.stdout.strip()
