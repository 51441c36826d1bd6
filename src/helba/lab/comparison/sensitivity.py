"""The cost of a wrong belief: policies that are told a wrong L, S or sigma."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from helba.errors import Interrupted, InvalidInput, require_at_least
from helba.lab.comparison.compare import mean_and_error
from helba.lab.pool import Workers, check_stop, count_cores
from helba.lab.progress import Progress
from helba.lab.runner import policy_for, run_policy, settings_for
from helba.problems import make_problem

ALGORITHMS = ("oful", "helba", "helba-sqrt")
QUANTITIES = {"length": "L", "parameter_bound": "S", "noise": "sigma"}
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, kw_only=True)
class SensitivityRequest:
    """On what to measure, checked. Repetition r plays the problem drawn from `seed + r`."""

    problem: str
    horizon: int
    repetitions: int = 10
    seed: int = 0
    dim: int | None = None
    arms: int | None = None

    def __post_init__(self) -> None:
        require_at_least("repetitions", self.repetitions, 1)
        require_at_least("horizon", self.horizon, 1)
        make_problem(self.problem, dim=self.dim, arms=self.arms, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class Effect:
    """An algorithm that was told `factor` times the true `quantity`.

    A run is refused when a context is longer than the L that the policy was told; `regret` and
    `regret_se` are over the other runs, and None where there are too few.
    """

    algorithm: str
    quantity: str
    factor: float
    regret: float | None
    regret_se: float | None
    refused: int
    repetitions: int


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run of one algorithm with one wrong belief."""

    request: SensitivityRequest
    algorithm: str
    quantity: str
    factor: float
    repetition: int

    def __str__(self) -> str:
        belief = f"{self.factor:g} times the true {self.quantity}"
        return f"{self.algorithm} with {belief}, repetition {self.repetition},"


def run_job(job: Job) -> float | None:
    """Return the final regret, or None when the policy refused a context."""
    request = job.request
    seed = request.seed + job.repetition
    problem = make_problem(request.problem, dim=request.dim, arms=request.arms, seed=seed)
    told: dict[str, Any] = {job.quantity: job.factor * getattr(problem, job.quantity)}
    settings = replace(settings_for(problem, horizon=request.horizon), **told)
    policy = policy_for(job.algorithm, settings=settings, problem_seed=seed)
    regret = 0.0
    try:
        for row in run_policy(problem, policy, horizon=request.horizon):
            regret = row.regret
            if row.round % 64 == 0:
                check_stop()
    except InvalidInput as error:
        if error.name != "contexts":
            raise
        return None
    return regret


def measure(request: SensitivityRequest, *, jobs: int | None = None) -> list[Effect]:
    """Return the effect of every factor on every quantity for every algorithm.

    The truth, factor 1, is run once and reported under each quantity.
    """
    cores = count_cores() if jobs is None else jobs
    require_at_least("jobs", cores, 1)
    cells = [
        (algorithm, quantity, factor)
        for algorithm in ALGORITHMS
        for quantity in QUANTITIES
        for factor in FACTORS
    ]
    work = [
        Job(
            request=request,
            algorithm=algorithm,
            quantity=quantity,
            factor=factor,
            repetition=repetition,
        )
        for algorithm, quantity, factor in cells
        if factor != 1.0 or quantity == "length"
        for repetition in range(request.repetitions)
    ]
    regrets = _run(work, title=f"sensitivity on {request.problem}", cores=cores)
    effects = []
    for algorithm, quantity, factor in cells:
        source = "length" if factor == 1.0 else quantity
        runs = [
            regrets[algorithm, source, factor, repetition]
            for repetition in range(request.repetitions)
        ]
        finished = [regret for regret in runs if regret is not None]
        regret, error = mean_and_error(finished) if finished else (None, None)
        effects.append(
            Effect(
                algorithm=algorithm,
                quantity=quantity,
                factor=factor,
                regret=regret,
                regret_se=error,
                refused=len(runs) - len(finished),
                repetitions=request.repetitions,
            )
        )
    return effects


def _run(
    work: list[Job], *, title: str, cores: int
) -> dict[tuple[str, str, float, int], float | None]:
    regrets: dict[tuple[str, str, float, int], float | None] = {}
    with (
        Progress(title, total=len(work), unit="runs") as progress,
        Workers(min(cores, len(work))) as workers,
    ):

        def collect(job: Job, regret: float | None) -> None:
            regrets[job.algorithm, job.quantity, job.factor, job.repetition] = regret
            progress.advance()

        try:
            workers.run(run_job, work, on_result=collect)
        except KeyboardInterrupt:
            done = f"{len(regrets)} of {len(work)} runs were finished"
            raise Interrupted(f"interrupted: {done}, and nothing is kept") from None
    return regrets
