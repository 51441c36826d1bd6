"""Packages that only some uses of helba need, and the command that installs each.

    lab       figures and the replay problem: matplotlib, scikit-learn
    service   the service over HTTP and its stores
    postgres  a store in PostgreSQL
    ckks      OpenFHE, on the Pythons that it has a wheel for

Nothing here imports any of them.
"""

from __future__ import annotations

import platform
import sys
from importlib.util import find_spec

from helba.errors import MissingPackage

# Modules by extra; those that only the packages below them import are not listed.
EXTRAS = {
    "lab": ("matplotlib", "sklearn"),
    "service": (
        "alembic",
        "fastapi",
        "h11",
        "httpx",
        "prometheus_client",
        "pydantic",
        "sqlalchemy",
        "starlette",
        "uvicorn",
    ),
    "postgres": ("psycopg",),
}
CKKS = "ckks"
CKKS_PYTHONS = ((3, 10), (3, 12))
CKKS_NEEDS = "CPython 3.10, or 3.12 with glibc 2.38, on Linux x86_64"
SIMULATOR = "the simulator works without it"

# What begins a message when nobody says what needs an extra.
PURPOSES = {"lab": "this", "service": "the service", "postgres": "a store in PostgreSQL"}

# What people call a module, where that is another name.
PACKAGES = {"prometheus_client": "prometheus-client", "sklearn": "scikit-learn"}


def require_extra(extra: str, *, purpose: str | None = None, only: str | None = None) -> None:
    """Raise `MissingPackage` unless the modules of `extra` are installed, or the one named `only`.

    `purpose` begins the message: what needs them.
    """
    modules = EXTRAS[extra] if only is None else (only,)
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise MissingPackage(_message(extra, missing=missing, purpose=purpose))


def explain_missing(error: ModuleNotFoundError) -> MissingPackage | None:
    """Return the error that names the command, if the module that was not found is of an extra."""
    module = (error.name or "").partition(".")[0]
    for extra, modules in EXTRAS.items():
        if module in modules:
            return MissingPackage(_message(extra, missing=[module]))
    return None


def missing_openfhe(error: ImportError) -> MissingPackage:
    """Return the error that says why OpenFHE cannot be loaded, and what to do about it."""
    command = _command(CKKS)
    version = f"CPython {sys.version_info[0]}.{sys.version_info[1]}"
    here = f"{version} on {platform.system()} {platform.machine()}"
    if not _has_wheel():
        text = f"OpenFHE cannot be loaded on {here}: it needs {CKKS_NEEDS}, and there {command}"
    elif isinstance(error, ModuleNotFoundError) and error.name == "openfhe":
        text = f"OpenFHE is not installed: {command}"
    else:
        reason = (str(error).splitlines() or ["no reason given"])[0]
        text = f"OpenFHE is installed and cannot be loaded ({reason}): it needs {CKKS_NEEDS}"
    return MissingPackage(f"{text}; {SIMULATOR}")


def _has_wheel() -> bool:
    """Return True if there is a wheel for this Python, system and processor."""
    return (
        sys.implementation.name == "cpython"
        and sys.version_info[:2] in CKKS_PYTHONS
        and (platform.system(), platform.machine()) == ("Linux", "x86_64")
    )


def _message(extra: str, *, missing: list[str], purpose: str | None = None) -> str:
    who = PURPOSES[extra] if purpose is None else purpose
    verb = "is" if len(missing) == 1 else "are"
    names = ", ".join(PACKAGES.get(module, module) for module in missing)
    return f"{who} needs {names}, which {verb} not installed: {_command(extra)}"


def _command(extra: str) -> str:
    return f"pip install 'helba[{extra}]'"
