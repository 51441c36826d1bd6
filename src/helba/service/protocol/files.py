"""Single files that the folders of all parties have, and how they are read and written.

Which files a folder has is in `keystore`, `userstore` and `serverfiles`; those that only their
owner can read are written by `vault`.

Goes with the old service.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from helba.errors import DamagedData, RunFailed
from helba.reference.protocol.deployment import Deployment
from helba.service.protocol.vault import write_public

DEPLOYMENT, ROTATION, USERS = "deployment.json", "rotation.key", "users"
PUBLIC_KEY, EVALUATION_KEY, SECRET_KEY = "public.key", "evaluation.key", "secret.key"


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error of damaged data say in which file."""
    try:
        yield
    except DamagedData as error:
        raise DamagedData(f"{path}: {error}") from error


def read_public(path: Path) -> bytes:
    """Return the bytes of a file that anybody may read, or raise `RunFailed`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise RunFailed(f"cannot read {path}: {error.strerror}") from error


def delete_file(path: Path) -> None:
    """Delete a file if it is there; a power cut does not bring it back."""
    try:
        path.unlink(missing_ok=True)
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise RunFailed(f"cannot delete {path}: {error.strerror}") from error


def read_json(path: Path, data: bytes) -> Any:
    """Return what the bytes of a JSON file say, or raise `DamagedData`."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise DamagedData(f"{path}: this is not JSON") from None


def read_deployment(path: Path, *, allow_insecure: bool = False) -> Deployment:
    """Return the deployment in a file, or raise `RunFailed` or `DamagedData`."""
    data = read_json(path, read_public(path))
    with naming(path):
        return Deployment.from_json(data, allow_insecure=allow_insecure)


def write_deployment(path: Path, deployment: Deployment) -> None:
    """Write a deployment for all to read."""
    write_public(path, json.dumps(deployment.as_json(), indent=1).encode())
