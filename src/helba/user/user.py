"""A user: it knows its contexts and rewards, makes integers of them, and reads its own arm.

In the setting `users` it encrypts under the collective public key. In `authority` it needs no
lattice cryptography: it sends shares, and a seed that is sealed to the opener. An ask depends on
the contexts alone, and is good for whatever model the server has when it scores it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from helba.bandits.policy import Array, check_context, check_contexts, clip_reward
from helba.errors import InvalidInput
from helba.garbling import combine, read_indices
from helba.garbling.circuits.argmax import name_bits
from helba.garbling.circuits.circuit import Bits
from helba.learning.round import encrypt_report
from helba.protocol.box import SealedSeed, open_answer, seal_seed
from helba.protocol.deployment import SharesDeployment
from helba.protocol.effects import AUTHORITY, SERVER, Effects, Transition
from helba.protocol.message import (
    ID_BYTES,
    Answer,
    Ask,
    Enrol,
    Message,
    Receipt,
    Refusal,
    Report,
    Shared,
)
from helba.randomness import Draw, draw_bytes
from helba.ring import Ciphertext, PublicKey, Ring
from helba.ring.sharing.integer import Integers
from helba.ring.sharing.pad import SHARE_MODULUS


@dataclass(frozen=True, kw_only=True)
class OpenRound:
    """A round that was asked for: the ask, how many arms it has, and the seed of its answer."""

    ask: Ask
    arms: int
    seed: SealedSeed | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """The server serves this user."""

    name: bytes

    def apply(self, state: UserState) -> None:
        """Note it."""
        state.admitted = True


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A round is open."""

    round: OpenRound

    def apply(self, state: UserState) -> None:
        """Keep it until its answer comes."""
        state.rounds[self.round.ask.name] = self.round


@dataclass(frozen=True, kw_only=True)
class Reported:
    """A report is to be sent until it is acknowledged."""

    report: Report

    def apply(self, state: UserState) -> None:
        """Put it into the outbox."""
        state.outbox[self.report.name] = self.report


@dataclass(frozen=True, kw_only=True)
class Recommended:
    """A round is over: this arm is to be played."""

    name: bytes
    arm: int

    def apply(self, state: UserState) -> None:
        """Close the round."""
        del state.rounds[self.name]


@dataclass(frozen=True, kw_only=True)
class Acknowledged:
    """The server has stored a report."""

    name: bytes

    def apply(self, state: UserState) -> None:
        """Take the report out of the outbox."""
        del state.outbox[self.name]


@dataclass(frozen=True, kw_only=True)
class Declined:
    """An ask or a report is not taken by the server or was given up, or a user is not enrolled.

    `later` it may: then nothing is given up, and the same can be sent again.
    """

    name: bytes
    reason: str
    later: bool = False

    def apply(self, state: UserState) -> None:
        """Give it up, unless it may be taken later."""
        if not self.later:
            state.rounds.pop(self.name, None)
            state.outbox.pop(self.name, None)


@dataclass(kw_only=True)
class UserState:
    """Rounds without an answer, and reports that the server has not acknowledged, by name.

    Their messages may be sent again as they are. `admitted` says that the server knows the user.
    """

    admitted: bool = False
    rounds: dict[bytes, OpenRound] = field(default_factory=dict)
    outbox: dict[bytes, Report] = field(default_factory=dict)


class User:
    """Makes asks and reports; `id` is the name that the server knows it by.

    `public_key` is the ring's, in the setting `users`; `sealing_key` the opener's, in `authority`.
    With a `state` it goes on from there, and the state is the user's from then on.
    """

    def __init__(
        self,
        deployment: SharesDeployment,
        *,
        id: bytes,
        public_key: PublicKey | None = None,
        sealing_key: bytes | None = None,
        state: UserState | None = None,
        draw: Draw = draw_bytes,
    ) -> None:
        self.deployment = deployment
        self.id = id
        self.state = UserState() if state is None else state
        self._transition = Transition(self.state)
        self._draw = draw
        self._sealing_key = sealing_key
        self._ring = None if public_key is None else Ring(public_key, draw=draw)
        wanted = "sealing_key" if deployment.plan.opener == "authority" else "public_key"
        if {"sealing_key": sealing_key, "public_key": public_key}[wanted] is None:
            raise InvalidInput(wanted, None, f"given for the opener {deployment.plan.opener!r}")

    def handle(self, message: Message, *, colours: Bits | None = None) -> Effects:
        """Take a message of the server in; what is late, repeated or unknown changes nothing.

        `colours` are the opener's half of an answer, where the user is the opener.
        """
        state = self.state
        if isinstance(message, Answer) and message.name in state.rounds:
            arm = self._read(message, colours=colours)
            self._transition.commit(Recommended(name=message.name, arm=arm))
        elif isinstance(message, Receipt) and message.name == self.id:
            self._transition.commit(Admitted(name=self.id))
        elif isinstance(message, Receipt) and message.name in state.outbox:
            self._transition.commit(Acknowledged(name=message.name))
        elif isinstance(message, Refusal) and (
            message.name in state.rounds or message.name in state.outbox or message.name == self.id
        ):
            declined = Declined(name=message.name, reason=message.reason, later=message.later)
            self._transition.commit(declined)
        return self._transition.take()

    def enrol(self, public_key: PublicKey | None = None) -> Effects:
        """Ask the authority to take part; in the setting `users` with a key of one's own."""
        self._transition.send(Enrol(public_key=public_key), to=AUTHORITY)
        return self._transition.take()

    def ask(self, contexts: Array) -> Effects:
        """Begin a round with these contexts, one a row, and send its ask."""
        deployment, plan = self.deployment, self.deployment.plan
        rows = check_contexts(deployment.settings, contexts)
        arms = len(rows)
        # Missing arms repeat the first: of equal scores the lowest arm wins.
        padded = np.concatenate([rows, np.repeat(rows[:1], plan.settings.arms - arms, axis=0)])
        features = plan.rounding.make_features(plan.rounding.round_contexts(padded)).reshape(-1)
        name, seed = self._draw(ID_BYTES), None
        if self._ring is None:
            shared, seed = self._share("ask", features)
            ask = Ask(name=name, features=shared)
        else:
            ask = Ask(name=name, features=self._encrypt(self._ring, features))
        self._transition.commit(Asked(round=OpenRound(ask=ask, arms=arms, seed=seed)))
        self._transition.send(ask, to=SERVER)
        return self._transition.take()

    def _encrypt(self, ring: Ring, features: Integers) -> tuple[Ciphertext, ...]:
        multiple, encrypted = self.deployment.plan.grid.feature_multiple, []
        for places, index in self.deployment.feature_groups(1):
            bound = self.deployment.feature_bound(len(places))
            encrypted.append(
                ring.encrypt(
                    features[index].astype(object) * multiple,
                    places=places,
                    scale=float(multiple),
                    peak=bound.peak,
                    norm=bound.norm,
                    primes=2,
                )
            )
        return tuple(encrypted)

    def _read(self, answer: Answer, *, colours: Bits | None) -> int:
        """Return the arm that an answer names; without `colours` the opener's half is sealed."""
        found = self.state.rounds[answer.name]
        arms = self.deployment.settings.arms
        if colours is None:
            if found.seed is None:
                raise InvalidInput("colours", None, "the opener's half, which this user has")
            circuit = self.deployment.argmax_circuit
            colours = open_answer(
                answer.sealed,
                count=name_bits(arms),
                seed=found.seed,
                task=answer.task,
                circuit=circuit.digest,
            )
        bits = combine(answer.decoding.reshape(1, -1), colours.reshape(1, -1))
        (arm,) = read_indices(bits, arms=arms)
        if arm >= found.arms:
            raise InvalidInput("answer", "an arm that was not offered", f"below {found.arms}")
        return int(arm)

    def forget(self, name: bytes) -> Effects:
        """Give a round up: its answer will not be read."""
        self._transition.commit(Declined(name=name, reason="the user gave it up"))
        return self._transition.take()

    def report(self, context: Array, reward: float) -> Effects:
        """Send the report that playing `context` earned `reward`."""
        deployment, plan = self.deployment, self.deployment.plan
        row = check_context(deployment.settings, context)
        earned, _ = clip_reward(deployment.settings, reward)
        integers = plan.rounding.round_report(row, earned)
        name = self._draw(ID_BYTES)
        if self._ring is None:
            shared, _ = self._share("report", integers)
            report = Report(name=name, report=shared)
        else:
            report = Report(name=name, report=encrypt_report(self._ring, plan, integers.tolist()))
        self._transition.commit(Reported(report=report))
        self._transition.send(report, to=SERVER)
        return self._transition.take()

    def _share(self, kind: str, integers: Integers) -> tuple[Shared, SealedSeed]:
        assert self._sealing_key is not None
        seed, box = seal_seed(
            self._sealing_key, kind=kind, deployment=self.deployment.origin, draw=self._draw
        )
        pad = seed.expand(len(integers))
        return Shared(shares=(integers - pad) % SHARE_MODULUS, box=box), seed
