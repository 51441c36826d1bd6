"""`helba export` and `helba import`: a tenant of a server as one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from helba.cli.service.serve import STORE_VARIABLE
from helba.lab.command.options import Json


def _store_option(text: str) -> Any:
    return typer.Option("--store", metavar="URL", help=text)


FORMS = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"
DEFAULT = f"{FORMS}; else {STORE_VARIABLE}, which hides the password; else a file in DIR"


def export_archive(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="the server's folder")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="where to write it")],
    store: Annotated[str | None, _store_option(f"the store it is in: {DEFAULT}")] = None,
    tenant: Annotated[str, typer.Option(metavar="NAME", help="which one of the store")] = "main",
    as_json: Json = False,
) -> None:
    """Write a tenant, its folder and what its store has, into one file; the server may run.

    The file holds secrets of the server. Only one server must go on from a tenant.
    """
    from helba.lab.progress import note
    from helba.service.store.archive import export_tenant

    report = export_tenant(folder, file=file, url=_choose_store(store), name=tenant)
    note(f"{file} holds re-encryption keys, which are secrets of the server: keep it private")
    _show({"file": str(file), "bytes": file.stat().st_size} | report, as_json=as_json)


def import_archive(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="what `helba export` wrote")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a new or empty folder")],
    store: Annotated[str | None, _store_option(f"the store to put it in: {DEFAULT}")] = None,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="what to call it; as before unless told")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a server's folder and its tenant in a store from a file of `helba export`."""
    from helba.service.store.archive import import_tenant

    report = import_tenant(file, folder=folder, url=_choose_store(store), name=tenant)
    _show({"folder": str(folder)} | report, as_json=as_json)


def _choose_store(given: str | None) -> str | None:
    """The store that `helba serve` would use; None is the file in the folder."""
    return given or os.environ.get(STORE_VARIABLE) or None


def _show(report: dict[str, Any], *, as_json: bool) -> None:
    from helba.cli.service.keyreport import show_report

    shown = {name: value for name, value in report.items() if name not in ("format", "tables")}
    show_report(shown, as_json=as_json)
