"""What commands of `helba keys` have in common for an authority and a user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from helba.cli.service.passphrase import NEW_VARIABLE, read_passphrase
from helba.errors import RunFailed
from helba.lab.play.encrypted import describe_parameters
from helba.lab.progress import note
from helba.lab.report import flatten, print_json, print_table
from helba.reference.protocol.deployment import Deployment
from helba.service.protocol.authorityfiles import locked, secret_key_path
from helba.service.protocol.files import naming
from helba.service.protocol.keyinfo import id_of_file
from helba.service.protocol.vault import change_passphrase, make_private_folder


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """A private folder, which goes away again if what is done in it fails and leaves it empty.

    It stays if another command works on it.
    """
    made = not folder.exists()
    make_private_folder(folder)
    try:
        yield
    except BaseException:
        if made:
            with suppress(OSError, RunFailed), locked(folder):
                folder.rmdir()
        raise


def describe_keys(deployment: Deployment, *, key_file: Path) -> dict[str, Any]:
    """Return the id of a key, and what it is a key of."""
    return {
        "key": id_of_file(key_file).hex(),
        "deployment": deployment.fingerprint,
        "engine": deployment.scheme,
        "keys": deployment.keys,
        "parameters": describe_parameters(deployment.parameters),
    }


def show_report(report: dict[str, Any], *, as_json: bool) -> None:
    """Print a report as a table of two columns, or as JSON."""
    if as_json:
        print_json(report)
    else:
        print_table(None, columns=("", ""), rows=list(flatten(report).items()))


def change_words(
    folder: Path, *, passphrase_file: Path | None, new_file: Path | None, as_json: bool
) -> None:
    """Put the secret key in a folder under another passphrase."""
    secret_key_path(folder)  # is there one?
    make_private_folder(folder)
    old = read_passphrase(file=passphrase_file)
    new = read_passphrase(file=new_file, confirm=True, variable=NEW_VARIABLE)
    with locked(folder):
        path = secret_key_path(folder)
        with naming(path):
            change_passphrase(path, old=old, new=new)
    note("copies that were made of the file before still open with the old passphrase")
    show_report({"folder": str(folder), "secret_key": str(path)}, as_json=as_json)
