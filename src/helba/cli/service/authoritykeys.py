"""`helba keys` in the authority's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helba.cli.service.keyreport import describe_keys, new_folder, show_report
from helba.cli.service.passphrase import read_passphrase
from helba.errors import DamagedData, Refused, RunFailed
from helba.lab.play.encrypted import SIMULATOR
from helba.lab.progress import note
from helba.lab.report import print_json, print_table
from helba.lab.runner import settings_for
from helba.problems import make_problem
from helba.reference.engine import get_scheme
from helba.reference.planning.bounds.flooding import bit_budget
from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.bandit import deployment_for
from helba.reference.protocol.deployment import Deployment
from helba.service.protocol.authorityfiles import (
    SERVER,
    Record,
    collective_key_path,
    find_member,
    require_free,
)
from helba.service.protocol.files import (
    DEPLOYMENT,
    PUBLIC_KEY,
    ROTATION,
    naming,
    read_deployment,
    read_public,
)
from helba.service.protocol.keyinfo import describe_key, id_of_file
from helba.service.protocol.keystore import (
    create_authority,
    enrol_member,
    list_members,
    replace_member_key,
    revoke_member,
    rotate_authority,
    write_server_folder,
)
from helba.service.protocol.serverfiles import LEDGER, read_ledger, write_server_files

KEPT = (
    "A server that kept the re-encryption key could still re-encrypt to it until the collective "
    "key is rotated: helba keys rotate"
)
SHARED = (
    "no command shares the secret key: users of this mode live in one process with the authority "
    "(helba run --keys shared)"
)
NO_LEDGER = "no ledger here: copy the server's ledger.json, or name it with --ledger"


def create(
    folder: Path,
    *,
    problem: str,
    sizes: dict[str, Any],
    options: dict[str, Any],
    request: dict[str, Any],
    passphrase_file: Path | None,
    as_json: bool,
) -> None:
    """Plan, and make the collective keys and the server's folder."""
    require_free(folder)
    drawn = make_problem(problem, dim=sizes["dim"], arms=sizes["arms"])
    settings = settings_for(drawn, horizon=sizes["horizon"], **options)
    get_scheme(request["engine"])
    asked = {name: value for name, value in request.items() if name != "engine"}
    PlanRequest(dim=drawn.dim, arms=drawn.arms, horizon=sizes["horizon"], **options, **asked)
    with new_folder(folder):
        passphrase = read_passphrase(file=passphrase_file, confirm=True)
        if request["engine"] == "simulate":
            note(SIMULATOR)
        note("planning")
        deployment = deployment_for(settings, **request)
        note(f"making {len(deployment.rotations) + 1} evaluation keys")
        authority = create_authority(folder, deployment, passphrase=passphrase)
    server = folder / SERVER
    note("writing the server's folder")
    try:
        write_server_files(authority, server)
    except RunFailed as error:
        raise RunFailed(f"{error}; the keys are made, go on: helba keys server {folder}") from error
    report = describe_keys(deployment, key_file=collective_key_path(folder))
    if deployment.keys == "shared":
        note(SHARED)
    else:
        note(
            f"send {server / DEPLOYMENT} and {server / PUBLIC_KEY} to the users, who make their "
            "pairs with helba keys create DIR --user --deployment FOLDER"
        )
        note(f"compare with them the id of the collective key: {report['key']}")
    paths = {"folder": str(folder), "server": str(server)}
    show_report({**paths, **report}, as_json=as_json)


def enrol(
    folder: Path,
    name: str,
    public_key: Path,
    *,
    replace: bool,
    passphrase_file: Path | None,
    as_json: bool,
) -> None:
    """Take a user in."""
    list_members(folder)
    data = _read_user_key(public_key, folder=folder)
    passphrase = read_passphrase(file=passphrase_file)
    record = enrol_member(
        folder, name, public_key=data, passphrase=passphrase, replace=replace, say=note
    )
    _tell(record, folder=folder, done="enrolled", as_json=as_json)


def replace(
    folder: Path, name: str, public_key: Path, *, passphrase_file: Path | None, as_json: bool
) -> None:
    """Give a user a new key."""
    find_member(list_members(folder), name)
    data = _read_user_key(public_key, folder=folder)
    passphrase = read_passphrase(file=passphrase_file)
    record = replace_member_key(folder, name, public_key=data, passphrase=passphrase, say=note)
    _tell(record, folder=folder, done="given a new key", as_json=as_json)


def revoke(folder: Path, name: str, *, as_json: bool) -> None:
    """Bar a user."""
    record = revoke_member(folder, name)
    _tell(record, folder=folder, done="revoked", as_json=as_json)
    note(KEPT)


def rotate(folder: Path, *, passphrase_file: Path | None, as_json: bool) -> None:
    """Make new collective keys."""
    enrolled = sum(not member.revoked for member in list_members(folder))
    passphrase = read_passphrase(file=passphrase_file)
    authority = rotate_authority(folder, passphrase=passphrase, say=note)
    public, rotation = collective_key_path(folder), folder / SERVER / ROTATION
    report = describe_keys(authority.deployment, key_file=public)
    note(f"the server must take {rotation}: while it runs, or when it starts from a saved state")
    if authority.deployment.keys != "shared":
        note(f"send {public} to the users: helba keys rotate DIR --public-key FILE")
        note(f"compare with them the id of the collective key: {report['key']}")
    _tell_switched(authority.deployment)
    paths = {"public_key": str(public), "rotation": str(rotation), "enrolments": enrolled}
    show_report({"folder": str(folder), **paths, **report}, as_json=as_json)


def write_server(
    folder: Path, *, out: Path | None, passphrase_file: Path | None, as_json: bool
) -> None:
    """Write the server's folder again."""
    enrolled = sum(not member.revoked for member in list_members(folder))
    passphrase = read_passphrase(file=passphrase_file)
    note(f"writing the server's folder, with enrolments of {enrolled} users")
    server = write_server_folder(folder, passphrase=passphrase, out=out)
    waiting = folder / SERVER / ROTATION
    if out is not None and waiting.exists():
        note(f"a server with a model of the old collective key needs {waiting} as well")
    report = describe_keys(read_deployment(folder / DEPLOYMENT), key_file=server / PUBLIC_KEY)
    paths = {"folder": str(folder), "server": str(server), "enrolments": enrolled}
    show_report({**paths, **report}, as_json=as_json)


def list_users(folder: Path, *, ledger_file: Path | None, as_json: bool) -> None:
    """List the users, and what the server was told."""
    report = _report_users(folder, ledger_file=ledger_file)
    if as_json:
        print_json(report)
        return
    bits = "-" if report["bits"] is None else report["bits"]
    title = f"collective key {report['key']}, {bits} of {report['bit_budget']} bits"
    columns = ("name", "key", "state", "since", "bits")
    rows = [[member[column] for column in columns] for member in report["members"]]
    print_table(title, columns=columns, rows=rows)
    if report["keys"] == "shared":
        print("all users share the collective key")
    if report["bits"] is None:
        print(NO_LEDGER)
    if report["rotation_due"]:
        print("more bits came back than the budget allows: helba keys rotate")
    for name in report["replacement_due"] or ():
        print(f"more bits came back under the key of {name} than the budget allows: replace it")


# -- parts


def _report_users(folder: Path, *, ledger_file: Path | None) -> dict[str, Any]:
    """What bits would tell is None where there is no ledger."""
    members, key = list_members(folder), id_of_file(collective_key_path(folder))
    deployment = read_deployment(folder / DEPLOYMENT, allow_insecure=True)
    path, budget = ledger_file or folder / SERVER / LEDGER, bit_budget(deployment.comparison_noise)
    ledger = None
    if ledger_file is not None or path.exists():
        ledger = read_ledger(path, key=key, budget=budget)
    due = None
    if ledger is not None:
        spent = ledger.spent_keys()
        due = [each.name for each in members if each.id in spent and not each.revoked]
    return {
        "folder": str(folder),
        "deployment": deployment.fingerprint,
        "keys": deployment.keys,
        "key": key.hex(),
        "bits": None if ledger is None else ledger.total,
        "bit_budget": budget,
        "rotation_due": None if ledger is None else ledger.spent,
        "replacement_due": due,
        "members": [
            {
                "name": member.name,
                "key": member.id.hex(),
                "state": "revoked" if member.revoked else "enrolled",
                "since": member.since,
                "bits": None if ledger is None else ledger.of(member.id),
            }
            for member in members
        ],
    }


def _read_user_key(path: Path, *, folder: Path) -> bytes:
    """A user's public key, checked as far as that goes without a secret; errors name the file."""
    deployment = read_deployment(folder / DEPLOYMENT, allow_insecure=True)
    if deployment.keys == "shared":
        raise Refused("in this deployment all users share one key: nobody enrols")
    data = read_public(path)
    with naming(path):
        info = describe_key(data)
        if info.kind != "public key":
            raise DamagedData(f"this is the {info.kind} of {info.owner.hex()}, not a public key")
        if (info.scheme, info.parameters) != (deployment.scheme, deployment.parameters):
            raise DamagedData("this is a public key of another deployment's parameters")
        if info.owner == id_of_file(collective_key_path(folder)):
            raise DamagedData("this is the collective key, not a user's own")
    return data


def _tell(record: Record, *, folder: Path, done: str, as_json: bool) -> None:
    """Say what became of a user."""
    if (folder / SERVER / ROTATION).exists():
        note(f"a server that is running must take {folder / SERVER / ROTATION} before this")
    else:
        note("a server that is running must be told")
    if not record.revoked:
        _tell_switched(read_deployment(folder / DEPLOYMENT, allow_insecure=True))
    show_report({"folder": str(folder), "done": done, **record.as_json()}, as_json=as_json)


def _tell_switched(deployment: Deployment) -> None:
    if deployment.keys == "switched":
        note("data arrives switched: users must give the server their inward key")
