"""Databases for tests: SQLite files, or PostgreSQL where scripts/with-postgres runs them.

HELBA_TEST_DATABASE       address of a PostgreSQL server, as a user who may make databases
HELBA_TEST_POSTGRES_CTL   a script that stops and starts it
"""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

SERVER = os.environ.get("HELBA_TEST_DATABASE")
CONTROL = os.environ.get("HELBA_TEST_POSTGRES_CTL")


@contextmanager
def fresh_database() -> Iterator[str]:
    """The URL of a new store, which goes away in the end."""
    with fresh_file() if SERVER is None else fresh_postgres(SERVER) as url:
        yield url


@contextmanager
def fresh_file() -> Iterator[str]:
    """A SQLite file in a folder of its own; it is not there yet."""
    with tempfile.TemporaryDirectory(prefix="helba-store-") as folder:
        yield f"sqlite:///{Path(folder) / 'store.sqlite3'}"


@contextmanager
def fresh_postgres(server: str) -> Iterator[str]:
    """A new database of a PostgreSQL server."""
    name = f"helba_{secrets.token_hex(8)}"
    _execute(server, f"CREATE DATABASE {name}")
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        _execute(server, f"DROP DATABASE {name} WITH (FORCE)")


def control_postgres(action: str) -> None:
    """Stop or start the server of all tests: only for one that runs alone."""
    assert CONTROL is not None
    assert "PYTEST_XDIST_WORKER" not in os.environ, "mark this test stops_database"
    subprocess.run([CONTROL, action], check=True, timeout=90)


def _execute(server: str, statement: str) -> None:
    url = make_url(server).set(drivername="postgresql+psycopg")
    engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        connection.execute(text(statement))
