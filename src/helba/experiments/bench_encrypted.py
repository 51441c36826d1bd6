"""How long a round and an update take on ciphertexts, and how far apart the profiles are.

Everything goes through the protocol, bytes included, in one process with all its threads. The
server's seconds are those between a message and its reply; the user's are encryption, decryption
and help.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from helba.bandits.settings import Settings
from helba.errors import InvalidInput, RunFailed, require_whole
from helba.experiments.encrypted import (
    EncryptedPlay,
    describe_parameters,
    make_play,
    peak_memory,
    plan_play,
)
from helba.experiments.progress import note
from helba.experiments.runner import settings_for
from helba.problems import Problem, Round, make_problem

__all__ = [
    "SIZES",
    "bench_keys",
    "bench_latency",
    "bench_ratio",
    "bench_round",
    "bench_update",
    "choose_sizes",
]

SIZES = ((2, 2), (8, 8), (16, 16))
HORIZON, TOY_HORIZON = 1000, 130
SEED = 0
MOST_RUNS = 1000
KEYS = ("own", "shared")
LATENCIES = ("single", "interactive")
# An update is due after every round at first, but for the first one or two.
ROUNDS_PER_UPDATE = 4

Size = tuple[int, int]


def choose_sizes(*, dim: int | None, arms: int | None) -> tuple[Size, ...]:
    """Return the one size that was given, or the default list; half a size is refused."""
    if dim is None and arms is None:
        return SIZES
    if dim is None or arms is None:
        missing = "dim" if dim is None else "arms"
        raise InvalidInput(missing, "nothing", "given too: dim and arms go together")
    return ((dim, arms),)


def bench_round(
    sizes: Sequence[Size],
    *,
    rounds: int = 5,
    security: int = 128,
    latency: str | None = None,
    engine: str = "ckks",
) -> dict[str, Any]:
    """Time recommendations, the first of which carries an update test, after one to warm up."""
    require_whole("rounds", rounds, least=1, most=MOST_RUNS)
    results = []
    for size, problem, play in _plays(sizes, security=security, engine=engine, latency=latency):
        shown = problem.rounds(rounds + 1)
        _play_round(play, next(shown))
        clock, bandit = play.clock, play.bandit
        server, user = clock.recommendation.server, clock.recommendation.user
        up, down = bandit.bytes_up, bandit.bytes_down
        for each in shown:
            play.select(each.contexts)
        server = (clock.recommendation.server - server) / rounds
        user = (clock.recommendation.user - user) / rounds
        results.append(
            {
                **size,
                "seconds": server + user,
                "server_seconds": server,
                "user_seconds": user,
                "bytes_up": (bandit.bytes_up - up) / rounds,
                "bytes_down": (bandit.bytes_down - down) / rounds,
                "rounds": rounds,
                **_describe(play),
            }
        )
    return {"security": security, "results": results}


def bench_update(
    sizes: Sequence[Size],
    *,
    updates: int = 2,
    security: int = 128,
    latency: str | None = None,
    engine: str = "ckks",
) -> dict[str, Any]:
    """Time updates of the model, from the report that makes one due to the new model."""
    require_whole("updates", updates, least=1, most=MOST_RUNS)
    results = []
    for size, problem, play in _plays(sizes, security=security, engine=engine, latency=latency):
        clock = play.clock
        for each in problem.rounds(ROUNDS_PER_UPDATE * updates):
            _play_round(play, each)
            if clock.updates >= updates:
                break
        if not clock.updates:
            raise RunFailed("no update came due")
        results.append(
            {
                **size,
                "seconds": clock.update.total / clock.updates,
                "server_seconds": clock.update.server / clock.updates,
                "helper_seconds": clock.update.user / clock.updates,
                "refreshes": clock.refreshes / clock.updates,
                "updates": clock.updates,
                "rejected": play.bandit.server.status().rejected,
                **_describe(play),
            }
        )
    return {"security": security, "results": results}


def bench_ratio(
    *, rounds: int = 5, security: int = 128, seed: int = 0, engine: str = "ckks"
) -> dict[str, Any]:
    """Play the first rounds of the toy problem in both profiles; updates count as they fall due.

    Both are planned for the whole toy problem, with the paper's bonus in the paper's profile.
    """
    require_whole("rounds", rounds, least=1, most=TOY_HORIZON)
    seconds: dict[str, float] = {}
    details: dict[str, Any] = {}
    for profile, bonus in (("fast", "quadratic"), ("paper", "sqrt")):
        problem = make_problem("toy", seed=seed)
        settings = settings_for(problem, horizon=TOY_HORIZON, profile=profile, bonus=bonus)
        note(f"profile {profile}")
        play = _open(settings, security=security, engine=engine)
        for each in problem.rounds(rounds):
            _play_round(play, each)
        seconds[profile] = play.clock.seconds / rounds
        details[profile] = {
            "updates": play.updates,
            "seconds_per_round_without_updates": (
                play.clock.recommendation.total + play.clock.report.total
            )
            / rounds,
            "parameters": describe_parameters(play.deployment.parameters),
        }
    return {
        "problem": "toy",
        "rounds": rounds,
        "security": security,
        "seed": seed,
        "fast_seconds_per_round": seconds["fast"],
        "paper_seconds_per_round": seconds["paper"],
        "ratio": seconds["paper"] / seconds["fast"],
        **details,
        "peak_memory_bytes": peak_memory(),
    }


def bench_keys(
    *, rounds: int = 10, security: int = 128, seed: int = 0, engine: str = "ckks"
) -> dict[str, Any]:
    """Play the same rounds of the toy problem with own and with shared keys, in turns.

    In one exchange each, since a round with a shared key cannot be interactive.
    """
    return _in_turns(
        "keys",
        KEYS,
        over="shared",
        rounds=rounds,
        security=security,
        seed=seed,
        engine=engine,
        latency="single",
    )


def bench_latency(
    *, rounds: int = 10, security: int = 128, seed: int = 0, engine: str = "ckks"
) -> dict[str, Any]:
    """Play the same rounds of the toy problem in one exchange and interactively, in turns."""
    return _in_turns(
        "latency",
        LATENCIES,
        over="interactive",
        rounds=rounds,
        security=security,
        seed=seed,
        engine=engine,
    )


def _in_turns(
    option: str,
    values: tuple[str, str],
    *,
    over: str,
    rounds: int,
    security: int,
    seed: int,
    engine: str,
    **others: str,
) -> dict[str, Any]:
    """Both values of an option in turns; `ratio` is the other one's time over that of `over`."""
    require_whole("rounds", rounds, least=1, most=TOY_HORIZON)
    problems = {value: make_problem("toy", seed=seed) for value in values}
    plays = {}
    for value, problem in problems.items():
        note(f"{option} {value}")
        settings = settings_for(problem, horizon=TOY_HORIZON)
        chosen = {**others, option: value}
        plays[value] = _open(settings, security=security, engine=engine, **chosen)
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
    (other,) = set(values) - {over}
    return {
        "problem": "toy",
        "rounds": rounds,
        "security": security,
        "seed": seed,
        **{f"{value}_seconds_per_round": spent for value, spent in seconds.items()},
        "ratio": seconds[other] / seconds[over],
        **{f"{value}_seconds_without_updates": spent for value, spent in without.items()},
        "ratio_without_updates": without[other] / without[over],
        "updates": {value: play.updates for value, play in plays.items()},
        "bytes_up_per_round": {v: play.bandit.bytes_up / rounds for v, play in plays.items()},
        "bytes_down_per_round": {v: play.bandit.bytes_down / rounds for v, play in plays.items()},
        "peak_memory_bytes": peak_memory(),
        "parameters": {
            value: describe_parameters(play.deployment.parameters) for value, play in plays.items()
        },
    }


def _plays(
    sizes: Sequence[Size], *, security: int, engine: str, latency: str | None
) -> Iterator[tuple[dict[str, int], Problem, EncryptedPlay]]:
    """Open one after the other, so that the keys of one are gone before the next are made."""
    for dim, arms in sizes:
        note(f"d = {dim}, K = {arms}")
        problem = make_problem("synthetic", dim=dim, arms=arms, seed=SEED)
        settings = settings_for(problem, horizon=HORIZON)
        yield (
            {"dim": dim, "arms": arms},
            problem,
            _open(settings, security=security, engine=engine, latency=latency),
        )


def _open(
    settings: Settings,
    *,
    security: int,
    engine: str,
    keys: str = "own",
    latency: str | None = None,
) -> EncryptedPlay:
    deployment = plan_play(
        settings, engine=engine, security=security, refresh="client", keys=keys, latency=latency
    )
    return make_play(deployment)


def _play_round(play: EncryptedPlay, shown: Round) -> None:
    arm = play.select(shown.contexts)
    play.update(shown.contexts[arm], float(shown.rewards[arm]))


def _describe(play: EncryptedPlay) -> dict[str, Any]:
    deployment = play.deployment
    return {
        "argmax": deployment.method,
        "layout": deployment.form,
        "evaluation_keys": len(deployment.rotations) + 1,
        "peak_memory_bytes": peak_memory(),
        "parameters": describe_parameters(deployment.parameters),
    }
