"""`helba export` and `helba import`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from helba.cli.archive import export_archive, import_archive
from helba.errors import Refused
from helba.service.store import Store

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


def test_commands_print_a_table_without_json(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["export", str(folder), str(tmp_path / "f")])
    assert done.exit_code == 0
    assert "fingerprint" in done.stdout
    done = CliRunner().invoke(app, ["import", str(tmp_path / "f"), str(folder)])
    assert isinstance(done.exception, Refused)
