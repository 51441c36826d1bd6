"""All parties in one process under a clock, a network and crashes of our own making.

Messages cross as bytes; the network loses, repeats, delays and truncates them, and links are cut. A
party crashes at a message: before what it brought about was stored, after that and before anything
was sent, or in the middle of sending. It comes back later from what was stored, as bytes. Rings and
garbling are the simulator's; with `garbling="real"` circuits are garbled as in earnest.

Everything follows from the scenario: the clock is a number, events stand in a heap, and parties
draw their bytes from its seed. (What libsodium draws for itself differs; nothing depends on
it.)
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from random import Random
from typing import Any

import numpy as np

from helba.authority.authority import Authority
from helba.errors import DamagedData
from helba.garbling import EvaluatorSession, GarblerSession
from helba.opener.opener import OpenerParty
from helba.opener.state import OpenerState
from helba.protocol.codec import Codec
from helba.protocol.deployment import SharesDeployment
from helba.protocol.effects import AUTHORITY, SERVER, Effects, Envelope
from helba.protocol.message import Answer, Ask, Message, Receipt, Refusal, Report
from helba.ring.ring import Ring
from helba.ring.secret import Opener
from helba.server.server import Server
from helba.server.snapshot import dump_state, load_state
from helba.user.user import Recommended, User
from tests.parties.world import (
    draw_contexts,
    draw_report,
    is_idle,
    make_deployment,
    make_settings,
    status_of,
    unanswered,
)
from tests.simulation.oracle import Asked, Ledger, require
from tests.simulation.scenario import Operation, Scenario

PATIENCE = 5.0  # of the server with openers
RETRY = 3.0  # of a user without an answer
TICK = 0.5  # between looks of the server at its clock
DOWN = 1.0  # seconds that a party is away after a crash, unless told
QUIET = 200.0  # seconds after the last fault by which nothing may be left to do
MOST_EVENTS = 2_000  # of one operation
FOR_USERS = (Answer, Receipt, Refusal)


def _ignore(kind: str, value: bytes) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class RecordedDeployment(SharesDeployment):
    """The simulator's deployment; its garbling can be the real one, and is watched."""

    real: bool = False
    watch: Callable[[str, bytes], None] = field(default=_ignore, compare=False)

    def make_garbler(self, draw: Any = None) -> GarblerSession:
        session = GarblerSession(draw=draw) if self.real else super().make_garbler(draw)
        self.watch("offset", session._offset.tobytes())
        return session

    def make_evaluator(self, draw: Any = None) -> EvaluatorSession:
        return EvaluatorSession(draw=draw) if self.real else super().make_evaluator(draw)


class RecordedRing(Ring):
    """The server's ring; every mask that it draws is watched."""

    watch: Callable[[str, bytes], None]

    def open(self, ciphertext: Any, *, places: Any, to: Any = None) -> Any:
        opening, mask = super().open(ciphertext, places=places, to=to)
        self.watch("mask", mask._share._residues.tobytes())
        return opening, mask


@dataclass(kw_only=True)
class Member:
    """A party that is not the server; `opener` and `user` are thrown away by a crash."""

    id: bytes
    codec: Codec
    make_user: Callable[[], User] | None = None
    make_opener: Callable[[OpenerState], OpenerParty] | None = None
    user: User | None = None
    opener: OpenerParty | None = None
    up: bool = True
    wakes: bool = False


class Simulation:
    """Plays a scenario; `Broken` says which invariant does not hold."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.luck = Random(scenario.seed)
        self.numbers = np.random.default_rng(scenario.seed)
        self.draw = Random(scenario.seed + 1).randbytes
        self.now = 0.0
        self.messages = 0
        self.faulty = True
        self.cut: dict[bytes, float] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        plain = _deploy(scenario.opener, scenario.schedule)
        self.ledger = Ledger(plain.plan)
        self.deployment = RecordedDeployment(
            plan=plain.plan,
            engine=plain.engine,
            real=scenario.garbling == "real",
            watch=self.ledger.once.use,
        )
        self.authority = Authority(self.deployment, seed=scenario.seed, draw=self.draw)
        self.reader = self.authority.make_opener()
        keys = self.authority.make_ring()
        self.ring = RecordedRing(
            keys.public_key, evaluation_key=keys.evaluation_key, draw=self.draw
        )
        self.ring.watch = self.ledger.once.use
        self.codec = Codec(self.deployment, public_key=keys.public_key)
        self.recipients: dict[bytes, Any] = {}
        self.members: dict[bytes, Member] = {}
        self.server: Server | None = Server(
            self.deployment, ring=self.ring, draw=self.draw, patience=PATIENCE
        )
        self.stored = load_state(self._dump(self.server.state), **self._reading)
        self.users = [self._join() for _ in range(scenario.users)]
        if scenario.opener == "users":
            self.helper = self._join()
        else:
            self.helper = Member(
                id=AUTHORITY, codec=self.codec, make_opener=self._make_authority_opener
            )
            self.helper.opener = self.helper.make_opener(OpenerState())
            self.members[AUTHORITY] = self.helper
        self.server.add_helper(self.helper.id)
        self._at(TICK, self._tick)

    # -- parties

    @property
    def _reading(self) -> dict[str, Any]:
        return {"deployment": self.deployment, "public_key": self.ring.public_key}

    def _dump(self, state: Any) -> bytes:
        return dump_state(state, **self._reading)

    def _make_authority_opener(self, state: OpenerState) -> OpenerParty:
        return OpenerParty(
            self.deployment,
            opener=self.authority.make_opener(),
            sealing_key=self.authority.private_sealing_key,
            state=state,
            draw=self.draw,
        )

    def _join(self) -> Member:
        authority, deployment, public = self.authority, self.deployment, self.ring.public_key
        if deployment.plan.opener == "authority":
            enrolment = authority.enrol()
            told: dict[str, Any] = {"sealing_key": authority.sealing_key}
            member = Member(id=enrolment.id, codec=self.codec)
        else:
            keys = authority.make_user_keys()
            enrolment, told = authority.enrol(keys.public), {"public_key": public}
            codec = Codec(deployment, public_key=public, opener_key=keys.public)
            member = Member(id=enrolment.id, codec=codec)
            opener = Opener(keys.secret, public_key=public)
            member.make_opener = lambda state: OpenerParty(
                deployment, opener=opener, state=state, draw=self.draw
            )
            member.opener = member.make_opener(OpenerState())
            self.recipients[member.id] = enrolment.recipient
        member.make_user = lambda: User(deployment, id=member.id, draw=self.draw, **told)
        member.user = member.make_user()
        self.members[member.id] = member
        assert self.server is not None
        self._store(self.server.enrol(member.id, enrolment.recipient))
        return member

    # -- what happens

    def play(self) -> Ledger:
        """Play all operations, let the faults end, and check that nothing is left or lost."""
        for operation in self.scenario.operations:
            self.do(operation)
        self.finish()
        return self.ledger

    def do(self, operation: Operation) -> None:
        """Do one operation; messages that are due by then come first."""
        self.run(until=self.now + 0.02)
        kind, seconds = operation.kind, operation.seconds
        if kind == "ask":
            self._ask(self.users[int(operation.actor)])
        elif kind == "report":
            self._report(self.users[int(operation.actor)])
        elif kind == "wait":
            self.run(until=self.now + seconds)
        elif kind == "crash":
            party = {"server": None, "opener": self.helper}.get(str(operation.actor), self.users[0])
            self._crash(party, seconds=seconds or DOWN)
        elif kind == "worker" and self.server is not None:
            # What a dead worker costs: its conversations and sessions, and nothing else.
            for opener in {**self.recipients, self.helper.id: None}:
                if self.server is not None:
                    self._take(None, self.server.lose(opener, now=self.now))
            if self.server is not None:
                self.server.add_helper(self.helper.id)
        elif kind == "cut":
            member = self.helper if operation.actor == "opener" else self.users[0]
            self.cut[member.id] = self.now + seconds

    def finish(self) -> None:
        """No more faults: everything must come to its end, and be right."""
        self.faulty = False
        self.cut.clear()
        end = self.now + QUIET
        while self.now < end and not self._idle:
            self.run(until=self.now + 2 * RETRY)
        require(self._idle, f"it does not become idle: {self._describe()}")
        assert self.server is not None
        self._check_stored(self.server)
        for name, times in self.ledger.received.items():
            require(self.ledger.answered[name] >= times, "a round is forgotten")
        require(self.ledger.acknowledged == set(self.ledger.reports), "a report is never stored")
        self.ledger.check_sums(self.server.state, reader=self.reader)

    @property
    def _idle(self) -> bool:
        if self.server is None or not is_idle(self.server):
            return False
        waiting = any(m.user is None or unanswered(m.user) for m in self.users)
        flying = any(action is not None for _, _, action in self._events if action != self._tick)
        return not waiting and not flying

    def _describe(self) -> str:
        server = "down" if self.server is None else repr(status_of(self.server))
        return f"{server}, {len(self._events)} events"

    def _ask(self, member: Member) -> None:
        if not member.up or member.user is None:
            return
        contexts = draw_contexts(self.numbers, self.deployment.settings)
        ask = member.user.ask(contexts)
        batch = self.stored.learned.batch.number
        self.ledger.asked[ask.name] = Asked(contexts=contexts, batch=batch)
        self._post(member, ask)

    def _report(self, member: Member) -> None:
        if not member.up or member.user is None:
            return
        context, reward = draw_report(self.numbers, self.deployment.settings)
        report = member.user.report(context, reward)
        self.ledger.reports[report.name] = (context, reward)
        self._post(member, report)

    def _wake(self, member: Member) -> None:
        """A user sends again what has no answer."""
        member.wakes = False
        if not member.up or member.user is None:
            return
        for message in unanswered(member.user):
            self._post(member, message)

    # -- clock

    def _at(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), action))

    def run(self, *, until: float) -> None:
        """Let everything happen that is due by then."""
        for _ in range(MOST_EVENTS):
            if not self._events or self._events[0][0] > until:
                self.now = max(self.now, until)
                return
            self.now, _, action = heapq.heappop(self._events)
            action()
        require(False, f"it does not come to rest: {self._describe()}")

    def _tick(self) -> None:
        self._at(TICK, self._tick)
        if self.server is not None:
            self._take(None, self.server.work(now=self.now))

    # -- network

    def _post(self, member: Member, message: Message) -> None:
        if isinstance(message, Ask | Report) and not member.wakes:
            member.wakes = True
            self._at(RETRY, lambda: self._wake(member))
        self._carry(member.codec.encode(message), sender=member.id, to=SERVER)

    def _carry(self, data: bytes, *, sender: bytes, to: bytes) -> None:
        luck, faults = self.luck, self.scenario.faults
        copies = 1
        if self.faulty:
            end = self.members[sender if to == SERVER else to].id
            if self.cut.get(end, 0.0) > self.now or luck.random() < faults.lose:
                return
            copies += luck.random() < faults.repeat
        for _ in range(copies):
            seconds, sent = luck.uniform(0.001, 0.03), data
            if self.faulty:
                if luck.random() < faults.delay:
                    seconds = luck.uniform(0.0, 2.0 * PATIENCE)
                if luck.random() < faults.truncate:
                    sent = data[: luck.randrange(len(data))]
            self._at(seconds, lambda sent=sent: self._deliver(sent, sender=sender, to=to))

    def _deliver(self, data: bytes, *, sender: bytes, to: bytes) -> None:
        self.messages += 1
        if to == SERVER:
            self._serve(data, sender=sender)
            return
        member = self.members[to]
        if not member.up:
            return
        try:
            message = member.codec.decode(data)
        except DamagedData:
            return
        if isinstance(message, FOR_USERS):
            self._read(member, message)
        elif member.opener is not None:
            self._take(member, member.opener.handle(message, sender=SERVER))

    def _serve(self, data: bytes, *, sender: bytes) -> None:
        if self.server is None:
            return
        try:
            message = self.codec.decode(data)
        except DamagedData:
            return
        if isinstance(message, Ask):
            self.ledger.received[message.name] += 1
        if self._take(None, self.server.handle(message, sender=sender, now=self.now)):
            self._at(0.0 if self.luck.random() < 0.5 else 0.01, self._work)

    def _work(self) -> None:
        if self.server is not None:
            self._take(None, self.server.work(now=self.now))

    def _read(self, member: Member, message: Answer | Receipt | Refusal) -> None:
        assert member.user is not None
        colours = None
        if isinstance(message, Answer) and member.opener is not None:
            colours = member.opener.colours.pop(message.task, None)
            if colours is None:
                return  # the other half was lost: the user asks again
        if isinstance(message, Refusal):
            require("not enrolled" not in message.reason, "a member is forgotten")
            return  # it is asked again
        try:
            changes = member.user.handle(message, colours=colours).changes
        except DamagedData:
            return
        if isinstance(message, Receipt) and message.name in self.ledger.reports:
            self.ledger.acknowledged.add(message.name)
        for change in changes:
            if isinstance(change, Recommended):
                assert isinstance(message, Answer)
                self.ledger.judge(change.name, arm=change.arm, batch=message.batch)

    # -- storing, sending, and crashes in between

    def _take(self, member: Member | None, effects: Effects) -> bool:
        """Store what changed, then send; False if the party crashed on the way."""
        crashes = self.faulty and self.luck.random() < self.scenario.faults.crash
        point = self.luck.randrange(3) if crashes and (effects.changes or effects.replies) else -1
        if point != 0:
            self._store(effects, member)
        replies = effects.replies if point < 0 else effects.replies[: point - 1]
        for envelope in replies:
            self._send(member, envelope)
        if point >= 0:
            self._crash(member, seconds=self.luck.choice((0.0, DOWN, 2 * PATIENCE)))
        return point < 0

    def _store(self, effects: Effects, member: Member | None = None) -> None:
        if member is None:
            for change in effects.changes:
                change.apply(self.stored)
                self.ledger.follow(change)

    def _send(self, member: Member | None, envelope: Envelope) -> None:
        message = envelope.message
        self._watch(message)
        if member is not None:
            self._post(member, message)
            return
        if isinstance(message, Answer | Refusal):
            self.ledger.answered[message.name] += 1
        self._carry(self.codec.encode(message), sender=SERVER, to=envelope.to)

    def _watch(self, message: Message) -> None:
        once, kind = self.ledger.once, type(message).__name__
        if kind == "Transfer":
            once.use("nonce", message.transfer.nonce)
            once.use("opening", message.transfer.name)
        elif kind == "Tables":
            once.use("transfer", message.tables.name)
            if self.deployment.real:
                once.use("key", message.tables.key)
                once.use("label", message.tables.seed)
        elif kind == "Colours":
            for sealed in message.halves:
                once.use("nonce", sealed[:24])
        elif kind in ("PadTask", "CompareTask", "ReopenTask"):
            for opening in getattr(message, "openings", ()):
                once.use("opening", opening.name)

    def _crash(self, member: Member | None, *, seconds: float) -> None:
        if member is None:
            if self.server is None:
                return
            self.server = None
            self.ledger.received.clear()
            self.ledger.answered.clear()
            self._at(seconds, self._restart_server)
        elif member.up:
            member.up = False
            self._at(seconds, lambda: self._restart(member))

    def _restart_server(self) -> None:
        state = load_state(self._dump(self.stored), **self._reading)
        self.server = Server(
            self.deployment,
            ring=self.ring,
            recipients=self.recipients,
            state=state,
            draw=self.draw,
            patience=PATIENCE,
        )
        self.server.add_helper(self.helper.id)

    def _restart(self, member: Member) -> None:
        member.up = True
        if member.make_opener is not None and member.opener is not None:
            member.opener = member.make_opener(member.opener.state)
        if member.user is not None and member.make_user is not None:
            state, member.user = member.user.state, member.make_user()
            member.user.state.rounds.update(state.rounds)
            member.user.state.outbox.update(state.outbox)
            if not member.wakes and unanswered(member.user):
                member.wakes = True
                self._at(RETRY, lambda: self._wake(member))

    def _check_stored(self, server: Server) -> None:
        same = self._dump(server.state) == self._dump(self.stored)
        require(same, "what is stored is not what the server is")


@lru_cache(maxsize=8)
def _deploy(opener: str, schedule: str) -> SharesDeployment:
    settings = make_settings(2, 2, growth=1.0, schedule=schedule, trace_threshold=2.0, horizon=200)
    return make_deployment(settings, opener=opener)
