"""All parties in one process: every message crosses as bytes, is counted, and is timed.

Seconds are those of the party that works, by what the work is for: a recommendation, a report, or
learning (tests and updates).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from helba.errors import RunFailed
from helba.garbling.circuits.circuit import Bits
from helba.opener.opener import OpenerParty
from helba.protocol.codec import Codec
from helba.protocol.effects import SERVER, Envelope
from helba.protocol.message import (
    Answer,
    Ask,
    Message,
    Offer,
    Receipt,
    Refusal,
)
from helba.server.server import Server
from helba.user.client import Client
from helba.user.user import User

FOR_USERS = (Answer, Receipt, Refusal)
PURPOSES = {"ask": "recommendation", "fold": "report", "test": "test", "update": "update"}
MOST_TROUBLES = 8  # conversations given up and models rejected, after which nothing is right


@dataclass
class Ledger:
    """Seconds by party and purpose, and bytes between users and the server, and the opener."""

    seconds: dict[tuple[str, str], float] = field(default_factory=dict)
    bytes_up: int = 0
    bytes_down: int = 0
    bytes_to_opener: int = 0
    bytes_from_opener: int = 0

    def add(self, party: str, purpose: str, seconds: float) -> None:
        """Count seconds of a party."""
        key = (party, purpose)
        self.seconds[key] = self.seconds.get(key, 0.0) + seconds

    def total(self, *, party: str | None = None, purpose: str | None = None) -> float:
        """Return seconds of a party, for a purpose, or of all."""
        return sum(
            spent
            for (who, what), spent in self.seconds.items()
            if party in (None, who) and purpose in (None, what)
        )


@dataclass(kw_only=True)
class Station:
    """A party that is not the server: its codec, its opener, and what came for the user."""

    codec: Codec
    opener: OpenerParty | None = None
    inbox: deque[Message] = field(default_factory=deque)
    name: str = "user"


class Network:
    """Carries messages between a server, openers and users until nothing is left to do."""

    def __init__(self, server: Server, *, codec: Codec, ledger: Ledger) -> None:
        self.server = server
        self.codec = codec
        self.ledger = ledger
        self.stations: dict[bytes, Station] = {}

    def connect(self, user: User) -> Client:
        """Return the client of a user that has a station."""
        station = self.stations[user.id]

        def take_colours(task: bytes) -> Bits | None:
            assert station.opener is not None
            return station.opener.colours.pop(task, None)

        return Client(
            user,
            transport=Connection(self, id=user.id),
            colours=None if station.opener is None else take_colours,
        )

    def send(self, data: bytes, *, sender: bytes, purpose: str) -> None:
        """Deliver a user's message and everything that follows from it."""
        self.ledger.bytes_up += len(data)
        self._deliver([(data, sender, purpose)])

    def accept(self, data: bytes, *, sender: bytes) -> None:
        """Deliver a user's message; what follows from it waits for `settle`."""
        self.ledger.bytes_up += len(data)
        effects = self.server.handle(self.codec.decode(data), sender=sender, now=time.monotonic())
        for envelope in effects.replies:
            self._receive(envelope, self.codec.encode(envelope.message), purpose="none")

    def settle(self) -> None:
        """Do what the server can start by itself, until it is idle."""
        self._deliver([])

    def _deliver(self, first: list[tuple[bytes, bytes, str]]) -> None:
        to_server = deque(first)
        troubles = self._count_troubles()
        while True:
            if to_server:
                data, sender, purpose = to_server.popleft()
                began = time.perf_counter()
                message = self.codec.decode(data)
                effects = self.server.handle(message, sender=sender, now=time.monotonic())
            else:
                began = time.perf_counter()
                effects, purpose = self.server.work(now=time.monotonic()), "none"
                if not effects.replies:
                    return
            sent = [(each, self.codec.encode(each.message)) for each in effects.replies]
            purpose = self._purpose_of(effects.replies, purpose)
            self.ledger.add("server", purpose, time.perf_counter() - began)
            for envelope, data in sent:
                to_server.extend(self._receive(envelope, data, purpose=purpose))
            if self._count_troubles() - troubles > MOST_TROUBLES:
                trouble = self.server.last_trouble
                raise RunFailed(f"server and opener do not get a task done: {trouble}")

    def _receive(
        self, envelope: Envelope, data: bytes, *, purpose: str
    ) -> list[tuple[bytes, bytes, str]]:
        station = self.stations.get(envelope.to)
        if station is None:
            return []  # gone
        began = time.perf_counter()
        message = station.codec.decode(data)
        if isinstance(message, FOR_USERS):
            self.ledger.bytes_down += len(data)
            station.inbox.append(message)
            self.ledger.add("user", purpose, time.perf_counter() - began)
            return []
        if station.opener is None:
            return []
        effects = station.opener.handle(message, sender=SERVER)
        answers = [station.codec.encode(each.message) for each in effects.replies]
        spent = time.perf_counter() - began
        if station.name == "user":
            self.ledger.bytes_down += len(data)
            self.ledger.bytes_up += sum(map(len, answers))
        else:
            self.ledger.bytes_to_opener += len(data)
            self.ledger.bytes_from_opener += sum(map(len, answers))
        self.ledger.add(station.name, purpose, spent)
        return [(answer, envelope.to, purpose) for answer in answers]

    def _count_troubles(self) -> int:
        status = self.server.status()
        return status.abandoned + status.rejected

    @staticmethod
    def _purpose_of(envelopes: Sequence[Envelope], otherwise: str) -> str:
        for each in envelopes:
            if isinstance(each.message, Offer):
                return "setup"
            work = getattr(each.message, "work", None)
            if work is not None:
                return PURPOSES[work.subject]
        return otherwise


class Connection:
    """A user's way to the server: the transport of its client."""

    def __init__(self, network: Network, *, id: bytes) -> None:
        self._network = network
        self._id = id

    def exchange(self, message: Message) -> Sequence[Message]:
        """Send a message; return what came for the user once nothing is left to do."""
        network, station = self._network, self._network.stations[self._id]
        purpose = "recommendation" if isinstance(message, Ask) else "report"
        began = time.perf_counter()
        data = station.codec.encode(message)
        network.ledger.add("user", purpose, time.perf_counter() - began)
        network.send(data, sender=self._id, purpose=purpose)
        found = tuple(station.inbox)
        station.inbox.clear()
        return found
