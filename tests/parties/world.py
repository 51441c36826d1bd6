"""All parties of a bandit on shares, a network that a test scripts, and an oracle in integers.

Every message crosses as bytes, is read by the codec of who gets it, and is logged. `rules` see each
parcel before it is put on the way: they lose, repeat or hold it back. `settle` lets the server work
until it is idle. The oracle decrypts what the server holds with the collective key, and computes
with Python's integers; nothing of it is shared with what it checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from helba.authority.authority import Authority, make_authority_keys
from helba.bandits.settings import Settings
from helba.opener.opener import OpenerParty
from helba.protocol.codec import Codec
from helba.protocol.deployment import SharesDeployment
from helba.protocol.effects import AUTHORITY, SERVER, Effects, Envelope
from helba.protocol.message import ID_BYTES, Answer, Message, Receipt, Refusal, Report
from helba.randomness import draw_bytes
from helba.ring import PublicKey, insecure_parameters
from helba.ring.secret import Opener, make_keys
from helba.server.server import Server
from helba.server.snapshot import dump_state, load_state
from helba.user.user import Recommended, User
from tests.parties.oracle import expected_sums, features_of, read_model, read_sums, round_report

MOST_STEPS = 5_000
ENGINES = ("simulate", "ckks")
OPENERS = ("users", "authority")
COUNTED = ("updates", "samples", "tests", "rejected", "abandoned", "dropped_reports", "failure")


def make_settings(dim: int = 2, arms: int = 3, **others: Any) -> Settings:
    """Settings with L = lambda = 1; by default an update is due when reports have doubled."""
    told = {
        "horizon": 500,
        "length": 1.0,
        "parameter_bound": 1.0,
        "noise": 0.5,
        "reward_max": 2.0,
        "growth": 1.0,
        "schedule": "public",
    }
    return Settings(dim=dim, arms=arms, **(told | others))


@lru_cache(maxsize=64)
def make_deployment(
    settings: Settings, *, engine: str = "simulate", opener: str = "users", log2: int | None = 9
) -> SharesDeployment:
    """The deployment on a small ring, or with `log2` None at 128 bits."""
    parameters = None if log2 is None else insecure_parameters(log2)
    return SharesDeployment.of(settings, engine=engine, opener=opener, parameters=parameters)


@dataclass(frozen=True, kw_only=True, eq=False)
class Parcel:
    """A message on its way, as bytes; `message` is what was sent, for scripts to look at."""

    sender: bytes
    to: bytes
    data: bytes
    message: Message

    @property
    def kind(self) -> str:
        """The name of its type."""
        return type(self.message).__name__

    @property
    def task(self) -> bytes:
        """The task that it belongs to, if any."""
        return getattr(self.message, "task", b"")

    @property
    def subject(self) -> str:
        """What its work is about, if it says so."""
        work = getattr(self.message, "work", None)
        return "" if work is None else work.subject


Rule = Callable[[Parcel], Iterable[Parcel]]


@dataclass(kw_only=True, eq=False)
class Member:
    """A party that is not the server; an authority has no user, a user of shares no opener."""

    id: bytes
    codec: Codec
    key: PublicKey | None = None
    user: User | None = None
    opener: OpenerParty | None = None
    inbox: list[Message] = field(default_factory=list)
    arms: dict[bytes, int] = field(default_factory=dict)

    def take(self, message: Message) -> None:
        """Take a message to the user in, and note the arm of an answer."""
        self.inbox.append(message)
        colours = None
        if isinstance(message, Answer) and self.opener is not None:
            colours = self.opener.colours.pop(message.task, None)
            if colours is None:
                return  # the other half was lost: the user has to ask again
        for change in self.user.handle(message, colours=colours).changes:
            if isinstance(change, Recommended):
                self.arms[change.name] = change.arm


class World:
    """One deployment with all its parties; `users` members are enrolled from the start.

    In the setting `users` tests and updates are opened by `helper`, one more user; in `authority`
    the helper is the authority.
    """

    def __init__(self, deployment: SharesDeployment, *, users: int = 1) -> None:
        self.deployment, self.plan = deployment, deployment.plan
        self.authority = Authority(deployment, keys=make_authority_keys(deployment))
        self.ring = self.authority.make_ring()
        self.reader = self.authority.make_opener()
        self.now = 0.0
        self.server = Server(deployment, ring=self.ring)
        self.codec = Codec(deployment, public_key=self.authority.public_key)
        self.members: dict[bytes, Member] = {}
        self.rules: list[Rule] = []
        self.flight: list[Parcel] = []
        self.log: list[Parcel] = []
        self.reports: dict[bytes, list[int]] = {}
        self.acknowledged: dict[bytes, list[int]] = {}
        self.users = [self.join() for _ in range(users)]
        if deployment.plan.opener == "users":
            self.helper = self.join()
        else:
            opener = OpenerParty(
                deployment,
                opener=self.authority.make_opener(),
                sealing_key=self.authority.private_sealing_key,
            )
            self.helper = Member(id=AUTHORITY, codec=self.codec, opener=opener)
            self.members[AUTHORITY] = self.helper
        self.server.add_helper(self.helper.id)

    def join(self, *, enrolled: bool = True) -> Member:
        """A user, enrolled unless told; in the setting `users` it has a key and is an opener."""
        authority, deployment, public = self.authority, self.deployment, self.authority.public_key
        if deployment.plan.opener == "authority":
            key, id = None, draw_bytes(ID_BYTES)
            user = User(deployment, id=id, sealing_key=authority.sealing_key)
            member = Member(id=id, codec=self.codec, user=user)
        else:
            keys, id = make_keys(self.plan.parameters, backend=public.backend), draw_bytes(ID_BYTES)
            key = keys.public
            user = User(deployment, id=id, public_key=public)
            party = OpenerParty(deployment, opener=Opener(keys.secret, public_key=public))
            codec = Codec(deployment, public_key=public, opener_key=key)
            member = Member(id=id, codec=codec, key=key, user=user, opener=party)
        self.members[id] = member
        if enrolled:
            self.enrol(member)
        return member

    def enrol(self, member: Member) -> None:
        """Let a user take part: authority, then server, then the user know it."""
        admission = self.carry(sent(self.admit(member)))
        (receipt,) = self.handle(admission, sender=AUTHORITY)
        assert receipt.to == member.id
        member.user.handle(self.carry(receipt.message))

    def admit(self, member: Member) -> Effects:
        """What the authority does about a member who asks to take part; nothing of it is logged."""
        asked = self.carry(sent(member.user.enrol(member.key)))
        return self.authority.handle(asked, sender=member.id)

    def carry(self, message: Message) -> Message:
        """The message after its way as bytes."""
        return self.codec.decode(self.codec.encode(message))

    # -- the network

    def send(self, effects: Effects) -> None:
        """Put what the server sends on the way."""
        for each in effects.replies:
            data = self.codec.encode(each.message)
            self.put(Parcel(sender=SERVER, to=each.to, data=data, message=each.message))

    def put(self, parcel: Parcel) -> None:
        """Put a parcel on the way, past all rules."""
        parcels = [parcel]
        for rule in self.rules:
            parcels = [made for each in parcels for made in rule(each)]
        self.flight += parcels

    def post(self, member: Member, message: Message) -> None:
        """Put a member's message on its way to the server."""
        data = member.codec.encode(message)
        self.put(Parcel(sender=member.id, to=SERVER, data=data, message=message))

    def deliver(self, parcel: Parcel) -> None:
        """Hand a parcel over; what follows from it is put on the way."""
        self.log.append(parcel)
        if parcel.to == SERVER:
            message = self.codec.decode(parcel.data)
            self.send(self.server.handle(message, sender=parcel.sender, now=self.now))
            return
        member = self.members.get(parcel.to)
        if member is None:
            return
        message = member.codec.decode(parcel.data)
        if isinstance(message, Answer | Receipt | Refusal):
            if isinstance(message, Receipt) and message.name in self.reports:
                self.acknowledged[message.name] = self.reports[message.name]
            member.take(message)
            return
        if member.opener is not None:
            for each in member.opener.handle(message, sender=SERVER).replies:
                self.post(member, each.message)

    def step(self) -> bool:
        """Deliver one parcel, or let the server start something; False if there is nothing."""
        if self.flight:
            self.deliver(self.flight.pop(0))
            return True
        self.send(self.server.work(now=self.now))
        return bool(self.flight)

    def settle(self, *, until: Callable[[], bool] | None = None) -> None:
        """Deliver everything, and let the server work, until nothing is left or `until` holds."""
        for _ in range(MOST_STEPS):
            if until is not None and until():
                return
            if not self.step():
                assert until is None, "nothing is left to do, and what was waited for is not there"
                return
        raise AssertionError(f"it does not settle: {self.server.last_trouble}")

    def settle_until(self, kind: str, *, subject: str | None = None) -> Parcel:
        """Deliver until a parcel of that kind is next; it is returned, and still on its way."""

        def is_next() -> bool:
            found = self.flight[:1]
            return bool(found) and found[0].kind == kind and subject in (None, found[0].subject)

        self.settle(until=is_next)
        return self.flight[0]

    def save(self) -> bytes:
        """What lasts of the server, as bytes."""
        return dump_state(
            self.server.state, deployment=self.deployment, public_key=self.ring.public_key
        )

    @property
    def conversations(self) -> list[Any]:
        """The server's open conversations."""
        return list(self.server._conversations._open.values())

    def status(self) -> Status:
        """How far the server is."""
        return status_of(self.server)

    @property
    def idle(self) -> bool:
        """Nothing is under way or waits at the server."""
        return is_idle(self.server)

    def handle(self, message: Message, *, sender: bytes) -> tuple[Envelope, ...]:
        """Let the server handle a message; return what it would send."""
        return self.server.handle(message, sender=sender, now=self.now).replies

    def lose(self, opener: bytes) -> None:
        """Tell the server that an opener went away."""
        self.send(self.server.lose(opener, now=self.now))

    def abandon(self, task: bytes, *, reason: str) -> None:
        """Make the server give a conversation up."""
        conversations = self.server._conversations
        conversations._give_up(conversations._open[task], reason=reason)
        self.send(self.server._settle(now=self.now))

    def restart(self, saved: bytes | None = None) -> None:
        """Put a new server in place of the old one, from its saved bytes; parcels are lost."""
        saved = self.save() if saved is None else saved
        self.flight.clear()
        state = load_state(saved, deployment=self.deployment, public_key=self.ring.public_key)
        self.server = Server(self.deployment, ring=self.ring, state=state)
        self.server.add_helper(self.helper.id)

    def extend(self, longer: SharesDeployment) -> None:
        """Begin all parties again with a longer horizon, the server and the opener as they were."""
        self.flight.clear()
        self.deployment, self.plan = longer, longer.plan
        self.codec = Codec(longer, public_key=self.authority.public_key)
        self.server = Server(longer, ring=self.ring, state=self.server.state)
        self.server.add_helper(self.helper.id)
        self.helper.codec = self.codec
        self.helper.opener = OpenerParty(
            longer,
            opener=self.authority.make_opener(),
            sealing_key=self.authority.private_sealing_key,
            state=self.helper.opener.state,
        )

    # -- rounds

    def ask(self, member: Member, contexts: Any) -> bytes:
        """Put an ask on the way; return its name."""
        message = sent(member.user.ask(np.asarray(contexts, dtype=float)))
        self.post(member, message)
        return message.name

    def report(self, member: Member, context: Any, reward: float) -> bytes:
        """Put a report on the way; return its name."""
        message: Report = sent(member.user.report(np.asarray(context, dtype=float), reward))
        self.reports[message.name] = self.round_report(context, reward)
        self.post(member, message)
        return message.name

    def recommend(self, member: Member, contexts: Any) -> int:
        """Play a round to its end; return the arm."""
        name = self.ask(member, contexts)
        self.settle()
        return member.arms[name]

    def learn(self, member: Member, rng: np.random.Generator, *, count: int = 1) -> None:
        """Send random reports, and let everything settle."""
        for _ in range(count):
            self.report(member, *draw_report(rng, self.deployment.settings))
        self.settle()

    # -- the oracle

    def round_report(self, context: Any, reward: float) -> list[int]:
        """The integers of a report."""
        return round_report(self.plan, context, reward)

    def features(self, context: Any) -> list[int]:
        """The features of an arm."""
        return features_of(self.plan, context)

    def model(self) -> list[int]:
        """The integers of the model that the server serves, decrypted."""
        return read_model(self.reader, self.plan, self.server.state.learned.model)

    def scores(self, contexts: Any, model: list[int] | None = None) -> list[int]:
        """The integer scores of all arms."""
        model = self.model() if model is None else model
        return [
            sum(w * f for w, f in zip(model, self.features(row), strict=True)) for row in contexts
        ]

    def best(self, contexts: Any, model: list[int] | None = None) -> int:
        """The lowest arm with the largest score."""
        return int(np.argmax(np.array(self.scores(contexts, model), dtype=object)))

    def sums(self) -> np.ndarray:
        """The sums over all reports that the server has summed: integers."""
        return read_sums(self.reader, self.plan, self.server.state)

    def expected_sums(self, reports: Iterable[list[int]] | None = None) -> np.ndarray:
        """The same sums over acknowledged reports, once each."""
        found = self.acknowledged.values() if reports is None else reports
        return expected_sums(found, dim=self.deployment.settings.dim)

    def check_sums(self) -> None:
        """What the server has summed are the acknowledged reports, once each."""
        assert np.array_equal(self.sums(), self.expected_sums())
        assert self.server.state.samples == len(self.acknowledged)


def draw_contexts(rng: np.random.Generator, settings: Settings, *, arms: int | None = None):
    """Contexts in the ball of length L."""
    rows = rng.normal(size=(settings.arms if arms is None else arms, settings.dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * settings.length * rng.uniform(0.3, 1.0, (len(rows), 1))


def draw_report(rng: np.random.Generator, settings: Settings):
    """A context, and a reward that has to do with it."""
    (context,) = draw_contexts(rng, settings, arms=1)
    reward = float(context.sum()) / settings.length + 0.2 * rng.normal()
    return context, float(np.clip(reward, -settings.reward_max, settings.reward_max))


def sent(effects: Effects) -> Any:
    """The one message of these effects."""
    (envelope,) = effects.replies
    return envelope.message


def unanswered(user: User) -> list[Message]:
    """Asks and reports that the server has not answered."""
    return [each.ask for each in user.state.rounds.values()] + list(user.state.outbox.values())


@dataclass(frozen=True, kw_only=True)
class Status:
    """How far a server is; all of it is public."""

    updates: int
    samples: int
    updating: bool
    tests: int
    rejected: int
    abandoned: int
    dropped_reports: int
    failure: float
    last_trouble: str


def status_of(server: Server) -> Status:
    """How far it is."""
    found = {name: getattr(server.state, name) for name in COUNTED}
    trouble = server.last_trouble
    return Status(updating=server._learning.updating, last_trouble=trouble, **found)


def is_idle(server: Server) -> bool:
    """True if nothing is under way or waiting."""
    return not (server._conversations._open or len(server._asks) or len(server._reports))


def reply_of(opener: OpenerParty, message: Message) -> Message | None:
    """What an opener answers, if it does."""
    replies = [each.message for each in opener.handle(message, sender=SERVER).replies]
    return replies[0] if replies else None


# -- rules of a network


def lose(kind: str, *, subject: str | None = None, times: int = 1) -> Rule:
    """Lose the next parcels of a kind."""
    left = [times]

    def rule(parcel: Parcel) -> Iterator[Parcel]:
        if left[0] and parcel.kind == kind and subject in (None, parcel.subject):
            left[0] -= 1
            return
        yield parcel

    return rule


def repeat(*kinds: str) -> Rule:
    """Deliver every parcel of these kinds twice, one right after the other."""

    def rule(parcel: Parcel) -> Iterator[Parcel]:
        yield parcel
        if parcel.kind in kinds:
            yield parcel

    return rule


def hold(kind: str, held: list[Parcel], *, subject: str | None = None, times: int = 1) -> Rule:
    """Keep the next parcels of a kind in `held`, for the test to deliver later."""
    left = [times]

    def rule(parcel: Parcel) -> Iterator[Parcel]:
        if left[0] and parcel.kind == kind and subject in (None, parcel.subject):
            left[0] -= 1
            held.append(parcel)
            return
        yield parcel

    return rule
