"""`helba export` and `helba import`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from helba.cli.service.archive import export_archive, import_archive
from helba.errors import Refused
from helba.service.store import Store
from helba.service.store.archive import default_url
from tests.service.store.contents import NOW, answered, fill_tenant

app = typer.Typer()
app.command("export")(export_archive)
app.command("import")(import_archive)


def test_commands_move_a_tenant_and_say_so(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, new = str(tmp_path / "f"), str(tmp_path / "new")
    app(["export", str(folder), file, "--json"], standalone_mode=False)
    shown = capsys.readouterr()
    report = json.loads(shown.out)
    assert (report["file"], report["name"], report["rounds"]) == (file, "main", 3)
    assert "secrets" in shown.err
    url = f"sqlite:///{tmp_path}/other.db"
    options = ["--store", url, "--tenant", "second", "--json"]
    app(["import", file, new, *options], standalone_mode=False)
    report = json.loads(capsys.readouterr().out)
    assert (report["folder"], report["name"], report["files"]) == (new, "second", 4)
    with Store(url) as store:
        assert list(store.tenants()) == ["second"]
    assert not (tmp_path / "new" / "store.sqlite3").exists()


@pytest.fixture
def elsewhere(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The store that the environment names; the file in the folder is an old one."""
    url = f"sqlite:///{tmp_path}/other.db"
    fill_tenant(folder, url)
    with Store(url) as store:
        store.commit("main", answered=answered(b"r4", b"r5"), at=NOW)
    monkeypatch.setenv("HELBA_STORE", url)
    return url


def run(capsys: pytest.CaptureFixture[str], *command: object) -> Any:
    app([*map(str, command), "--json"], standalone_mode=False)
    return json.loads(capsys.readouterr().out)


def test_export_is_from_the_store_that_a_server_would_use(
    folder: Path, tmp_path: Path, elsewhere: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f"
    report = run(capsys, "export", folder, file)
    assert (report["rounds"], report["store"]) == (5, f"{tmp_path}/other.db")
    own = run(capsys, "export", folder, file, "--store", default_url(folder))
    assert (own["rounds"], own["store"]) == (3, str(folder / "store.sqlite3"))
    assert elsewhere.endswith("other.db")


def test_import_is_into_the_store_that_a_server_would_use(
    folder: Path,
    tmp_path: Path,
    elsewhere: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, new = tmp_path / "f", tmp_path / "new"
    run(capsys, "export", folder, file)
    report = run(capsys, "import", file, new, "--tenant", "second")
    assert report["store"] == f"{tmp_path}/other.db"
    assert not (new / "store.sqlite3").exists()
    with Store(elsewhere) as store:
        assert sorted(store.tenants()) == ["main", "second"]
    monkeypatch.setenv("HELBA_STORE", "")
    report = run(capsys, "import", file, tmp_path / "newer")
    assert report["store"] == str(tmp_path / "newer" / "store.sqlite3")


def test_password_of_the_store_is_in_no_report_or_error(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELBA_STORE", "postgresql://helba:tell-nobody@127.0.0.1:9/helba")
    done = CliRunner().invoke(app, ["export", str(folder), str(tmp_path / "f")])
    assert done.exit_code == 1
    assert "tell-nobody" not in f"{done.output}{done.exception}"
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("command", ["export", "import"])
def test_help_names_the_variable_of_the_store(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"]).output.replace("│", " ")
    assert "else HELBA_STORE, which hides the password" in " ".join(shown.split())


def test_commands_print_a_table_without_json(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["export", str(folder), str(tmp_path / "f")])
    assert done.exit_code == 0
    assert "fingerprint" in done.stdout
    done = CliRunner().invoke(app, ["import", str(tmp_path / "f"), str(folder)])
    assert isinstance(done.exception, Refused)
