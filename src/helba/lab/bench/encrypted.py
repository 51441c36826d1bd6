"""Compares the profiles with each other, and own keys of the reference with shared ones.

Everything goes through the protocols, bytes included, in one process with all its threads.
"""

from __future__ import annotations

from typing import Any

from helba.bandits.settings import Settings
from helba.errors import require_whole
from helba.lab.play.encrypted import (
    EncryptedPlay,
    describe_parameters,
    make_play,
    peak_memory,
    plan_play,
)
from helba.lab.play.shares import SharesPlay, plan_shares_play
from helba.lab.progress import note
from helba.lab.runner import settings_for
from helba.problems import Round, make_problem

TOY_HORIZON = 130
KEYS = ("own", "shared")


def bench_ratio(
    *, rounds: int = 5, security: int = 128, seed: int = 0, engine: str = "ckks"
) -> dict[str, Any]:
    """Play the first rounds of the toy problem on shares and in the paper's profile.

    Updates count as they fall due. Both are planned for the whole toy problem.
    """
    require_whole("rounds", rounds, least=1, most=TOY_HORIZON)
    seconds: dict[str, float] = {}
    details: dict[str, Any] = {}
    # the paper first: on shares OpenFHE is loaded with one thread
    for profile, bonus in (("paper", "sqrt"), ("shares", "quadratic")):
        problem = make_problem("toy", seed=seed)
        settings = settings_for(problem, horizon=TOY_HORIZON, profile=profile, bonus=bonus)
        note(f"profile {profile}")
        play: EncryptedPlay | SharesPlay
        if profile == "shares":
            deployment = plan_shares_play(
                settings, engine=engine, opener="users", security=security
            )
            play = SharesPlay(deployment, seed=seed if engine == "simulate" else None)
        else:
            play = _open(settings, security=security, engine=engine)
        for each in problem.rounds(rounds):
            _play_round(play, each)
        seconds[profile] = play.seconds / rounds
        found = play.as_json()
        details[profile] = {
            name: found[name] for name in ("seconds_per_round_without_updates", "parameters")
        }
        details[profile]["updates"] = play.updates
    return {
        "problem": "toy",
        "rounds": rounds,
        "security": security,
        "seed": seed,
        "shares_seconds_per_round": seconds["shares"],
        "paper_seconds_per_round": seconds["paper"],
        "ratio": seconds["paper"] / seconds["shares"],
        **details,
        "peak_memory_bytes": peak_memory(),
    }


def bench_keys(
    *, rounds: int = 10, security: int = 128, seed: int = 0, engine: str = "ckks"
) -> dict[str, Any]:
    """Play the same rounds of the toy problem with own and with shared keys, in turns.

    `ratio` is the time with own keys over that with shared ones.
    """
    require_whole("rounds", rounds, least=1, most=TOY_HORIZON)
    problems = {value: make_problem("toy", seed=seed) for value in KEYS}
    plays = {}
    for value, problem in problems.items():
        note(f"keys {value}")
        settings = settings_for(problem, horizon=TOY_HORIZON)
        plays[value] = _open(settings, security=security, engine=engine, keys=value)
    shown = {value: problem.rounds(rounds) for value, problem in problems.items()}
    for _ in range(rounds):
        for value, play in plays.items():
            _play_round(play, next(shown[value]))
    clocks = {value: play.clock for value, play in plays.items()}
    seconds = {value: clock.seconds / rounds for value, clock in clocks.items()}
    without = {
        value: (clock.recommendation.total + clock.report.total) / rounds
        for value, clock in clocks.items()
    }
    return {
        "problem": "toy",
        "rounds": rounds,
        "security": security,
        "seed": seed,
        **{f"{value}_seconds_per_round": spent for value, spent in seconds.items()},
        "ratio": seconds["own"] / seconds["shared"],
        **{f"{value}_seconds_without_updates": spent for value, spent in without.items()},
        "ratio_without_updates": without["own"] / without["shared"],
        "updates": {value: play.updates for value, play in plays.items()},
        "bytes_up_per_round": {v: play.bandit.bytes_up / rounds for v, play in plays.items()},
        "bytes_down_per_round": {v: play.bandit.bytes_down / rounds for v, play in plays.items()},
        "peak_memory_bytes": peak_memory(),
        "parameters": {
            value: describe_parameters(play.deployment.parameters) for value, play in plays.items()
        },
    }


def _open(settings: Settings, *, security: int, engine: str, keys: str = "own") -> EncryptedPlay:
    deployment = plan_play(settings, engine=engine, security=security, refresh="client", keys=keys)
    return make_play(deployment)


def _play_round(play: EncryptedPlay | SharesPlay, shown: Round) -> None:
    arm = play.select(shown.contexts)
    play.update(shown.contexts[arm], float(shown.rewards[arm]))
