"""One algorithm on one draw of a problem, with everything that can be said about the run.

HELBA plays in the clear (`plain`), on ciphertexts (`ckks`) or on what stands for them (`simulate`);
other algorithms may play the same draw beside it, in the clear.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from helba.bandits.policy import Policy
from helba.bandits.settings import Settings
from helba.errors import (
    Interrupted,
    InvalidInput,
    RunFailed,
    require_at_least,
    require_choice,
    require_whole,
)
from helba.lab.algorithm import ALGORITHMS
from helba.lab.comparison.tuning import MOST_SEED, tune_radius, tuning_jobs
from helba.lab.option import refuse_options
from helba.lab.play.encrypted import EncryptedPlay, make_play, plan_play
from helba.lab.play.shares import SharesPlay, plan_shares_play
from helba.lab.plots import Curve, plot_regret
from helba.lab.pool import Workers
from helba.lab.progress import Progress, note
from helba.lab.report import strict
from helba.lab.rows import RowFile, write_text
from helba.lab.runner import Outcome, Row, policy_for, run_repetition, settings_for
from helba.learning.plan import OPENERS
from helba.problems import Problem, make_problem
from helba.protocol.deployment import SharesDeployment
from helba.reference.planning.request import KEY_MODES, REFRESHES
from helba.reference.protocol import Deployment
from helba.ring.security import SECURITY_LEVELS

ENGINES = ("plain", "ckks", "simulate")
ENCRYPTED_ALGORITHMS = ("helba", "helba-sqrt", "helba-paper")
ROWS, REPORT, PLOTS = "rows.csv", "run.json", ("regret.png", "regret.svg")
# By these a report is known to be ours.
SIGNATURE = {"problem", "horizon", "algorithm", "engine", "seed", "regret", "agreement"}

# What an algorithm's name already fixes, and the options that only HELBA has.
FIXED = {
    "helba-sqrt": {"profile": "ciphertext", "bonus": "sqrt"},
    "helba-paper": {"profile": "paper", "bonus": "sqrt"},
}
KNOBS = ("profile", "bonus", "schedule")
SECURITY, REFRESH, KEYS = 128, "client", "own"
OPENER = "users"
# What only the reference profiles have, on ciphertexts alone.
REFERENCE_OPTIONS = ("refresh", "keys")
# What asks for encryption.
ENCRYPTION_OPTIONS = ("opener", "security", *REFERENCE_OPTIONS)
# What only an encrypted run has.
NOT_ENCRYPTED = ("opener", "security", "bytes_up", "bytes_down", "parameters")


@dataclass(frozen=True, kw_only=True)
class SingleRequest:
    """A run to play; an option that is None is the algorithm's own choice.

    The profile is `shares` unless told; the paper's comes with the paper's bonus, the square root.
    `opener` belongs to `shares`, and `refresh`, `keys` and that bonus to the reference profiles:
    with one of the latter the profile is `ciphertext` unless told. `opener`, `refresh`, `keys` and
    `security` ask for encryption: with them the engine is ckks unless told, else plain. An option
    that does not apply is refused. `beside` are algorithms to play in the clear on the same draw;
    for an encrypted run it is the same algorithm unless told.
    """

    problem: str
    horizon: int
    algorithm: str = "helba"
    engine: str | None = None
    profile: str | None = None
    bonus: str | None = None
    schedule: str | None = None
    opener: str | None = None
    refresh: str | None = None
    keys: str | None = None
    security: int | None = None
    seed: int = 0
    dim: int | None = None
    arms: int | None = None
    beside: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        require_choice("algorithm", self.algorithm, ALGORITHMS)
        if self.engine is None:
            asked = any(getattr(self, name) is not None for name in ENCRYPTION_OPTIONS)
            object.__setattr__(self, "engine", "ckks" if asked else "plain")
        require_choice("engine", self.engine or "", ENGINES)
        if self.encrypted and self.algorithm not in ENCRYPTED_ALGORITHMS:
            allowed = f"{', '.join(ENCRYPTED_ALGORITHMS[:-1])} or {ENCRYPTED_ALGORITHMS[-1]}"
            raise InvalidInput("algorithm", repr(self.algorithm), f"{allowed} if encrypted")
        self._refuse_what_does_not_apply()
        if self.opener is not None:
            require_choice("opener", self.opener, OPENERS)
        if self.refresh is not None:
            require_choice("refresh", self.refresh, REFRESHES)
        if self.keys is not None:
            require_choice("keys", self.keys, KEY_MODES)
        if self.security is not None and self.security not in SECURITY_LEVELS:
            raise InvalidInput("security", self.security, "one of 128, 192, 256")
        require_at_least("horizon", self.horizon, 1)
        require_whole("seed", self.seed, least=0, most=MOST_SEED)
        for name, fixed in FIXED.get(self.algorithm, {}).items():
            if getattr(self, name) not in (None, fixed):
                raise InvalidInput(
                    name, repr(getattr(self, name)), f"{fixed} with {self.algorithm}"
                )
        if self.beside is None:
            same = (self.algorithm,) if self.encrypted else ()
            object.__setattr__(self, "beside", same)
        for name in self.others:
            require_choice("beside", name, ALGORITHMS)

    def _refuse_what_does_not_apply(self) -> None:
        if not self.algorithm.startswith("helba"):
            refuse_options(self._those(KNOBS), chosen=f"algorithm {self.algorithm}")
        if not self.encrypted:
            refuse_options(self._those(ENCRYPTION_OPTIONS), chosen="engine plain")
        fixed = FIXED.get(self.algorithm, {}).get("profile")
        profile = self.options.get("profile") or fixed or "shares"
        foreign = REFERENCE_OPTIONS if profile == "shares" else ("opener",)
        refuse_options(self._those(foreign), chosen=f"profile {profile}")

    def _those(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}

    @property
    def cause(self) -> str | None:
        """The option that makes the profile `ciphertext` where none was named."""
        if self.algorithm != "helba" or self.profile is not None:
            return None
        given = [name for name in REFERENCE_OPTIONS if getattr(self, name) is not None]
        return given[0] if given else "bonus" if self.bonus == "sqrt" else None

    @property
    def encrypted(self) -> bool:
        """True if it asks for encryption, real or simulated."""
        return self.engine != "plain"

    @property
    def others(self) -> tuple[str, ...]:
        """The algorithms beside it, each once; what it plays itself need not play again."""
        names = dict.fromkeys(self.beside or ())
        return tuple(name for name in names if self.encrypted or name != self.algorithm)

    @property
    def label(self) -> str:
        """Its name beside others."""
        return f"{self.algorithm}, {self.engine}" if self.encrypted else self.algorithm

    @property
    def options(self) -> dict[str, str]:
        """The options that were given, and what follows from them."""
        given = self._those(KNOBS)
        if self.cause is not None:
            given["profile"] = "ciphertext"
        if self.profile == "paper" and self.bonus is None:
            given["bonus"] = "sqrt"
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class SingleRun:
    """A finished run: its totals, and where its rows and plot are when a folder was given.

    `plot` is None also where matplotlib is not installed.
    `encrypted` is what only an encrypted run has, `beside` the totals of the other algorithms.
    """

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
    encrypted: dict[str, Any]
    beside: dict[str, Outcome] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values; what only an encrypted engine has is None."""
        outcome = asdict(self.outcome)
        for name in ("decided", "agreed"):
            del outcome[name]
        if not self.outcome.decided:
            outcome["ties"] = outcome["disagreements_outside_ties"] = None
        others = {
            name: {"regret": other.regret, "updates": other.updates, "seconds": other.seconds}
            for name, other in self.beside.items()
        }
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
            **(self.encrypted or dict.fromkeys(NOT_ENCRYPTED)),
            "beside": others,
            "rows": None if self.rows is None else str(self.rows),
            "plot": None if self.plot is None else str(self.plot),
        }


def run_single(request: SingleRequest, *, out: Path | None = None) -> SingleRun:
    """Run it; with `out`, write `rows.csv`, `run.json`, `regret.png` and `regret.svg` there.

    Rows are written as they come: a run that is interrupted keeps them. Without matplotlib there
    are no pictures.
    """
    problem = make_problem(request.problem, dim=request.dim, arms=request.arms, seed=request.seed)
    settings_for(problem, horizon=request.horizon, **request.options)
    if request.cause is not None:
        note(f"profile ciphertext, because of --{request.cause}")
    began = time.perf_counter()
    deployment = None
    if request.encrypted:
        settings = _plain_policy(request, request.algorithm, problem=problem).settings
        deployment = _deploy(request, settings=settings)
    if out is not None:
        _claim(out)
    play = None if deployment is None else _open(request, deployment)
    seconds_setup = time.perf_counter() - began
    policy = play or _plain_policy(request, request.algorithm, problem=problem)
    curves: dict[str, Curve] = {}
    outcome, curves[request.label] = _play(request, problem=problem, policy=policy, out=out)
    described = {} if play is None else {"seconds_setup": seconds_setup, **play.as_json()}
    if play is not None:
        outcome = replace(outcome, seconds=play.seconds)
    beside: dict[str, Outcome] = {}
    for name in request.others:
        other = _plain_policy(request, name, problem=problem)
        beside[name], curves[name] = _watch(problem, other, horizon=request.horizon)
    plot = None
    if out is not None:
        heading = f"{request.problem}: d = {problem.dim}, K = {problem.arms}, seed {request.seed}"
        wide = {request.label} if request.encrypted else set()
        plot = plot_regret(curves, title=heading, folder=out, wide=wide)
    used = policy.settings if request.algorithm.startswith("helba") else None
    finished = SingleRun(
        request=request,
        outcome=outcome,
        dim=problem.dim,
        arms=problem.arms,
        profile=None if used is None else used.profile,
        bonus=None if used is None else used.bonus,
        schedule=None if used is None else used.schedule,
        radius_scale=policy.settings.radius_scale,
        rows=None if out is None else out / ROWS,
        plot=plot,
        encrypted=described,
        beside=beside,
    )
    if out is not None:
        write_text(out / REPORT, text=json.dumps(strict(finished.as_json()), indent=1) + "\n")
    return finished


def _deploy(request: SingleRequest, *, settings: Settings) -> Deployment | SharesDeployment:
    """Plan an encrypted run."""
    engine, security = str(request.engine), request.security or SECURITY
    if settings.profile == "shares":
        return plan_shares_play(
            settings, engine=engine, opener=request.opener or OPENER, security=security
        )
    return plan_play(
        settings,
        engine=engine,
        security=security,
        refresh=request.refresh or REFRESH,
        keys=request.keys or KEYS,
    )


def _open(
    request: SingleRequest, deployment: Deployment | SharesDeployment
) -> EncryptedPlay | SharesPlay:
    """Make the keys and the parties of an encrypted run; the simulator is seeded, CKKS never."""
    if isinstance(deployment, SharesDeployment):
        seed = request.seed if request.engine == "simulate" else None
        return SharesPlay(deployment, seed=seed)
    return make_play(deployment)


def _plain_policy(request: SingleRequest, algorithm: str, *, problem: Problem) -> Policy:
    options: dict[str, Any] = dict(request.options)
    if algorithm == "oful-tuned":
        options["radius_scale"] = _tune(request)
    settings = settings_for(problem, horizon=request.horizon, **options)
    return policy_for(algorithm, settings=settings, problem_seed=request.seed)


def _play(
    request: SingleRequest, *, problem: Problem, policy: Policy, out: Path | None
) -> tuple[Outcome, Curve]:
    """Play the rounds, show how far it is, and keep the rows that were asked for."""
    done, regret = 0, 0.0
    title = f"{request.label} on {request.problem}"

    def describe() -> str:
        text = f"regret {regret:.3g}"
        if isinstance(policy, EncryptedPlay | SharesPlay):
            return f"{text}, {policy.describe()}"
        return text

    with (
        Progress(title, total=request.horizon, unit="rounds") as progress,
        nullcontext() if out is None else RowFile(out / ROWS) as file,
    ):

        def show(row: Row) -> None:
            nonlocal done, regret
            if file is not None:
                file.write(row)
            done, regret = row.round, row.regret
            progress.advance(describe=describe)

        try:
            return _watch(problem, policy, horizon=request.horizon, show=show)
        except KeyboardInterrupt:
            kept = "nothing is kept" if out is None else f"their rows are in {out / ROWS}"
            text = f"interrupted after {done} of {request.horizon} rounds; {kept}"
            raise Interrupted(text) from None


def _watch(
    problem: Problem,
    policy: Policy,
    *,
    horizon: int,
    show: Callable[[Row], None] | None = None,
) -> tuple[Outcome, Curve]:
    regrets: list[float] = []

    def keep(row: Row) -> None:
        regrets.append(row.regret)
        if show is not None:
            show(row)

    outcome = run_repetition(problem, policy, horizon=horizon, watch=keep)
    return outcome, Curve.from_runs([np.array(regrets)])


def _claim(out: Path) -> None:
    """Make the folder, or refuse one that holds what another command or person put there."""
    if out.exists() and not out.is_dir():
        raise InvalidInput("out", out, "a folder, and this is a file")
    if out.is_dir() and any(out.iterdir()) and not _is_ours(out / REPORT):
        raise InvalidInput("out", out, "a new or empty folder, or one that helba run wrote")
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / REPORT).write_text("")  # of a run that has not finished
        for name in (ROWS, *PLOTS):
            (out / name).unlink(missing_ok=True)
    except OSError as error:
        raise RunFailed(f"cannot write to {out}: {error.strerror}") from error


def _is_ours(report: Path) -> bool:
    """Return True if the file is a report of `run_single`, or one that it had no time to write."""
    try:
        text = report.read_text(encoding="utf-8")
        return not text or set(json.loads(text)) >= SIGNATURE
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
