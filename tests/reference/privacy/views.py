"""What parties of a run see.

Every claim is tested twice: with its protection, where a statistic must stay plausible, and
without, where the same statistic must not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from helba.reference.protocol.authority import Authority
from helba.reference.protocol.bandit import ReferenceBandit
from helba.reference.protocol.serving.server import Server
from helba.reference.protocol.user import User
from tests.reference.privacy.transcript import (
    AUTHORITY,
    RecordedAuthority,
    RecordedServer,
    Shape,
    Transcript,
)
from tests.reference.protocol.parties import TOY, Table, draw_contexts
from tests.significance import PLAUSIBLE, PLAUSIBLE_ANEW

Array = NDArray[np.float64]

PUBLIC = replace(TOY, schedule="public")
# Messages whose number is a matter of update times.
UPDATES = {"Task", "TaskReply", "Notice"}


def plausible(scheme: str) -> float:
    """The least p-value at which nothing was found."""
    return PLAUSIBLE if scheme == "simulate" else PLAUSIBLE_ANEW


def decrypted(table: Table, answer: bytes, *, user: User | None = None) -> Array:
    """All slots of an answer, by the key of the user it went to."""
    user, message = user or table.user, table.decode(answer)
    vector = user._own.vector_from_bytes(message.parts[0], slots=user.profile.answer_slots)
    return user._own.decrypt(vector, secret_key=user._secret_key)


@dataclass
class Run:
    """A bandit whose messages are all kept, and the numbers that nobody but the user may see."""

    transcript: Transcript
    authority: Authority
    server: Server
    bandit: ReferenceBandit
    secrets: list[Array] = field(default_factory=list)
    arms: list[int] = field(default_factory=list)

    def play(self, *, rounds: int, seed: int, scale: float = 1.0) -> Run:
        """Play rounds whose contexts and rewards depend on `seed` and `scale` alone."""
        generator, settings = np.random.default_rng(seed), self.bandit.settings
        for number in range(rounds):
            arms = 1 + number % settings.arms
            contexts = scale * draw_contexts(generator, settings, arms=arms)
            if number % 3 == 2:
                contexts = np.trunc(10.0 * contexts) / 10.0  # simulated, these pack otherwise
            arm = self.bandit.select(contexts)
            reward = float(scale * settings.reward_max * generator.uniform(-1, 1))
            x = contexts[arm]
            self.arms.append(arm)
            self.secrets += [contexts.ravel(), np.array([reward]), reward * x]
            self.secrets += [np.outer(x, x).ravel()]
            self.bandit.update(x, reward)
        return self


def record(authority: Authority) -> Run:
    """All parties of a bandit with these keys, around a transcript."""
    transcript = Transcript(authority.deployment)
    recorded = RecordedAuthority(
        authority.deployment, transcript=transcript, keys=authority._keys, scheme=authority._scheme
    )
    server = recorded.make_server()
    bandit = ReferenceBandit(
        authority.deployment.settings,
        authority=recorded,
        server=RecordedServer(server, transcript=transcript),
    )
    return Run(transcript=transcript, authority=recorded, server=server, bandit=bandit)


def capture_packed(run: Run, monkeypatch: Any) -> list[Array]:
    """Everything that the user encrypts from now on, in the clear."""
    user, seen = run.bandit.user, []
    encrypt: Callable[..., Any] = user._encrypt

    def watched(packed: Any, levels: Any) -> Any:
        seen.extend(np.asarray(values) for values in packed)
        return encrypt(packed, levels)

    monkeypatch.setattr(user, "_encrypt", watched)
    return seen


def without_length_of_keys(shapes: Iterable[Shape]) -> list[Shape]:
    """Keys are not filled up: how well one packs is a matter of its own randomness."""
    return [(*each[:3], 0) if each[0] == AUTHORITY else each for each in shapes]
