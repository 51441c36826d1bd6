"""What must hold in every scenario; none of it asks the code that it checks.

Sums hold every acknowledged report in range once, and the model is updated when that is due.
Nothing that may serve once serves twice, and no box is judged more often than it may. Every
decision is that of the plaintext twin of the model that the answer names, and reaches who asked.
What is stored is what the party was.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from helba.lab.play.twin import GridTwin, restore_contexts
from helba.learning.plan import SharesPlan
from helba.server.state import (
    Adopted,
    Dropped,
    Folded,
    GivenUp,
    ServerState,
    Stored,
    Tested,
    UpdateBegun,
)
from tests.parties.oracle import expected_sums, read_sums, round_report

SURE = 0.05  # of C: traces that are farther from it make an update due, or do not, for sure
MOST_VERDICTS = 3  # on one box, ever


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
class AskMade:
    """An ask: its contexts, and the model that was served when it was made."""

    contexts: Any
    batch: int


class Ledger:
    """Reports and models, followed by what was stored."""

    def __init__(self, plan: SharesPlan, *, count_verdicts: Callable[[bytes], int]) -> None:
        self.plan = plan
        self.count_verdicts = count_verdicts  # that the opener has begun on a box, as it stored
        self.once = Once()
        self.reports: dict[bytes, tuple[Any, float]] = {}
        self.acknowledged: set[bytes] = set()
        self.asked: dict[bytes, AskMade] = {}
        self.owners: dict[bytes, bytes] = {}
        self.wild: set[bytes] = set()
        self.boxes: dict[bytes, bytes] = {}
        self.verdicts: Counter[bytes] = Counter()
        self.stored: set[bytes] = set()
        self.dropped: set[bytes] = set()
        self.growth: dict[bytes, None] = {}  # in the order in which they came
        self.taken: dict[bytes, None] = {}
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
            again = set(change.names) & (set(self.growth) | set(self.taken) | self.model)
            require(not again, "a report is folded twice")
            require(not set(change.names) & self.wild, "a report out of range is folded")
            if self.plan.opener == "users":  # it came as a ciphertext, and was never a row
                for name in change.names:
                    self._take_name(name)
            require(set(change.names) <= self.stored, "a report is folded that was not stored")
            self.growth |= dict.fromkeys(change.names)
        elif isinstance(change, Dropped):
            begun = self.count_verdicts(self.boxes.get(change.name, b""))
            used_up = change.name in self.wild or begun >= MOST_VERDICTS
            require(used_up, "a report in range is dropped")
            self.dropped.add(change.name)
        elif isinstance(change, Tested):
            require(not (self.taken and change.cleared), "a test beside an update says something")
            require(change.cleared <= self.counted, "a test clears reports that are not there")
            seen = list(self.growth)[: max(0, change.cleared - len(self.model))]
            require(not self.is_due(seen, sure=True), "a test misses an update that is due")
        elif isinstance(change, UpdateBegun):
            require(self.is_due(self.growth, sure=False), "an update begins that is not due")
            self.taken, self.growth = self.growth, {}
        elif isinstance(change, GivenUp):
            self.growth, self.taken = self.taken | self.growth, {}
        elif isinstance(change, Adopted):
            self._adopt(change)

    def _take_name(self, name: bytes) -> None:
        require(name in self.reports, "a report is stored that nobody made")
        require(name not in self.stored, "a report is stored twice")
        self.stored.add(name)

    @property
    def counted(self) -> int:
        """Reports that are summed."""
        return len(self.model) + len(self.growth) + len(self.taken)

    def judge_box(self, box: bytes) -> None:
        """Count a verdict that an opener gave away."""
        self.verdicts[box] += 1
        require(self.verdicts[box] <= MOST_VERDICTS, "a box is judged too often")
        counted = self.count_verdicts(box)
        require(counted >= self.verdicts[box], "a verdict is sent before it is counted")

    def is_due(self, names: Iterable[bytes], *, sure: bool) -> bool:
        """Whether these reports beyond the model make an update due: for `sure`, or perhaps."""
        names, plan = list(names), self.plan
        settings, count = plan.settings, len(self.model) + len(names)
        if names and count >= (1.0 + settings.growth) * max(1, len(self.model)):
            return True
        most = min(plan.most_unseen, plan.most_untested)
        if settings.schedule != "trace" or len(names) >= most:
            return len(names) >= most
        rounding, trace = plan.rounding, 0.0
        for name in names:
            row = restore_contexts(rounding, rounding.round_contexts(self.reports[name][0]))
            trace += float(row @ self.twin.inverse @ row)
        return trace >= settings.trace_threshold * (1.0 + SURE if sure else 1.0 - SURE)

    def _adopt(self, change: Adopted) -> None:
        terms, twin = change.terms, self.twin
        require(not terms.cold, "an update begins without the old model")
        for name in sorted(self.taken):
            twin.learn(*self.reports[name])
        self.model |= set(self.taken)
        self.taken = {}
        require(terms.samples == len(self.model), "an update counts other reports than its sums")
        require(terms.before.number == twin.batch.number, "an update begins from an old model")
        twin.follow(terms)
        self._note_twin()

    def judge(self, name: bytes, *, arm: int, batch: int) -> None:
        """Judge a decision: that of the twin, or a tie of its model."""
        asked = self.asked[name]
        if name in self.wild:
            require(arm == 0, "an ask out of range gets another arm than the first")
            return
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
        summed = self.model | set(self.growth) | set(self.taken)
        require(
            set(state.rows) == self.stored - summed - self.dropped, "the stored rows are others"
        )
        require(state.dropped_reports == len(self.dropped), "other reports are dropped")
        wanted = expected_sums(
            [round_report(self.plan, *self.reports[name]) for name in summed],
            dim=self.plan.settings.dim,
        )
        found = read_sums(reader, self.plan, state)
        require(np.array_equal(found, wanted), "the sums are not those of the reports")
        require(state.samples == len(summed), "the server counts other reports than it has")
