"""Opening a store: what it makes, what it refuses, and that it says nothing it should not."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect, text

from helba.errors import InvalidInput, Refused, RunFailed
from helba.service.store import Store, migration
from helba.service.store.migration import VERSION_TABLE, current_version, latest_version
from helba.service.store.table import metadata
from tests.service.store.contents import FINGERPRINT, file_of, fill, rows_of


def test_migrated_tables_are_those_of_the_code(store: Store) -> None:
    with store.read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
        assert current_version(connection) == latest_version()


def test_store_of_a_newer_version_is_refused(store_url: str) -> None:
    with Store(store_url) as store, store.write() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(Refused, match="newer version of helba"):
        Store(store_url)


def test_database_with_tables_of_the_same_names_is_refused(store_url: str) -> None:
    with Store(store_url) as store, store.write() as connection:
        connection.execute(text(f"DROP TABLE {VERSION_TABLE}"))
    with pytest.raises(Refused, match="no store of helba"):
        Store(store_url)


def test_migration_that_fails_leaves_no_table(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = migration._take_steps

    def fail(*arguments: object, **options: object) -> None:
        whole(*arguments, **options)  # type: ignore[arg-type]
        raise RunFailed("in the middle")

    monkeypatch.setattr(migration, "_take_steps", fail)
    with pytest.raises(RunFailed, match="in the middle"):
        Store(store_url)
    monkeypatch.undo()
    with pytest.raises(RunFailed, match="no tables"):
        Store(store_url, create=False)
    with Store(store_url) as store:
        assert store.tenants() == {}


def test_many_threads_may_open_a_new_store_at_once(store_url: str) -> None:
    failures: list[Exception] = []
    meeting = threading.Barrier(6)

    def work(number: int) -> None:
        meeting.wait(timeout=30)
        try:
            with Store(store_url) as store:
                store.open_tenant(f"t{number}", fingerprint=FINGERPRINT)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
    with Store(store_url) as store:
        assert len(store.tenants()) == 6


def test_store_that_another_makes_meanwhile_is_found(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_late(connection: Any) -> Any:
        monkeypatch.undo()
        Store(store_url).close()
        return inspect(connection)

    monkeypatch.setattr(migration, "inspect", look_late)
    with Store(store_url) as store:
        assert not store.tenants()


def test_processes_may_open_a_new_store_at_once(store_url: str) -> None:
    code = (
        "import sys; from helba.service.store import Store; "
        "Store(sys.argv[1]).open_tenant(sys.argv[2], fingerprint='f')"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, store_url, f"t{number}"])
        for number in range(3)
    ]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    with Store(store_url) as store:
        assert len(store.tenants()) == 3


def test_opening_prints_nothing(store_url: str, capfd: pytest.CaptureFixture[str]) -> None:
    with Store(store_url) as store:
        store.open_tenant("main", fingerprint=FINGERPRINT)
    assert capfd.readouterr() == ("", "")


def test_store_shows_no_password(store_url: str) -> None:
    with Store(store_url) as store:
        shown = repr(store) + str(vars(store))
    password = store_url.partition("@")[0].rpartition(":")[2] if "@" in store_url else "no password"
    assert password not in shown


@pytest.mark.parametrize(
    "url",
    [
        "",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "mysql://u:secret@h/n",
        "postgresql+psycopg2://u:secret@h/n",
        "postgresql://u:secret@h:port/n",
        "no url: secret",
    ],
)
def test_address_that_is_none_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(InvalidInput, match="sqlite:///FILE or postgresql://") as caught:
        Store(url)
    assert "secret" not in str(caught.value)


# -- files


def test_file_is_private_and_in_wal_mode(file_url: str) -> None:
    with Store(file_url) as store:
        store.open_tenant("main", fingerprint=FINGERPRINT)
        files = list(file_of(file_url).parent.iterdir())
        assert len(files) == 3  # with the log, and its index
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        with store.read() as connection:
            pragmas = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            }
    assert pragmas == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 5000,
    }


def test_path_of_a_file_may_have_any_letter(tmp_path: Path) -> None:
    folder = tmp_path / "a b?c=%41#é"
    folder.mkdir()
    with Store(f"sqlite:///{folder}/store.sqlite3") as store:
        assert store.tenants() == {}
    assert (folder / "store.sqlite3").exists()


def test_file_that_is_not_there_is_not_made_unless_told(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="there is no store at"):
        Store(f"sqlite:///{tmp_path}/none", create=False)
    with pytest.raises(RunFailed, match="its folder does not exist"):
        Store(f"sqlite:///{tmp_path}/nowhere/none")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["text", "random", "database", "wal database", "short"])
def test_file_that_is_no_store_is_refused_and_not_touched(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    if "database" in kind:
        with closing(sqlite3.connect(path)) as other:
            if "wal" in kind:
                other.execute("PRAGMA journal_mode = WAL")
            other.execute("CREATE TABLE t (x)")
            other.commit()
    else:
        path.write_bytes({"text": b"hello " * 500, "random": os.urandom(9000), "short": b"x"}[kind])
    before = path.read_bytes(), path.stat().st_mtime_ns
    with pytest.raises(Refused, match="no store of helba"):
        Store(f"sqlite:///{path}")
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert list(tmp_path.iterdir()) == [path]


def test_folder_in_the_place_of_a_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="Is a directory"):
        Store(f"sqlite:///{tmp_path}")


def test_file_of_no_bytes_becomes_a_store(file_url: str) -> None:
    file_of(file_url).touch(mode=0o600)
    with pytest.raises(RunFailed, match="is empty"):
        Store(file_url, create=False)
    with Store(file_url) as store:
        store.open_tenant("main", fingerprint=FINGERPRINT)
        fill(store)
        before = rows_of(store)
    with Store(file_url) as store:
        assert rows_of(store) == before
