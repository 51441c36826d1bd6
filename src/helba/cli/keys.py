"""`helba keys`: the collective keys, users' own keys, and who may take part."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from helba.cli.options import Arms, Dim, Horizon, Json, Security, choose_horizon, whole_number
from helba.errors import InvalidInput

if TYPE_CHECKING:
    from helba.protocol.deployment import Deployment
    from helba.protocol.keystore import Record

__all__ = ["app"]

app = typer.Typer(help="Make, enrol, list, revoke and rotate keys.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="the folder of the authority")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="who the user is to the authority")]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        help="file whose first line is the passphrase; else HELBA_PASSPHRASE, else you are asked"
    ),
]
KEPT = (
    "A server that kept the re-encryption key could still re-encrypt to it until the collective "
    "key is rotated: helba keys rotate"
)


@app.callback()
def start_keys() -> None:
    """Make, enrol, list, revoke and rotate keys."""


@app.command("create")
def create_keys(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a new folder")],
    problem: Annotated[
        str, typer.Argument(metavar="PROBLEM", help="toy, synthetic, fixed-arms or replay")
    ] = "toy",
    dim: Dim = None,
    arms: Arms = None,
    horizon: Horizon = None,
    security: Security = 128,
    profile: Annotated[str, typer.Option(help="fast or paper")] = "fast",
    refresh: Annotated[str, typer.Option(help="client, bootstrap or none")] = "client",
    bonus: Annotated[
        str | None, typer.Option(help="quadratic or sqrt; that of the profile unless told")
    ] = None,
    schedule: Annotated[str, typer.Option(help="trace or public")] = "trace",
    users: Annotated[int, whole_number(text="users who share a ciphertext")] = 1,
    keys: Annotated[str, typer.Option(help="own, shared or switched")] = "own",
    engine: Annotated[str, typer.Option(help="ckks, or simulate: protects nothing")] = "ckks",
    user: Annotated[
        bool, typer.Option("--user", help="a user's pair, made here; needs --deployment")
    ] = False,
    deployment: Annotated[
        Path | None,
        typer.Option(help="folder with deployment.json and the collective public.key"),
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Plan, and make the collective keys and the server's folder; or make a user's own pair."""
    if user != (deployment is not None):
        raise InvalidInput("--user", "one without the other", "given together with --deployment")
    if deployment is not None:
        _create_user(folder, deployment, passphrase_file=passphrase_file, as_json=as_json)
        return
    options: dict[str, Any] = {"profile": profile, "schedule": schedule}
    options["bonus"] = bonus or ("sqrt" if profile == "paper" else "quadratic")
    request = {
        "engine": engine,
        "security": security,
        "refresh": refresh,
        "users": users,
        "keys": keys,
    }
    sizes = {"dim": dim, "arms": arms, "horizon": choose_horizon(horizon, problem=problem)}
    _create_authority(
        folder,
        problem=problem,
        sizes=sizes,
        options=options,
        request=request,
        passphrase_file=passphrase_file,
        as_json=as_json,
    )


@app.command("enrol")
def enrol_key(
    folder: Folder,
    name: Name,
    public_key: Annotated[Path, typer.Option(help="the user's public.key")],
    replace: Annotated[
        bool, typer.Option("--replace", help="in place of the key that the user has")
    ] = False,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Take a user in by its public key, and write its re-encryption key for the server."""
    from helba.cli.passphrase import read_passphrase
    from helba.protocol.keystore import enrol_member, list_members
    from helba.protocol.serverfiles import read_public

    list_members(folder)
    data = read_public(public_key)
    passphrase = read_passphrase(file=passphrase_file)
    record = enrol_member(folder, name, public_key=data, passphrase=passphrase, replace=replace)
    _tell(record, folder=folder, done="enrolled", as_json=as_json)


@app.command("list")
def list_keys(folder: Folder, as_json: Json = False) -> None:
    """List the users, what the server was told of what they decrypted, and if it is too much."""
    from helba.experiments.report import print_json, print_table

    report = _list(folder)
    if as_json:
        print_json(report)
        return
    title = f"collective key {report['key']}, {report['bits']} of {report['bit_budget']} bits"
    columns = ("name", "key", "state", "since", "bits")
    rows = [[member[column] for column in columns] for member in report["members"]]
    print_table(title, columns=columns, rows=rows)
    if report["keys"] == "shared":
        print("all users share the collective key")
    if report["rotation_due"]:
        print("more bits came back than the budget allows: helba keys rotate")
    for name in report["replacement_due"]:
        print(f"more bits came back under the key of {name} than the budget allows: replace it")


@app.command("revoke")
def revoke_key(folder: Folder, name: Name, as_json: Json = False) -> None:
    """Bar a user: mark it, and delete its key in the server's folder."""
    from helba.experiments.progress import note
    from helba.protocol.keystore import revoke_member

    record = revoke_member(folder, name)
    _tell(record, folder=folder, done="revoked", as_json=as_json)
    note(KEPT)


@app.command("rotate")
def rotate_keys(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="the folder of the authority, or of a user")
    ],
    user_key: Annotated[
        str | None, typer.Option(metavar="NAME", help="replace the key of this user only")
    ] = None,
    public_key: Annotated[
        Path | None,
        typer.Option(help="the user's new public.key; in a user's folder, the collective one"),
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Make new collective keys, replace a user's key, or adopt new collective keys as a user."""
    from helba.protocol.authorityfiles import COLLECTIVE_KEY

    if (folder / COLLECTIVE_KEY).exists():
        if user_key is not None or public_key is None:
            raise InvalidInput(
                "--public-key", "none or another option", "given alone in a user's folder"
            )
        _adopt(folder, public_key, as_json=as_json)
    elif (user_key is None) != (public_key is None):
        raise InvalidInput(
            "--user-key", "one without the other", "given together with --public-key"
        )
    elif user_key is not None and public_key is not None:
        _replace(folder, user_key, public_key, passphrase_file=passphrase_file, as_json=as_json)
    else:
        _rotate(folder, passphrase_file=passphrase_file, as_json=as_json)


@app.command("show")
def show_key(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="a key file, or a folder")],
    as_json: Json = False,
) -> None:
    """Say what a key file or a folder is, without opening a secret."""
    from helba.cli.keyshow import describe_path
    from helba.experiments.report import flatten, print_json, print_table

    report = describe_path(path)
    if as_json:
        print_json(report)
        return
    files = report.pop("files", None)
    print_table(None, columns=("", ""), rows=list(flatten(report).items()))
    if files is not None:
        columns = ("path", "kind", "owner", "security", "bytes", "mode", "warning", "error")
        used = [name for name in columns if any(name in file for file in files)]
        print_table(None, columns=used, rows=[[file.get(c) for c in used] for file in files])


# -- parts


def _create_authority(
    folder: Path,
    *,
    problem: str,
    sizes: dict[str, Any],
    options: dict[str, Any],
    request: dict[str, Any],
    passphrase_file: Path | None,
    as_json: bool,
) -> None:
    from helba.cli.passphrase import read_passphrase
    from helba.engine import get_scheme
    from helba.experiments.encrypted import SIMULATOR
    from helba.experiments.progress import note
    from helba.experiments.runner import settings_for
    from helba.planning.request import PlanRequest
    from helba.problems import make_problem
    from helba.protocol.authorityfiles import SERVER, collective_key_path, require_free
    from helba.protocol.bandit import deployment_for
    from helba.protocol.keystore import create_authority
    from helba.protocol.serverfiles import write_server_files

    require_free(folder)
    drawn = make_problem(problem, dim=sizes["dim"], arms=sizes["arms"])
    settings = settings_for(drawn, horizon=sizes["horizon"], **options)
    get_scheme(request["engine"])
    asked = {name: value for name, value in request.items() if name != "engine"}
    PlanRequest(dim=drawn.dim, arms=drawn.arms, horizon=sizes["horizon"], **options, **asked)
    passphrase = read_passphrase(file=passphrase_file, confirm=True)
    if request["engine"] == "simulate":
        note(SIMULATOR)
    note("planning")
    deployment = deployment_for(settings, **request)
    note(f"making {len(deployment.rotations) + 1} evaluation keys")
    authority = create_authority(folder, deployment, passphrase=passphrase)
    note("writing the server's folder")
    write_server_files(authority, folder / SERVER)
    report = _describe(deployment, key_file=collective_key_path(folder))
    paths = {"folder": str(folder), "server": str(folder / SERVER)}
    _show({**paths, **report}, as_json=as_json)


def _create_user(
    folder: Path, deployment: Path, *, passphrase_file: Path | None, as_json: bool
) -> None:
    from helba.cli.passphrase import read_passphrase
    from helba.experiments.progress import note
    from helba.protocol.authorityfiles import require_free
    from helba.protocol.serverfiles import DEPLOYMENT, PUBLIC_KEY, read_deployment
    from helba.protocol.userstore import create_user

    require_free(folder)
    read_deployment(deployment / DEPLOYMENT)
    passphrase = read_passphrase(file=passphrase_file, confirm=True)
    made = create_user(folder, deployment_folder=deployment, passphrase=passphrase)
    public = folder / PUBLIC_KEY
    note(f"send {public} to the authority: helba keys enrol DIR NAME --public-key FILE")
    report = _describe(made.deployment, key_file=public)
    _show({"folder": str(folder), "public_key": str(public), **report}, as_json=as_json)


def _rotate(folder: Path, *, passphrase_file: Path | None, as_json: bool) -> None:
    from helba.cli.passphrase import read_passphrase
    from helba.experiments.progress import note
    from helba.protocol.authorityfiles import SERVER, collective_key_path
    from helba.protocol.keystore import list_members, rotate_authority
    from helba.protocol.serverfiles import ROTATION

    enrolled = sum(not member.revoked for member in list_members(folder))
    passphrase = read_passphrase(file=passphrase_file)
    authority = rotate_authority(folder, passphrase=passphrase, say=note)
    public, rotation = collective_key_path(folder), folder / SERVER / ROTATION
    note(f"a server that is running goes on with {rotation}; a state it saved is of the old key")
    note(f"send {public} to the users: helba keys rotate DIR --public-key FILE")
    report = _describe(authority.deployment, key_file=public)
    paths = {"public_key": str(public), "rotation": str(rotation), "enrolments": enrolled}
    _show({"folder": str(folder), **paths, **report}, as_json=as_json)


def _replace(
    folder: Path, name: str, public_key: Path, *, passphrase_file: Path | None, as_json: bool
) -> None:
    from helba.cli.passphrase import read_passphrase
    from helba.protocol.authorityfiles import find_member
    from helba.protocol.keystore import list_members, replace_member_key
    from helba.protocol.serverfiles import read_public

    find_member(list_members(folder), name)
    data = read_public(public_key)
    passphrase = read_passphrase(file=passphrase_file)
    record = replace_member_key(folder, name, public_key=data, passphrase=passphrase)
    _tell(record, folder=folder, done="given a new key", as_json=as_json)


def _adopt(folder: Path, public_key: Path, *, as_json: bool) -> None:
    from helba.protocol.authorityfiles import COLLECTIVE_KEY
    from helba.protocol.serverfiles import DEPLOYMENT, read_deployment
    from helba.protocol.userstore import update_user

    update_user(folder, public_key)
    deployment = read_deployment(folder / DEPLOYMENT)
    report = _describe(deployment, key_file=folder / COLLECTIVE_KEY)
    _show({"folder": str(folder), **report}, as_json=as_json)


def _list(folder: Path) -> dict[str, Any]:
    from helba.planning.flooding import bit_budget
    from helba.protocol.authorityfiles import SERVER, collective_key_path
    from helba.protocol.keyinfo import describe_key
    from helba.protocol.keystore import list_members
    from helba.protocol.serverfiles import (
        DEPLOYMENT,
        naming,
        read_deployment,
        read_ledger,
        read_public,
    )

    members, path = list_members(folder), collective_key_path(folder)
    deployment = read_deployment(folder / DEPLOYMENT, allow_insecure=True)
    with naming(path):
        key = describe_key(read_public(path)).owner
    ledger = read_ledger(folder / SERVER, key=key, budget=bit_budget(deployment.comparison_noise))
    spent = ledger.spent_keys()
    return {
        "folder": str(folder),
        "deployment": deployment.fingerprint,
        "keys": deployment.keys,
        "key": key.hex(),
        "bits": ledger.total,
        "bit_budget": ledger.budget,
        "rotation_due": ledger.spent,
        "replacement_due": [m.name for m in members if m.id in spent and not m.revoked],
        "members": [
            {
                "name": member.name,
                "key": member.id.hex(),
                "state": "revoked" if member.revoked else "enrolled",
                "since": member.since,
                "bits": ledger.of(member.id),
            }
            for member in members
        ],
    }


def _describe(deployment: Deployment, *, key_file: Path) -> dict[str, Any]:
    from helba.experiments.encrypted import describe_parameters
    from helba.protocol.keyinfo import describe_key
    from helba.protocol.serverfiles import read_public

    return {
        "key": describe_key(read_public(key_file)).owner.hex(),
        "deployment": deployment.fingerprint,
        "engine": deployment.scheme,
        "keys": deployment.keys,
        "parameters": describe_parameters(deployment.parameters),
    }


def _tell(record: Record, *, folder: Path, done: str, as_json: bool) -> None:
    """Say what became of a user."""
    from helba.experiments.progress import note
    from helba.protocol.authorityfiles import SERVER
    from helba.protocol.serverfiles import ROTATION

    if (folder / SERVER / ROTATION).exists():
        note(f"a server that is running must take {folder / SERVER / ROTATION} before this")
    else:
        note("a server that is running must be told")
    _show({"folder": str(folder), "done": done, **record.as_json()}, as_json=as_json)


def _show(report: dict[str, Any], *, as_json: bool) -> None:
    from helba.experiments.report import flatten, print_json, print_table

    if as_json:
        print_json(report)
    else:
        print_table(None, columns=("", ""), rows=list(flatten(report).items()))
