"""Users who ask and reward until they are told to end, each in a thread, in one process.

    python -m tests.service.soak.player JSON

Every reward is written down before it is sent, and again when it was acknowledged, in lines of
JSON; so is every enrolment. Guests come one after the other meanwhile: each enrols and plays once.
The process ends when its standard input does, after all have sent what they have left.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from helba.bandits.policy import clip_reward
from helba.errors import HelbaError, RunFailed
from helba.problems import make_problem
from helba.reference.engine import get_scheme
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.user import User
from helba.service.client import Client
from helba.service.client.account import Account, read_account, read_token
from helba.service.client.enrolment import enrol
from helba.service.client.registry import Registry
from helba.service.client.transport import Patience
from helba.service.protocol.tokens import hash_token, make_token
from tests.service.soak.service import WORDS

PATIENCE = Patience(deadline_seconds=120.0, longest_wait_seconds=2.0)
PAUSE_SECONDS = 0.2
FLUSH_SECONDS = 180.0
MOST_ROUNDS = 10**9


class Notebook:
    """Lines of what happened, which several threads write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def write(self, kind: str, **fields: Any) -> None:
        """Note something, for good."""
        with self._lock, self._path.open("a") as file:
            file.write(json.dumps({"kind": kind, "at": time.time(), **fields}) + "\n")


class Player:
    """A user at its client, every report and receipt of which is noted."""

    def __init__(self, client: Client, *, notebook: Notebook, problem: str, seed: int) -> None:
        self.client = client
        self.errors: Counter[str] = Counter()
        self.reports = 0
        self._notebook = notebook
        settings = client.deployment.settings
        drawn = make_problem(problem, dim=settings.dim, arms=settings.arms, seed=seed)
        self._rounds = drawn.rounds(MOST_ROUNDS)
        self._codec = client._dialogue._codec
        self._send = client._dialogue.report
        client._dialogue.report = self._report  # type: ignore[method-assign]
        client.transport._client.event_hooks = {"request": [self._count]}

    def _count(self, request: httpx.Request) -> None:
        self.reports += request.url.path.endswith("/rewards")

    def _report(self, report: bytes) -> bool:
        """Send a report until there is a receipt."""
        round = self._codec.decode(report).round.hex()
        counted = self._send(report)
        self._notebook.write("receipt", user=self.client.id, round=round, counted=counted)
        return counted

    def play(self) -> None:
        """One round, or the errors of it."""
        each = next(self._rounds)
        advice = self.client.recommend(each.contexts)
        reward, _ = clip_reward(self.client.deployment.settings, float(each.rewards[advice.arm]))
        self._notebook.write(
            "reward",
            user=self.client.id,
            round=advice.round,
            context=each.contexts[advice.arm].tolist(),
            reward=reward,
        )
        self.client.reward(advice.round, reward)

    def try_to_play(self) -> None:
        """One round; an error is counted, and what is left is sent."""
        try:
            self.play()
        except HelbaError as error:
            self.errors[type(error).__name__] += 1
            self._notebook.write("error", user=self.client.id, line=str(error))
            time.sleep(PAUSE_SECONDS)
            with suppress(HelbaError):
                self.client.flush()

    def finish(self) -> None:
        """Send what is left, as often as it takes, and note how it went."""
        until = time.monotonic() + FLUSH_SECONDS
        while True:
            try:
                self.client.flush()
                break
            except HelbaError as error:
                if time.monotonic() > until:
                    raise RunFailed(f"what is left cannot be sent: {error}") from error
                time.sleep(PAUSE_SECONDS)
        self._notebook.write(
            "end",
            user=self.client.id,
            reports=self.reports,
            requests_again=self.client.transport.retries,
            refused=self.client.refused(),
            errors=dict(self.errors),
        )
        self.client.close()


@dataclass(frozen=True, kw_only=True)
class Table:
    """Where users enrol, and what they play."""

    authority: str
    insecure: bool
    problem: str
    notebook: Notebook

    def seat(self, folder: Path, *, name: str, seed: int, in_memory: bool = False) -> Player:
        """Enrol a user whose keys are in a folder; its rounds are there too, or in memory."""
        user = enrol(
            folder,
            authority=self.authority,
            name=name,
            passphrase=WORDS,
            patience=PATIENCE,
            allow_insecure=self.insecure,
        )
        account, token = read_account(folder), read_token(folder)
        outbox = None if in_memory else folder
        return self._sit(user, account=account, token=token, folder=outbox, seed=seed)

    def seat_guest(self, name: str, *, seed: int, helps: bool = True) -> Player:
        """Enrol a user who leaves nothing on the disk."""
        account = Account(authority=self.authority, name=name, server="", tenant="")
        with Registry(account, patience=PATIENCE) as registry:
            deployment = Deployment.from_json(registry.deployment(), allow_insecure=self.insecure)
            scheme, parameters = get_scheme(deployment.scheme), deployment.parameters
            public = scheme.public_key_from_bytes(registry.public_key(), parameters=parameters)
            keys, token = scheme.generate_pair(parameters), make_token("user")
            user = User(deployment, scheme=scheme, engine=scheme.engine(public), keys=keys)
            home = registry.home()
            registry.enrol(
                name, public_key=user.public_key_bytes(), token_hash=hash_token(token, kind="user")
            )
        account = Account(**{**vars(account), "server": home.url, "tenant": home.tenant})
        return self._sit(user, account=account, token=token, folder=None, seed=seed, helps=helps)

    def _sit(
        self,
        user: User,
        *,
        account: Account,
        token: str,
        folder: Path | None,
        seed: int,
        helps: bool = True,
    ) -> Player:
        self.notebook.write(
            "enrolled", user=user.id.hex(), name=account.name, token_hash=hash_token(token)
        )
        client = Client(
            user,
            account=account,
            token=token,
            folder=folder,
            patience=PATIENCE,
            helps=helps,
            allow_insecure=self.insecure,
        )
        return Player(client, notebook=self.notebook, problem=self.problem, seed=seed)


def run_players(
    table: Table, *, folder: Path, users: int, guests: int, guest_seconds: float
) -> None:
    """Play until the standard input ends; say on the standard output when all are seated."""
    ending = threading.Event()
    seats = [
        table.seat(folder / f"user-{number}", name=f"user-{number}", seed=number, in_memory=odd)
        for number, odd in ((each, bool(each % 2)) for each in range(users))
    ]
    failed: list[BaseException] = []

    def guard(action: Any, *arguments: Any) -> None:
        try:
            action(*arguments)
        except BaseException as error:
            failed.append(error)

    def play(player: Player) -> None:
        while not ending.is_set():
            player.try_to_play()
        player.finish()

    def receive() -> None:
        for number in range(guests):
            if ending.wait(guest_seconds):
                return
            try:
                guest = table.seat_guest(f"guest-{number}", seed=1000 + number)
            except HelbaError as error:
                table.notebook.write("error", user="", line=str(error))
                continue
            guest.try_to_play()
            guest.finish()

    threads = [threading.Thread(target=guard, args=(play, each)) for each in seats]
    threads.append(threading.Thread(target=guard, args=(receive,)))
    for thread in threads:
        thread.start()
    print("seated", flush=True)
    sys.stdin.read()
    ending.set()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def main() -> int:
    """Run the users that the argument describes."""
    given = json.loads(sys.argv[1])
    folder = Path(given["folder"])
    table = Table(
        authority=given["authority"],
        insecure=given["insecure"],
        problem=given["problem"],
        notebook=Notebook(folder / "notebook.jsonl"),
    )
    try:
        run_players(
            table,
            folder=folder,
            users=given["users"],
            guests=given["guests"],
            guest_seconds=given["guest_seconds"],
        )
    except HelbaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
