"""What must hold in every scenario; none of it asks the code that it checks.

Sums hold every acknowledged report once. Nothing that may serve once serves twice. Every decision
is that of the plaintext twin of the model that the answer names. What is stored is what the party
was.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from helba.lab.play.twin import GridTwin
from helba.learning.plan import SharesPlan
from helba.server.state import (
    Adopted,
    Dropped,
    Folded,
    GivenUp,
    ServerState,
    Stored,
    UpdateBegun,
)
from tests.parties.oracle import expected_sums, read_sums, round_report


class Broken(AssertionError):
    """An invariant does not hold."""


def require(holds: bool, text: str) -> None:
    """Raise `Broken` unless it holds."""
    if not holds:
        raise Broken(text)


class Once:
    """Values that may be used once: masks, nonces, labels, offsets, names, keys of circuits."""

    def __init__(self) -> None:
        self._seen: dict[str, set[bytes]] = {}

    def use(self, kind: str, value: bytes) -> None:
        """Note a use."""
        name = hashlib.blake2b(value, digest_size=16).digest()
        seen = self._seen.setdefault(kind, set())
        require(name not in seen, f"a {kind} serves twice")
        seen.add(name)


@dataclass(kw_only=True)
class Asked:
    """An ask: its contexts, and the model that was served when it was made."""

    contexts: Any
    batch: int


class Ledger:
    """Reports and models, followed by what was stored."""

    def __init__(self, plan: SharesPlan) -> None:
        self.plan = plan
        self.once = Once()
        self.reports: dict[bytes, tuple[Any, float]] = {}
        self.acknowledged: set[bytes] = set()
        self.asked: dict[bytes, Asked] = {}
        self.stored: set[bytes] = set()
        self.growth: set[bytes] = set()
        self.taken: set[bytes] = set()
        self.model: set[bytes] = set()
        self.twin = GridTwin(plan)
        self.twins: dict[int, tuple[Any, float]] = {}
        self.received: Counter[bytes] = Counter()
        self.answered: Counter[bytes] = Counter()
        self._note_twin()

    def _note_twin(self) -> None:
        twin = self.twin
        self.twins[twin.batch.number] = (twin.model, twin.resolution)

    def follow(self, change: Any) -> None:
        """Follow a change that the server has stored."""
        if isinstance(change, Stored):
            self._take_name(change.row.name)
        elif isinstance(change, Folded):
            again = set(change.names) & (self.growth | self.taken | self.model)
            require(not again, "a report is folded twice")
            if self.plan.opener == "users":  # it came as a ciphertext, and was never a row
                for name in change.names:
                    self._take_name(name)
            require(set(change.names) <= self.stored, "a report is folded that was not stored")
            self.growth |= set(change.names)
        elif isinstance(change, Dropped):
            require(False, "a report in range is dropped")
        elif isinstance(change, UpdateBegun):
            self.taken, self.growth = self.growth, set()
        elif isinstance(change, GivenUp):
            self.growth, self.taken = self.growth | self.taken, set()
        elif isinstance(change, Adopted):
            self._adopt(change)

    def _take_name(self, name: bytes) -> None:
        require(name in self.reports, "a report is stored that nobody made")
        require(name not in self.stored, "a report is stored twice")
        self.stored.add(name)

    def _adopt(self, change: Adopted) -> None:
        terms, twin = change.terms, self.twin
        for name in sorted(self.taken):
            twin.learn(*self.reports[name])
        self.model |= self.taken
        self.taken = set()
        require(terms.samples == len(self.model), "an update counts other reports than its sums")
        require(terms.before.number == twin.batch.number, "an update begins from an old model")
        twin.follow(terms)
        self._note_twin()

    def judge(self, name: bytes, *, arm: int, batch: int) -> None:
        """Judge a decision: that of the twin, or a tie of its model."""
        asked = self.asked[name]
        require(asked.batch <= batch, "an answer comes from a model older than its ask")
        require(batch in self.twins, "an answer names a model that was never adopted")
        model, resolution = self.twins[batch]
        rounding = self.plan.rounding
        features = rounding.make_features(rounding.round_contexts(asked.contexts))
        scores = features @ model
        behind = float(scores.max() - scores[arm])
        unit = 2.0**-self.plan.score_bits
        exact = batch == 0 and arm != int(np.argmax(scores))
        require(not exact and behind * unit <= resolution, "a decision is not the twin's")

    def check_sums(self, state: ServerState, *, reader: Any) -> None:
        """Check what is encrypted against the reports."""
        require(self.acknowledged <= set(state.names), "an acknowledged report is forgotten")
        require(set(state.names) == self.stored, "the server knows other reports than were stored")
        summed = self.model | self.growth | self.taken
        require(set(state.rows) == self.stored - summed, "the stored rows are others")
        wanted = expected_sums(
            [round_report(self.plan, *self.reports[name]) for name in summed],
            dim=self.plan.settings.dim,
        )
        found = read_sums(reader, self.plan, state)
        require(np.array_equal(found, wanted), "the sums are not those of the reports")
        require(state.samples == len(summed), "the server counts other reports than it has")
