"""A folder that one process works in at a time.

The lock is the process's own: it ends with it, however it ends, and processes started from it do
not inherit it. Where the system has no such locks, there is none.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO

from helba.errors import RunFailed

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"


class FolderLock:
    """Makes the folder if need be and holds it until `close`; `RunFailed` if another one does."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file: IO[str] = (folder / LOCK).open("w", encoding="utf-8")
        except OSError as error:
            raise RunFailed(f"cannot write to {folder}: {error.strerror}") from error
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._file.close()
                raise RunFailed(f"{folder} is in use by another process") from None

    def close(self) -> None:
        """Let others work in the folder."""
        self._file.close()
