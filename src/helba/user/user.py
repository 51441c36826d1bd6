"""A user: it knows its contexts and rewards, makes integers of them, and reads its own arm.

In the setting `users` it encrypts under the collective public key. In `authority` it needs no
lattice cryptography: it sends shares, and a seed that is sealed to the opener. An ask depends on
the contexts alone, and is good for whatever model the server has when it scores it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

import numpy as np

from helba.bandits.policy import Array, check_context, check_contexts, clip_reward
from helba.errors import InvalidInput
from helba.garbling import combine, read_indices
from helba.garbling.circuits.argmax import name_bits
from helba.garbling.circuits.circuit import Bits
from helba.learning.update import encrypt_report
from helba.protocol.box import SealedSeed, open_answer, seal_seed
from helba.protocol.deployment import SharesDeployment
from helba.protocol.message import ID_BYTES, Answer, Ask, Report, Shared
from helba.ring import PublicKey, Ring
from helba.ring.sharing.integer import Integers
from helba.ring.sharing.pad import SHARE_MODULUS

__all__ = ["OpenRound", "User"]


@dataclass(frozen=True, kw_only=True)
class OpenRound:
    """A round that was asked for: how many arms it has, and the seed of its answer."""

    arms: int
    seed: SealedSeed | None = field(default=None, repr=False)


class User:
    """Makes asks and reports; `id` is the name that the server knows it by.

    `public_key` is the ring's, in the setting `users`; `sealing_key` the opener's, in `authority`.
    """

    def __init__(
        self,
        deployment: SharesDeployment,
        *,
        id: bytes,
        public_key: PublicKey | None = None,
        sealing_key: bytes | None = None,
    ) -> None:
        self.deployment = deployment
        self.id = id
        self._sealing_key = sealing_key
        self._ring = None if public_key is None else Ring(public_key)
        wanted = "sealing_key" if deployment.plan.opener == "authority" else "public_key"
        if {"sealing_key": sealing_key, "public_key": public_key}[wanted] is None:
            raise InvalidInput(wanted, None, f"given for the opener {deployment.plan.opener!r}")
        self._rounds: dict[bytes, OpenRound] = {}

    @property
    def open_rounds(self) -> tuple[bytes, ...]:
        """Names of rounds that have no answer yet."""
        return tuple(self._rounds)

    def ask(self, contexts: Array) -> Ask:
        """Return the ask for a new round with these contexts, one a row."""
        deployment, plan = self.deployment, self.deployment.plan
        rows = check_contexts(deployment.settings, contexts)
        arms = len(rows)
        # Missing arms repeat the first: of equal scores the lowest arm wins.
        padded = np.concatenate([rows, np.repeat(rows[:1], plan.settings.arms - arms, axis=0)])
        features = plan.rounding.make_features(plan.rounding.round_contexts(padded)).reshape(-1)
        name = secrets.token_bytes(ID_BYTES)
        if self._ring is None:
            shared, seed = self._share("ask", features)
            self._rounds[name] = OpenRound(arms=arms, seed=seed)
            return Ask(name=name, features=shared)
        self._rounds[name] = OpenRound(arms=arms)
        multiple = plan.grid.feature_multiple
        encrypted = []
        for places, index in deployment.feature_groups(1):
            bound = deployment.feature_bound(len(places))
            encrypted.append(
                self._ring.encrypt(
                    features[index].astype(object) * multiple,
                    places=places,
                    scale=float(multiple),
                    peak=bound.peak,
                    norm=bound.norm,
                    primes=2,
                )
            )
        return Ask(name=name, features=tuple(encrypted))

    def read(self, answer: Answer, *, colours: Bits | None = None) -> int:
        """Return the arm that an answer names; the round is over then.

        `colours` are the opener's half where the user is the opener; else it comes sealed.
        """
        found = self._rounds.get(answer.name)
        if found is None:
            raise InvalidInput("answer", "one for another round", "for a round that is open")
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
        del self._rounds[answer.name]
        return int(arm)

    def forget(self, name: bytes) -> None:
        """Give a round up: its answer will not be read."""
        self._rounds.pop(name, None)

    def report(self, context: Array, reward: float) -> Report:
        """Return the report that playing `context` earned `reward`."""
        deployment, plan = self.deployment, self.deployment.plan
        row = check_context(deployment.settings, context)
        earned, _ = clip_reward(deployment.settings, reward)
        integers = plan.rounding.round_report(row, earned)
        name = secrets.token_bytes(ID_BYTES)
        if self._ring is None:
            shared, _ = self._share("report", integers)
            return Report(name=name, report=shared)
        return Report(
            name=name,
            report=encrypt_report(self._ring, plan, [int(each) for each in integers]),
        )

    def _share(self, kind: str, integers: Integers) -> tuple[Shared, SealedSeed]:
        assert self._sealing_key is not None
        seed, box = seal_seed(self._sealing_key, kind=kind, deployment=self.deployment.digest)
        pad = seed.expand(len(integers))
        return Shared(shares=(integers - pad) % SHARE_MODULUS, box=box), seed
