"""`helba keys`: the collective keys, users' own keys, and who may take part."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from helba.errors import InvalidInput, require_choice
from helba.lab.command.completion import values_of
from helba.lab.command.options import (
    Arms,
    Dim,
    Growth,
    Horizon,
    Json,
    Schedule,
    Security,
    choose_horizon,
)

app = typer.Typer(help="Make, enrol, list, revoke and rotate keys.")

# What the files in a folder add to its path is less than the difference to the system's 4096.
MOST_PATH, MOST_PART = 3840, 255


def _path(text: str) -> Path:
    path = Path(text)
    longest = max((len(os.fsencode(part)) for part in path.parts), default=0)
    if len(os.fsencode(text)) > MOST_PATH or longest > MOST_PART:
        raise typer.BadParameter("the path is too long")
    return path


def _path_option(name: str | None = None, *, text: str, metavar: str = "FILE") -> Any:
    names = [] if name is None else [name]
    return typer.Option(*names, help=text, parser=_path, metavar=metavar)


def _folder(text: str) -> Any:
    return typer.Argument(metavar="DIR", help=text, parser=_path)


Folder = Annotated[Path, _folder("the folder of the authority")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="who the user is to the authority")]
PassphraseFile = Annotated[
    Path | None,
    _path_option(
        text="file whose first line is the passphrase; else HELBA_PASSPHRASE, else you are asked. "
        "A new one has at least 8 characters"
    ),
]
# What a user's pair needs; the rest of `create` is for the plan.
FOR_USERS = ("folder", "user", "deployment", "passphrase_file", "as_json")


@app.callback()
def start_keys() -> None:
    """Make, enrol, list, revoke and rotate keys."""


@app.command("create")
def create_keys(
    context: typer.Context,
    folder: Annotated[Path, _folder("a new folder")],
    problem: Annotated[
        str,
        typer.Argument(
            metavar="PROBLEM",
            help="toy, synthetic, fixed-arms or replay",
            autocompletion=values_of("problem"),
        ),
    ] = "toy",
    dim: Dim = None,
    arms: Arms = None,
    horizon: Horizon = None,
    security: Security = 128,
    profile: Annotated[
        str,
        typer.Option(
            help="ciphertext or paper", autocompletion=values_of("profile", but=("shares",))
        ),
    ] = "ciphertext",
    refresh: Annotated[
        str, typer.Option(help="client, bootstrap or none", autocompletion=values_of("refresh"))
    ] = "client",
    bonus: Annotated[
        str | None,
        typer.Option(
            help="quadratic or sqrt; that of the profile unless told",
            autocompletion=values_of("bonus"),
        ),
    ] = None,
    schedule: Schedule = "trace",
    growth: Growth = 0.1,
    keys: Annotated[
        str, typer.Option(help="own, shared or switched", autocompletion=values_of("keys"))
    ] = "own",
    engine: Annotated[
        str,
        typer.Option(
            help="ckks, or simulate: protects nothing",
            autocompletion=values_of("engine", but=("plain",)),
        ),
    ] = "ckks",
    user: Annotated[
        bool, typer.Option("--user", help="a user's pair, made here; needs --deployment")
    ] = False,
    deployment: Annotated[
        Path | None,
        _path_option(
            text="folder with deployment.json and the collective public.key", metavar="FOLDER"
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Plan, and make the collective keys and the server's folder; or make a user's own pair."""
    if user != (deployment is not None):
        raise InvalidInput("--user", "one without the other", "given together with --deployment")
    if deployment is not None:
        from helba.cli.service import userkeys

        _require_no_plan(context)
        userkeys.create(folder, deployment, passphrase_file=passphrase_file, as_json=as_json)
        return
    from helba.cli.service import authoritykeys

    require_choice("profile", profile, ("ciphertext", "paper"))
    options: dict[str, Any] = {"profile": profile, "schedule": schedule, "growth": growth}
    options["bonus"] = bonus or ("sqrt" if profile == "paper" else "quadratic")
    request = {
        "engine": engine,
        "security": security,
        "refresh": refresh,
        "keys": keys,
    }
    sizes = {"dim": dim, "arms": arms, "horizon": choose_horizon(horizon, problem=problem)}
    authoritykeys.create(
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
    public_key: Annotated[Path, _path_option(text="the user's public.key")],
    replace: Annotated[
        bool, typer.Option("--replace", help="in place of the key that the user has")
    ] = False,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Take a user in by its public key, and write its re-encryption key for the server."""
    from helba.cli.service import authoritykeys

    authoritykeys.enrol(
        folder,
        name,
        public_key,
        replace=replace,
        passphrase_file=passphrase_file,
        as_json=as_json,
    )


@app.command("list")
def list_keys(
    folder: Folder,
    ledger: Annotated[
        Path | None, _path_option(text="the server's ledger.json; that in DIR/server unless told")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the users, and the bits returned against the budget."""
    from helba.cli.service import authoritykeys

    authoritykeys.list_users(folder, ledger_file=ledger, as_json=as_json)


@app.command("revoke")
def revoke_key(folder: Folder, name: Name, as_json: Json = False) -> None:
    """Bar a user: mark it, and delete its key in the server's folder."""
    from helba.cli.service import authoritykeys

    authoritykeys.revoke(folder, name, as_json=as_json)


@app.command("rotate")
def rotate_keys(
    folder: Annotated[Path, _folder("the folder of the authority, or of a user")],
    user_key: Annotated[
        str | None, typer.Option(metavar="NAME", help="replace the key of this user only")
    ] = None,
    public_key: Annotated[
        Path | None,
        _path_option(text="the user's new public.key; in a user's folder, the collective one"),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="ID", help="in a user's folder: what the collective key must be"),
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Make new collective keys, replace a user's key, or adopt new collective keys as a user."""
    from helba.cli.service import authoritykeys, userkeys
    from helba.service.protocol.userstore import COLLECTIVE_KEY

    if (folder / COLLECTIVE_KEY).exists():
        if user_key is not None or public_key is None:
            raise InvalidInput(
                "--public-key", "none or another option", "given alone in a user's folder"
            )
        userkeys.adopt(folder, public_key, key=key, as_json=as_json)
        return
    if key is not None:
        raise InvalidInput("--key", "it elsewhere", "given in a user's folder")
    if (user_key is None) != (public_key is None):
        raise InvalidInput(
            "--user-key", "one without the other", "given together with --public-key"
        )
    if user_key is not None and public_key is not None:
        authoritykeys.replace(
            folder, user_key, public_key, passphrase_file=passphrase_file, as_json=as_json
        )
    else:
        authoritykeys.rotate(folder, passphrase_file=passphrase_file, as_json=as_json)


@app.command("server")
def write_server(
    folder: Folder,
    out: Annotated[
        Path | None,
        _path_option(text="where to write it: DIR/server unless told", metavar="FOLDER"),
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Write the server's folder again: it is what goes to the server's machine."""
    from helba.cli.service import authoritykeys

    authoritykeys.write_server(folder, out=out, passphrase_file=passphrase_file, as_json=as_json)


@app.command("passphrase")
def change_passphrase(
    folder: Annotated[Path, _folder("the folder of the authority, or of a user")],
    passphrase_file: PassphraseFile = None,
    new_passphrase_file: Annotated[
        Path | None,
        _path_option(
            text="file whose first line is the new passphrase, of at least 8 characters; else "
            "HELBA_NEW_PASSPHRASE, else you are asked"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Put the secret key in a folder under another passphrase."""
    from helba.cli.service.keyreport import change_words

    change_words(
        folder, passphrase_file=passphrase_file, new_file=new_passphrase_file, as_json=as_json
    )


@app.command("show")
def show_key(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="a key file, or a folder", parser=_path)
    ],
    as_json: Json = False,
) -> None:
    """Say what a key file or a folder is, without opening a secret."""
    from helba.cli.service.keyshow import describe_path
    from helba.lab.report import flatten, print_json, print_table

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


def _require_no_plan(context: typer.Context) -> None:
    """Refuse options of the plan where a user's pair is made: the deployment has its own."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in FOR_USERS and source is not None and source.name == "COMMANDLINE":
            shown = "PROBLEM" if name == "problem" else f"--{name}"
            raise InvalidInput("--user", shown, "given without options of a plan")
