"""`helba load`: many users at once, and what the deployment makes of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from helba.errors import Interrupted
from helba.extras import require_extra
from helba.lab.command.completion import values_of
from helba.lab.command.options import Json, Seed, whole_number

if TYPE_CHECKING:
    from helba.service.client.load import Moment

SECONDS_BETWEEN_LINES = 10.0


def load(
    authority: Annotated[str, typer.Option(metavar="URL", help="the key authority, open to all")],
    users: Annotated[int, whole_number(text="users at once")] = 64,
    seconds: Annotated[float, typer.Option(help="how long")] = 300.0,
    processes: Annotated[int, whole_number(text="processes they share")] = 2,
    problem: Annotated[
        str,
        typer.Option(
            help="what they play: toy, synthetic, fixed-arms or replay",
            autocompletion=values_of("problem"),
        ),
    ] = "toy",
    seed: Seed = 0,
    one_at_a_time: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="first measure one user at a time, and compare"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="folder for the report and every acknowledged reward")
    ] = None,
    ca: Annotated[Path | None, typer.Option(metavar="FILE", help="certificates to trust")] = None,
    allow_plain_http: Annotated[
        bool, typer.Option("--plain-http", help="let tokens travel unencrypted")
    ] = False,
    as_json: Json = False,
) -> None:
    """Put load on a deployment: all users enrol, then ask, reward and help until the time is up.

    Their names are load-<run>-<number>. Ctrl-C ends it early, with a report.
    """
    require_extra("service", purpose="helba load")
    from helba.lab.report import print_json
    from helba.service.client.load import LoadRequest, run_load

    request = LoadRequest(
        authority=authority,
        users=users,
        seconds=seconds,
        processes=processes,
        problem=problem,
        seed=seed,
        alone_seconds=one_at_a_time,
        out=out,
        ca=ca,
        allow_plain_http=allow_plain_http,
    )
    with _Screen(request.users) as screen:
        report = run_load(request, show=screen.show)
    if as_json:
        print_json(report)
    else:
        _print_report(report)
    if report["interrupted"]:
        raise Interrupted("interrupted: the report is of what was done until then")


class _Screen:
    """The live figures: a table on a terminal, a line now and then elsewhere."""

    def __init__(self, users: int) -> None:
        from rich.console import Console
        from rich.live import Live

        self._users = users
        self._live: Live | None = None
        self._said: tuple[str, float] = ("", 0.0)
        if sys.stderr is not None and sys.stderr.isatty():
            self._live = Live(console=Console(stderr=True), transient=True, auto_refresh=False)

    def __enter__(self) -> _Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, moment: Moment) -> None:
        """Show how the run stands."""
        from rich.table import Table

        from helba.lab.progress import note

        figures = _figures(moment, users=self._users)
        if self._live is not None:
            table = Table("", "", show_header=False)
            for name, value in figures.items():
                table.add_row(name, value)
            self._live.update(table, refresh=True)
            return
        phase, at = self._said
        if moment.phase != phase or moment.seconds - at >= SECONDS_BETWEEN_LINES:
            self._said = (moment.phase, moment.seconds)
            note(", ".join(f"{name} {value}" for name, value in figures.items()))


def _figures(moment: Moment, *, users: int) -> dict[str, str]:
    """What is shown of a moment, in words."""
    from helba.service.client.figure import describe_latency

    shown = {"load:": moment.phase, "seconds": f"{moment.seconds:.0f}"}
    if moment.phase == "enrolling":
        return {**shown, "enrolled": f"{moment.enrolled} of {users}"}
    tally, metrics = moment.tally, moment.metrics
    rate = tally.acknowledged / moment.seconds if moment.seconds > 0 else 0.0
    shown |= {
        "rounds": str(tally.asked),
        "rewards acknowledged": str(tally.acknowledged),
        "rounds/s": f"{rate:.2f}",
    }
    for name, seconds in (("ask", tally.ask_seconds), ("reward", tally.reward_seconds)):
        found = describe_latency(seconds)
        if found["p50"] is not None and found["p95"] is not None:
            shown[f"{name} p50/p95"] = f"{found['p50']:.0f}/{found['p95']:.0f} ms"
    shown["errors"] = str(sum(tally.errors.values()))
    shown["retries"] = str(tally.retries)
    shown["client CPU"] = f"{tally.cpu_seconds:.0f} s"
    if metrics is not None:
        shown["server CPU"] = f"{metrics.total_cpu_seconds:.0f} s"
        shown["server memory"] = f"{metrics.total_resident_bytes / 2**20:.0f} MiB"
    return shown


def _print_report(report: dict[str, Any]) -> None:
    """The report as tables: memory only at its first, largest and last sample."""
    from helba.lab.report import flatten, print_table

    memory = [sum(each["server_bytes"].values()) / 2**20 for each in report["memory"]]
    rest = {name: value for name, value in report.items() if name != "memory"}
    if memory:
        rest["server MiB"] = {"first": memory[0], "most": max(memory), "last": memory[-1]}
    print_table(None, columns=("", ""), rows=list(flatten(rest).items()))
