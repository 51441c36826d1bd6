"""One run as work of a `Unit`: plain JSON values, with the rows of every round.

It plays one algorithm on one draw, on ciphertexts if asked to, and may stop early: what it plays
is planned for the whole horizon.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from helba.bandits.policy import Policy
from helba.errors import InvalidInput, require_whole
from helba.lab.play.encrypted import EncryptedPlay, make_play, plan_play
from helba.lab.play.single import KEYS, REFRESH, SECURITY, SingleRequest, SingleRun
from helba.lab.progress import Progress
from helba.lab.report import strict
from helba.lab.runner import Outcome, Row, policy_for, run_repetition, settings_for
from helba.problems import Problem, make_problem

# What `helba run` plays unless told; a command need not say it.
DEFAULT_HORIZONS = {"toy": 130}
# What a request may say; anything else is refused rather than ignored.
FIELDS = {
    "problem",
    "horizon",
    "algorithm",
    "engine",
    "profile",
    "bonus",
    "schedule",
    "refresh",
    "keys",
    "security",
    "seed",
    "dim",
    "arms",
}


def play_single(*, rounds: int | None = None, **request: Any) -> dict[str, Any]:
    """Play the first `rounds` of a `SingleRequest` and return what `SingleRun.as_json` does.

    All rounds unless told; the horizon that parameters and radius are planned for stays that of the
    request. Beside the run's own values: "rounds", and "rows", one for each round, with regret,
    updates and seconds so far, and whether the twin agreed. On an encrypted engine seconds are
    those of the parties, without the twin's, and rows have bytes so far as well.
    """
    if unknown := set(request) - FIELDS:
        raise InvalidInput("a run's options", ", ".join(sorted(unknown)), "known to play_single")
    asked = SingleRequest(**request, beside=())
    count = asked.horizon if rounds is None else rounds
    require_whole("rounds", count, least=1, most=asked.horizon)
    problem = make_problem(asked.problem, dim=asked.dim, arms=asked.arms, seed=asked.seed)
    began = time.perf_counter()
    policy = _open(asked, problem=problem)
    seconds_setup = time.perf_counter() - began
    encrypted = isinstance(policy, EncryptedPlay)
    outcome, rows = watch_rounds(problem, policy, rounds=count)
    described: dict[str, Any] = {}
    if isinstance(policy, EncryptedPlay):
        outcome = replace(outcome, seconds=policy.clock.seconds)
        described = {"seconds_setup": seconds_setup, **policy.as_json()}
    used = policy.settings if asked.algorithm.startswith("helba") else None
    report = SingleRun(
        request=asked,
        outcome=outcome,
        dim=problem.dim,
        arms=problem.arms,
        profile=None if used is None else used.profile,
        bonus=None if used is None else used.bonus,
        schedule=None if used is None else used.schedule,
        radius_scale=policy.settings.radius_scale,
        rows=None,
        plot=None,
        encrypted=described,
    ).as_json()
    del report["plot"], report["beside"]
    if count < asked.horizon:
        # These are promises about the whole horizon.
        report |= {"update_bound": None, "regret_bound": None}
    report |= {
        "rounds": count,
        "seconds_per_round": outcome.seconds / count,
        "nothing_was_encrypted": not encrypted or asked.engine == "simulate",
        "rows": rows,
    }
    return dict(strict(report))


def command_of(arguments: dict[str, Any]) -> str:
    """Return the `helba run` that plays the same; one that stops early cannot be typed whole."""
    words = ["helba", "run", str(arguments["problem"])]
    if arguments.get("algorithm", "helba") == "helba":
        words += ["--profile", "ciphertext"]
    for name, value in arguments.items():
        default = name == "horizon" and value == DEFAULT_HORIZONS.get(arguments["problem"])
        if name not in ("problem", "rounds") and value is not None and not default:
            words += [f"--{name}", str(value)]
    command = " ".join(words)
    rounds = arguments.get("rounds")
    if rounds is not None and rounds < arguments["horizon"]:
        command += f"  # its first {rounds} rounds"
    return command


def run_of(result: dict[str, Any], *, title: str, command: str | None) -> dict[str, Any]:
    """Return what a `Section` says about a run: all but its rows."""
    kept = {name: value for name, value in result.items() if name not in ("rows", "regrets")}
    return {"title": title, "command": command, **kept}


def _open(asked: SingleRequest, *, problem: Problem) -> Policy:
    """Return what plays: the plain policy, or the encrypted one with keys made."""
    settings = settings_for(problem, horizon=asked.horizon, **asked.options)
    policy = policy_for(asked.algorithm, settings=settings, problem_seed=asked.seed)
    if not asked.encrypted:
        return policy
    deployment = plan_play(
        policy.settings,
        engine=str(asked.engine),
        security=asked.security or SECURITY,
        refresh=asked.refresh or REFRESH,
        keys=asked.keys or KEYS,
    )
    return make_play(deployment)


def watch_rounds(
    problem: Problem, policy: Policy, *, rounds: int
) -> tuple[Outcome, list[dict[str, Any]]]:
    """Play the first rounds; return the totals, and a row for each with totals so far."""
    rows: list[dict[str, Any]] = []
    began = time.perf_counter()

    def keep(row: Row) -> None:
        kept = {
            "round": row.round,
            "arm": row.arm,
            "regret": row.regret,
            "updates": row.updates,
            "seconds": time.perf_counter() - began,
            "agrees": row.agrees,
            "tie": row.tie,
        }
        if isinstance(policy, EncryptedPlay):
            kept |= _spent(policy)
        rows.append(kept)
        progress.advance(describe=describe)

    describe = policy.describe if isinstance(policy, EncryptedPlay) else None
    with Progress("playing", total=rounds, unit="rounds") as progress:
        return run_repetition(problem, policy, horizon=rounds, watch=keep), rows


def _spent(play: EncryptedPlay) -> dict[str, Any]:
    """Return the cost of an encrypted run so far, apart in rounds and updates where known."""
    clock = play.clock
    return {
        "seconds": clock.seconds,
        "server_recommendation_seconds": clock.recommendation.server,
        "round_seconds": clock.recommendation.total + clock.report.total,
        "update_seconds": clock.update.total,
        "bytes_up": play.bandit.bytes_up,
        "bytes_down": play.bandit.bytes_down,
    }
