"""All parties in one process under a clock, a network and crashes of our own making.

Messages cross as bytes; the network loses, repeats, delays and truncates them, and links are cut. A
party crashes at a message: before what it brought about was stored, after that and before anything
was sent, or in the middle of sending. It comes back later from what was stored: the server from
bytes, the others from the changes that they stored. Rings and garbling are the simulator's; with
`garbling="real"` circuits are garbled as in earnest.

Everything follows from the scenario: the clock is a number, events stand in a heap, and parties
draw their bytes from its seed. (What libsodium draws for itself differs; nothing depends on
it.)
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count
from random import Random
from typing import Any

import numpy as np

from helba.authority.authority import Authority, AuthorityState, make_authority_keys
from helba.errors import DamagedData
from helba.garbling import EvaluatorSession, GarblerSession
from helba.opener.opener import OpenerParty
from helba.opener.state import Noted, OpenerState, VerdictsBegun
from helba.protocol.box import BOX_BYTES, open_box
from helba.protocol.codec import Codec
from helba.protocol.deployment import SharesDeployment
from helba.protocol.effects import AUTHORITY, SERVER, Effects, Envelope
from helba.protocol.message import (
    ID_BYTES,
    Abort,
    Answer,
    Ask,
    Colours,
    Enrol,
    Message,
    Receipt,
    Refusal,
    Report,
    Shared,
    Tables,
    Verdict,
)
from helba.ring import PublicKey
from helba.ring.ring import Ring
from helba.ring.secret import Opener, make_keys
from helba.server.server import Server
from helba.server.snapshot import dump_state, load_state
from helba.server.state import Enrolled
from helba.user.user import Asked, Recommended, Reported, User, UserState
from tests.parties.cheating import body_of, shifted, with_body
from tests.parties.world import (
    draw_contexts,
    draw_report,
    is_idle,
    make_deployment,
    make_settings,
    sent,
    status_of,
    unanswered,
)
from tests.simulation.oracle import MOST_VERDICTS, AskMade, Ledger, require
from tests.simulation.scenario import Operation, Scenario

PATIENCE = 5.0  # of the server with openers
RETRY = 3.0  # of a user without an answer
TICK = 0.5  # between looks of the server at its clock
DOWN = 1.0  # seconds that a party is away after a crash, unless told
QUIET = 200.0  # seconds after the last fault by which nothing may be left to do
ENROLMENT = 0.1  # seconds before the first operation
MOST_EVENTS = 2_000  # of one operation
FOR_USERS = (Answer, Receipt, Refusal)
OPENERS_CHANGES = (VerdictsBegun, Noted)


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


def copied(state: Any) -> Any:
    """A state that changes apart from this one; what it holds never changes."""
    return type(state)(**{name: copy(value) for name, value in vars(state).items()})


@dataclass(kw_only=True)
class Member:
    """A party that is not the server; `opener` and `user` are thrown away by a crash."""

    id: bytes
    codec: Codec
    key: PublicKey | None = None
    make_user: Callable[[UserState], User] | None = None
    make_opener: Callable[[OpenerState], OpenerParty] | None = None
    user: User | None = None
    opener: OpenerParty | None = None
    stored_user: UserState = field(default_factory=UserState)
    stored_opener: OpenerState = field(default_factory=OpenerState)
    up: bool = True
    wakes: bool = False

    def start(self) -> None:
        """Begin, or begin again, from what is stored."""
        if self.make_opener is not None:
            self.opener = self.make_opener(copied(self.stored_opener))
        if self.make_user is not None:
            self.user = self.make_user(copied(self.stored_user))

    def unsettled(self) -> list[Message]:
        """What was sent and has no answer."""
        if self.user is None:
            return []
        joins = [] if self.user.state.admitted else [Enrol(public_key=self.key)]
        return [*joins, *unanswered(self.user)]


class Simulation:
    """Plays a scenario; `Broken` says which invariant does not hold."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.luck = Random(f"faults {scenario.seed}")
        self.numbers = np.random.default_rng(scenario.seed)
        self.draw = Random(f"bytes {scenario.seed}").randbytes
        self.now = 0.0
        self.messages = 0
        self.faulty = True
        self.cut: dict[bytes, float] = {}
        self.starts = 0  # of the server
        self.boxes: dict[bytes, tuple[bytes, ...]] = {}
        self.tabled: set[bytes] = set()
        self.sent: dict[tuple[type, bytes], bytes] = {}
        self.begun: dict[bytes, int] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        plain = _deploy(scenario.opener, scenario.schedule)
        self.ledger = Ledger(plain.plan, count_verdicts=self._count_verdicts)
        self.deployment = RecordedDeployment(
            plan=plain.plan,
            engine=plain.engine,
            real=scenario.garbling == "real",
            watch=self.ledger.once.use,
        )
        self._keys = make_authority_keys(self.deployment, seed=scenario.seed)
        self.enrolled = AuthorityState()
        self.authority = self._start_authority()
        self.reader = self.authority.make_opener()
        keys = self.authority.make_ring()
        self.ring = RecordedRing(
            keys.public_key, evaluation_key=keys.evaluation_key, draw=self.draw
        )
        self.ring.watch = self.ledger.once.use
        self.codec = Codec(self.deployment, public_key=keys.public_key)
        self.members: dict[bytes, Member] = {}
        self.server: Server | None = Server(
            self.deployment, ring=self.ring, draw=self.draw, patience=PATIENCE
        )
        self.stored = load_state(self._dump(self.server.state), **self._reading)
        if scenario.opener == "users":
            self.helper = self._join()
        else:
            self.helper = Member(
                id=AUTHORITY, codec=self.codec, make_opener=self._make_authority_opener
            )
            self.helper.start()
            self.members[AUTHORITY] = self.helper
        self.users = [self._join() for _ in range(scenario.users)]
        self._add_helper()
        self._at(TICK, self._tick)
        self.run(until=ENROLMENT)

    # -- parties

    @property
    def _reading(self) -> dict[str, Any]:
        return {"deployment": self.deployment, "public_key": self.ring.public_key}

    def _dump(self, state: Any) -> bytes:
        return dump_state(state, **self._reading)

    def _start_authority(self) -> Authority:
        state = copied(self.enrolled)
        return Authority(self.deployment, keys=self._keys, state=state, draw=self.draw)

    def _make_authority_opener(self, state: OpenerState) -> OpenerParty:
        return OpenerParty(
            self.deployment,
            opener=self.authority.make_opener(),
            sealing_key=self.authority.private_sealing_key,
            state=state,
            draw=self.draw,
        )

    def _join(self) -> Member:
        """A new user asks the authority to take part."""
        deployment, public, id = self.deployment, self.ring.public_key, self.draw(ID_BYTES)
        if deployment.plan.opener == "authority":
            told: dict[str, Any] = {"sealing_key": self.authority.sealing_key}
            member = Member(id=id, codec=self.codec)
        else:
            keys = make_keys(deployment.plan.parameters, backend=public.backend)
            told = {"public_key": public}
            codec = Codec(deployment, public_key=public, opener_key=keys.public)
            opener = Opener(keys.secret, public_key=public)
            member = Member(id=id, codec=codec, key=keys.public)
            member.make_opener = lambda state: OpenerParty(
                deployment, opener=opener, state=state, draw=self.draw
            )
        member.make_user = lambda state: User(
            deployment, id=id, state=state, draw=self.draw, **told
        )
        member.start()
        self.members[id] = member
        assert member.user is not None
        self._take(member, member.user.enrol(member.key))
        return member

    def _add_helper(self) -> None:
        """Let the server use the opener as soon as it can reach it."""
        known = self.helper.id == AUTHORITY or self.helper.id in self.stored.members
        if self.server is not None and known:
            self.server.add_helper(self.helper.id)

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
        if kind.endswith("ask"):
            self._ask(self.users[int(operation.actor)], wild=kind.startswith("wild"))
        elif kind.endswith("report"):
            self._report(self.users[int(operation.actor)], wild=kind.startswith("wild"))
        elif kind == "wait":
            self.run(until=self.now + seconds)
        elif kind == "crash":
            party = {"server": None, "opener": self.helper}.get(str(operation.actor), self.users[0])
            self._crash(party, seconds=seconds or DOWN)
        elif kind == "worker" and self.server is not None:
            # What a dead worker costs: its conversations and sessions, and nothing else.
            for opener in self.members:
                if self.server is not None:
                    self._take(None, self.server.lose(opener, now=self.now))
            self._add_helper()
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
        for session in self.server._conversations._sessions.values():
            require(not session._openings, "labels of an opening that was given up are kept")
        for name, times in self.ledger.received.items():
            require(self.ledger.answered[name] >= times, "a round is forgotten")
        require(self.ledger.acknowledged == set(self.ledger.reports), "a report is never stored")
        members = set(self.members) - {AUTHORITY}
        require(set(self.enrolled.members) == members, "the authority knows other users")
        require(set(self.stored.members) == members, "the server knows other users")
        self.ledger.check_sums(self.server.state, reader=self.reader)

    @property
    def _idle(self) -> bool:
        if self.server is None or not is_idle(self.server):
            return False
        waiting = any(not member.up or member.unsettled() for member in self.members.values())
        flying = any(action is not None for _, _, action in self._events if action != self._tick)
        due = self.ledger.is_due(self.ledger.growth, sure=True)
        return not (waiting or flying or due or self.ledger.taken)

    def _describe(self) -> str:
        server = "down" if self.server is None else repr(status_of(self.server))
        return f"{server}, {len(self._events)} events"

    def _ask(self, member: Member, *, wild: bool) -> None:
        if not member.up or member.user is None:
            return
        contexts = draw_contexts(self.numbers, self.deployment.settings)
        effects = member.user.ask(contexts)
        ask, name = sent(effects), sent(effects).name
        if wild and isinstance(ask.features, Shared):
            ask = self._make_wild(ask)
            (opened,) = effects.changes
            round = replace(opened.round, ask=ask)
            member.user.state.rounds[name] = round
            effects = self._instead(ask, Asked(round=round))
        asked = AskMade(contexts=contexts, batch=self.stored.learned.batch.number)
        self._take(member, effects)
        if name in member.stored_user.rounds:
            self.ledger.asked[name] = asked
            self.ledger.owners[name] = member.id
        self._watch_seed(ask.features, kind="ask", name=name)

    def _watch_seed(self, body: Any, *, kind: str, name: bytes) -> None:
        if isinstance(body, Shared) and name not in self.ledger.wild:
            key, origin = self.authority.private_sealing_key, self.deployment.origin
            opened = open_box(body.box, key=key, kind=kind, deployment=origin)
            self.ledger.once.use("pad", opened.seed)

    def _report(self, member: Member, *, wild: bool) -> None:
        if not member.up or member.user is None:
            return
        context, reward = draw_report(self.numbers, self.deployment.settings)
        effects = member.user.report(context, reward)
        report, name = sent(effects), sent(effects).name
        if wild and isinstance(report.report, Shared):
            report = self._make_wild(report)
            member.user.state.outbox[name] = report
            effects = self._instead(report, Reported(report=report))
        self._take(member, effects)
        if name in member.stored_user.outbox:
            self.ledger.reports[name] = (context, reward)
            self.ledger.owners[name] = member.id
            if isinstance(report.report, Shared):
                self.ledger.boxes[name] = report.report.box
        self._watch_seed(report.report, kind="report", name=name)

    def _make_wild(self, message: Any) -> Any:
        """The message of a user who does not follow the protocol."""
        self.ledger.wild.add(message.name)
        if self.luck.random() < 0.5:
            return shifted(message, {0: 1 << 80})
        return with_body(message, replace(body_of(message), box=self.draw(BOX_BYTES)))

    def _instead(self, message: Message, change: Any) -> Effects:
        return Effects(replies=(Envelope(to=SERVER, message=message),), changes=(change,))

    def _wake(self, member: Member) -> None:
        """A user sends again what has no answer."""
        member.wakes = False
        for message in member.unsettled() if member.up else ():
            to = AUTHORITY if isinstance(message, Enrol) else SERVER
            self._post(member, message, to=to)

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

    def _post(self, member: Member, message: Message, *, to: bytes) -> None:
        if isinstance(message, Ask | Report | Enrol) and not member.wakes:
            member.wakes = True
            self._at(RETRY, lambda: self._wake(member))
        self._carry(member.codec.encode(message), sender=member.id, to=to)

    def _carry(self, data: bytes, *, sender: bytes, to: bytes) -> None:
        luck, faults = self.luck, self.scenario.faults
        copies = 1
        if self.faulty:
            cut = max(self.cut.get(end, 0.0) for end in (sender, to))
            if cut > self.now or luck.random() < faults.lose:
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
        member = self.members.get(to)
        if member is not None and not member.up:
            return
        try:
            message = (self.codec if member is None else member.codec).decode(data)
        except DamagedData:
            return
        if isinstance(message, Enrol):
            self._take(self.authority, self.authority.handle(message, sender=sender))
            return
        assert member is not None
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
        try:
            effects = member.user.handle(message, colours=colours)
        except DamagedData:
            return
        if isinstance(message, Receipt) and message.name in self.ledger.reports:
            self.ledger.acknowledged.add(message.name)
        self._take(member, effects)
        for change in effects.changes:
            if isinstance(change, Recommended):
                assert isinstance(message, Answer)
                self.ledger.judge(change.name, arm=change.arm, batch=message.batch)

    # -- storing, sending, and crashes in between

    def _take(self, party: Member | Authority | None, effects: Effects) -> bool:
        """Store what changed, then send; False if the party, or the server, crashed on the way."""
        crashes = self.faulty and self.luck.random() < self.scenario.faults.crash
        point = self.luck.randrange(2) if crashes and (effects.changes or effects.replies) else -1
        if point != 0:
            self._store(effects, party)
        count = len(effects.replies)
        replies = effects.replies[: count if point < 0 else self.luck.randint(0, count)]
        if point == 0:
            replies = ()
        for envelope in replies:
            self._send(party, envelope)
        if point >= 0:
            self._crash(party, seconds=self.luck.choice((0.0, DOWN, 2 * PATIENCE)))
        return point < 0

    def _store(self, effects: Effects, party: Member | Authority | None) -> None:
        for change in effects.changes:
            if party is None:
                change.apply(self.stored)
                self.ledger.follow(change)
                if isinstance(change, Enrolled) and change.user == self.helper.id:
                    self._add_helper()
            elif isinstance(party, Authority):
                change.apply(self.enrolled)
            elif isinstance(change, OPENERS_CHANGES):
                change.apply(party.stored_opener)
            else:
                change.apply(party.stored_user)

    def _send(self, party: Member | Authority | None, envelope: Envelope) -> None:
        message = envelope.message
        self._watch(message)
        if isinstance(party, Member):
            self._post(party, message, to=envelope.to)
            return
        if isinstance(message, Refusal):
            known = "not enrolled" in message.reason and envelope.to in self.stored.members
            require(not known, "a member is forgotten")
            early = message.later and "not enrolled" in message.reason
            require(
                early or message.name in self.ledger.wild,
                f"a good message is refused: {message.reason}",
            )
        if isinstance(message, FOR_USERS):
            owner = self.ledger.owners.get(message.name, envelope.to)
            require(envelope.to == owner, "a message goes to another user")
        if isinstance(message, Answer | Refusal):
            self.ledger.answered[message.name] += 1
        sender = SERVER if party is None else AUTHORITY
        self._carry(self.codec.encode(message), sender=sender, to=envelope.to)

    def _count_verdicts(self, box: bytes) -> int:
        """How many verdicts on a box the opener has begun, as it is stored."""
        name = hashlib.blake2b(box, digest_size=16).digest()
        return self.helper.stored_opener.verdicts.get(name, 0)

    def _is_again(self, message: Tables | Verdict | Colours | Abort) -> bool:
        """Whether the same was sent before, to the letter, which it may be."""
        key, data = (type(message), message.task), self.codec.encode(message)
        before, self.sent[key] = self.sent.get(key), data
        fresh = before is None or isinstance(message, Abort)
        require(fresh or before == data, "a message of a task is made twice")
        return before == data

    def _watch(self, message: Message) -> None:
        once, kind = self.ledger.once, type(message).__name__
        if isinstance(message, Tables | Verdict | Colours | Abort) and self._is_again(message):
            return
        if kind in ("PadTask", "CompareTask", "ReopenTask"):
            begun = self.begun.setdefault(message.task, self.starts)
            require(begun == self.starts, "a conversation outlives its server")
        if kind == "PadTask":
            self.boxes[message.task] = message.boxes
            if message.work.subject == "fold" and len(message.boxes) > 1:
                begun = max(map(self._count_verdicts, message.boxes))
                require(begun < MOST_VERDICTS - 1, "a report's last verdict is one with others")
        elif kind == "Pads" and message.signs:
            once.use("seed of signs", message.signs)
        out_of_range = kind == "Abort" and message.refused and "judged" not in message.reason
        if kind in ("Verdict", "Colours") or out_of_range:
            boxes = self.boxes.get(message.task, ()) if message.task in self.tabled else ()
            for box in boxes if len(boxes) > 1 or kind == "Verdict" else ():
                self.ledger.judge_box(box)
        if kind == "Transfer":
            once.use("nonce", message.transfer.nonce)
            once.use("opening", message.transfer.name)
        elif kind == "Tables":
            self.tabled.add(message.task)
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

    def _crash(self, party: Member | Authority | None, *, seconds: float) -> None:
        if isinstance(party, Authority):  # it is back at once, with its keys
            self.authority = self._start_authority()
        elif party is None:
            if self.server is None:
                return
            self.server = None
            self.ledger.received.clear()
            self.ledger.answered.clear()
            self._at(seconds, self._restart_server)
        elif party.up:
            party.up = False
            self._at(seconds, lambda: self._restart(party))

    def _restart_server(self) -> None:
        self.starts += 1
        state = load_state(self._dump(self.stored), **self._reading)
        self.server = Server(
            self.deployment,
            ring=self.ring,
            state=state,
            draw=self.draw,
            patience=PATIENCE,
        )
        self._add_helper()

    def _restart(self, member: Member) -> None:
        member.up = True
        member.start()
        if not member.wakes and member.unsettled():
            member.wakes = True
            self._at(RETRY, lambda: self._wake(member))

    def _check_stored(self, server: Server) -> None:
        same = self._dump(server.state) == self._dump(self.stored)
        require(same, "what is stored is not what the server is")
        require(self.authority.state == self.enrolled, "the authority is not what is stored")
        for member in self.members.values():
            if member.user is not None:
                same = member.user.state == member.stored_user
                require(same, "what is stored is not what the user is")
            if member.opener is not None:
                same = member.opener.state == member.stored_opener
                require(same, "what is stored is not what the opener is")


@lru_cache(maxsize=8)
def _deploy(opener: str, schedule: str) -> SharesDeployment:
    growth = 1.0 if schedule == "public" else 4.0  # tests make updates due, and growth does
    settings = make_settings(
        2, 2, growth=growth, schedule=schedule, trace_threshold=0.8, horizon=200
    )
    return make_deployment(settings, opener=opener)
