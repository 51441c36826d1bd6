"""One algorithm on one draw of a problem, with everything that can be said about the run."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from helba.bandits import ALGORITHMS
from helba.errors import (
    InvalidInput,
    RunFailed,
    require_at_least,
    require_choice,
    require_whole,
)
from helba.experiments.plots import Curve, plot_regret
from helba.experiments.pool import Workers
from helba.experiments.progress import Progress, note
from helba.experiments.report import strict
from helba.experiments.rows import read_column, write_rows, write_text
from helba.experiments.runner import Outcome, Row, policy_for, run_repetition, settings_for
from helba.experiments.tuning import MOST_SEED, tune_radius, tuning_jobs
from helba.problems import make_problem

__all__ = ["ENGINES", "SingleRequest", "SingleRun", "run_single"]

ENGINES = ("plain",)
REPORT = "run.json"

# What an algorithm's name already fixes, and the options that only HELBA has.
FIXED = {
    "helba-sqrt": {"profile": "fast", "bonus": "sqrt"},
    "helba-paper": {"profile": "paper", "bonus": "sqrt"},
}
KNOBS = ("profile", "bonus", "schedule")


@dataclass(frozen=True, kw_only=True)
class SingleRequest:
    """What to run; an option that is None is the algorithm's own choice.

    The paper's profile comes with the paper's bonus, the square root, unless told otherwise.
    """

    problem: str
    horizon: int
    algorithm: str = "helba"
    engine: str = "plain"
    profile: str | None = None
    bonus: str | None = None
    schedule: str | None = None
    seed: int = 0
    dim: int | None = None
    arms: int | None = None

    def __post_init__(self) -> None:
        require_choice("algorithm", self.algorithm, ALGORITHMS)
        if self.engine not in ENGINES:
            raise InvalidInput("engine", repr(self.engine), "plain, the only engine so far")
        require_at_least("horizon", self.horizon, 1)
        require_whole("seed", self.seed, least=0, most=MOST_SEED)
        for name, fixed in FIXED.get(self.algorithm, {}).items():
            if getattr(self, name) not in (None, fixed):
                raise InvalidInput(
                    name, repr(getattr(self, name)), f"{fixed} with {self.algorithm}"
                )

    @property
    def options(self) -> dict[str, str]:
        """The options that were given."""
        given = {name: getattr(self, name) for name in KNOBS}
        if self.profile == "paper" and self.bonus is None:
            given["bonus"] = "sqrt"
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class SingleRun:
    """A finished run: its totals, and where its rows and plot are when a folder was given."""

    request: SingleRequest
    outcome: Outcome
    dim: int
    arms: int
    profile: str | None
    bonus: str | None
    schedule: str | None
    radius_scale: float
    rows: Path | None
    plot: Path | None

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values; what only an encrypted engine has is None."""
        outcome = asdict(self.outcome)
        for name in ("decided", "agreed"):
            del outcome[name]
        return {
            **asdict(self.request),
            "dim": self.dim,
            "arms": self.arms,
            "profile": self.profile,
            "bonus": self.bonus,
            "schedule": self.schedule,
            "radius_scale": self.radius_scale,
            **outcome,
            "seconds_per_round": self.outcome.seconds / self.request.horizon,
            "agreement": self.outcome.agreement,
            "ties": self.outcome.ties if self.outcome.decided else None,
            "refresh": None,
            "security": None,
            "bytes_up": None,
            "bytes_down": None,
            "parameters": None,
            "rows": None if self.rows is None else str(self.rows),
            "plot": None if self.plot is None else str(self.plot),
        }


def run_single(request: SingleRequest, *, out: Path | None = None) -> SingleRun:
    """Run it; with `out`, write `rows.csv`, `run.json`, `regret.png` and `regret.svg` there."""
    problem = make_problem(request.problem, dim=request.dim, arms=request.arms, seed=request.seed)
    options: dict[str, Any] = dict(request.options)
    is_helba = request.algorithm.startswith("helba")
    settings_for(problem, horizon=request.horizon, **options)
    if out is not None:
        _claim(out)
    if options and not is_helba:
        note(f"{request.algorithm} has no {' or '.join(options)}: ignored")
    if request.algorithm == "oful-tuned":
        options["radius_scale"] = _tune(request)
    settings = settings_for(problem, horizon=request.horizon, **options)
    policy = policy_for(request.algorithm, settings=settings, problem_seed=request.seed)
    rows: list[Row] = []
    done = 0
    title = f"{request.algorithm} on {request.problem}"
    with Progress(title, total=request.horizon, unit="rounds") as progress:

        def watch(row: Row) -> None:
            nonlocal done
            done = row.round
            if out is not None:
                rows.append(row)
            progress.advance()

        try:
            outcome = run_repetition(problem, policy, horizon=request.horizon, watch=watch)
        except KeyboardInterrupt:
            text = f"interrupted after {done} of {request.horizon} rounds; nothing is kept"
            raise RunFailed(text) from None
    path = plot = None
    if out is not None:
        path = out / "rows.csv"
        write_rows(path, rows=rows)
        curve = Curve.from_runs([read_column(path, column="regret")])
        heading = f"{request.problem}: d = {problem.dim}, K = {problem.arms}, seed {request.seed}"
        plot = plot_regret({request.algorithm: curve}, title=heading, folder=out)
    finished = SingleRun(
        request=request,
        outcome=outcome,
        dim=problem.dim,
        arms=problem.arms,
        profile=policy.settings.profile if is_helba else None,
        bonus=policy.settings.bonus if is_helba else None,
        schedule=policy.settings.schedule if is_helba else None,
        radius_scale=policy.settings.radius_scale,
        rows=path,
        plot=plot,
    )
    if out is not None:
        write_text(out / REPORT, text=json.dumps(strict(finished.as_json()), indent=1) + "\n")
    return finished


def _claim(out: Path) -> None:
    """Make the folder, or refuse one that holds what another command or person put there."""
    if out.exists() and not out.is_dir():
        raise InvalidInput("out", out, "a folder, and this is a file")
    if out.is_dir() and any(out.iterdir()) and not _is_ours(out / REPORT):
        raise InvalidInput("out", out, "a new or empty folder, or one that helba run wrote")
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / REPORT).touch()
    except OSError as error:
        raise RunFailed(f"cannot write to {out}: {error.strerror}") from error


def _is_ours(report: Path) -> bool:
    """Whether the file is a report of `run_single`, or one that it had no time to write."""
    try:
        text = report.read_text(encoding="utf-8")
        return not text or set(SingleRequest.__dataclass_fields__) <= set(json.loads(text))
    except (OSError, ValueError, TypeError):
        return False


def _tune(request: SingleRequest) -> float:
    jobs = tuning_jobs(
        request.problem,
        horizon=request.horizon,
        seed=request.seed,
        dim=request.dim,
        arms=request.arms,
    )
    with (
        Progress("tuning the radius of oful", total=len(jobs), unit="runs") as progress,
        Workers(1) as workers,
    ):
        return tune_radius(jobs, workers=workers, progress=progress)
