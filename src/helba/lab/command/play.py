"""`helba run`, `compare` and `sensitivity`: policies on problems."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from helba.lab.algorithm import ALGORITHMS
from helba.lab.command.completion import list_of, values_of
from helba.lab.command.options import (
    NAMES,
    Arms,
    Dim,
    Horizon,
    Jobs,
    Json,
    Out,
    ProblemName,
    Repetitions,
    Seed,
    choose_horizon,
    split,
    whole_number,
)


def run(
    problem: ProblemName,
    dim: Dim = None,
    arms: Arms = None,
    algorithm: Annotated[
        str,
        typer.Option(help=f"which policy plays: {NAMES}", autocompletion=values_of("algorithm")),
    ] = "helba",
    engine: Annotated[
        str | None,
        typer.Option(
            help="plain (in the clear), ckks (encrypted) or simulate (as ckks, without "
            "encryption); plain unless told, or ckks with --opener, --security or an option of "
            "the reference profiles",
            autocompletion=values_of("engine"),
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="shares (the default: products, shares and garbled circuits), ciphertext (the "
            "server alone, on slots) or paper (the paper's numerics); the last two are the "
            "reference",
            autocompletion=values_of("profile"),
        ),
    ] = None,
    opener: Annotated[
        str | None,
        typer.Option(
            help="who opens what is masked: users (each its own rounds, another one updates; the "
            "default) or authority (users send shares and need no lattice cryptography)",
            autocompletion=values_of("opener"),
        ),
    ] = None,
    bonus: Annotated[
        str | None,
        typer.Option(
            help="quadratic, or sqrt: reference profiles", autocompletion=values_of("bonus")
        ),
    ] = None,
    schedule: Annotated[
        str | None, typer.Option(help="trace or public", autocompletion=values_of("schedule"))
    ] = None,
    refresh: Annotated[
        str | None,
        typer.Option(
            help="reference profiles: client, bootstrap or none; client unless told",
            autocompletion=values_of("refresh"),
        ),
    ] = None,
    keys: Annotated[
        str | None,
        typer.Option(
            help="reference profiles: own (answers come under the user's own key; the default), "
            "shared (one secret key for all users, as in the paper) or switched (own, and data "
            "arrives under it too)",
            autocompletion=values_of("keys"),
        ),
    ] = None,
    security: Annotated[
        int | None,
        whole_number(
            text="bits of security: 128, 192 or 256; 128 unless told",
            completion=values_of("security"),
        ),
    ] = None,
    beside: Annotated[
        str | None,
        typer.Option(
            help="algorithms to play in the clear on the same draw, with commas between them; "
            "an encrypted run has its own algorithm beside it unless told",
            autocompletion=list_of("algorithm"),
        ),
    ] = None,
    horizon: Horizon = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Run one algorithm on one draw of a problem, in the clear or encrypted."""
    from helba.lab.play.report import print_run
    from helba.lab.play.single import SingleRequest, run_single
    from helba.lab.report import print_json

    request = SingleRequest(
        problem=problem,
        horizon=choose_horizon(horizon, problem=problem),
        algorithm=algorithm,
        engine=engine,
        profile=profile,
        bonus=bonus,
        schedule=schedule,
        opener=opener,
        refresh=refresh,
        keys=keys,
        security=security,
        seed=seed,
        dim=dim,
        arms=arms,
        beside=None if beside is None else split(beside),
    )
    finished = run_single(request, out=out)
    if as_json:
        print_json(finished.as_json())
    else:
        print_run(finished)


def compare(
    problem: ProblemName,
    algorithms: Annotated[
        str | None,
        typer.Option(
            help=f"names with commas between them: {NAMES}; all unless told",
            autocompletion=list_of("algorithm"),
        ),
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
    from helba.lab.comparison.compare import Request
    from helba.lab.comparison.compare import compare as run_comparison
    from helba.lab.report import print_json, print_table

    names = ALGORITHMS if algorithms is None else split(algorithms)
    request = Request(
        problem=problem,
        horizon=choose_horizon(horizon, problem=problem),
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
    print(f"rows: {report['rows']}")
    if report["plot"] is not None:
        print(f"plot: {report['plot']}")


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
    from helba.lab.comparison.sensitivity import QUANTITIES, SensitivityRequest, measure
    from helba.lab.report import print_json, print_table

    request = SensitivityRequest(
        problem=problem,
        horizon=choose_horizon(horizon, problem=problem),
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
