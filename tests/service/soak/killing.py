"""Processes of a service are killed at random moments while users play; what that costs.

A service that was struck serves again when the first request that a user sent after the kill is
answered, and where the authority was hit, when somebody new is enrolled. A probe also plays a whole
round, which waits in line with those of all others.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from helba.errors import RunFailed
from tests.service.soak.audit import audit, read_notes
from tests.service.soak.player import Notebook, Player, Table
from tests.service.soak.service import (
    ROOT,
    VICTIMS,
    Service,
    Setting,
    children_of,
    is_alive,
    serving,
)

# The share of strikes that hit two processes at once.
TWO = 0.2
LONGEST_PAUSE_SECONDS = 1.5
NOTICE_SECONDS = 5.0
END_SECONDS = 300.0


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """A strike: seconds until all served again, and those of them in which keys were loaded.

    `whole_round_seconds` is until a probe's round has its reward as well.
    """

    victims: tuple[str, ...]
    seconds: float
    loading_seconds: float | None
    whole_round_seconds: float


class Killer:
    """Strikes a service, and sees to it that it comes back."""

    def __init__(self, service: Service, *, table: Table, say: Callable[[str], None]) -> None:
        self.service = service
        self.orphans = 0
        self.killed: Counter[str] = Counter()
        self.recoveries: list[Recovery] = []
        self._table = table
        self._say = say
        self._guests = 0
        self._players: list[Player] = []
        self._answered_at = self._enrolled_at = 0.0

    def prepare(self) -> dict[str, float]:
        """Start both once more, undisturbed; return how long that takes, and a probe's round."""
        service, found = self.service, {}
        for name in ("authority", "server"):
            service.stop(name)
            began = service.start(name)
            service.wait(name, lambda name=name: service.answers(name))
            found[f"{name}_answers"] = time.time() - began
            if name == "server":
                service.wait(name, service.is_ready)
                found["server_serves"] = time.time() - began
        self._players.append(self._table.seat_guest("probe", seed=77, helps=False))
        for _ in range(3):
            start = time.time()
            self._players[0].play()
            found["round"] = time.time() - start
        return found

    def strike(self, victims: Sequence[str]) -> None:
        """Kill, start again what does not start itself, and wait until it serves."""
        service = self.service
        pids = self._find(victims)
        orphans = children_of(pids["server"]) if "server" in victims else []
        began = time.time()
        for name in victims:
            os.kill(pids[name], signal.SIGKILL)
            self.killed[name] += 1
        for name in victims:
            if name in service.processes:
                service.processes[name].wait()
                service.start(name)
        served = [began]
        if set(victims) - {"authority"}:
            self._await_server(victims)
            served.append(service.first_served(since=began) or time.time())
        if "authority" in victims:
            self._await_authority()
            served.append(self._enrolled_at)
        self.recoveries.append(
            Recovery(
                victims=tuple(sorted(victims)),
                seconds=max(served) - began,
                loading_seconds=self._loading(victims, since=began),
                whole_round_seconds=time.time() - began,
            )
        )
        self.orphans += sum(is_alive(pid) for pid in orphans)
        seconds = self.recoveries[-1].seconds
        self._say(f"killed {' and '.join(victims)}: serves again after {seconds:.2f} s")

    def finish(self) -> None:
        """Let the probes send what they have left."""
        for player in self._players:
            player.finish()

    # -- parts

    def _find(self, victims: Sequence[str]) -> dict[str, int]:
        """The processes to kill; what is just being started is waited for."""
        found: dict[str, int] = {}

        def complete() -> bool:
            found.update(self.service.find_processes())
            return set(victims) <= found.keys()

        self.service.wait("server", complete, seconds=60.0)
        return found

    def _await_server(self, victims: Sequence[str]) -> None:
        service = self.service
        if "evaluator" in victims and "server" not in victims:  # it is not noticed at once
            service.wait("server", lambda: not service.is_ready(), seconds=NOTICE_SECONDS)
        service.wait("server", service.is_ready)
        self._players[0].play()

    def _await_authority(self) -> None:
        service = self.service
        service.wait("authority", lambda: service.answers("authority"))
        self._answered_at = time.time()
        self._guests += 1
        self._players.append(self._table.seat_guest(f"late-{self._guests}", seed=self._guests))
        self._enrolled_at = time.time()

    def _loading(self, victims: Sequence[str], *, since: float) -> float | None:
        """Seconds in which processes started and read keys, by the log; the authority tells none.

        It answers as soon as it has its keys. The start of a reader is not told either.
        """
        found = [self._answered_at - since] if "authority" in victims else []
        events = self.service.events("server", since=since)
        serves = [each["at"] for each in events if each["event"] == "tenant serves"]
        stopped = [each["at"] for each in events if each["event"] == "tenant stopped"]
        if serves and stopped and "server" not in victims:
            found.append(serves[-1] - stopped[0])
        elif serves and "server" in victims:
            found.append(serves[-1] - since)
        return max(found) if found else None


def run_kills(
    folder: Path,
    *,
    setting: Setting,
    count: int,
    users: int,
    seed: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Kill `count` times while `users` play, then compare what was learnt; the report."""
    generator = random.Random(seed)
    with serving(folder, setting=setting) as service:
        table = Table(
            authority=service.urls["authority"],
            insecure=setting.insecure,
            problem=setting.problem,
            notebook=Notebook(folder / "probe.jsonl"),
        )
        killer = Killer(service, table=table, say=say)
        quiet = killer.prepare()
        say(f"a quiet start takes {quiet['server_serves']:.2f} s")
        with playing(service, users=users, guests=4 * count) as seconds:
            for victims in _plan(count, generator=generator):
                time.sleep(generator.uniform(0.0, LONGEST_PAUSE_SECONDS))
                killer.strike(victims)
            killer.finish()
        codes = {name: service.stop(name) for name in ("authority", "server")}
        notes = read_notes([folder / "users" / "notebook.jsonl", folder / "probe.jsonl"])
        found = audit(service, notes.acknowledged, enrolled=notes.enrolled)
        faults = list(found.pop("faults"))
        faults += [
            f"a report was refused: {each['refused']}" for each in notes.ends if each["refused"]
        ]
        unsure = notes.sent.keys() - {round for round, _ in notes.receipts}
        if unsure:
            faults.append(f"{len(unsure)} rewards have no receipt in the end")
        if killer.orphans:
            faults.append(f"{killer.orphans} children outlived their server")
        faults += [f"the {name} ended with {code}" for name, code in codes.items() if code != 0]
        faults += service.complaints()
        reports = sum(each["reports"] for each in notes.ends)
        return {
            "insecure": setting.insecure,
            "users": users,
            "seed": seed,
            "seconds": round(seconds(), 1),
            "kills": dict(killer.killed),
            "quiet_seconds": {name: round(value, 3) for name, value in quiet.items()},
            "recovery": _describe(killer.recoveries),
            "longest_pause_of_receipts_seconds": _longest_pause(notes.receipt_times),
            **found,
            "reports_sent": reports,
            "reports_sent_again": reports - len(notes.sent),
            "receipts_not_counted": sum(not counted for _, counted in notes.receipts),
            "errors_of_users": dict(Counter(notes.errors).most_common(12)),
            "statuses": service.statuses(),
            "faults": faults,
            "verdict": "sound" if not faults else "not sound",
        }


@contextmanager
def playing(
    service: Service, *, users: int, guests: int = 0, guest_seconds: float = 1.0
) -> Iterator[Callable[[], float]]:
    """Users in a process of their own, until the block ends and they have sent what is left."""
    folder = service.folder / "users"
    folder.mkdir()
    given = {
        "folder": str(folder),
        "authority": service.urls["authority"],
        "insecure": service.setting.insecure,
        "problem": service.setting.problem,
        "users": users,
        "guests": guests,
        "guest_seconds": guest_seconds,
    }
    start = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "tests.service.soak.player", json.dumps(given)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if process.stdout.readline() != b"seated\n":
                raise RunFailed("the users could not be seated")
            start = time.monotonic()
            yield lambda: time.monotonic() - start
            process.stdin.close()
            if process.wait(END_SECONDS) != 0:
                raise RunFailed(f"the users' process ended with {process.returncode}")
        finally:
            process.kill()


def _plan(count: int, *, generator: random.Random) -> Iterator[tuple[str, ...]]:
    """Whom to kill: each once in every four, and sometimes two at once."""
    left = count
    while left > 0:
        turn = list(VICTIMS)
        generator.shuffle(turn)
        while turn and left > 0:
            size = 2 if min(len(turn), left) > 1 and generator.random() < TWO else 1
            victims, turn = tuple(turn[:size]), turn[size:]
            left -= size
            yield victims


def _describe(recoveries: Sequence[Recovery]) -> dict[str, Any]:
    """The figures of all strikes, and of those that hit the same."""
    groups: dict[str, list[Recovery]] = {"all": list(recoveries)}
    for each in recoveries:
        groups.setdefault(" and ".join(each.victims), []).append(each)
    report = {}
    for name, same in sorted(groups.items()):
        whole = [each.seconds for each in same]
        rounds = [each.whole_round_seconds for each in same]
        rest = [max(0.0, each.seconds - (each.loading_seconds or 0.0)) for each in same]
        report[name] = {
            "strikes": len(same),
            "seconds": {"median": round(median(whole), 3), "max": round(max(whole), 3)},
            "without_loading": {"median": round(median(rest), 3), "max": round(max(rest), 3)},
            "whole_round": {"median": round(median(rounds), 3), "max": round(max(rounds), 3)},
        }
    return report


def _longest_pause(times: Sequence[float]) -> float | None:
    pauses = [after - before for before, after in pairwise(times)]
    return round(max(pauses), 3) if pauses else None
