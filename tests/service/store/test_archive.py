"""A tenant as one file: it comes back whole, elsewhere, or not at all."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from helba.errors import InvalidInput, Refused, RunFailed
from helba.service.protocol import vault
from helba.service.protocol.files import read_deployment
from helba.service.store import Store, archive
from helba.service.store.archive import default_url, export_tenant, import_tenant
from tests.reference.protocol.folders import files_of
from tests.service.databases import SERVER, fresh_database, fresh_file, fresh_postgres
from tests.service.store.contents import (
    NOW,
    answered,
    checkpoint_of,
    fill_tenant,
    rows_at,
    rows_of,
)


def files_at(folder: Path) -> dict[str, bytes]:
    return {n: data for n, data in files_of(folder).items() if not n.startswith("store.sqlite3")}


@pytest.fixture
def urls() -> Iterator[Callable[[str], str]]:
    """New stores of a kind."""
    with ExitStack() as stack:

        def make(kind: str) -> str:
            if kind == "postgres" and SERVER is None:
                pytest.skip("needs PostgreSQL: run it with scripts/with-postgres")
            opened = fresh_file() if SERVER is None or kind == "sqlite" else fresh_postgres(SERVER)
            return stack.enter_context(opened)

        yield make


@pytest.mark.parametrize("source", ["sqlite", "postgres"])
@pytest.mark.parametrize("target", ["sqlite", "postgres"])
def test_tenant_comes_back_whole_in_another_store(
    made: Path, tmp_path: Path, urls: Callable[[str], str], source: str, target: str
) -> None:
    here, there = urls(source), urls(target)
    fill_tenant(made, here)
    file, folder = tmp_path / "tenant.tar", tmp_path / "new"
    written = export_tenant(made, file=file, url=here)
    read = import_tenant(file, folder=folder, url=there, name="copy")
    assert rows_at(there, tenant="copy") == rows_at(here)
    assert files_at(folder) == files_at(made)
    assert (written["rounds"], read["rounds"], read["name"]) == (3, 3, "copy")
    with Store(there) as store:
        saved = store.load("copy")
        assert saved is not None
        assert saved.parts == (b"second", b"third")
        store.commit("copy", checkpoint=checkpoint_of(3, b"x"), reported=[b"r2"], at=NOW)


def test_folder_with_its_store_comes_back_whole(folder: Path, tmp_path: Path) -> None:
    file, new = tmp_path / "tenant.tar", tmp_path / "deep" / "new"
    (folder / "serve.lock").touch()
    export_tenant(folder, file=file)
    import_tenant(file, folder=new)
    (folder / "serve.lock").unlink()
    assert rows_at(default_url(new)) == rows_at(default_url(folder))
    assert files_at(new) == files_at(folder)
    files = [path for path in new.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(new.stat().st_mode) == stat.S_IMODE((new / "users").stat().st_mode) == 0o700
    assert not list(new.glob(".*"))


def test_tenant_of_no_rows_comes_back(made: Path, tmp_path: Path) -> None:
    fingerprint = read_deployment(made / "deployment.json", allow_insecure=True).fingerprint
    with fresh_database() as here, fresh_database() as there:
        with Store(here) as store:
            store.open_tenant("main", fingerprint=fingerprint)
        export_tenant(made, file=tmp_path / "f", url=here)
        import_tenant(tmp_path / "f", folder=tmp_path / "new", url=there)
        with Store(there) as store:
            assert store.tenants() == {"main": fingerprint}
            assert store.load("main") is None


def test_many_rounds_come_back(folder: Path, tmp_path: Path) -> None:
    with Store(default_url(folder)) as store:
        store.commit("main", answered=answered(*(b"%06d" % n for n in range(12_000))), at=NOW)
    export_tenant(folder, file=tmp_path / "f")
    import_tenant(tmp_path / "f", folder=tmp_path / "new")
    with Store(default_url(tmp_path / "new")) as store:
        assert store.counts("main").answered == 12_003


def test_export_shows_one_moment_of_a_store_that_is_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, numbers = archive.pack_rows, iter(range(3, 100))
    with Store(default_url(folder)) as store:

        def commit_first(*arguments: Any, **options: Any) -> Iterator[bytes]:
            later = checkpoint_of(next(numbers), b"later")
            store.commit("main", checkpoint=later, answered=answered(b"later"), at=NOW)
            return whole(*arguments, **options)

        before = rows_of(store, tenant="main")
        monkeypatch.setattr(archive, "pack_rows", commit_first)
        export_tenant(folder, file=tmp_path / "f")
        assert rows_of(store, tenant="main") != before
    import_tenant(tmp_path / "f", folder=tmp_path / "new")
    assert rows_at(default_url(tmp_path / "new")) == before


def test_file_that_changes_meanwhile_is_read_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, calls = archive._write_files, []

    def change(*arguments: Any, **options: Any) -> bool:
        done = whole(*arguments, **options)
        if len(calls) < 2:
            calls.append(1)
            vault.write_public(folder / "public.key", b"new" * len(calls))
        return done

    monkeypatch.setattr(archive, "_write_files", change)
    export_tenant(folder, file=tmp_path / "f")
    import_tenant(tmp_path / "f", folder=tmp_path / "new")
    assert (tmp_path / "new" / "public.key").read_bytes() == b"newnew"


def test_folder_that_changes_all_the_time_is_told(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_write_files", lambda *_, **__: False)
    with pytest.raises(RunFailed, match="changes all the time"):
        export_tenant(folder, file=tmp_path / "f")
    assert [path.name for path in tmp_path.iterdir()] == ["server"]


def test_archive_is_private_and_replaces_the_one_before(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "tenant.tar"
    file.write_bytes(b"before")
    file.chmod(0o644)
    export_tenant(folder, file=file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["server", "tenant.tar"]


def test_export_that_fails_leaves_the_file_before(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tenant.tar"
    file.write_bytes(b"before")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive, "_write_files", fail)
    with pytest.raises(RunFailed, match="No space left"):
        export_tenant(folder, file=file)
    assert file.read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["server", "tenant.tar"]


def test_export_of_what_is_not_there_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="no tenant 'other'"):
        export_tenant(folder, file=tmp_path / "f", name="other")
    with pytest.raises(RunFailed, match="cannot read"):
        export_tenant(tmp_path / "nothing", file=tmp_path / "f")
    with pytest.raises(RunFailed, match="no store"):
        export_tenant(folder, file=tmp_path / "f", url=f"sqlite:///{tmp_path}/none")
    with pytest.raises(InvalidInput, match="outside"):
        export_tenant(folder, file=folder / "f")
    with pytest.raises(RunFailed, match="cannot write"):
        export_tenant(folder, file=tmp_path / "no" / "f")
    with Store(default_url(folder)) as store:
        store.open_tenant("other", fingerprint="another")
    with pytest.raises(Refused, match="another deployment"):
        export_tenant(folder, file=tmp_path / "f", name="other")
    assert [path.name for path in tmp_path.iterdir()] == ["server"]


def test_import_over_something_is_refused(folder: Path, tmp_path: Path) -> None:
    file, new = tmp_path / "f", tmp_path / "new"
    export_tenant(folder, file=file)
    before = files_of(folder)
    with pytest.raises(Refused, match="not empty"):
        import_tenant(file, folder=folder)
    assert files_of(folder) == before
    with fresh_database() as url:
        import_tenant(file, folder=tmp_path / "first", url=url)
        rows = rows_at(url)
        with pytest.raises(Refused, match="has a tenant 'main' already"):
            import_tenant(file, folder=new, url=url)
        assert not new.exists()
        assert rows_at(url) == rows
        import_tenant(file, folder=new, url=url, name="second")
        assert rows_at(url, tenant="second") == rows
    with pytest.raises(InvalidInput, match="tenant"):
        import_tenant(file, folder=tmp_path / "third", name="no/name")
    assert not (tmp_path / "third").exists()
