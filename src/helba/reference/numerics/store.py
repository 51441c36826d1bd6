"""Results that take seconds to compute, kept on disk between runs.

`remembered` returns exactly what `compute` returns, from the cache if it is there. A cache that is
missing, damaged, of another version or not writable never fails the computation: it is recomputed.

One JSON file per request, in HELBA_CACHE_DIR or the user's cache directory, named by the SHA-256 of
request and version. Floats are hex strings, so they come back to the last bit; a checksum detects
damage; a file appears whole (written aside, then renamed), so concurrent writers are safe.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from platformdirs import user_cache_dir

FORMAT_VERSION = 2  # raise it whenever a computation or the format changes

Result = TypeVar("Result")


def cache_directory() -> Path:
    """HELBA_CACHE_DIR if it is set, else the user's cache directory for helba."""
    return Path(os.environ.get("HELBA_CACHE_DIR") or user_cache_dir("helba"))


def path_of(request: Mapping[str, object]) -> Path:
    """The file that holds the result of `request`, whether it exists or not."""
    text = _text({"version": FORMAT_VERSION, "request": request})
    return cache_directory() / f"{hashlib.sha256(text.encode()).hexdigest()}.json"


def remembered(
    request: Mapping[str, object],
    *,
    compute: Callable[[], Result],
    encode: Callable[[Result], Mapping[str, object]],
    decode: Callable[[dict[str, object]], Result],
) -> Result:
    """The result of `compute`, read from the cache or computed and written to it.

    `request` says all that the result depends on. `decode` undoes `encode`, with lists for tuples,
    and raises `KeyError`, `TypeError` or `ValueError` on anything that it does not know.
    """
    record = _read(request)
    if record is not None:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            return decode(record)
    result = compute()
    _write(request, encode(result))
    return result


def _read(request: Mapping[str, object]) -> dict[str, object] | None:
    try:
        stored = json.loads(path_of(request).read_text(encoding="utf-8"))
        body = stored["body"]
        if stored["checksum"] != _checksum(body) or body["version"] != FORMAT_VERSION:
            return None
        if _text(body["request"]) != _text(_with_hex(request)):
            return None
        record = _with_floats(body["result"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _write(request: Mapping[str, object], record: Mapping[str, object]) -> None:
    body = _with_hex({"version": FORMAT_VERSION, "request": request, "result": record})
    text = _text({"body": body, "checksum": _checksum(body)})
    with contextlib.suppress(OSError):
        write_atomically(path_of(request), text)


def write_atomically(path: Path, text: str) -> None:
    """Write a file atomically: readers see the old content or the new. Makes folders it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise


def _text(value: object) -> str:
    return json.dumps(_with_hex(value), sort_keys=True, separators=(",", ":"))


def _checksum(body: object) -> str:
    return hashlib.sha256(_text(body).encode()).hexdigest()


def _with_hex(value: object) -> Any:
    """The value with every float as {"float": hex}."""
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, Mapping):
        return {str(key): _with_hex(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_hex(item) for item in value]
    return value


def _with_floats(value: Any) -> Any:
    """The inverse of `_with_hex`, up to lists for tuples."""
    if isinstance(value, dict):
        if value.keys() == {"float"}:
            return float.fromhex(value["float"])
        return {key: _with_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_floats(item) for item in value]
    return value
