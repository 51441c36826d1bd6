"""A server in a process of its own, and tenants of it with a history that attacks may build on.

In each tenant an honest user has played, and stands in the middle of a round; a rogue is enrolled,
and has played nothing. What must not change can be looked at.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.bandit import ReferenceBandit
from helba.service.protocol.serverfiles import write_server_files
from helba.service.protocol.tokens import hash_token, make_token, write_authority_hash
from helba.service.store import Store
from tests.reference.protocol.parties import TOY, authority_of
from tests.service.hostile.player import SECONDS, Player, Sent
from tests.service.tenants import CUT_TOY, toy_rounds, wait_until

REQUESTS = {
    "single": TOY,
    "cut": CUT_TOY,
    "switched": replace(TOY, keys="switched"),
}
BEFORE, AFTER = 4, 1  # rounds that are over when the attack begins, and those that follow it
COUNTS = ("state", "key", "round", "samples", "updates", "rejected", "held", "enrolled", "batch")


class Tenancy:
    """One tenant: its folder, authority and users."""

    def __init__(self, name: str, folder: Path, *, request: PlanRequest, scheme: str) -> None:
        self.name, self.folder = name, folder
        self.authority = authority_of(request, scheme=scheme)
        self.stranger = Authority(self.authority.deployment)  # the same plan, other keys
        self.token = make_token("authority")
        self.arms: list[int] = []
        self.rounds = toy_rounds(BEFORE + 1 + AFTER)
        self.wanted = _arms_of(authority_of(request, scheme="simulate"), self.rounds)
        write_server_files(self.authority, folder)
        write_authority_hash(folder, hash_token(self.token))

    def enter(self, url: str) -> None:
        """Enrol users, and play up to the middle of a round; the bits of its test stay out."""
        self.url = f"{url}/v1/tenants/{self.name}"
        self.honest, self.rogue = (self._enrol(name) for name in ("honest", "rogue"))
        for number, each in enumerate(self.rounds[:BEFORE]):
            if number == BEFORE // 2 and self.name == "cut":
                self._rotate()
            self.arms.append(self.honest.play(each))
        old, self.honest.sent = self.honest.sent, []
        said = self.honest.ask(self.rounds[BEFORE].contexts)
        self.under_way: Any = said
        tasks = []
        if self.name != "cut":  # there the round itself waits for help
            self.under_way = self.honest.finish(said)
        else:
            share = self.honest.user.help(said[0])
            tasks = [Sent(route="tasks", data=share, open=True)]
        now = [replace(each, open=True) for each in self.honest.sent]
        self.samples = [*self._issued(), *_latest(old), *now, *tasks]
        self.answers = [*said, self.honest.call("POST", "terms").content]

    def leave(self) -> None:
        """Close connections."""
        self.honest.close()
        self.rogue.close()

    def finish(self) -> None:
        """Play the round to its end, and some more."""
        found = self.under_way
        if self.name == "cut":
            found = self.honest.finish(found)
        self.honest.tell(found)
        self.arms.append(found.arm)
        self.honest.earn(found, self.rounds[BEFORE])
        self.arms += [self.honest.play(each) for each in self.rounds[BEFORE + 1 :]]

    @property
    def tokens(self) -> dict[str, str]:
        """Who may call."""
        return {
            "honest": self.honest.token,
            "rogue": self.rogue.token,
            "authority": self.token,
        }

    def _enrol(self, name: str) -> Player:
        user = self.authority.make_user(name)
        player = Player(self.url, self.authority, user)
        self.tell("PUT", f"members/{user.id.hex()}", **self._enrolment(player))
        if self.name == "switched":
            player.call("PUT", "inward-key", user.inward_key_bytes())
        return player

    def _enrolment(self, player: Player) -> dict[str, Any]:
        return {
            "content": self.authority.enrolment_of(player.user.id),
            "headers": {"Helba-Token-Sha256": hash_token(player.token)},
        }

    def _rotate(self) -> None:
        self.rotation = self.authority.rotate()
        self.tell("PUT", "rotation", content=self.rotation, headers={})
        for player in (self.honest, self.rogue):
            player.user.adopt(self.authority.public_key_bytes())

    def tell(self, method: str, route: str, *, headers: Mapping[str, str], content: bytes) -> None:
        """Say something as the authority."""
        whole = {"Authorization": f"Bearer {self.token}", **headers}
        url = f"{self.url}/{route}"
        answer = httpx.request(method, url, content=content, headers=whole, timeout=SECONDS)
        assert answer.is_success, answer.text

    def _issued(self) -> list[Sent]:
        """What the authority has sent, and a user's key."""
        name = self.honest.user.id.hex()
        put = {"method": "PUT", "open": True}  # keys cannot be told from others: nothing may pass
        found = [
            Sent(
                route=f"members/{name}",
                data=(self.folder / "users" / f"{name}.enrolment").read_bytes(),
                caller="authority",
                headers={"Helba-Token-Sha256": hash_token(self.honest.token)},
                **put,
            )
        ]
        if self.name == "cut":
            found.append(Sent(route="rotation", data=self.rotation, caller="authority", **put))
        if self.name == "switched":
            key = (self.folder / "users" / f"{name}.inward").read_bytes()
            found.append(Sent(route="inward-key", data=key, **put))
        return found


def _latest(sent: Sequence[Sent]) -> list[Sent]:
    """The first and the last two messages of each kind and length."""
    kinds: dict[tuple[str, int], list[Sent]] = {}
    for each in sent:
        kinds.setdefault((each.route, len(each.data)), []).append(each)
    return [each for same in kinds.values() for each in dict.fromkeys((same[0], *same[-2:]))]


def _arms_of(authority: Authority, rounds: Sequence[Any]) -> list[int]:
    """What the parties decide in one process, on any engine."""
    bandit = ReferenceBandit(authority.deployment.settings, authority=authority)
    arms = []
    for each in rounds:
        arms.append(bandit.select(each.contexts))
        bandit.update(each.contexts[arms[-1]], each.rewards[arms[-1]])
    return arms


class Stage:
    """The server's process, its tenants, and what can be seen of them."""

    def __init__(self, process: int, url: str, *, store: str, tenancies: Sequence[Tenancy]) -> None:
        self.process, self.url, self.store = process, url, store
        self.tenancies = tenancies

    def children(self) -> frozenset[int]:
        """The server's processes: an evaluator and a reader of each tenant, and Python's own."""
        tasks = Path(f"/proc/{self.process}/task").iterdir()
        found = [each.joinpath("children").read_text().split() for each in tasks]
        return frozenset(int(pid) for each in found for pid in each)

    def resident(self) -> dict[int, int]:
        """Bytes in memory by process."""
        pids = (self.process, *sorted(self.children()))
        return {pid: _resident_bytes(pid) for pid in pids}

    def names(self) -> dict[str, int]:
        """Resident bytes as the server itself tells them, by the names of processes."""
        text = httpx.get(f"{self.url}/metrics", timeout=SECONDS).text
        lines = [line for line in text.splitlines() if line.startswith("helba_resident_bytes{")]
        return {line.split('"')[1]: int(float(line.split()[-1])) for line in lines}

    def state(self) -> dict[str, Any]:
        """All that lasts: what is stored, files, and what tenants say of themselves."""
        found: dict[str, Any] = {}
        with Store(self.store, create=False) as store:
            for each in self.tenancies:
                name, players = each.name, (each.honest, each.rogue)
                report = httpx.get(each.url, timeout=SECONDS).json()
                found[name] = {
                    "saved": store.load(name),
                    "counts": store.counts(name),
                    "ledger": store.ledger(name),
                    "rounds": [store.open_rounds(name, player.user.id) for player in players],
                    "files": _digests(each.folder),
                    "report": {count: report[count] for count in (*COUNTS, "open_rounds", "bits")},
                }
        return found


def _resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError("a process has ended")


def _digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@contextmanager
def open_stage(folder: Path, *, scheme: str, store: str, tenants: Sequence[str]) -> Iterator[Stage]:
    """A server whose tenants have a history, until the block ends."""
    tenancies = [
        Tenancy(name, folder / name, request=REQUESTS[name], scheme=scheme) for name in tenants
    ]
    given = {"store": store, "tenants": {each.name: str(each.folder) for each in tenancies}}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.service.hostile.host", json.dumps(given)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        with process, ExitStack() as stack:
            stack.callback(process.terminate)
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url, (folder / "log").read_text()

            def is_ready() -> bool:
                return httpx.get(f"{url}/v1/ready", timeout=SECONDS).status_code == 200

            wait_until(is_ready)
            for each in tenancies:
                each.enter(url)
                stack.callback(each.leave)
            yield Stage(process.pid, url, store=store, tenancies=tenancies)
    assert process.returncode == 0, (folder / "log").read_text()
