"""`helba bench`: how long things take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from helba.lab.command.completion import values_of
from helba.lab.command.options import Json, Security, Seed, split, whole_number

app = typer.Typer(help="Measure how long things take.")


@app.callback()
def start_bench() -> None:
    """Measure how long things take."""


@app.command("plain")
def bench_plain(
    dim: Annotated[int, whole_number(text="features of an arm")] = 16,
    arms: Annotated[int, whole_number(text="arms of a round")] = 16,
    as_json: Json = False,
) -> None:
    """Time one round of plaintext OFUL."""
    from helba.lab.bench import plain as bench
    from helba.lab.report import print_json, print_table

    found = asdict(bench.bench_plain(dim=dim, arms=arms))
    if as_json:
        print_json(found)
    else:
        print_table(None, columns=("", ""), rows=list(found.items()))


@app.command("kernels")
def bench_kernels(
    only: Annotated[str, typer.Option(help="kernels whose name contains this")] = "",
    repetitions: Annotated[
        int, whole_number(text="runs of each; of the ring's, which are short, five times as many")
    ] = 3,
    bootstrap: Annotated[
        bool, typer.Option("--bootstrap/--no-bootstrap", help="N = 2^16: a minute, and 5 GiB")
    ] = True,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="keep this machine's timings for helba plan")
    ] = False,
    as_json: Json = False,
) -> None:
    """Time every circuit and the ring's kernels at 128 bits, beside OpenFHE's own operations.

    Of a circuit the fastest run counts, of a kernel of the ring the median.
    """
    from helba.lab.bench.kernels import bench_kernels as measure
    from helba.lab.bench.kernels import print_kernels
    from helba.lab.report import print_json

    report = measure(
        only=only, repetitions=repetitions, bootstrap=bootstrap, calibrate=calibrate
    ).as_json()
    if as_json:
        print_json(report)
    else:
        print_kernels(report)


@app.command("argmax")
def bench_argmax(
    arms: Annotated[str, typer.Option(help="numbers of arms, with commas")] = "2,16,64,128",
    lanes: Annotated[int, whole_number(text="users at once")] = 1,
    bits: Annotated[int, whole_number(text="bits of a shared score")] = 40,
    repetitions: Annotated[int, whole_number(text="runs of each; the median counts")] = 15,
    as_json: Json = False,
) -> None:
    """Time the garbled argmax on shares: both parties, transfer included."""
    from helba.lab.bench.argmax import bench_argmax as measure

    numbers = _numbers_of(arms, hint="--arms")
    _show(measure(numbers, lanes=lanes, bits=bits, repetitions=repetitions), as_json=as_json)


def _numbers_of(text: str, *, hint: str) -> list[int]:
    """The whole numbers of a list with commas."""
    parts = split(text)
    if not parts:
        raise typer.BadParameter("expected one number or more, got none", param_hint=hint)
    wrong = [part for part in parts if not part.isdecimal()]
    if wrong:
        raise typer.BadParameter(f"{wrong[0]!r} is not a whole number", param_hint=hint)
    return [int(part) for part in parts]


def _sizes_of(
    dim: str | None, arms: str | None, *, otherwise: Sequence[tuple[int, int]]
) -> Sequence[tuple[int, int]]:
    """Pairs of d and K; both lists are equally long."""
    if dim is None and arms is None:
        return otherwise
    if dim is None or arms is None:
        missing = "--dim" if dim is None else "--arms"
        raise typer.BadParameter("--dim and --arms go together", param_hint=missing)
    dims, counts = _numbers_of(dim, hint="--dim"), _numbers_of(arms, hint="--arms")
    if len(dims) != len(counts):
        raise typer.BadParameter(f"expected {len(dims)} numbers as in --dim", param_hint="--arms")
    return list(zip(dims, counts, strict=True))


Rounds = Annotated[int, whole_number(text="rounds to measure")]
Dims = Annotated[str | None, typer.Option("--dim", help="features of an arm, with commas")]
Counts = Annotated[str | None, typer.Option("--arms", help="arms of a round, with commas")]
WhoOpens = Annotated[
    str, typer.Option("--opener", help="users or authority", autocompletion=values_of("opener"))
]


@app.command("round")
def bench_round(
    dim: Dims = None,
    arms: Counts = None,
    rounds: Rounds = 15,
    security: Security = 128,
    opener: WhoOpens = "users",
    as_json: Json = False,
) -> None:
    """Time a round on shares: the server's seconds, the opener's and the user's, and its bytes."""
    from helba.lab.bench.shares import ROUND_SIZES
    from helba.lab.bench.shares import bench_round as measure

    sizes = _sizes_of(dim, arms, otherwise=ROUND_SIZES)
    _show(measure(sizes, rounds=rounds, security=security, opener=opener), as_json=as_json)


@app.command("update")
def bench_update(
    dim: Dims = None,
    arms: Counts = None,
    updates: Annotated[int, whole_number(text="updates to measure")] = 5,
    security: Security = 128,
    opener: WhoOpens = "users",
    as_json: Json = False,
) -> None:
    """Time an update of the model on shares: the server's seconds and the opener's."""
    from helba.lab.bench.shares import UPDATE_SIZES
    from helba.lab.bench.shares import bench_update as measure

    sizes = _sizes_of(dim, arms, otherwise=UPDATE_SIZES)
    _show(measure(sizes, updates=updates, security=security, opener=opener), as_json=as_json)


@app.command("ratio")
def bench_ratio(
    rounds: Rounds = 5, security: Security = 128, seed: Seed = 0, as_json: Json = False
) -> None:
    """Play the same rounds of the toy problem on shares and in the paper's profile."""
    from helba.lab.bench.encrypted import bench_ratio as measure

    _show(measure(rounds=rounds, security=security, seed=seed), as_json=as_json)


@app.command("keys")
def bench_keys(
    rounds: Annotated[int, whole_number(text="rounds to measure")] = 10,
    security: Security = 128,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Play the same rounds of the toy problem with own and with shared keys, in turns."""
    from helba.lab.bench.encrypted import bench_keys as measure

    _show(measure(rounds=rounds, security=security, seed=seed), as_json=as_json)


@app.command("throughput")
def bench_throughput(
    dim: Annotated[int, whole_number(text="features of an arm")] = 2,
    arms: Annotated[int, whole_number(text="arms of a round")] = 2,
    users: Annotated[
        int | None, whole_number(text="users in one product: all that fit unless told")
    ] = None,
    seconds: Annotated[float, typer.Option(help="how long to measure, twice")] = 5.0,
    processes: Annotated[
        int | None, whole_number(text="processes, each with both parties; one a core unless told")
    ] = None,
    security: Security = 128,
    as_json: Json = False,
) -> None:
    """Count the users that server and opener, an authority, answer a second on all cores."""
    from helba.lab.bench.shares import bench_throughput as measure

    found = measure(
        dim=dim, arms=arms, users=users, seconds=seconds, processes=processes, security=security
    )
    _show(found, as_json=as_json)


def _show(report: Mapping[str, Any], *, as_json: bool) -> None:
    from helba.lab.report import flatten, print_json, print_table

    if as_json:
        print_json(report)
        return
    results = report.get("results", [report])
    columns = [flatten(result) for result in results]
    print_table(
        None,
        columns=("",) * (1 + len(columns)),
        rows=[(name, *(column.get(name) for column in columns)) for name in columns[0]],
    )
