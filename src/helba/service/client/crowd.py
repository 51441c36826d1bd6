"""Users of a run under load, in one spawned process: a client and a thread for each.

Keys are made and enrolled one after the other; then each user asks, earns what its own draw of the
problem gives, reports, and helps, until it is told to stop. What was acknowledged is written line
by line, so that what the server has learnt can be compared with it.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Protocol

from helba.bandits.policy import clip_reward
from helba.errors import HelbaError
from helba.problems import Round, make_problem
from helba.reference.engine import get_scheme
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.user import User
from helba.service.client.account import Account
from helba.service.client.client import Client
from helba.service.client.figure import Tally
from helba.service.client.registry import Registry
from helba.service.client.transport import Patience, Rejected
from helba.service.protocol.tokens import hash_token, make_token

TELL_SECONDS = 0.5
PAUSE_SECONDS = 0.2
MOST_ROUNDS = 10**9


class Outbox(Protocol):
    """A queue to the process that started this one."""

    def put(self, item: Any) -> None:
        """Send something."""
        ...


@dataclass(frozen=True, kw_only=True)
class Signals:
    """What the processes of a run tell each other: when to begin each phase, and to stop."""

    alone: Event
    alone_over: Event
    together: Event
    stop: Event


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """The users of one process: those of these `numbers`, who are called load-<run>-<number>."""

    process: int
    run: str
    numbers: tuple[int, ...]
    account: Account
    deployment: Any
    collective_key: bytes = field(repr=False)
    problem: str
    seed: int
    patience: Patience
    allow_insecure: bool = False
    out: Path | None = None


@dataclass(kw_only=True)
class Spot:
    """One user at its place: its client, its rounds to come, and rewards not yet acknowledged."""

    client: Client
    rounds: Iterator[Round]
    unsure: dict[str, dict[str, Any]] = field(default_factory=dict)


def join_crowd(crowd: Crowd, *, signals: Signals, outbox: Outbox) -> None:
    """Run the users of a process; the entry of a spawned one. Ends when `signals.stop` is set."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    try:
        _Process(crowd, signals=signals, outbox=outbox).run()
        outbox.put((crowd.process, "done", None))
    except HelbaError as error:
        outbox.put((crowd.process, "failed", str(error)))


class _Process:
    def __init__(self, crowd: Crowd, *, signals: Signals, outbox: Outbox) -> None:
        self._crowd = crowd
        self._signals = signals
        self._outbox = outbox
        self._deployment = Deployment.from_json(
            crowd.deployment, allow_insecure=crowd.allow_insecure
        )
        self._lock = threading.Lock()
        self._tally = Tally()
        self._acknowledged: list[dict[str, Any]] = []
        self._cpu = time.process_time()

    def run(self) -> None:
        """Enrol, play alone if this is the process to do so, then together."""
        spots = self._enrol()
        try:
            self._start_telling()
            if self._crowd.process == 0:
                self._play_alone(spots)
            while not self._signals.together.wait(TELL_SECONDS):
                if self._signals.stop.is_set():
                    return
            threads = [threading.Thread(target=self._play, args=(spot,)) for spot in spots]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            self._tell()
            unsure = sum(len(spot.unsure) for spot in spots)
            self._outbox.put((self._crowd.process, "unsure", unsure))
            for spot in spots:
                spot.client.close()

    # -- enrolment

    def _enrol(self) -> list[Spot]:
        crowd, spots = self._crowd, []
        scheme = get_scheme(self._deployment.scheme)
        parameters, settings = self._deployment.parameters, self._deployment.settings
        collective = scheme.public_key_from_bytes(crowd.collective_key, parameters=parameters)
        with Registry(crowd.account, patience=crowd.patience) as registry:
            for number in crowd.numbers:
                if self._signals.stop.is_set():
                    break
                keys, token = scheme.generate_pair(parameters), make_token("user")
                engine = scheme.engine(collective)
                user = User(self._deployment, scheme=scheme, engine=engine, keys=keys)
                registry.enrol(
                    f"load-{crowd.run}-{number}",
                    public_key=user.public_key_bytes(),
                    token_hash=hash_token(token, kind="user"),
                    invitation=None,
                )
                client = Client(
                    user, account=crowd.account, token=token, patience=crowd.patience, helps=False
                )
                if self._deployment.keys == "switched":
                    client.introduce()
                problem = make_problem(
                    crowd.problem, dim=settings.dim, arms=settings.arms, seed=crowd.seed + number
                )
                spots.append(Spot(client=client, rounds=problem.rounds(MOST_ROUNDS)))
                self._outbox.put((crowd.process, "enrolled", 1))
        return spots

    # -- rounds

    def _play_alone(self, spots: list[Spot]) -> None:
        """The users in turn, one round each, while that phase lasts."""
        while not self._signals.alone.wait(TELL_SECONDS):
            if self._signals.stop.is_set() or self._signals.together.is_set():
                return
        while not self._signals.alone_over.is_set() and not self._signals.stop.is_set():
            for spot in spots:
                if self._signals.alone_over.is_set() or self._signals.stop.is_set():
                    break
                self._play_round(spot)
        self._tell()
        self._outbox.put((self._crowd.process, "alone over", None))

    def _play(self, spot: Spot) -> None:
        while not self._signals.stop.is_set():
            self._play_round(spot)
        with suppress(HelbaError):
            spot.client.flush()
        self._settle(spot)

    def _play_round(self, spot: Spot) -> None:
        client, each = spot.client, next(spot.rounds)
        before = (client.transport.retries, client.transport.bytes_up, client.transport.bytes_down)
        asked: list[float] = []
        rewarded: list[float] = []
        helped, problem = 0, None
        try:
            start = time.perf_counter()
            advice = client.recommend(each.contexts)
            asked.append(time.perf_counter() - start)
            earned, _ = clip_reward(self._deployment.settings, each.rewards[advice.arm])
            spot.unsure[advice.round] = {
                "round": advice.round,
                "context": each.contexts[advice.arm].tolist(),
                "reward": earned,
            }
            start = time.perf_counter()
            client.reward(advice.round, earned)
            rewarded.append(time.perf_counter() - start)
            if client.help_wanted:
                helped = client.help(once=True)
        except HelbaError as error:
            problem = _kind_of(error)
        self._settle(spot)
        after = (client.transport.retries, client.transport.bytes_up, client.transport.bytes_down)
        more = [new - old for new, old in zip(after, before, strict=True)]
        with self._lock:
            self._tally.asked += len(asked)
            self._tally.ask_seconds += asked
            self._tally.reward_seconds += rewarded
            self._tally.helped += helped
            self._tally.retries += more[0]
            self._tally.bytes_up += more[1]
            self._tally.bytes_down += more[2]
            if problem is not None:
                self._tally.errors[problem] += 1
        if problem is not None:
            self._signals.stop.wait(PAUSE_SECONDS)
            with suppress(HelbaError):
                client.flush()
            self._settle(spot)

    def _settle(self, spot: Spot) -> None:
        """Count as acknowledged what the client has kept no longer, and was not refused."""
        kept, refused = {each.round for each in spot.client.open_rounds()}, spot.client.refused()
        for round in [each for each in spot.unsure if each not in kept]:
            found = spot.unsure.pop(round)
            if round not in refused:
                with self._lock:
                    self._tally.acknowledged += 1
                    self._acknowledged.append(found)

    # -- telling

    def _start_telling(self) -> None:
        def tell() -> None:
            while not self._signals.stop.wait(TELL_SECONDS):
                self._tell()

        threading.Thread(target=tell, daemon=True).start()

    def _tell(self) -> None:
        """Send what was counted since the last time, and write what was acknowledged."""
        with self._lock:
            tally, self._tally = self._tally, Tally()
            lines, self._acknowledged = self._acknowledged, []
            now = time.process_time()
            tally.cpu_seconds, self._cpu = now - self._cpu, now
            if self._crowd.out is not None and lines:
                path = self._crowd.out / f"acknowledged-{self._crowd.process}.jsonl"
                with path.open("a") as file:
                    file.writelines(json.dumps(each) + "\n" for each in lines)
        self._outbox.put((self._crowd.process, "tally", tally))


def _kind_of(error: HelbaError) -> str:
    """The kind of an error, without what it says: that may differ each time."""
    if isinstance(error, Rejected):
        return f"refused ({error.status})"
    return type(error).__name__
