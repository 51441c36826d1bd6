"""The paper's toy problem as units, and what they returned as plays that can be compared.

Repetition r of every algorithm plays the draw of `seed + r`: the same contexts, noise and
parameter, so that repetitions can be paired. `play_plain` is work of a `Unit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from helba.lab.comparison.tuning import tune_radius, tuning_jobs
from helba.lab.pool import Workers
from helba.lab.progress import Progress
from helba.lab.reproduction.play import command_of, play_single, run_of
from helba.lab.reproduction.scope import Scope
from helba.lab.reproduction.unit import Results, Unit
from helba.lab.runner import Row, policy_for, run_repetition, settings_for
from helba.problems import make_problem

PROBLEM = "toy"
# HELBA by its bonus.
BONUSES = {"helba": "quadratic", "helba-sqrt": "sqrt"}
ENGINE_NAMES = {"plain": "plain", "ckks": "CKKS", "simulate": "simulator"}

# Expected on two cores: seconds of the set-up, a round and an update, by algorithm and security.
CKKS_SECONDS = {
    ("helba", 128): (6.0, 0.4, 1.1),
    ("helba", 192): (10.0, 1.4, 3.5),
    ("helba", 256): (12.0, 2.0, 7.0),
    ("helba-sqrt", 128): (12.0, 4.0, 2.6),
}
SIMULATED_SECONDS = {"helba": (1.5, 0.012), "helba-sqrt": (1.5, 0.03)}
PLAIN_SECONDS_PER_ROUND = 0.0006
TUNING_SECONDS_PER_ROUND = 0.02
EARLY_ROUNDS = 10


@dataclass(frozen=True, kw_only=True)
class Play:
    """One repetition that was played: totals of each round, and of the whole."""

    algorithm: str
    engine: str
    seed: int
    arms: Sequence[int]
    regrets: Sequence[float]
    updates: Sequence[int]
    report: dict[str, Any]

    @property
    def regret(self) -> float:
        """The regret of all rounds."""
        return self.regrets[-1]


def play_plain(*, algorithm: str, horizon: int, seed: int, repetitions: int) -> dict[str, Any]:
    """Play one algorithm in the clear on the draws from `seed` on, with the rows of each.

    `oful-tuned` is tuned first, on other draws.
    """
    options = {"radius_scale": _tune(horizon, seed=seed)} if algorithm == "oful-tuned" else {}
    played = []
    for repetition in range(repetitions):
        drawn = make_problem(PROBLEM, seed=seed + repetition)
        settings = settings_for(drawn, horizon=horizon, **options)
        policy = policy_for(algorithm, settings=settings, problem_seed=seed + repetition)
        rows: list[Row] = []
        outcome = run_repetition(drawn, policy, horizon=horizon, watch=rows.append)
        played.append(
            {
                "seed": seed + repetition,
                "seconds": outcome.seconds,
                "clipped": outcome.clipped,
                "agreement": outcome.agreement,
                "update_bound": outcome.update_bound,
                "regret_bound": outcome.regret_bound,
                "rows": [
                    {name: getattr(row, name) for name in ("round", "arm", "regret", "updates")}
                    for row in rows
                ],
            }
        )
    return {
        "problem": PROBLEM,
        "algorithm": algorithm,
        "engine": "plain",
        "horizon": horizon,
        "radius_scale": options.get("radius_scale", 1.0),
        "repetitions": played,
    }


def plain_unit(algorithm: str, *, scope: Scope) -> Unit:
    """Return all repetitions of an algorithm in the clear."""
    rounds = scope.repetitions * scope.horizon
    seconds = 1.0 + rounds * PLAIN_SECONDS_PER_ROUND
    if algorithm == "oful-tuned":
        seconds += scope.horizon * TUNING_SECONDS_PER_ROUND
    size = f"--horizon {scope.horizon} --repetitions {scope.repetitions} --seed {scope.seed}"
    return Unit(
        name=f"{PROBLEM}-plain-{algorithm}",
        title=f"{algorithm} in the clear, {scope.repetitions} repetitions",
        work=play_plain,
        arguments={
            "algorithm": algorithm,
            "horizon": scope.horizon,
            "seed": scope.seed,
            "repetitions": scope.repetitions,
        },
        kind="light",
        seconds=seconds,
        command=f"helba compare {PROBLEM} --algorithms {algorithm} {size}",
    )


def encrypted_unit(
    algorithm: str,
    *,
    scope: Scope,
    engine: str,
    repetition: int = 0,
    security: int = 128,
    rounds: int | None = None,
) -> Unit:
    """Return one repetition on ciphertexts, or on what stands for them; all rounds unless told.

    Parameters are planned for the whole horizon in any case.
    """
    count = scope.horizon if rounds is None else rounds
    seed = scope.seed + repetition
    arguments: dict[str, Any] = {
        "problem": PROBLEM,
        "horizon": scope.horizon,
        "algorithm": algorithm,
        "engine": engine,
        "security": security,
        "seed": seed,
    }
    part = ""
    if count < scope.horizon:
        arguments["rounds"] = count
        part = f"-first-{count}"
    where = "on ciphertexts" if engine == "ckks" else "in the simulator"
    return Unit(
        name=f"{PROBLEM}-{engine}-{algorithm}-{security}-seed-{seed}{part}",
        title=f"{algorithm} {where}, {security} bits, seed {seed}, {count} rounds",
        work=play_single,
        arguments=arguments,
        kind="ckks" if engine == "ckks" else "light",
        seconds=_expect(algorithm, engine=engine, security=security, rounds=count),
        command=command_of(arguments),
    )


def encrypted_units(algorithm: str, *, scope: Scope) -> list[Unit]:
    """Return every repetition of HELBA, the first ones on ciphertexts, the rest simulated."""
    real = scope.encrypted_repetitions if algorithm == "helba" else scope.sqrt_repetitions
    return [
        encrypted_unit(
            algorithm,
            scope=scope,
            engine=scope.engine if repetition < real else "simulate",
            repetition=repetition,
        )
        for repetition in range(scope.repetitions)
    ]


def plain_plays(results: Results, *, algorithm: str, scope: Scope) -> list[Play]:
    """Return the repetitions of an algorithm in the clear."""
    found = results[plain_unit(algorithm, scope=scope).name]
    shared = {"radius_scale": found["radius_scale"]}
    return [
        _play(algorithm, engine="plain", rows=one["rows"], report={**one, **shared})
        for one in found["repetitions"]
    ]


def encrypted_plays(results: Results, *, algorithm: str, scope: Scope) -> list[Play]:
    """Return the repetitions of HELBA that were encrypted or simulated."""
    return [play_of(unit, results=results) for unit in encrypted_units(algorithm, scope=scope)]


def play_of(unit: Unit, *, results: Results) -> Play:
    """Return what one encrypted unit played."""
    found = results[unit.name]
    return _play(found["algorithm"], engine=found["engine"], rows=found["rows"], report=found)


def describe_run(unit: Unit, *, results: Results) -> dict[str, Any]:
    """Return the run behind a unit, without its rows, for the report."""
    return run_of(results[unit.name], title=unit.title, command=unit.command)


def _play(
    algorithm: str, *, engine: str, rows: Sequence[dict[str, Any]], report: dict[str, Any]
) -> Play:
    return Play(
        algorithm=algorithm,
        engine=engine,
        seed=report["seed"],
        arms=[row["arm"] for row in rows],
        regrets=[row["regret"] for row in rows],
        updates=[row["updates"] for row in rows],
        report={name: value for name, value in report.items() if name != "rows"},
    )


def _expect(algorithm: str, *, engine: str, security: int, rounds: int) -> float:
    if engine == "simulate":
        setup, per_round = SIMULATED_SECONDS[algorithm]
        return setup + rounds * per_round
    setup, per_round, per_update = CKKS_SECONDS[algorithm, security]
    # Nearly every early round updates the model, and every tenth or so later on.
    updates = min(rounds, EARLY_ROUNDS) + 0.18 * max(0, rounds - EARLY_ROUNDS)
    return setup + rounds * per_round + updates * per_update


def _tune(horizon: int, *, seed: int) -> float:
    jobs = tuning_jobs(PROBLEM, horizon=horizon, seed=seed)
    with (
        Progress("tuning the radius of oful", total=len(jobs), unit="runs") as progress,
        Workers(1) as workers,
    ):
        return tune_radius(jobs, workers=workers, progress=progress)
