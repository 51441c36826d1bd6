"""The radius that OFUL would have needed: the strongest fair baseline.

The theoretical radius is too careful in practice. `oful-tuned` is OFUL with its radius times the
scale that had the least mean regret on other draws of the same problem.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from helba.lab.pool import Workers, check_stop
from helba.lab.progress import Progress
from helba.lab.runner import Row, policy_for, run_policy, settings_for
from helba.problems import make_problem

RADIUS_SCALES = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001)
TUNING_SEEDS = 10

# Comparisons use the seeds from `seed` on; these are far from them.
SEED_OFFSET = 1_000_000
MOST_SEED = 2**62  # leaves room for repetitions and tuning


@dataclass(frozen=True, kw_only=True)
class TuningJob:
    """One run of OFUL with one scale on one tuning seed."""

    problem: str
    dim: int | None
    arms: int | None
    horizon: int
    seed: int
    radius_scale: float

    def __str__(self) -> str:
        return f"oful with radius scale {self.radius_scale:g}, tuning seed {self.seed}"


def tuning_jobs(
    problem: str, *, horizon: int, seed: int, dim: int | None = None, arms: int | None = None
) -> list[TuningJob]:
    """Return the runs that tuning needs, on seeds that no comparison from `seed` on uses."""
    return [
        TuningJob(
            problem=problem,
            dim=dim,
            arms=arms,
            horizon=horizon,
            seed=seed + SEED_OFFSET + index,
            radius_scale=scale,
        )
        for scale in RADIUS_SCALES
        for index in range(TUNING_SEEDS)
    ]


def run_tuning_job(job: TuningJob) -> float:
    """Return the final regret of one tuning run."""
    problem = make_problem(job.problem, dim=job.dim, arms=job.arms, seed=job.seed)
    settings = settings_for(problem, horizon=job.horizon, radius_scale=job.radius_scale)
    policy = policy_for("oful", settings=settings, problem_seed=job.seed)
    last: Row | None = None
    for row in run_policy(problem, policy, horizon=job.horizon):
        last = row
        if row.round % 64 == 0:
            check_stop()
    return 0.0 if last is None else last.regret


def best_scale(regrets: Mapping[float, Sequence[float]]) -> float:
    """Return the scale with the least mean regret, the larger one of equals."""
    return min(sorted(regrets, reverse=True), key=lambda scale: sum(regrets[scale]))


def tune_radius(
    jobs: Sequence[TuningJob],
    *,
    workers: Workers,
    progress: Progress,
    known: Mapping[str, float] | None = None,
    keep: Callable[[str, float], None] | None = None,
) -> float:
    """Run the tuning jobs whose regret is not `known` and return the best scale.

    `keep` gets every new regret as it arrives, under the job's name.
    """
    regrets = dict(known or {})

    def collect(job: TuningJob, regret: float) -> None:
        regrets[str(job)] = regret
        if keep is not None:
            keep(str(job), regret)
        progress.advance()

    workers.run(run_tuning_job, [job for job in jobs if str(job) not in regrets], on_result=collect)
    # Summed in the order of the jobs: the order of arrival would change the last digits.
    by_scale: dict[float, list[float]] = {}
    for job in jobs:
        by_scale.setdefault(job.radius_scale, []).append(regrets[str(job)])
    return best_scale(by_scale)
