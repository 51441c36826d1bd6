"""Runs in the clear as work of a `Unit`: one algorithm on draws of a problem, and its means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from helba.lab.comparison.compare import mean_and_error
from helba.lab.comparison.tuning import tune_radius, tuning_jobs
from helba.lab.pool import Workers
from helba.lab.progress import Progress
from helba.lab.report import strict
from helba.lab.reproduction.play import watch_rounds
from helba.lab.reproduction.unit import Unit
from helba.lab.runner import Outcome, policy_for, settings_for
from helba.problems import make_problem

# Curves of means keep at most so many rounds: more cannot be seen.
MOST_ROWS = 500
# Of a round in the clear, about: for the time left.
SECONDS_PER_ROUND = 2.5e-4


def clear_unit(
    name: str,
    *,
    problem: str,
    horizon: int,
    algorithm: str,
    seed: int,
    repetitions: int,
    **options: Any,
) -> Unit:
    """Return the unit that plays `repetitions` draws from `seed` on; options that are None are not.

    What `helba compare` has no option for comes without a command.
    """
    given = {option: value for option, value in options.items() if value is not None}
    arguments = {
        "problem": problem,
        "horizon": horizon,
        "algorithm": algorithm,
        "seed": seed,
        "repetitions": repetitions,
        **given,
    }
    said = "".join(f", {option} {value:g}" for option, value in given.items())
    sizes = "".join(f" --{option} {given[option]}" for option in ("dim", "arms") if option in given)
    command = (
        f"helba compare {problem} --algorithms {algorithm} --horizon {horizon} "
        f"--repetitions {repetitions} --seed {seed}{sizes}"
    )
    return Unit(
        name=name,
        title=f"{algorithm}{said} in the clear: {repetitions} draws of {horizon} rounds",
        work=play_repetitions,
        arguments=arguments,
        kind="light",
        seconds=1.0 + SECONDS_PER_ROUND * horizon * repetitions,
        command=command if set(given) <= {"dim", "arms"} else None,
    )


def play_repetitions(
    *,
    problem: str,
    horizon: int,
    algorithm: str,
    seed: int,
    repetitions: int,
    dim: int | None = None,
    arms: int | None = None,
    epsilon: float | None = None,
    radius_scale: float = 1.0,
) -> dict[str, Any]:
    """Play one algorithm in the clear on the draws from `seed` on; return means and their errors.

    "oful-tuned" is tuned first, on other draws. `epsilon` is that of "ldp". Rows have the mean of
    the cumulative regret, its standard error, the mean number of updates, and the regret of the
    first draw alone.
    """
    options: dict[str, Any] = {"radius_scale": radius_scale}
    if epsilon is not None:
        options["privacy_epsilon"] = epsilon
    if algorithm == "oful-tuned":
        options["radius_scale"] = _tune(problem, horizon=horizon, seed=seed, dim=dim, arms=arms)
    outcomes: list[Outcome] = []
    regrets, updates = [], []
    for repetition in range(repetitions):
        drawn = make_problem(problem, dim=dim, arms=arms, seed=seed + repetition)
        settings = settings_for(drawn, horizon=horizon, **options)
        policy = policy_for(algorithm, settings=settings, problem_seed=seed + repetition)
        outcome, rows = watch_rounds(drawn, policy, rounds=horizon)
        outcomes.append(outcome)
        regrets.append([row["regret"] for row in rows])
        updates.append([row["updates"] for row in rows])
    regret, error = mean_and_error([outcome.regret for outcome in outcomes])
    decided = sum(outcome.decided for outcome in outcomes)
    return dict(
        strict(
            {
                "problem": problem,
                "dim": drawn.dim,
                "arms": drawn.arms,
                "horizon": horizon,
                "algorithm": algorithm,
                "epsilon": settings.privacy_epsilon if algorithm == "ldp" else None,
                "privacy_delta": settings.privacy_delta if algorithm == "ldp" else None,
                "engine": "plain",
                "seed": seed,
                "repetitions": repetitions,
                "regret": regret,
                "regret_se": error,
                "regrets": [outcome.regret for outcome in outcomes],
                "updates": float(np.mean([outcome.updates for outcome in outcomes])),
                "seconds_per_round": sum(outcome.seconds for outcome in outcomes)
                / (repetitions * horizon),
                "radius_scale": settings.radius_scale,
                "agreement": sum(outcome.agreed for outcome in outcomes) / decided
                if decided
                else None,
                "nothing_was_encrypted": True,
                "rows": _mean_rows(regrets, updates),
            }
        )
    )


def _mean_rows(
    regrets: Sequence[Sequence[float]], updates: Sequence[Sequence[int]]
) -> list[dict[str, Any]]:
    table, counts = np.array(regrets), np.array(updates)
    count, horizon = table.shape
    spread = table.std(axis=0, ddof=1) / count**0.5 if count > 1 else None
    shown = np.unique(np.linspace(0, horizon - 1, MOST_ROWS).round().astype(int))
    return [
        {
            "round": int(index) + 1,
            "regret": float(table[:, index].mean()),
            "regret_se": None if spread is None else float(spread[index]),
            "updates": float(counts[:, index].mean()),
            "first_regret": float(table[0, index]),
        }
        for index in shown
    ]


def _tune(problem: str, *, horizon: int, seed: int, dim: int | None, arms: int | None) -> float:
    jobs = tuning_jobs(problem, horizon=horizon, seed=seed, dim=dim, arms=arms)
    with (
        Progress("tuning the radius of oful", total=len(jobs), unit="runs") as progress,
        Workers(1) as workers,
    ):
        return tune_radius(jobs, workers=workers, progress=progress)
