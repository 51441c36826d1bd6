"""What differs between profiles and bonuses: how slots are filled, what the server computes.

The user's side packs and reads plain numbers; the server's side is generators (`jobs`) on
ciphertexts. Everything else, messages, rounds, schedule, is the same for all (`user`, `server`).
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from helba.reference.circuits.algebra.check import signed_check
from helba.reference.circuits.comparison.argmax import Rider
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.engine.chance import draw_uniform
from helba.reference.planning.bounds.precision import CHECKED_RESIDUAL
from helba.reference.planning.layout.score_packing import Answer as Reading
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.serving.jobs import Check, JobSteps
from helba.reference.twin.terms import BatchTerms

Array = NDArray[np.float64]

# ||I - V A||_F of a new model, and the norm of what a refresh changed in all copies of the model
# together, may be this at most: orders above what noise makes of them.
MOST_RESIDUAL = CHECKED_RESIDUAL
MOST_CHANGE = 0.01
# Signs that a check compares: a random answer passes with probability 2^-64.
CHECK_SIGNS = 64


@dataclass(frozen=True, kw_only=True)
class Model:
    """What a batch is served with: its terms, the inverse, and the vector that scores need.

    `scoring` is the model of `planning.layout.score` in the profile `ciphertext`, the estimate in
    the paper's.
    """

    terms: BatchTerms
    inverse: EncryptedVector
    scoring: EncryptedVector


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What reports add: x x^T, r x by row, and what the update test needs, if there is one."""

    design: EncryptedVector
    response: EncryptedVector
    growth: EncryptedVector | None

    def map(self, action: Callable[[EncryptedVector], EncryptedVector]) -> Statistics:
        """Return what `action` makes of each vector."""
        growth = None if self.growth is None else action(self.growth)
        return Statistics(design=action(self.design), response=action(self.response), growth=growth)

    def plus(self, other: Statistics, *, engine: Engine) -> Statistics:
        """Return the sum with what other reports of the same deployment add."""
        growth = self.growth
        if growth is not None and other.growth is not None:
            growth = engine.add(growth, other.growth)
        return Statistics(
            design=engine.add(self.design, other.design),
            response=engine.add(self.response, other.response),
            growth=growth,
        )


@dataclass(frozen=True, kw_only=True)
class Held:
    """What `count` rewards add that wait for the next batch."""

    statistics: Statistics
    count: int

    def plus(self, added: Statistics, *, count: int, engine: Engine) -> Held:
        """Return these rewards and `count` more."""
        statistics = self.statistics.plus(added, engine=engine)
        return Held(statistics=statistics, count=self.count + count)


@dataclass(frozen=True, kw_only=True)
class RidingTest:
    """An update test that rides on an answer: the growth since the update, and the secrets."""

    growth: EncryptedVector
    rider: Rider


class Profile(ABC):
    """The packing and the circuits of one profile with one bonus."""

    # Whether the update test rides on an answer; else it is a computation of its own.
    rides: ClassVar[bool] = True
    # Vectors of contexts in an `Ask`.
    context_parts: ClassVar[int] = 1

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.settings = deployment.settings
        self.asks = deployment.settings.schedule == "trace"

    # -- the user's side: plain numbers

    @property
    @abstractmethod
    def context_slots(self) -> int:
        """Slots of each vector of contexts."""

    @property
    def context_level(self) -> int:
        """The level at which contexts are encrypted: no more levels than a round needs."""
        return 0

    @property
    @abstractmethod
    def statistics_shape(self) -> tuple[tuple[int, int], ...]:
        """Slots and level of each vector of a `Report`."""

    @abstractmethod
    def pack_contexts(self, contexts: Array, *, terms: BatchTerms) -> tuple[Array, ...]:
        """Return the slots of up to K contexts."""

    @abstractmethod
    def pack_statistics(self, context: Array, *, reward: float) -> tuple[Array, ...]:
        """Return the slots of what a report says."""

    # Whether a user is ever asked to open a number.
    opens: ClassVar[bool] = False

    @property
    @abstractmethod
    def check_slots(self) -> int:
        """Slots of the check of a new model."""

    @property
    @abstractmethod
    def answer_slots(self) -> int:
        """Slots of an answer."""

    @abstractmethod
    def read(self, values: Array, *, riding: bool) -> Reading:
        """Return the comparison vector, and the value of the test that rode along."""

    @abstractmethod
    def entry_range(self) -> tuple[float, float]:
        """Return what an entry of the comparison vector is certain to lie in."""

    # -- the server's side: ciphertexts

    @abstractmethod
    def first_model(self, engine: Engine, *, terms: BatchTerms) -> Model:
        """Return the model that knows nothing: A = I/lambda, w = 0."""

    @abstractmethod
    def absorb(self, engine: Engine, vectors: Sequence[EncryptedVector]) -> Statistics:
        """Return the statistics of a report."""

    @abstractmethod
    def answer_steps(
        self,
        engine: Engine,
        contexts: Sequence[EncryptedVector],
        *,
        model: Model,
        round: int,
        test: RidingTest | None,
    ) -> JobSteps:
        """Compute the comparison vector of all slots; `EncryptedVector` in the end."""

    def test_steps(
        self, engine: Engine, *, growth: EncryptedVector, model: Model, plays: int, round: int
    ) -> JobSteps:
        """Compute the update test where it does not ride; a bool in the end."""
        raise NotImplementedError

    def can_bridge(self, terms: BatchTerms, *, reach: float) -> bool:  # noqa: ARG002
        """Whether an update from the batch of `terms` can bridge a trace of up to `reach`."""
        return True

    def most_bridged(self, most: int) -> int:
        """Return how many rewards, of `most`, an update takes in from any model in any case."""
        return most

    @abstractmethod
    def next_terms(
        self, *, terms: BatchTerms, reach: float, round: int, samples: int, last_round: int
    ) -> BatchTerms:
        """Return the terms of the batch after `terms`; the trace has grown by at most `reach`."""

    @abstractmethod
    def update_steps(
        self,
        engine: Engine,
        *,
        design: EncryptedVector,
        response: EncryptedVector,
        model: Model,
        terms: BatchTerms,
        reach: float,
    ) -> JobSteps:
        """Compute the model of `terms` from the one before; `Model`, or None if it is refused."""


def request_check(
    engine: Engine,
    *,
    residual: EncryptedVector,
    changes: Sequence[EncryptedVector],
    slots: int,
) -> Check:
    """Return the check that the squared errors of a new model are small (`circuits.algebra.check`).

    They are the same in all their slots, and are repeated over `slots`, `CHECK_SIGNS` or more.
    """
    signs = [2 * (byte & 1) - 1 for byte in secrets.token_bytes(slots)]
    vector = signed_check(
        engine,
        [
            (engine.repeat(residual, slots), 2.0 * MOST_RESIDUAL**2),
            *((engine.repeat(change, slots), 2.0 * MOST_CHANGE**2) for change in changes),
        ],
        signs=signs,
        # one number for all slots: of many the largest and the least would tell the errors
        noise=np.array(signs) * draw_uniform(1, bound=0.5),
    )
    return Check(vector=vector, signs=tuple(signs[:CHECK_SIGNS]))
