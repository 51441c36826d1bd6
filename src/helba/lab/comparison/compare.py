"""Algorithms side by side on repetitions of one problem, in parallel, resumable."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from helba.errors import Interrupted, InvalidInput, require_at_least, require_choice, require_whole
from helba.lab.algorithm import ALGORITHMS
from helba.lab.comparison.store import Store
from helba.lab.comparison.tuning import MOST_SEED, SEED_OFFSET, tune_radius, tuning_jobs
from helba.lab.plots import Curve, plot_regret
from helba.lab.pool import Workers, check_stop, count_cores
from helba.lab.progress import Progress, note
from helba.lab.rows import read_column, write_rows
from helba.lab.runner import Outcome, Row, policy_for, run_repetition, settings_for
from helba.problems import make_problem

TUNED = "oful-tuned"


@dataclass(frozen=True, kw_only=True)
class Request:
    """A comparison to make, checked. Repetition r plays the problem drawn from `seed + r`."""

    problem: str
    horizon: int
    algorithms: tuple[str, ...] = tuple(ALGORITHMS)
    repetitions: int = 25
    seed: int = 0
    dim: int | None = None
    arms: int | None = None

    def __post_init__(self) -> None:
        if not self.algorithms:
            raise InvalidInput("algorithms", "none", "at least one of " + ", ".join(ALGORITHMS))
        for algorithm in self.algorithms:
            require_choice("algorithm", algorithm, ALGORITHMS)
        if not 1 <= self.repetitions < SEED_OFFSET:
            raise InvalidInput("repetitions", self.repetitions, f"1 to {SEED_OFFSET - 1}")
        require_at_least("horizon", self.horizon, 1)
        require_whole("seed", self.seed, least=0, most=MOST_SEED)
        drawn = make_problem(self.problem, dim=self.dim, arms=self.arms, seed=self.seed)
        settings_for(drawn, horizon=self.horizon)
        object.__setattr__(self, "algorithms", tuple(dict.fromkeys(self.algorithms)))
        object.__setattr__(self, "dim", drawn.dim)
        object.__setattr__(self, "arms", drawn.arms)


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run of one algorithm on one repetition; its rows go to `path`."""

    request: Request
    algorithm: str
    repetition: int
    radius_scale: float | None
    path: Path

    def __str__(self) -> str:
        return f"{self.algorithm}, repetition {self.repetition},"


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One algorithm over all repetitions; means, unless the name says otherwise.

    `regret_se` is the standard error of the mean (None for one repetition), `clipped` and
    `overflows` the totals,
    `radius_scale` the tuned one and None for algorithms that were not tuned.
    """

    regret: float
    regret_se: float | None
    updates: float
    updates_max: int
    update_bound: float | None
    seconds: float
    clipped: int
    overflows: int
    agreement: float | None
    ties: float | None
    regret_bound: float | None
    radius_scale: float | None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The summaries and where the rows and the plot are; `resumed` runs were finished before.

    `plot` is None where matplotlib is not installed.
    """

    request: Request
    summaries: dict[str, Summary]
    folder: Path
    plot: Path | None
    resumed: int

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        request = self.request
        return {
            "problem": request.problem,
            "dim": request.dim,
            "arms": request.arms,
            "horizon": request.horizon,
            "repetitions": request.repetitions,
            "seed": request.seed,
            "algorithms": {name: asdict(summary) for name, summary in self.summaries.items()},
            "rows": str(self.folder / "rows"),
            "plot": None if self.plot is None else str(self.plot),
            "resumed": self.resumed,
        }


def compare(
    request: Request, *, out: Path, jobs: int | None = None, overwrite: bool = False
) -> Comparison:
    """Run every algorithm on every repetition and summarise; `out` holds rows, manifest and plot.

    Runs that `out` already holds under the same fingerprint (see `store`) are not repeated; rows of
    other settings are refused, or deleted with `overwrite`. When a run fails, `RunFailed` says so,
    and when all are interrupted, `Interrupted`; what was finished stays. Without matplotlib there
    are rows and no plot.
    """
    cores = count_cores() if jobs is None else jobs
    require_at_least("jobs", cores, 1)
    with Store(out, settings=_row_settings(request), overwrite=overwrite) as store:
        return _compare(request, store=store, cores=cores)


def _compare(request: Request, *, store: Store, cores: int) -> Comparison:
    keys = [(name, index) for index in range(request.repetitions) for name in request.algorithms]
    missing = [key for key in keys if store.find(key[0], repetition=key[1]) is None]
    if len(missing) < len(keys):
        note(f"{len(keys) - len(missing)} of {len(keys)} runs were finished before")
    if missing:
        try:
            _run_missing(request, missing=missing, store=store, cores=cores)
        except KeyboardInterrupt:
            done = sum(store.find(name, repetition=index) is not None for name, index in keys)
            kept = f"{done} of {len(keys)} runs are finished and kept"
            raise Interrupted(f"interrupted: {kept}; the same command resumes") from None
    return Comparison(
        request=request,
        summaries={
            name: _summarise(request, algorithm=name, store=store) for name in request.algorithms
        },
        folder=store.folder,
        plot=_plot(request, store=store),
        resumed=len(keys) - len(missing),
    )


def _row_settings(request: Request) -> dict[str, Any]:
    settings = asdict(request)
    del settings["algorithms"], settings["repetitions"]
    return settings


def _run_missing(
    request: Request, *, missing: Sequence[tuple[str, int]], store: Store, cores: int
) -> None:
    tuning = []
    if store.radius_scale is None and any(name == TUNED for name, _ in missing):
        tuning = tuning_jobs(
            request.problem,
            horizon=request.horizon,
            seed=request.seed,
            dim=request.dim,
            arms=request.arms,
        )
    total = len(missing) + len(tuning)
    with (
        Progress(f"comparing on {request.problem}", total=total, unit="runs") as progress,
        Workers(min(cores, total)) as workers,
    ):
        if tuning:
            progress.advance(sum(str(job) in store.tuning for job in tuning))
            try:
                store.radius_scale = tune_radius(
                    tuning,
                    workers=workers,
                    progress=progress,
                    known=store.tuning,
                    keep=lambda run, regret: store.record_tuning(run, regret=regret),
                )
            finally:
                store.save()

        def record(job: Job, outcome: Outcome) -> None:
            store.record(job.algorithm, repetition=job.repetition, outcome=outcome)
            progress.advance()

        jobs = [
            Job(
                request=request,
                algorithm=name,
                repetition=index,
                radius_scale=store.radius_scale if name == TUNED else None,
                path=store.rows(name, repetition=index),
            )
            for name, index in missing
        ]
        try:
            workers.run(run_job, jobs, on_result=record)
        finally:
            store.save()


def run_job(job: Job) -> Outcome:
    """Play one repetition and write its rows."""
    request = job.request
    seed = request.seed + job.repetition
    problem = make_problem(request.problem, dim=request.dim, arms=request.arms, seed=seed)
    options = {} if job.radius_scale is None else {"radius_scale": job.radius_scale}
    settings = settings_for(problem, horizon=request.horizon, **options)
    policy = policy_for(job.algorithm, settings=settings, problem_seed=seed)
    rows: list[Row] = []

    def watch(row: Row) -> None:
        rows.append(row)
        if row.round % 64 == 0:
            check_stop()

    outcome = run_repetition(problem, policy, horizon=request.horizon, watch=watch)
    write_rows(job.path, rows=rows)
    return outcome


def _outcomes(request: Request, *, algorithm: str, store: Store) -> list[Outcome]:
    found = [store.find(algorithm, repetition=index) for index in range(request.repetitions)]
    return [outcome for outcome in found if outcome is not None]


def _summarise(request: Request, *, algorithm: str, store: Store) -> Summary:
    outcomes = _outcomes(request, algorithm=algorithm, store=store)
    regret, regret_se = mean_and_error([outcome.regret for outcome in outcomes])
    decided = sum(outcome.decided for outcome in outcomes)
    return Summary(
        regret=regret,
        regret_se=regret_se,
        updates=statistics.fmean(outcome.updates for outcome in outcomes),
        updates_max=max(outcome.updates for outcome in outcomes),
        update_bound=_largest([outcome.update_bound for outcome in outcomes]),
        seconds=statistics.fmean(outcome.seconds for outcome in outcomes),
        clipped=sum(outcome.clipped for outcome in outcomes),
        overflows=sum(outcome.overflows for outcome in outcomes),
        agreement=sum(outcome.agreed for outcome in outcomes) / decided if decided else None,
        ties=statistics.fmean(outcome.ties for outcome in outcomes) if decided else None,
        regret_bound=_largest([outcome.regret_bound for outcome in outcomes]),
        radius_scale=store.radius_scale if algorithm == TUNED else None,
    )


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error, which takes two values or more."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, None
    return mean, statistics.stdev(values) / len(values) ** 0.5


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def _plot(request: Request, *, store: Store) -> Path | None:
    curves = {
        name: Curve.from_runs(
            [
                read_column(store.rows(name, repetition=index), column="regret")
                for index in range(request.repetitions)
            ]
        )
        for name in request.algorithms
    }
    title = f"{request.problem}: d = {request.dim}, K = {request.arms}"
    if request.repetitions > 1:
        title += f"; mean of {request.repetitions} repetitions ± 2 standard errors"
    return plot_regret(curves, title=title, folder=store.folder)
