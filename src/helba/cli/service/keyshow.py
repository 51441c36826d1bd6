"""What a key file or a folder of keys is, for `helba keys show`. No secret is opened."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from helba.errors import DamagedData, HelbaError, RunFailed
from helba.lab.play.encrypted import describe_parameters
from helba.reference.engine.wire.envelope import MAGIC as ENVELOPE
from helba.reference.planning.parameters import Parameters
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.enrolment import is_issued, read_issued
from helba.service.protocol.authorityfiles import CURRENT, MEMBERS
from helba.service.protocol.files import DEPLOYMENT, EVALUATION_KEY, SECRET_KEY, naming, read_public
from helba.service.protocol.keyinfo import describe_key
from helba.service.protocol.serverfiles import LEDGER, PREVIOUS, REVOKED
from helba.service.protocol.userstore import COLLECTIVE_KEY
from helba.service.protocol.vault import ASIDE, OTHERS, purpose_of
from helba.service.protocol.vault import MAGIC as SEALED

OWNER_ONLY = ("secret key", "sealed secret", "re-encryption key", "enrolment", "rotation")


def describe_path(path: Path) -> dict[str, Any]:
    """Return what a file is, or a folder and every file in it, or raise an error of helba."""
    if not path.is_dir():
        return _describe_file(path)
    kind = _kind_of_folder(path)
    if kind is None:
        raise RunFailed(f"{path} is a folder without keys of helba")
    files = [each for each in sorted(path.rglob("*")) if each.is_file()]
    return {
        "path": str(path),
        "kind": kind,
        **_mode_of(path, private=True),
        "files": [_describe_any(each, under=path) for each in files],
    }


def _kind_of_folder(path: Path) -> str | None:
    if (path / CURRENT).exists():
        return "authority's folder"
    if (path / COLLECTIVE_KEY).exists() and (path / SECRET_KEY).exists():
        return "user's folder"
    if (path / EVALUATION_KEY).exists() and (path / DEPLOYMENT).exists():
        return "server's folder"
    return None


def _describe_any(path: Path, *, under: Path) -> dict[str, Any]:
    """As for a file; one that cannot be told is said to be so."""
    try:
        found = _describe_file(path)
    except (RunFailed, DamagedData) as error:
        found = {"kind": "unknown", "error": str(error)}
    return {**found, "path": str(path.relative_to(under))}


def _describe_file(path: Path) -> dict[str, Any]:
    data = read_public(path)
    with naming(path):
        try:
            found = _describe_bytes(path, data)
        except HelbaError:
            raise
        except (KeyError, TypeError, ValueError, RecursionError):
            raise DamagedData("this is no key file of helba, or it is damaged") from None
    private = found["kind"] in OWNER_ONLY
    return {"path": str(path), **found, "bytes": len(data), **_mode_of(path, private=private)}


def _describe_bytes(path: Path, data: bytes) -> dict[str, Any]:
    if path.match(ASIDE):
        return {"kind": "leftover of a write that broke off"}
    if path.suffix == REVOKED:
        return {"kind": "mark of a revoked key", "owner": bytes.fromhex(path.stem).hex()}
    if data.startswith(SEALED):
        return {"kind": "sealed secret", "purpose": purpose_of(data)}
    if is_issued(data):
        return _describe_issued(data)
    if data.startswith(ENVELOPE):
        return _describe_key(data, previous=path.name == PREVIOUS)
    return _describe_text(path, data)


def _describe_key(data: bytes, *, previous: bool = False) -> dict[str, Any]:
    info = describe_key(data)
    kind = f"previous {info.kind}" if previous else info.kind
    found: dict[str, Any] = {"kind": kind, "engine": info.scheme, "owner": info.owner.hex()}
    if info.leads_to is not None:
        found["leads_to"] = info.leads_to.hex()
    if info.kind == "evaluation key":
        found["rotations"] = info.rotations
    return {**found, **_describe_parameters(info.parameters, engine=info.scheme)}


def _describe_issued(data: bytes) -> dict[str, Any]:
    """An enrolment, or a rotation."""
    issued = read_issued(data)
    way = _describe_key(issued.key)
    found = {"kind": issued.kind, "deployment": issued.deployment}
    if issued.kind == "rotation":
        way["enrolments"] = issued.enrolments
    return {**way, **found}


def _describe_text(path: Path, data: bytes) -> dict[str, Any]:
    words = json.loads(data)
    if path.name == MEMBERS:
        return {"kind": "list of members", "members": len(words["members"])}
    if path.name == LEDGER:
        return {"kind": "ledger", "bits": words["total"], "bit_budget": words["budget"]}
    if path.name == CURRENT:
        return {"kind": "name of the keys that count", "keys": words["keys"]}
    deployment = Deployment.from_json(words, allow_insecure=True)
    return {
        "kind": "deployment",
        "deployment": deployment.fingerprint,
        "engine": deployment.scheme,
        "keys": deployment.keys,
        **_describe_parameters(deployment.parameters, engine=deployment.scheme),
    }


def _describe_parameters(parameters: Parameters, *, engine: str) -> dict[str, Any]:
    level: object = parameters.security
    if engine == "simulate":
        level = "none: simulated"
    elif level is None:
        level = "none: for tests only"
    return {"security": level, "parameters": describe_parameters(parameters)}


def _mode_of(path: Path, *, private: bool) -> dict[str, Any]:
    mode = stat.S_IMODE(path.stat().st_mode)
    found: dict[str, Any] = {"mode": f"{mode:o}"}
    if private and mode & OTHERS:
        right = "700" if path.is_dir() else "600"
        found["warning"] = f"open to other users: chmod {right} {path}"
    return found
