"""Brings a store to the tables of this version.

The steps are in `migrations`. They are taken in one transaction, under a lock: of two servers that
open a new store at once, one makes the tables and the other finds them.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from helba.errors import Refused, RunFailed
from helba.service.store.connection import writer
from helba.service.store.failure import name_place
from helba.service.store.table import metadata

VERSION_TABLE = "helba_version"
STEPS = Path(__file__).parent / "migrations"
LOCK = int.from_bytes(b"HELB", "big")  # of PostgreSQL, named by a number
_one_at_a_time = threading.Lock()  # the steps reach their connection by a name of the process


def migrate(engine: Engine, *, create: bool) -> None:
    """Take the steps that a store lacks; `Refused` if it is newer, or is no store of helba."""
    script = _script()
    with engine.connect() as connection, connection.begin():
        if _checked_version(connection, create=create) == latest_version():
            return
    with writer(engine.connect()) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
        if _checked_version(connection, create=create) != latest_version():
            _take_steps(connection, script=script)


def current_version(connection: Connection) -> str | None:
    """Return the version of the tables of a store, None if it has none."""
    options = {"version_table": VERSION_TABLE}
    return MigrationContext.configure(connection, opts=options).get_current_revision()


def latest_version() -> str:
    """Return the version of the tables that this package has."""
    return str(_script().get_current_head())


@cache
def _script() -> ScriptDirectory:
    return ScriptDirectory(str(STEPS), version_locations=[str(STEPS)])


def _checked_version(connection: Connection, *, create: bool) -> str | None:
    """The version of a store of helba, None for one that is still to be made."""
    place = name_place(connection.engine.url)
    # Tables before the version: another server may make both, at once, between the two looks.
    found = set(inspect(connection).get_table_names())
    version = current_version(connection)
    if version is not None:
        if version not in {step.revision for step in _script().walk_revisions()}:
            raise Refused(f"the store at {place} was written by a newer version of helba")
        return version
    if found & set(metadata.tables):
        raise Refused(f"{place} is no store of helba: it has tables of the same names")
    if not create:
        raise RunFailed(f"there is no store at {place}: it has no tables")
    return None


def _take_steps(connection: Connection, *, script: ScriptDirectory) -> None:
    def steps(version: Any, _: MigrationContext) -> Any:
        return script._upgrade_revs("head", version)

    with _one_at_a_time, EnvironmentContext(Config(), script, fn=steps) as environment:
        environment.configure(
            connection=connection,
            target_metadata=metadata,
            version_table=VERSION_TABLE,
            transactional_ddl=True,
        )
        environment.run_migrations()
