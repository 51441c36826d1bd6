"""Databases that fail: one clear line, nothing half written, and work goes on afterwards."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event, text

from helba.errors import DamagedData, RunFailed, Unavailable
from helba.service.store import Store, connection
from tests.service.databases import CONTROL, control_postgres
from tests.service.store.contents import (
    FINGERPRINT,
    NOW,
    answered,
    checkpoint_of,
    file_of,
    fill,
    rows_of,
)

postgres_only = pytest.mark.skipif(
    CONTROL is None, reason="needs PostgreSQL: run it with scripts/with-postgres"
)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_SECONDS", 0.2)


@contextmanager
def opened(url: str) -> Iterator[Store]:
    with Store(url) as store:
        store.open_tenant("main", fingerprint=FINGERPRINT)
        yield store


def require_line(error: pytest.ExceptionInfo[Exception], *, url: str) -> None:
    """One line, that names the store and has no password."""
    line = str(error.value)
    assert line.startswith("the store at ")
    assert "\n" not in line
    if "@" in url:
        assert url.partition("@")[0].rpartition(":")[2] not in line


# -- damage


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE helba_part SET data = :other",
        "DELETE FROM helba_part",
        "UPDATE helba_checkpoint SET digests = :other",
    ],
)
def test_damaged_part_is_told_without_its_data(store: Store, statement: str) -> None:
    fill(store)
    with store.write() as writing:
        values = {"other": b"other"} if ":other" in statement else {}
        writing.execute(text(statement), values)
    with pytest.raises(DamagedData, match=r"the store at .* is damaged") as caught:
        store.load("main")
    assert "other" not in str(caught.value).replace(store.place, "")


def test_damaged_file_is_told(file_url: str) -> None:
    with opened(file_url) as store:
        store.commit("main", checkpoint=checkpoint_of(1, bytes(100_000)), at=NOW)
    path = file_of(file_url)
    data = bytearray(path.read_bytes())
    data[100:8192] = os.urandom(8092)
    path.write_bytes(data)
    with pytest.raises(Unavailable, match="is damaged") as caught:
        Store(file_url)
    require_line(caught, url=file_url)


# -- room


def test_full_database_is_told_and_nothing_is_lost(file_url: str) -> None:
    with opened(file_url) as store:
        fill(store)
        before = rows_of(store)
        with store.read() as reading:
            count = reading.exec_driver_sql("PRAGMA page_count").scalar()

        def limit(opening: sqlite3.Connection, _: object) -> None:
            opening.execute(f"PRAGMA max_page_count = {count}")

        store.close()
        event.listen(store._engine, "connect", limit)
        large = checkpoint_of(3, os.urandom(1_000_000))
        with pytest.raises(Unavailable, match="no room left") as caught:
            store.commit("main", checkpoint=large, answered=answered(b"r9"), at=NOW)
        require_line(caught, url=file_url)
        assert rows_of(store) == before
        event.remove(store._engine, "connect", limit)
        store.close()
        store.commit("main", checkpoint=large, answered=answered(b"r9"), at=NOW)
        saved = store.load("main")
        assert saved is not None
        assert saved.number == 3


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_full_disk_is_told_and_work_goes_on_when_there_is_room(small_disk: Path) -> None:
    url = f"sqlite:///{small_disk}/store.sqlite3"
    with opened(url) as store:
        fill(store)
        before = rows_of(store)
        (small_disk / "other").write_bytes(bytes(4_000_000))
        large = checkpoint_of(3, os.urandom(3_000_000))
        for _ in range(3):
            with pytest.raises(Unavailable, match="no room left"):
                store.commit("main", checkpoint=large, answered=answered(b"r9"), at=NOW)
            assert rows_of(store) == before
        (small_disk / "other").unlink()
        store.commit("main", checkpoint=checkpoint_of(3, b"small"), at=NOW)
        saved = store.load("main")
        assert saved is not None
        assert saved.parts == (b"small",)


def test_file_stops_growing_when_parts_replace_each_other(file_url: str) -> None:
    size = 3_000_000
    with opened(file_url) as store:
        longest = 0
        for number in range(1, 41):
            store.commit("main", checkpoint=checkpoint_of(number, os.urandom(size)), at=NOW)
            files = file_of(file_url).parent.iterdir()
            longest = max(longest, sum(path.stat().st_size for path in files))
    assert longest < 10 * size  # the log may hold some states before they are moved
    assert file_of(file_url).stat().st_size < 3 * size


# -- locks


@pytest.mark.usefixtures("impatient")
def test_locked_database_is_told_and_works_afterwards(file_url: str) -> None:
    with opened(file_url) as store:
        with closing(sqlite3.connect(file_of(file_url), isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(Unavailable, match="locked by another process") as caught:
                store.commit("main", answered=answered(b"r1"), at=NOW)
            require_line(caught, url=file_url)
            assert store.counts("main").answered == 0  # reading does not wait
            other.execute("ROLLBACK")
        store.commit("main", answered=answered(b"r1"), at=NOW)
        assert store.counts("main").answered == 1


def test_short_lock_is_waited_for(file_url: str) -> None:
    with (
        opened(file_url) as store,
        closing(
            sqlite3.connect(file_of(file_url), isolation_level=None, check_same_thread=False)
        ) as other,
    ):
        other.execute("BEGIN EXCLUSIVE")
        end = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
        end.start()
        store.commit("main", answered=answered(b"r1"), at=NOW)
        end.join()
        assert store.counts("main").answered == 1


@postgres_only
@pytest.mark.usefixtures("impatient")
def test_locked_row_is_told(store_url: str) -> None:
    with opened(store_url) as store, Store(store_url) as other:
        with other.write() as writing:
            writing.execute(text("UPDATE helba_tenant SET name = name"))
            with pytest.raises(Unavailable, match="locked by another process") as caught:
                store.commit("main", answered=answered(b"r1"), at=NOW)
            require_line(caught, url=store_url)
        store.commit("main", answered=answered(b"r1"), at=NOW)
        assert store.counts("main").answered == 1


def test_file_that_cannot_be_written_is_told(file_url: str) -> None:
    with opened(file_url) as store:
        event.listen(
            store._engine, "connect", lambda opening, _: opening.execute("PRAGMA query_only = ON")
        )
        store.close()
        with pytest.raises(Unavailable, match="read-only"):
            store.commit("main", answered=answered(b"r1"), at=NOW)


# -- connections


def test_port_where_nobody_listens_is_told() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        url = f"postgresql://ann:secret-word@127.0.0.1:{port}/helba"
        with pytest.raises(Unavailable, match=f"127.0.0.1:{port}/helba refuses the conn") as caught:
            Store(url)
    require_line(caught, url=url)
    assert "ann" not in str(caught.value)


@postgres_only
@pytest.mark.parametrize(
    ("change", "line"),
    [(("helba:", "helba:not-"), "refuses the login"), (("/helba_", "/none_"), "is not there")],
)
def test_login_and_missing_database_are_told(
    store_url: str, change: tuple[str, str], line: str
) -> None:
    url = store_url.replace(*change)
    with pytest.raises(Unavailable, match=line) as caught:
        Store(url)
    require_line(caught, url=url)


@postgres_only
@pytest.mark.stops_database
@pytest.mark.slow
def test_postgres_that_stops_and_starts_again_is_used_on(store_url: str) -> None:
    with opened(store_url) as store:
        fill(store)
        before = rows_of(store)
        control_postgres("stop")
        try:
            for action in (
                lambda: store.commit("main", answered=answered(b"r9"), at=NOW),
                lambda: store.load("main"),
                lambda: store.counts("main"),
            ):
                with pytest.raises(Unavailable) as caught:
                    action()
                require_line(caught, url=store_url)
        finally:
            control_postgres("start")
        assert rows_of(store) == before
        store.commit("main", answered=answered(b"r9"), at=NOW)
        assert store.counts("main").answered == 4


@postgres_only
@pytest.mark.stops_database
@pytest.mark.slow
def test_postgres_that_stops_during_a_commit_leaves_the_old_state(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from helba.service.store import commit as writing

    with opened(store_url) as store:
        fill(store)
        before = rows_of(store)
        whole = writing.mark_reported

        def stop(*arguments: object, **options: object) -> None:
            whole(*arguments, **options)  # type: ignore[arg-type]
            control_postgres("stop")

        monkeypatch.setattr(writing, "mark_reported", stop)
        changes = {"checkpoint": checkpoint_of(3, b"fourth"), "reported": [b"r2"]}
        try:
            with pytest.raises(Unavailable) as caught:
                store.commit("main", **changes, at=NOW)  # type: ignore[arg-type]
            require_line(caught, url=store_url)
        finally:
            control_postgres("start")
        monkeypatch.undo()
        assert rows_of(store) == before
        store.commit("main", **changes, at=NOW)  # type: ignore[arg-type]
        assert store.counts("main").reported == 2


def test_outcome_that_is_unknown_may_be_repeated(store: Store) -> None:
    """The connection is lost after COMMIT arrived: the caller only knows that it failed."""
    fill(store)
    changes = {"checkpoint": checkpoint_of(3, b"fourth"), "reported": [b"r2"]}

    whole = store._engine.dialect.do_commit

    def commit_and_lose(opened: object) -> None:
        whole(opened)  # type: ignore[arg-type]
        raise sqlite3.OperationalError("connection lost")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store._engine.dialect, "do_commit", commit_and_lose)
        with pytest.raises(Unavailable):
            store.commit("main", **changes, at=NOW)  # type: ignore[arg-type]
    store.commit("main", **changes, at=NOW)  # type: ignore[arg-type]
    saved = store.load("main")
    assert saved is not None
    assert (saved.number, store.counts("main").reported) == (3, 2)


def test_errors_of_the_caller_are_not_put_on_the_database(store: Store) -> None:
    with pytest.raises(RunFailed) as caught:
        store.commit("none", at=NOW)
    assert not isinstance(caught.value, Unavailable)
