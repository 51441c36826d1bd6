"""The command `helba`: results on stdout, progress and prose on stderr.

With `--json` stdout is exactly one JSON object. Exit code 0 is success, 2 a usage error, 1 anything
else, with one line on stderr. `HELBA_TRACEBACK=1` shows the traceback of an unexpected error.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from helba import ALGORITHMS, __version__
from helba.errors import HelbaError, InvalidInput

__all__ = ["app", "main"]

app = typer.Typer(
    name="helba",
    help="Linear contextual bandits that learn from data nobody can read.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
bench_app = typer.Typer(help="Measure how long things take.")
paper_app = typer.Typer(help="What the paper says, recomputed.")
app.add_typer(bench_app, name="bench")
app.add_typer(paper_app, name="paper")

NAMES = ", ".join(ALGORITHMS)
TOY_HORIZON = 130
HORIZON = 1000
INTERRUPTED = 130


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number") from None


def _number(name: str | None = None, *, text: str) -> Any:
    names = [] if name is None else [name]
    return typer.Option(*names, help=text, parser=_whole, metavar="NUMBER")


ProblemName = Annotated[
    str, typer.Argument(metavar="PROBLEM", help="toy, synthetic, fixed-arms or replay")
]
Dim = Annotated[int | None, _number(text="features of an arm")]
Arms = Annotated[int | None, _number(text="arms of a round")]
Horizon = Annotated[
    int | None, _number(text=f"rounds: {TOY_HORIZON} on toy and {HORIZON} elsewhere unless told")
]
Repetitions = Annotated[int, _number(text="draws of the problem")]
Seed = Annotated[int, _number(text="fixes the problem, the rounds and the luck")]
Jobs = Annotated[int | None, _number(text="processes: one a core unless told")]
Out = Annotated[Path | None, typer.Option(help="folder for rows and plot")]
Json = Annotated[bool, typer.Option("--json", help="print exactly one JSON object")]


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
) -> None:
    """Linear contextual bandits that learn from data nobody can read."""
    if version:
        print(f"helba {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit


@app.command()
def run(
    problem: ProblemName,
    dim: Dim = None,
    arms: Arms = None,
    algorithm: Annotated[str, typer.Option(help=f"which policy plays: {NAMES}")] = "helba",
    engine: Annotated[str, typer.Option(help="plain: without encryption")] = "plain",
    profile: Annotated[str | None, typer.Option(help="fast or paper")] = None,
    bonus: Annotated[str | None, typer.Option(help="quadratic or sqrt")] = None,
    schedule: Annotated[str | None, typer.Option(help="trace or public")] = None,
    horizon: Horizon = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Run one algorithm on one draw of a problem."""
    from helba.experiments.report import print_json, print_table
    from helba.experiments.single import SingleRequest, run_single

    request = SingleRequest(
        problem=problem,
        horizon=_horizon(horizon, problem=problem),
        algorithm=algorithm,
        engine=engine,
        profile=profile,
        bonus=bonus,
        schedule=schedule,
        seed=seed,
        dim=dim,
        arms=arms,
    )
    report = run_single(request, out=out).as_json()
    if as_json:
        print_json(report)
    else:
        known = [(name, value) for name, value in report.items() if value is not None]
        print_table(None, columns=("", ""), rows=known)


@app.command()
def compare(
    problem: ProblemName,
    algorithms: Annotated[
        str | None, typer.Option(help=f"names with commas between them: {NAMES}; all unless told")
    ] = None,
    dim: Dim = None,
    arms: Arms = None,
    repetitions: Repetitions = 25,
    horizon: Horizon = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="folder for rows and plot: below results/ unless told")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="delete rows of other settings in the folder")
    ] = False,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Compare algorithms on draws of a problem; the same command resumes an interrupted run."""
    from helba.experiments.compare import Request
    from helba.experiments.compare import compare as run_comparison
    from helba.experiments.report import print_json, print_table

    names = ALGORITHMS if algorithms is None else _split(algorithms)
    request = Request(
        problem=problem,
        horizon=_horizon(horizon, problem=problem),
        algorithms=tuple(names),
        repetitions=repetitions,
        seed=seed,
        dim=dim,
        arms=arms,
    )
    folder = out
    if folder is None:
        size = f"d{request.dim}-k{request.arms}-t{request.horizon}-s{request.seed}"
        folder = Path("results") / f"compare-{problem}-{size}"
    result = run_comparison(request, out=folder, jobs=jobs, overwrite=overwrite)
    report = result.as_json()
    if as_json:
        print_json(report)
        return
    columns = {
        "regret": "regret",
        "regret_se": "se",
        "updates": "updates",
        "update_bound": "at most",
        "seconds": "seconds",
        "agreement": "agreement",
        "ties": "ties",
        "clipped": "clipped",
    }
    print_table(
        f"{problem}, {request.horizon} rounds, {repetitions} repetitions",
        columns=("algorithm", *columns.values()),
        rows=[
            (name, *(found[column] for column in columns))
            for name, found in report["algorithms"].items()
        ],
    )
    print(f"rows: {report['rows']}\nplot: {report['plot']}")


@app.command()
def sensitivity(
    problem: ProblemName,
    dim: Dim = None,
    arms: Arms = None,
    repetitions: Repetitions = 10,
    horizon: Horizon = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Measure what it costs when L, S or sigma is believed to be 1/4 to 4 times what it is."""
    from helba.experiments.report import print_json, print_table
    from helba.experiments.sensitivity import QUANTITIES, SensitivityRequest, measure

    request = SensitivityRequest(
        problem=problem,
        horizon=_horizon(horizon, problem=problem),
        repetitions=repetitions,
        seed=seed,
        dim=dim,
        arms=arms,
    )
    effects = [asdict(effect) for effect in measure(request, jobs=jobs)]
    if as_json:
        print_json({**asdict(request), "effects": effects})
        return
    columns = ("algorithm", "quantity", "factor", "regret", "regret_se", "refused")
    print_table(
        f"{problem}, {request.horizon} rounds, {repetitions} repetitions",
        columns=columns,
        rows=[
            [QUANTITIES.get(effect[name], effect[name]) for name in columns] for effect in effects
        ],
    )


@app.command()
def plan(
    dim: Annotated[int, _number(text="features of an arm")],
    arms: Annotated[int, _number(text="arms of a round")],
    horizon: Annotated[int, _number(text="rounds")],
    security: Annotated[int, _number(text="bits of security: 128, 192 or 256")] = 128,
    profile: Annotated[str, typer.Option(help="fast or paper")] = "fast",
    refresh: Annotated[str, typer.Option(help="client, bootstrap or none")] = "client",
    bonus: Annotated[
        str | None, typer.Option(help="quadratic or sqrt; that of the profile unless told")
    ] = None,
    schedule: Annotated[str, typer.Option(help="trace or public")] = "trace",
    argmax: Annotated[
        str, typer.Option(help="product (shows the winner), sum (shows the order) or auto")
    ] = "auto",
    length: Annotated[float, typer.Option(help="L, the longest context")] = 1.0,
    ridge: Annotated[float, typer.Option(help="lambda, the ridge")] = 1.0,
    ring_dim: Annotated[int | None, _number(text="fix N")] = None,
    depth: Annotated[int | None, _number(text="fix the levels")] = None,
    scale_bits: Annotated[int | None, _number(text="fix the bits of a level")] = None,
    as_json: Json = False,
) -> None:
    """Choose parameters for a problem, and say what they promise, cost and why they were chosen."""
    from helba.experiments.plan_report import plan_and_report

    plan_and_report(
        {
            "dim": dim,
            "arms": arms,
            "horizon": horizon,
            "security": security,
            "profile": profile,
            "refresh": refresh,
            "bonus": bonus or ("sqrt" if profile == "paper" else "quadratic"),
            "schedule": schedule,
            "argmax": argmax,
            "length": length,
            "ridge": ridge,
            "ring_dim": ring_dim,
            "depth": depth,
            "scale_bits": scale_bits,
        },
        as_json=as_json,
    )


@bench_app.callback()
def start_bench() -> None:
    """Measure how long things take."""


@bench_app.command("plain")
def bench_plain(
    dim: Annotated[int, _number(text="features of an arm")] = 16,
    arms: Annotated[int, _number(text="arms of a round")] = 16,
    as_json: Json = False,
) -> None:
    """Time one round of plaintext OFUL."""
    from helba.experiments import bench
    from helba.experiments.report import print_json, print_table

    found = asdict(bench.bench_plain(dim=dim, arms=arms))
    if as_json:
        print_json(found)
    else:
        print_table(None, columns=("", ""), rows=list(found.items()))


@bench_app.command("kernels")
def bench_kernels(
    only: Annotated[str, typer.Option(help="kernels whose name contains this")] = "",
    repetitions: Annotated[int, _number(text="runs of each; the fastest counts")] = 3,
    bootstrap: Annotated[
        bool, typer.Option("--bootstrap/--no-bootstrap", help="N = 2^16: a minute, and 5 GiB")
    ] = True,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="keep this machine's timings for helba plan")
    ] = False,
    as_json: Json = False,
) -> None:
    """Time every circuit on CKKS at 128 bits, beside the OpenFHE operations that it performs."""
    from helba.experiments.bench_kernels import bench_kernels as measure
    from helba.experiments.bench_kernels import print_kernels
    from helba.experiments.report import print_json

    report = measure(
        only=only, repetitions=repetitions, bootstrap=bootstrap, calibrate=calibrate
    ).as_json()
    if as_json:
        print_json(report)
    else:
        print_kernels(report)


@paper_app.callback()
def start_paper() -> None:
    """What the paper says, recomputed."""


@paper_app.command("depth")
def paper_depth(
    number: Annotated[int, _number("--round", text="the round it is computed for")] = 130,
    dim: Annotated[int, _number(text="features of an arm")] = 2,
    arms: Annotated[int, _number(text="arms of a round")] = 2,
    as_json: Json = False,
) -> None:
    """Show how many levels each step of the paper's algorithm needs in a round."""
    from helba.experiments.depth import tabulate_depth
    from helba.experiments.report import print_json, print_table

    rows = tabulate_depth(number, dim=dim, arms=arms)
    if as_json:
        print_json({"round": number, "dim": dim, "arms": arms, "steps": rows})
    else:
        columns = ("step", "iterations", "levels", "note")
        values = [[row[column] for column in columns] for row in rows]
        print_table(f"round {number}, d = {dim}, K = {arms}", columns=columns, rows=values)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    _prepare_streams()
    try:
        code = app(args=arguments, prog_name="helba", standalone_mode=False)
        if code == INTERRUPTED:  # what typer makes of Ctrl-C
            return _fail("interrupted", code=1)
        return code if isinstance(code, int) else 0
    except InvalidInput as error:
        return _fail(str(error), code=2)
    except HelbaError as error:
        return _fail(str(error), code=1)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", code=1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if hasattr(error, "format_message"):
            text = f"{error.format_message()} (see helba --help)"
            return _fail(text, code=int(getattr(error, "exit_code", 2)))
        if os.environ.get("HELBA_TRACEBACK"):
            raise
        return _fail(f"{type(error).__name__}: {error}", code=1)


def _prepare_streams() -> None:
    """A terminal that lacks a letter shows a question mark; being told to end is like Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def _fail(text: str, *, code: int) -> int:
    line = " ".join(text.split())
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"helba: {line}", file=sys.stderr, flush=True)
    return code


def _horizon(given: int | None, *, problem: str) -> int:
    return given if given is not None else TOY_HORIZON if problem == "toy" else HORIZON


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]
