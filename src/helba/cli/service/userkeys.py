"""`helba keys` on a user's device: a pair of its own, and the collective key that it adopts."""

from __future__ import annotations

from pathlib import Path

from helba.cli.service.keyreport import describe_keys, new_folder, show_report
from helba.cli.service.passphrase import read_passphrase
from helba.errors import InvalidInput
from helba.lab.progress import note
from helba.reference.protocol.wire.messages import ID_BYTES
from helba.service.protocol.authorityfiles import require_free
from helba.service.protocol.files import DEPLOYMENT, PUBLIC_KEY, read_deployment
from helba.service.protocol.userstore import COLLECTIVE_KEY, create_user, update_user


def create(
    folder: Path, deployment_folder: Path, *, passphrase_file: Path | None, as_json: bool
) -> None:
    """Make a user's pair in a new folder."""
    require_free(folder)
    read_deployment(deployment_folder / DEPLOYMENT)
    with new_folder(folder):
        passphrase = read_passphrase(file=passphrase_file, confirm=True)
        made = create_user(folder, deployment_folder=deployment_folder, passphrase=passphrase)
    public = folder / PUBLIC_KEY
    note(f"send {public} to the authority: helba keys enrol DIR NAME --public-key FILE")
    if made.deployment.keys == "switched":
        note("when enrolled, give the server this user's inward key (User.inward_key_bytes)")
    report = describe_keys(made.deployment, key_file=public)
    show_report({"folder": str(folder), "public_key": str(public), **report}, as_json=as_json)


def adopt(folder: Path, public_key: Path, *, key: str | None, as_json: bool) -> None:
    """Take a new collective key, of the id `key` if that is given."""
    old, new = update_user(folder, public_key, key=None if key is None else _read_id(key))
    deployment = read_deployment(folder / DEPLOYMENT)
    note(f"collective key {old.hex()} -> {new.hex()}")
    if key is None:
        note("compare it with helba keys list at the authority")
    if deployment.keys == "switched":
        note("give the server this user's new inward key (User.inward_key_bytes)")
    report = describe_keys(deployment, key_file=folder / COLLECTIVE_KEY)
    show_report({"folder": str(folder), "old_key": old.hex(), **report}, as_json=as_json)


def _read_id(text: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != ID_BYTES:
        raise InvalidInput("--key", "something else", f"an id: {2 * ID_BYTES} hexadecimal digits")
    return found
