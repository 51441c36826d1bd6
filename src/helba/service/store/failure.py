"""What a database says when it fails, in one line that has neither data nor credentials of it.

The messages of drivers may show values of a row, or whom a connection was for: they are only
looked at to tell what happened, and are not passed on.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import exc
from sqlalchemy.engine import URL

from helba.errors import Unavailable

FULL = "has no room left on its disk"
# The first that occurs in SQLite's message counts.
SQLITE_TEXTS = {
    "database or disk is full": FULL,
    "is locked": "is locked by another process",
    "readonly database": "cannot be written: it is read-only",
    "unable to open": "cannot be opened: is its folder there, and may this user write in it?",
    "malformed": "is damaged: restore it from an archive",
    "not a database": "is damaged: restore it from an archive",
    "disk I/O error": "cannot be read or written: its disk fails",
}
# https://www.postgresql.org/docs/current/errcodes-appendix.html; a class has two letters.
POSTGRES_STATES = {
    "53100": FULL,
    "53300": "has too many connections",
    "53": "is out of resources",
    "57P03": "is not ready yet: the database starts or stops",
    "57": "was stopped while at work",
    "08": "lost the connection",
    "28": "refuses the login: check user and password",
    "3D": "is not there: the database has to be made first",
    "42501": "does not let its user do this: check what the user may do",
    "25006": "cannot be written: it is read-only",
    "55P03": "is locked by another process",
    "40": "is locked by another process",
    "XX": "is damaged: see the log of the database",
}
# What libpq says while it connects, where no state comes with it.
POSTGRES_TEXTS = {
    "refused": "refuses the connection: is the database up?",
    "No such file": "refuses the connection: is the database up?",
    "timeout": "does not answer in time",
    "timed out": "does not answer in time",
    "could not translate": "cannot be found: check the name of the host",
    "resolve": "cannot be found: check the name of the host",
    "password": "refuses the login: check user and password",
    "too many": "has too many connections",
    "does not exist": "is not there: the database has to be made first",
    "starting up": "is not ready yet: the database starts or stops",
    "shutting down": "is not ready yet: the database starts or stops",
    "closed": "lost the connection",
    "lost": "lost the connection",
}


@contextmanager
def reporting(url: URL) -> Iterator[None]:
    """Turn errors of the database into `Unavailable`."""
    try:
        yield
    except (exc.SQLAlchemyError, sqlite3.Error) as error:
        raise Unavailable(describe_failure(error, url=url)) from None


def name_place(url: URL) -> str:
    """Return where a store is, without who may open it."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    host = url.host or "local"
    port = "" if url.port is None else f":{url.port}"
    return f"postgresql://{host}{port}/{url.database or ''}"


def describe_failure(error: Exception, *, url: URL) -> str:
    """Return what happened to the store at `url`, as one line."""
    return f"the store at {name_place(url)} {_tell(error, url=url)}"


def _tell(error: Exception, *, url: URL) -> str:
    if isinstance(error, exc.TimeoutError):
        return "is busy: all its connections are in use"
    cause = error.orig if isinstance(error, exc.DBAPIError) else error
    message = str(cause)
    if url.get_backend_name() == "sqlite":
        if "disk I/O error" in message and _is_full(url):
            return FULL
        return _find(SQLITE_TEXTS, message) or _name(cause)
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        known = POSTGRES_STATES.get(state) or POSTGRES_STATES.get(state[:2])
        return known or f"{_name(cause)}, {state}"
    return _find(POSTGRES_TEXTS, message) or _name(cause)


def _find(texts: dict[str, str], message: str) -> str | None:
    return next((text for sign, text in texts.items() if sign in message), None)


def _name(cause: object) -> str:
    return f"failed: {type(cause).__name__}"


def _is_full(url: URL) -> bool:
    """Whether the disk of a SQLite file has no room: not all of SQLite's failures say so."""
    try:
        found = os.statvfs(Path(str(url.database)).parent)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < 1 << 16
