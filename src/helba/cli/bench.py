"""`helba bench`: how long things take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from helba.cli.options import Arms, Dim, Json, Security, Seed, split, whole_number

__all__ = ["app"]

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
    from helba.experiments import bench
    from helba.experiments.report import print_json, print_table

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


@app.command("argmax")
def bench_argmax(
    arms: Annotated[str, typer.Option(help="numbers of arms, with commas")] = "2,16,64,128",
    lanes: Annotated[int, whole_number(text="users at once")] = 1,
    bits: Annotated[int, whole_number(text="bits of a shared score")] = 40,
    repetitions: Annotated[int, whole_number(text="runs of each; the median counts")] = 15,
    as_json: Json = False,
) -> None:
    """Time the garbled argmax on shares: both parties, transfer included."""
    from helba.experiments.bench_argmax import bench_argmax as measure

    numbers = [_arms_of(each) for each in split(arms)]
    if not numbers:
        raise typer.BadParameter("expected one number or more, got none", param_hint="--arms")
    _show(measure(numbers, lanes=lanes, bits=bits, repetitions=repetitions), as_json=as_json)


def _arms_of(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number", param_hint="--arms") from None


Rounds = Annotated[int, whole_number(text="rounds to measure")]
Latency = Annotated[
    str | None, typer.Option(help="interactive or single; interactive where it is possible")
]


@app.command("round")
def bench_round(
    dim: Dim = None,
    arms: Arms = None,
    rounds: Rounds = 5,
    security: Security = 128,
    latency: Latency = None,
    as_json: Json = False,
) -> None:
    """Time a recommendation on ciphertexts: the server's seconds and the user's."""
    from helba.experiments.bench_encrypted import bench_round as measure
    from helba.experiments.bench_encrypted import choose_sizes

    sizes = choose_sizes(dim=dim, arms=arms)
    _show(measure(sizes, rounds=rounds, security=security, latency=latency), as_json=as_json)


@app.command("update")
def bench_update(
    dim: Dim = None,
    arms: Arms = None,
    updates: Annotated[int, whole_number(text="updates to measure")] = 2,
    security: Security = 128,
    latency: Latency = None,
    as_json: Json = False,
) -> None:
    """Time an update of the model on ciphertexts: the server's seconds and the helper's."""
    from helba.experiments.bench_encrypted import bench_update as measure
    from helba.experiments.bench_encrypted import choose_sizes

    sizes = choose_sizes(dim=dim, arms=arms)
    found = measure(sizes, updates=updates, security=security, latency=latency)
    _show(found, as_json=as_json)


@app.command("ratio")
def bench_ratio(
    rounds: Rounds = 5, security: Security = 128, seed: Seed = 0, as_json: Json = False
) -> None:
    """Play the same rounds of the toy problem in both profiles, on ciphertexts."""
    from helba.experiments.bench_encrypted import bench_ratio as measure

    _show(measure(rounds=rounds, security=security, seed=seed), as_json=as_json)


@app.command("keys")
def bench_keys(
    rounds: Annotated[int, whole_number(text="rounds to measure")] = 10,
    security: Security = 128,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Play the same rounds of the toy problem with own and with shared keys, in turns."""
    from helba.experiments.bench_encrypted import bench_keys as measure

    _show(measure(rounds=rounds, security=security, seed=seed), as_json=as_json)


@app.command("latency")
def bench_latency(
    rounds: Annotated[int, whole_number(text="rounds to measure")] = 10,
    security: Security = 128,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Play the same rounds of the toy problem in one exchange and interactively, in turns."""
    from helba.experiments.bench_encrypted import bench_latency as measure

    _show(measure(rounds=rounds, security=security, seed=seed), as_json=as_json)


@app.command("throughput")
def bench_throughput(
    dim: Annotated[int, whole_number(text="features of an arm")] = 2,
    arms: Annotated[int, whole_number(text="arms of a round")] = 2,
    users: Annotated[
        int | None, whole_number(text="users who share a ciphertext: all that fit unless told")
    ] = None,
    seconds: Annotated[float, typer.Option(help="how long to measure, at least")] = 10.0,
    security: Security = 128,
    as_json: Json = False,
) -> None:
    """Count how many users a second one server answers when they share ciphertexts."""
    from helba.experiments.throughput import measure_throughput

    found = measure_throughput(dim=dim, arms=arms, users=users, seconds=seconds, security=security)
    _show(found, as_json=as_json)


def _show(report: Mapping[str, Any], *, as_json: bool) -> None:
    from helba.experiments.report import flatten, print_json, print_table

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
