"""Times a round, an update and many users at once on shares, bytes included.

Seconds are those of each party between a message and its reply. Medians count.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any

from helba.errors import InvalidInput, RunFailed, require_positive, require_whole
from helba.in_process.bandit import EncryptedBandit
from helba.in_process.parties import Ledger
from helba.lab.play.encrypted import peak_memory
from helba.lab.play.shares import describe_shares
from helba.lab.pool import quiet_children
from helba.lab.progress import note
from helba.lab.runner import settings_for
from helba.problems import Round, make_problem
from helba.protocol.deployment import SharesDeployment
from helba.protocol.effects import Effects
from helba.protocol.message import Answer, Message

ROUND_SIZES = ((2, 2), (8, 8), (16, 16), (5, 50))
UPDATE_SIZES = ((2, 2), (8, 8), (16, 16), (32, 4))
HORIZON, SEED, MOST_RUNS = 1000, 0, 1000
PARTIES = ("server", "user", "opener")


def bench_round(
    sizes: Sequence[tuple[int, int]],
    *,
    rounds: int = 15,
    security: int = 128,
    opener: str = "users",
    engine: str = "ckks",
) -> dict[str, Any]:
    """Time a round: `server_seconds` and `opener_seconds` of a recommendation alone.

    `user_seconds` are the user's own part, its report included, as are the bytes.
    """
    require_whole("rounds", rounds, least=1, most=MOST_RUNS)
    results = []
    for dim, arms in sizes:
        horizon = max(HORIZON, rounds + 1)
        bandit, shown = _open(
            dim, arms, security=security, opener=opener, engine=engine, horizon=horizon
        )
        samples: dict[str, list[float]] = {}
        for number in range(rounds + 1):
            before = _seconds(bandit.ledger)
            up, down = bandit.ledger.bytes_up, bandit.ledger.bytes_down
            _play(bandit, next(shown))
            if not number:
                continue  # to warm up; it sets sessions up
            after = _seconds(bandit.ledger)
            spent = {key: after[key] - before.get(key, 0.0) for key in after}
            row = {
                "server_seconds": spent.get(("server", "recommendation"), 0.0),
                "opener_seconds": spent.get(("opener", "recommendation"), 0.0),
                "user_seconds": spent.get(("user", "recommendation"), 0.0)
                + spent.get(("user", "report"), 0.0),
                "server_report_seconds": spent.get(("server", "report"), 0.0),
                "opener_report_seconds": spent.get(("opener", "report"), 0.0),
                "bytes_up": bandit.ledger.bytes_up - up,
                "bytes_down": bandit.ledger.bytes_down - down,
            }
            for name, value in row.items():
                samples.setdefault(name, []).append(value)
        found = {name: statistics.median(values) for name, values in samples.items()}
        seconds = sum(found[f"{party}_seconds"] for party in PARTIES)
        results.append(
            {
                "dim": dim,
                "arms": arms,
                "seconds": seconds,
                **found,
                "rounds": rounds,
                **_describe(bandit),
            }
        )
    return {"security": security, "opener": opener, "results": results}


def bench_update(
    sizes: Sequence[tuple[int, int]],
    *,
    updates: int = 5,
    security: int = 128,
    opener: str = "users",
    engine: str = "ckks",
) -> dict[str, Any]:
    """Time updates of the model, all parties, the check of the new model included.

    Bytes are those between opener and server, a test or a fold before the update included.
    """
    require_whole("updates", updates, least=1, most=MOST_RUNS)
    results = []
    for dim, arms in sizes:
        bandit, shown = _open(dim, arms, security=security, opener=opener, engine=engine)
        samples: dict[str, list[float]] = {"server": [], "opener": []}
        sizes_of: dict[str, list[int]] = {"up": [], "down": []}
        ledger, done = bandit.ledger, 0
        while len(samples["server"]) <= updates:
            before = dict(ledger.seconds)
            up, down = ledger.bytes_from_opener, ledger.bytes_to_opener
            each = next(shown, None)
            if each is None:
                allowed = f"at most {done - 1}: {HORIZON} rounds have no more"
                raise InvalidInput("updates", updates, allowed)
            _play(bandit, each)
            if bandit.updates == done:
                continue
            done = bandit.updates
            for party, found in samples.items():
                key = (party, "update")
                found.append(ledger.seconds[key] - before.get(key, 0.0))
            sizes_of["up"].append(ledger.bytes_from_opener - up)
            sizes_of["down"].append(ledger.bytes_to_opener - down)
        server, opening = (statistics.median(samples[each][1:]) for each in ("server", "opener"))
        results.append(
            {
                "dim": dim,
                "arms": arms,
                "seconds": server + opening,
                "server_seconds": server,
                "user_seconds": 0.0,
                "opener_seconds": opening,
                "bytes_up": statistics.median(sizes_of["up"][1:]),
                "bytes_down": statistics.median(sizes_of["down"][1:]),
                "updates": updates,
                "rejected": bandit.server.state.rejected,
                **_describe(bandit),
            }
        )
    return {"security": security, "opener": opener, "results": results}


def bench_throughput(
    *,
    dim: int = 2,
    arms: int = 2,
    users: int | None = None,
    seconds: float = 10.0,
    security: int = 128,
    processes: int | None = None,
) -> dict[str, Any]:
    """Count recommendations, and rounds with their reports, that server and opener make a second.

    Everything from bytes in to bytes out, range checks included, on all cores: each process plays
    both parties for its own users, whose own work is done before. In the setting `authority`.
    """
    require_positive("seconds", seconds)
    processes = os.cpu_count() or 1 if processes is None else processes
    require_whole("processes", processes, least=1, most=256)
    deployment, _ = _plan(dim, arms, security=security)
    lanes = deployment.plan.lanes if users is None else users
    require_whole("users", lanes, least=1, most=deployment.plan.lanes)
    note(
        f"d = {dim}, K = {arms}: {processes} processes, each {seconds:g} s asks, {seconds:g} s both"
    )
    task = (dim, arms, lanes, seconds, security)
    if processes == 1:
        found = [_count(*task)]
    else:
        # spawned: a fork would copy OpenFHE's random generator
        spawned = multiprocessing.get_context("spawn")
        with quiet_children():
            pool = spawned.Pool(processes)
        with pool:
            found = pool.starmap(_count, [task] * processes)
    first = found[0]
    return {
        "dim": dim,
        "arms": arms,
        "recommendations_per_second": sum(each["recommendations"] for each in found),
        "rounds_per_second": sum(each["rounds"] for each in found),
        "users_at_once": first["lanes"],
        "processes": processes,
        "bytes_server_opener_per_recommendation": first["bytes"],
        "security": security,
        "peak_memory_bytes": max(each["memory"] or 0 for each in found),
        "parameters": first["parameters"],
    }


def _count(dim: int, arms: int, lanes: int, seconds: float, security: int) -> dict[str, Any]:
    """Play in one process: asks as bytes, until the time is over; then rounds with reports."""
    deployment, shown = _plan(dim, arms, security=security)
    bandit = EncryptedBandit(deployment.settings, deployment=deployment)
    parties, user = bandit.parties, bandit.client.user

    def play(*, reports: bool) -> float:
        """Answer a product full of fresh asks, and take their reports; return the seconds of both.

        Asks and reports are the users' own work: they are made while the clock stands.
        """
        inbox, asked, told = parties.stations[user.id].inbox, [], []
        inbox.clear()
        for _ in range(lanes):
            each = next(shown)
            asked.append(parties.codec.encode(_sent(user.ask(each.contexts))))
            reward = float(each.rewards[0])
            told.append(parties.codec.encode(_sent(user.report(each.contexts[0], reward))))
        began = time.perf_counter()
        parties.deliver(asked, sender=user.id)
        if sum(isinstance(message, Answer) for message in inbox) != lanes:
            raise RunFailed("an ask got no answer")
        parties.deliver(told if reports else (), sender=user.id)
        spent = time.perf_counter() - began
        for message in inbox:
            user.handle(message)
        return spent

    def count(*, reports: bool) -> float:
        """Rounds a second."""
        spent, rounds = 0.0, 0
        while spent < seconds:
            spent += play(reports=reports)
            rounds += lanes
        return rounds / spent

    play(reports=False)  # to warm up
    sent = parties.ledger.bytes_to_opener + parties.ledger.bytes_from_opener
    play(reports=False)
    sent = parties.ledger.bytes_to_opener + parties.ledger.bytes_from_opener - sent
    return {
        "recommendations": count(reports=False),
        "rounds": count(reports=True),
        "lanes": lanes,
        "bytes": sent / lanes,
        "memory": peak_memory(),
        "parameters": describe_shares(deployment.plan),
    }


def _plan(
    dim: int,
    arms: int,
    *,
    security: int,
    opener: str = "authority",
    engine: str = "ckks",
    horizon: int = 10**6,
) -> tuple[SharesDeployment, Iterator[Round]]:
    problem = make_problem("synthetic", dim=dim, arms=arms, seed=SEED)
    settings = settings_for(problem, horizon=horizon)
    deployment = SharesDeployment.of(settings, engine=engine, opener=opener, security=security)
    return deployment, problem.rounds(horizon)


def _open(
    dim: int, arms: int, *, security: int, opener: str, engine: str, horizon: int = HORIZON
) -> tuple[EncryptedBandit, Iterator[Round]]:
    deployment, shown = _plan(
        dim, arms, security=security, opener=opener, engine=engine, horizon=horizon
    )
    note(f"d = {dim}, K = {arms}, opener {opener}")
    return EncryptedBandit(deployment.settings, deployment=deployment), shown


def _play(bandit: EncryptedBandit, shown: Round) -> None:
    arm = bandit.select(shown.contexts)
    bandit.update(shown.contexts[arm], float(shown.rewards[arm]))


def _seconds(ledger: Ledger) -> dict[tuple[str, str], float]:
    return dict(ledger.seconds)


def _describe(bandit: EncryptedBandit) -> dict[str, Any]:
    return {
        "peak_memory_bytes": peak_memory(),
        "parameters": describe_shares(bandit.deployment.plan),
    }


def _sent(effects: Effects) -> Message:
    """Return the one message of these effects."""
    (envelope,) = effects.replies
    return envelope.message
