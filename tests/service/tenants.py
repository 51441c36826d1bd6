"""Tenants of small deployments, and guests who play with them without HTTP.

Rings are tiny and without any security; what a guest sends and gets are the real bytes.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from helba.problems.toy import Toy
from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.user import User
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import (
    Answer,
    Ask,
    Receipt,
    Report,
    Task,
    TaskReply,
    TestReply,
)
from helba.service.protocol.serverfiles import write_server_files
from helba.service.protocol.tokens import hash_token, make_token, write_authority_hash
from helba.service.store import Store
from helba.service.tenant import Tenant
from tests.reference.protocol.parties import MILD, TOY, authority_of
from tests.reference.protocol.talking import CUT_TOY

__all__ = [
    "CUT_TOY",
    "MILD",
    "TOY",
    "Guest",
    "House",
    "expected_of",
    "open_house",
    "require_statistics",
    "second_tenant",
    "statistics_of",
    "toy_rounds",
    "wait_for_another_evaluator",
    "wait_until",
]

# Eight users in a ciphertext.
START_SECONDS = 60.0


def wait_until(holds: Callable[[], bool], *, seconds: float = START_SECONDS) -> None:
    """Return when it holds; fail if it does not in time."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not come to pass in time"
        time.sleep(0.01)


class House:
    """A tenant in a folder, its authority, and a store; it may be stopped, killed, and opened."""

    def __init__(self, folder: Path, authority: Authority, *, url: str, **options: Any) -> None:
        self.folder = folder
        self.authority = authority
        self.deployment = authority.deployment
        self.url = url
        self.options = options
        self.authority_token = make_token("authority")
        write_server_files(authority, folder)
        write_authority_hash(folder, hash_token(self.authority_token))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.open()

    def open(self) -> None:
        """Start the tenant from folder and store."""
        self.store = Store(self.url)
        self.tenant = Tenant(
            "main", self.folder, store=self.store, allow_insecure=True, **self.options
        )
        self.tenant.start()
        wait_until(lambda: self.tenant.state == "serving")

    def close(self) -> None:
        """Stop it as an operator would."""
        self.tenant.stop()
        self.store.close()

    def end(self) -> None:
        """Stop it for good."""
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Any) -> Any:
        """What a coroutine of the tenant returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(120)

    def enrol(self, name: str | None = None) -> Guest:
        """A new user, whom the running tenant is told of."""
        user = self.authority.make_user(name)
        token = make_token("user")
        enrolment = self.authority.enrolment_of(user.id)
        self.run(self.tenant.enrol(user.id, enrolment, token_hash=hash_token(token)))
        return Guest(self, user)


class Guest:
    """A user who speaks to a tenant directly."""

    def __init__(self, house: House, user: User) -> None:
        self.house = house
        self.user = user
        self.codec = Codec(house.deployment)
        self.rewards: list[tuple[np.ndarray, float]] = []

    def say(self, data: bytes, kind: type[Any], verb: str) -> list[bytes]:
        """What the tenant returns for a message."""
        tenant = self.house.tenant

        async def talk() -> Any:
            checked = await tenant.check(data, kind=kind, user=self.user.id)
            return await getattr(tenant, verb)(checked)

        return self.house.run(talk()) or []

    def make_ask(self, contexts: Sequence[Sequence[float]]) -> bytes:
        """An ask under the terms that are served."""
        notice = self.house.run(self.house.tenant.terms())
        return self.user.ask(contexts, terms=self.user.read_notice(notice))

    def finish(self, sent: list[bytes]) -> bytes:
        """The answer to a round, after all help that it needs."""
        while True:
            (data,) = sent
            if isinstance(self.codec.decode(data), Answer):
                return data
            assert isinstance(self.codec.decode(data), Task)
            sent = self.say(self.user.help(data), TaskReply, "task_reply")

    def choose(self, contexts: Any) -> Any:
        """The recommendation for these contexts."""
        found = self.user.read(self.finish(self.say(self.make_ask(contexts), Ask, "ask")))
        if found.reply is not None:
            self.say(found.reply, TestReply, "test_reply")
        return found

    def report(self, round: bytes, context: Any, reward: float) -> bytes:
        """A report, noted as one that will be acknowledged."""
        self.rewards.append((np.asarray(context, dtype=float), reward))
        return self.user.report(round, context=context, reward=reward)

    def earn(self, round: bytes, context: Any, reward: float) -> Receipt:
        """Report a reward; the receipt."""
        (data,) = self.say(self.report(round, context, reward), Report, "reward")
        receipt = self.codec.decode(data)
        assert isinstance(receipt, Receipt)
        return receipt

    def help(self) -> int:
        """Help with updates until nothing is left to do."""
        done = 0
        while tasks := self.house.run(self.house.tenant.tasks(self.user.id)):
            while tasks:
                tasks = self.say(self.user.help(tasks[0]), TaskReply, "task_reply")
                done += 1
        return done

    def play(self, rounds: Sequence[Any]) -> list[int]:
        """Whole rounds of a problem; the arms."""
        arms = []
        for each in rounds:
            found = self.choose(each.contexts)
            receipt = self.earn(found.round, each.contexts[found.arm], each.rewards[found.arm])
            assert receipt.counted
            self.help()
            arms.append(found.arm)
        return arms


def statistics_of(house: House) -> tuple[np.ndarray, np.ndarray, int]:
    """Design and response as they are stored, opened with the authority's key, and the count.

    Rewards that wait for an update to end are part of them.
    """
    saved = house.store.load("main")
    head = json.loads(saved.head)
    authority, matrices = house.authority, house.deployment.matrices
    engine = authority._scheme.engine(authority._keys.public)

    def opened(number: int) -> np.ndarray:
        vector = engine.vector_from_bytes(saved.parts[number])
        return engine.decrypt(vector, secret_key=authority._keys.secret)

    held = head["held"]
    design = sum(opened(each[0]) for each in held) + opened(head["design"])
    response = sum(opened(each[1]) for each in held) + opened(head["response"])
    return (
        matrices.unpack(design),
        matrices.unpack(response)[:, 0],
        head["samples"] + sum(each[3] for each in held),
    )


def expected_of(house: House, guests: Sequence[Guest]) -> tuple[np.ndarray, np.ndarray, int]:
    """The same from what the guests were acknowledged, in the clear."""
    rewards = [each for guest in guests for each in guest.rewards]
    settings = house.deployment.settings
    design = settings.ridge * np.eye(settings.dim)
    response = np.zeros(settings.dim)
    for context, reward in rewards:
        design += np.outer(context, context)
        response += reward * context
    return design, response, len(rewards)


@contextmanager
def open_house(
    folder: Path, *, request: PlanRequest = TOY, scheme: str = "simulate", url: str, **options: Any
) -> Iterator[House]:
    """A tenant that serves, until the block ends."""
    house = House(
        folder,
        authority_of(request, scheme=scheme),
        url=url,
        **options,
    )
    try:
        yield house
    finally:
        house.end()


@contextmanager
def second_tenant(house: House) -> Iterator[Tenant]:
    """Another server's tenant on the same folder and store; the house has its own in the end."""
    first = house.tenant
    with Store(house.url) as store:
        other = Tenant("main", house.folder, store=store, allow_insecure=True)
        other.start()
        wait_until(lambda: other.state == "serving")
        try:
            yield other
        finally:
            house.tenant = first
            other.stop()


def toy_rounds(count: int, *, seed: int = 0) -> list[Any]:
    """Rounds of the toy problem."""
    return list(Toy(seed=seed).rounds(count))


def require_statistics(house: House, guests: list[Guest]) -> None:
    """What is stored is the sum of what was acknowledged, once each."""
    design, response, count = statistics_of(house)
    wanted = expected_of(house, guests)
    assert count == wanted[2]
    np.testing.assert_allclose(design, wanted[0], atol=1e-3)
    np.testing.assert_allclose(response, wanted[1], atol=1e-3)


def wait_for_another_evaluator(house: House, before: int) -> None:
    """Until the tenant serves with another process than `before`."""
    wait_until(lambda: house.tenant.processes().get("evaluator", before) != before)
    wait_until(lambda: house.tenant.state == "serving")
