"""The databases a store may be in, and what is set on each connection to one.

SQLite: a file that only its owner can read, in WAL mode, where each commit reaches the disk before
it returns (synchronous=FULL). Pages of deleted parts are used again. Its application id says that a
file is a store; any other file is refused, and not touched.

PostgreSQL: the driver psycopg. A connection is tried before it is used, and one that was lost while
idle is replaced.

A transaction is either a reading one, which sees one state of the store all the time, or a writing
one. In SQLite the latter takes the one lock for writing when it begins: it never has to give up
halfway because another one wrote.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from helba.errors import InvalidInput, Refused, RunFailed
from helba.extras import require_extra

BUSY_SECONDS = 5.0
CONNECT_SECONDS = 5
LOST_SECONDS = 30  # how long what was sent to PostgreSQL may stay unacknowledged
# When nothing comes from it: seconds until it is asked whether it is there, between two such
# questions, and how many may stay without an answer.
SILENT_SECONDS, ASK_SECONDS, MOST_UNANSWERED = 10, 5, 4
MOST_WAL_BYTES = 1 << 26
WAL_PAGES = 128  # moved into the file when there are more; 8 MiB
PAGE_BYTES = 1 << 16  # parts are megabytes: commits take a third of the time of small pages
APPLICATION_ID = int.from_bytes(b"HELB", "big")
HEADER_BYTES = 100  # https://www.sqlite.org/fileformat.html#the_database_header
MAGIC, ID_START = b"SQLite format 3\0", 68
SQLITE = "sqlite:///"
ALLOWED = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"


def parse_url(text: str) -> URL:
    """Return the address of a store; `InvalidInput` does not repeat it, as it may have a password.

    A SQLite file is named by its absolute path.
    """
    if text.startswith(SQLITE):
        path = text.removeprefix(SQLITE)  # as it is: a path may have any letter
        if path in ("", ":memory:") or "\0" in path:
            raise InvalidInput("store", "no file", ALLOWED)
        return URL.create("sqlite", database=os.path.abspath(path))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise InvalidInput("store", "something else", ALLOWED) from None
    if url.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    raise InvalidInput("store", f"{url.get_backend_name()!r}", ALLOWED)


def prepare_file(path: Path, *, create: bool) -> None:
    """Make the file of a SQLite store, or check that it is one, without opening it as a database.

    A file of 0 bytes is a store that was never written.
    """
    try:
        if create:
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
    except FileNotFoundError:
        what = "its folder" if create else "it"
        raise RunFailed(f"there is no store at {path}: {what} does not exist") from None
    except OSError as error:
        raise RunFailed(f"cannot open the store at {path}: {error.strerror}") from None
    if not header:
        if not create:
            raise RunFailed(f"there is no store at {path}: the file is empty")
        return
    if not header.startswith(MAGIC):
        raise Refused(f"{path} is no store of helba: it is not a SQLite database")
    if int.from_bytes(header[ID_START : ID_START + 4], "big") != APPLICATION_ID:
        raise Refused(f"{path} is no store of helba: it is another SQLite database")


def make_engine(url: URL) -> Engine:
    """Return the pool of connections to a store; nothing is connected yet.

    `MissingPackage` where it is in PostgreSQL and the driver is not installed.
    """
    options: dict[str, Any] = {"hide_parameters": True}
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, **options)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    require_extra("postgres")
    return create_engine(url, pool_pre_ping=True, connect_args=_postgres_arguments(url), **options)


def reader(connection: Connection) -> Connection:
    """Return the connection, set to read one state of the store."""
    if connection.dialect.name == "sqlite":
        return connection
    return connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def writer(connection: Connection) -> Connection:
    """Return the connection, set to write."""
    return connection.execution_options(helba_begin="BEGIN IMMEDIATE")


def _prepare_sqlite(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says, only
    for pragma in (
        f"busy_timeout = {round(1000 * BUSY_SECONDS)}",
        "synchronous = FULL",
        "foreign_keys = ON",
        f"journal_size_limit = {MOST_WAL_BYTES}",
        f"wal_autocheckpoint = {WAL_PAGES}",
    ):
        connection.execute(f"PRAGMA {pragma}")
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if pages == 0:
        # The id is in the file itself before there is a log beside it that could have it alone.
        for pragma in (f"page_size = {PAGE_BYTES}", f"application_id = {APPLICATION_ID}"):
            connection.execute(f"PRAGMA {pragma}")
    connection.execute("PRAGMA journal_mode = WAL")


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    connection.exec_driver_sql(options.get("helba_begin", "BEGIN"))


def _postgres_arguments(url: URL) -> dict[str, Any]:
    given = url.query.get("options", "")
    options = given if isinstance(given, str) else " ".join(given)
    return {
        "application_name": "helba",
        "connect_timeout": CONNECT_SECONDS,
        "tcp_user_timeout": 1000 * LOST_SECONDS,
        "keepalives_idle": SILENT_SECONDS,
        "keepalives_interval": ASK_SECONDS,
        "keepalives_count": MOST_UNANSWERED,
        "options": f"-c lock_timeout={round(1000 * BUSY_SECONDS)} {options}".strip(),
    }
