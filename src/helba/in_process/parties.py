"""All parties in one process: every message crosses as bytes, is counted, and is timed.

Seconds are those of the party that works, by what the work is for: a recommendation, a report, or
learning (tests and updates).
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from helba.authority.authority import Authority, make_authority_keys
from helba.errors import RunFailed
from helba.garbling.circuits.circuit import Bits
from helba.opener.opener import OpenerParty
from helba.opener.state import OpenerState
from helba.protocol.codec import Codec
from helba.protocol.deployment import SharesDeployment
from helba.protocol.effects import AUTHORITY, SERVER, Envelope
from helba.protocol.message import ID_BYTES, Ask, Enrol, ForUser, Message, Offer, Report
from helba.randomness import draw_bytes
from helba.ring.secret import Opener, make_keys
from helba.server.server import Server
from helba.server.state import ServerState
from helba.user.client import Client
from helba.user.user import User

ENROLMENT = "enrolment"  # is no part of a round: its bytes are not counted
USER_PURPOSES = {Enrol: ENROLMENT, Ask: "recommendation", Report: "report"}
PURPOSES = {"ask": "recommendation", "fold": "report", "test": "test", "update": "update"}
MOST_TROUBLES = 8  # conversations given up and models rejected, after which nothing is right


@dataclass
class Ledger:
    """Seconds by party and purpose, and bytes between users and the server, and the opener."""

    seconds: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    bytes_up: int = 0
    bytes_down: int = 0
    bytes_to_opener: int = 0
    bytes_from_opener: int = 0

    def total(self, *, party: str | None = None, purpose: str | None = None) -> float:
        """Return seconds of a party, for a purpose, or of all."""
        return sum(
            spent
            for (who, what), spent in self.seconds.items()
            if party in (None, who) and purpose in (None, what)
        )


class Parties:
    """Authority, server and openers of one deployment; users join.

    In the setting `users` every user opens its own rounds under its own key, and one more user, who
    is online, opens tests and updates. In `authority` the authority opens everything. `seed` fixes
    the simulator's noise and all that its parties draw; with OpenFHE there is none.
    """

    def __init__(self, deployment: SharesDeployment, *, seed: int | None = None) -> None:
        self._keys = make_authority_keys(deployment, seed=seed)
        self._draw = draw_bytes if seed is None else Random(seed).randbytes
        self._opener_state = OpenerState()  # of the authority: it outlives an extension
        self.ledger = Ledger()
        self._begin(deployment, state=None)

    def _begin(self, deployment: SharesDeployment, *, state: ServerState | None) -> None:
        authority = Authority(deployment, keys=self._keys, draw=self._draw)
        self.deployment, self.authority = deployment, authority
        self.server = Server(deployment, ring=authority.make_ring(), state=state, draw=self._draw)
        self.codec = Codec(deployment, public_key=authority.public_key)
        self.stations: dict[bytes, Station] = {}
        if deployment.plan.opener == "users":
            helper = self.join(name="opener").user.id
        else:
            helper = AUTHORITY
            opener = OpenerParty(
                deployment,
                opener=authority.make_opener(),
                sealing_key=authority.private_sealing_key,
                state=self._opener_state,
                draw=self._draw,
            )
            self.stations[helper] = Station(
                id=helper, parties=self, codec=self.codec, opener=opener, name="opener"
            )
        self.server.add_helper(helper)

    def join(self, *, name: str = "user") -> Client:
        """Enrol a user and return its client; `name` is whose its seconds are."""
        authority, deployment, public = self.authority, self.deployment, self.authority.public_key
        draw, id = self._draw, self._draw(ID_BYTES)
        if deployment.plan.opener == "authority":
            key, opener, codec = None, None, self.codec
            user = User(deployment, id=id, sealing_key=authority.sealing_key, draw=draw)
        else:
            keys = make_keys(deployment.plan.parameters, backend=public.backend)
            key, codec = keys.public, Codec(deployment, public_key=public, opener_key=keys.public)
            opener = OpenerParty(
                deployment, opener=Opener(keys.secret, public_key=public), draw=draw
            )
            user = User(deployment, id=id, public_key=public, draw=draw)
        station = Station(id=id, parties=self, codec=codec, opener=opener, name=name)
        self.stations[id] = station
        client = Client(
            user, transport=station, colours=None if opener is None else station.take_colours
        )
        client.enrol(key)
        return client

    def enrol(self, data: bytes, *, sender: bytes) -> None:
        """Hand a user's message to the authority, and deliver what follows."""
        effects = self.authority.handle(self.codec.decode(data), sender=sender)
        for envelope in effects.replies:
            reply = self.codec.encode(envelope.message)
            if envelope.to == SERVER:
                self.deliver([reply], sender=AUTHORITY, purpose=ENROLMENT)
            else:
                self.stations[envelope.to].receive(reply, purpose=ENROLMENT)

    def extend(self, horizon: int) -> None:
        """Go on with a longer horizon, or change nothing; clients of before have to join again."""
        longer = self.deployment.extended(horizon)
        self.deliver()
        before, state = dict(vars(self)), self.server.state
        try:
            self._begin(longer, state=replace(state, members={}))
        except BaseException:
            vars(self).update(before)
            raise

    def deliver(
        self, messages: Sequence[bytes] = (), *, sender: bytes = b"", purpose: str = "none"
    ) -> None:
        """Deliver messages, and everything that the server does then until it is idle."""
        to_server = deque((data, sender, purpose) for data in messages)
        state = self.server.state
        most = state.abandoned + state.rejected + MOST_TROUBLES
        while True:
            began, now = time.perf_counter(), time.monotonic()
            if to_server:
                data, sender, purpose = to_server.popleft()
                effects = self.server.handle(self.codec.decode(data), sender=sender, now=now)
            else:
                effects, purpose = self.server.work(now=now), "none"
                if not effects.replies:
                    return
            sent = [(each, self.codec.encode(each.message)) for each in effects.replies]
            purpose = self._purpose_of(effects.replies, purpose)
            self.ledger.seconds["server", purpose] += time.perf_counter() - began
            for envelope, data in sent:
                station = self.stations.get(envelope.to)
                if station is not None:  # else it is gone
                    to_server += station.receive(data, purpose=purpose)
            if state.abandoned + state.rejected > most:
                trouble = self.server.last_trouble
                raise RunFailed(f"server and opener do not get a task done: {trouble}")

    @staticmethod
    def _purpose_of(envelopes: Sequence[Envelope], otherwise: str) -> str:
        for each in envelopes:
            if isinstance(each.message, Offer):
                return "setup"
            work = getattr(each.message, "work", None)
            if work is not None:
                return PURPOSES[work.subject]
        return otherwise


@dataclass(kw_only=True)
class Station:
    """A party that is not the server: its codec, its opener, and what came for the user.

    It is the transport of the user's client; `name` is whose its seconds are.
    """

    id: bytes
    parties: Parties
    codec: Codec
    opener: OpenerParty | None = None
    inbox: list[Message] = field(default_factory=list)
    name: str = "user"

    def exchange(self, envelope: Envelope) -> Sequence[Message]:
        """Send a message; return what came for the user once nothing is left to do."""
        message, parties = envelope.message, self.parties
        purpose = USER_PURPOSES[type(message)]
        began = time.perf_counter()
        data = self.codec.encode(message)
        parties.ledger.seconds["user", purpose] += time.perf_counter() - began
        if envelope.to == AUTHORITY:
            parties.enrol(data, sender=self.id)
        else:
            parties.ledger.bytes_up += len(data)
            parties.deliver([data], sender=self.id, purpose=purpose)
        found, self.inbox = self.inbox, []
        return found

    def receive(self, data: bytes, *, purpose: str) -> list[tuple[bytes, bytes, str]]:
        """Take a message of the server in; return what the opener answers, and for what it is."""
        ledger, began = self.parties.ledger, time.perf_counter()
        message = self.codec.decode(data)
        answers = []
        if isinstance(message, ForUser):
            self.inbox.append(message)
        elif self.opener is not None:
            replies = self.opener.handle(message, sender=SERVER).replies
            answers = [self.codec.encode(each.message) for each in replies]
        ledger.seconds[self.name, purpose] += time.perf_counter() - began
        if purpose != ENROLMENT:
            self._count(data, answers)
        return [(answer, self.id, purpose) for answer in answers]

    def _count(self, data: bytes, answers: Sequence[bytes]) -> None:
        ledger, sent = self.parties.ledger, sum(map(len, answers))
        if self.name == "user":
            ledger.bytes_down += len(data)
            ledger.bytes_up += sent
        else:
            ledger.bytes_to_opener += len(data)
            ledger.bytes_from_opener += sent

    def take_colours(self, task: bytes) -> Bits | None:
        """Return the opener's half of an answer, where the user is the opener."""
        return None if self.opener is None else self.opener.colours.pop(task, None)
