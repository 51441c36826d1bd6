"""`helba client`: a user of the service, with its keys in a folder of its own."""

from __future__ import annotations

import json
import math
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from helba.errors import DamagedData, InvalidInput, Refused, RunFailed, Unavailable
from helba.extras import require_extra
from helba.lab.command.completion import values_of
from helba.lab.command.options import Json, Seed, whole_number

if TYPE_CHECKING:
    from helba.service.client import Client

INVITATION = "HELBA_INVITATION"
MOST_BYTES = 1 << 24
WATCH_SECONDS = 1.0

app = typer.Typer(help="Users: enrol, ask, reward, help.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="the user's folder")]
RoundId = Annotated[str, typer.Argument(metavar="ROUND", help="the id that `ask` printed")]
Authority = Annotated[
    str | None,
    typer.Option(metavar="URL", help="the key authority; enrols there if the folder is new"),
]
Name = Annotated[
    str | None,
    typer.Option(help="who the user is to the authority; the folder's name unless told"),
]
Invitation = Annotated[
    str | None,
    typer.Option(
        metavar="CODE",
        envvar=INVITATION,
        show_envvar=False,
        help=f"from the authority; safer in {INVITATION}: who else is on this machine sees options",
    ),
]
Key = Annotated[
    str | None,
    typer.Option(metavar="ID", help="what the collective key must be: compare it, then pin it"),
]
Ca = Annotated[
    Path | None, typer.Option(metavar="FILE", help="certificates to trust, in place of all known")
]
PlainHttp = Annotated[
    bool,
    typer.Option("--plain-http", help="let the token travel unencrypted to another machine"),
]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="its first line is the passphrase; else HELBA_PASSPHRASE, else you are asked",
    ),
]


@app.command()
def enrol(
    folder: Folder,
    authority: Annotated[str, typer.Option(metavar="URL", help="the key authority")],
    name: Name = None,
    invitation: Invitation = None,
    key: Key = None,
    ca: Ca = None,
    allow_plain_http: PlainHttp = False,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Make keys and a token here, and have the authority take the user in; goes on if begun."""
    from helba.cli.service.keyreport import show_report

    options = {"ca": ca, "allow_plain_http": allow_plain_http}
    with _enrol(
        folder,
        authority=authority,
        name=name,
        invitation=invitation,
        key=key,
        passphrase_file=passphrase_file,
        **options,
    ) as client:
        account = client.account
    report = {"folder": str(folder), "name": account.name, "id": client.id, "key": client.key}
    kept = ("pinned", "authority", "server", "tenant")
    show_report({**report, **{each: getattr(account, each) for each in kept}}, as_json=as_json)


@app.command()
def ask(
    folder: Folder,
    contexts: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="JSON: a list of arms, each a list of numbers; - reads"),
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option(
            help="draw the contexts from this problem instead", autocompletion=values_of("problem")
        ),
    ] = None,
    seed: Seed = 0,
    authority: Authority = None,
    name: Name = None,
    invitation: Invitation = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Ask which arm to play; prints the arm, and the round to report its reward in."""
    from helba.cli.service.keyreport import show_report
    from helba.service.client.play import problem_for

    if (contexts is None) == (problem is None):
        raise InvalidInput("--contexts", "both or none", "given, or else --problem")
    rows = None if contexts is None else _read_contexts(contexts)
    with _open(
        folder,
        authority=authority,
        name=name,
        invitation=invitation,
        passphrase_file=passphrase_file,
    ) as client:
        drawn = None
        if problem is not None:
            drawn = next(problem_for(client.deployment, problem, seed=seed).rounds(1))
        advice = client.recommend(rows if drawn is None else drawn.contexts)
    report = {"arm": advice.arm, "round": advice.round, "overflow": advice.overflow}
    if drawn is not None:
        report["reward"] = float(drawn.rewards[advice.arm])
    show_report(report, as_json=as_json)


@app.command(context_settings={"ignore_unknown_options": True})  # a reward may be negative
def reward(
    folder: Folder,
    round: RoundId,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="what the arm earned")],
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Report what a round earned; returns once the server has stored it."""
    from helba.cli.service.keyreport import show_report

    earned = _read_number(value)
    with _open(folder, passphrase_file=passphrase_file) as client:
        counted = client.reward(round, earned)
    show_report({"round": round, "counted": counted}, as_json=as_json)


@app.command("help")
def give_help(
    folder: Folder,
    watch: Annotated[bool, typer.Option("--watch", help="go on until interrupted")] = False,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Help with updates that wait; what is decrypted for it is noise."""
    from helba.cli.service.keyreport import show_report
    from helba.lab.progress import note

    done = 0
    with _open(folder, passphrase_file=passphrase_file) as client:
        if not watch:
            done = client.help()
        else:
            note("helping until interrupted")
            with suppress(KeyboardInterrupt):
                while True:
                    done += _help_once(client)
                    time.sleep(WATCH_SECONDS)
    show_report({"tasks": done}, as_json=as_json)


@app.command()
def run(
    folder: Folder,
    problem: Annotated[
        str,
        typer.Argument(
            metavar="PROBLEM",
            help="toy, synthetic, fixed-arms or replay",
            autocompletion=values_of("problem"),
        ),
    ],
    rounds: Annotated[int, whole_number(text="how many to play")] = 10,
    seed: Seed = 0,
    authority: Authority = None,
    name: Name = None,
    invitation: Invitation = None,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Play a problem through the service: ask, reward, and help, round after round."""
    from helba.cli.service.keyreport import show_report
    from helba.lab.progress import Progress
    from helba.service.client.play import play_problem, problem_for

    with (
        _open(
            folder,
            authority=authority,
            name=name,
            invitation=invitation,
            passphrase_file=passphrase_file,
        ) as client,
        Progress(f"playing {problem}", total=rounds, unit="rounds") as bar,
    ):
        played = play_problem(
            client,
            problem_for(client.deployment, problem, seed=seed),
            rounds=rounds,
            show=lambda found: bar.advance(
                describe=lambda: f"arm {found.arms[-1]}, regret {found.regret:.3g}"
            ),
        )
    who = {"problem": problem, "seed": seed, "engine": client.deployment.scheme}
    report = {**who, "user": client.id, "key": client.key, **played.as_json()}
    if not as_json:
        report.pop("arms")
    show_report(report, as_json=as_json)


@app.command()
def status(folder: Folder, passphrase_file: PassphraseFile = None, as_json: Json = False) -> None:
    """Show what is kept here, and what the server says of itself."""
    from helba.cli.service.keyreport import show_report

    with _open(folder, passphrase_file=passphrase_file) as client:
        report = client.status()
    if not as_json:
        report["service"].pop("learns", None)
    show_report(report, as_json=as_json)


@app.command()
def flush(
    folder: Folder,
    refused: Annotated[
        bool, typer.Option("--refused", help="and once more those that the server refused")
    ] = False,
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Send the rewards that a crash or an outage left behind."""
    from dataclasses import asdict

    from helba.cli.service.keyreport import show_report

    with _open(folder, passphrase_file=passphrase_file) as client:
        found = client.flush(refused=refused)
        left = client.refused()
    show_report({**asdict(found), "refused_reports": left}, as_json=as_json)


@app.command()
def forget(
    folder: Folder, round: RoundId, passphrase_file: PassphraseFile = None, as_json: Json = False
) -> None:
    """Give a round up: no reward of it will come."""
    from helba.cli.service.keyreport import show_report

    with _open(folder, passphrase_file=passphrase_file) as client:
        if not client.forget(round):
            raise InvalidInput("round", "one that neither folder nor server know", "an open one")
    show_report({"round": round, "forgotten": True}, as_json=as_json)


@app.command()
def adopt(
    folder: Folder,
    key: Annotated[str, typer.Option(metavar="ID", help="the new collective key's id")],
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Take a rotated collective key, after comparing its id with the authority's."""
    from helba.cli.service.keyreport import show_report
    from helba.service.client.enrolment import check_key

    wanted = check_key(key)
    with _open(folder, passphrase_file=passphrase_file) as client:
        old, new = client.key, client.adopt(wanted)
    show_report({"old_key": old, "key": new}, as_json=as_json)


def _open(
    folder: Path,
    *,
    passphrase_file: Path | None,
    authority: str | None = None,
    name: str | None = None,
    invitation: str | None = None,
) -> Client:
    """The client of a folder; one that is new is enrolled first, where an authority is given."""
    require_extra("service", purpose="helba client", only="httpx")
    from helba.cli.service.passphrase import read_passphrase
    from helba.lab.progress import note
    from helba.service.client import Client
    from helba.service.client.account import ACCOUNT, read_account
    from helba.service.client.transport import check_url
    from helba.service.client.waiting import tell_waits

    tell_waits(note)
    account = read_account(folder) if (folder / ACCOUNT).exists() else None
    if account is None or not account.enrolled:
        if account is not None:  # an enrolment that was begun
            authority, name = authority or account.authority, name or account.name
        if authority is None:
            raise RunFailed(f"{folder} is enrolled nowhere: helba client enrol {folder} does it")
        return _enrol(
            folder,
            authority=authority,
            name=name,
            invitation=invitation,
            passphrase_file=passphrase_file,
        )
    given = None if authority is None else check_url(authority, allow_plain_http=True)
    if (given or account.authority, name or account.name) != (account.authority, account.name):
        raise Refused(f"{folder} is that of {account.name} at {account.authority}")
    return Client.open(folder, passphrase=read_passphrase(file=passphrase_file))


def _enrol(
    folder: Path,
    *,
    authority: str,
    name: str | None,
    passphrase_file: Path | None,
    key: str | None = None,
    **options: Any,
) -> Client:
    require_extra("service", purpose="helba client", only="httpx")
    from helba.cli.service.passphrase import read_passphrase
    from helba.lab.progress import note
    from helba.service.client import Client
    from helba.service.client.enrolment import check_key
    from helba.service.client.transport import check_url
    from helba.service.client.waiting import tell_waits
    from helba.service.protocol.files import SECRET_KEY

    tell_waits(note)
    authority = check_url(authority, allow_plain_http=True)
    key = None if key is None else check_key(key)
    fresh = not (folder / SECRET_KEY).exists()
    passphrase = read_passphrase(file=passphrase_file, confirm=fresh)
    note(f"enrolling at {authority}")
    client = Client.enrol(
        folder,
        authority=authority,
        name=folder.resolve().name if name is None else name,
        passphrase=passphrase,
        key=key,
        **options,
    )
    note(f"enrolled as {client.account.name}; the collective key is {client.key}")
    if client.deployment.scheme == "simulate":
        note("this deployment is simulated: nothing is encrypted")
    elif not client.account.pinned:
        note("compare its id with the authority's: whoever could choose this key reads everything")
    return client


def _help_once(client: Client) -> int:
    """Help with what waits; an outage passes."""
    from helba.lab.progress import note

    try:
        return client.help()
    except Unavailable as error:
        note(str(error))
        return 0


def _read_contexts(path: str) -> Any:
    try:
        if path == "-":
            text = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise RunFailed(f"cannot read {path}: {error.strerror}") from error
    if len(text) > MOST_BYTES:
        raise InvalidInput("contexts", "a longer file", f"at most {MOST_BYTES} bytes long")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise DamagedData(f"{path}: this is not JSON") from None


def _read_number(text: str) -> float:
    with suppress(ValueError):
        number = float(text)
        if math.isfinite(number):
            return number
    raise typer.BadParameter("VALUE must be a number")
