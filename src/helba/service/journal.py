"""What an evaluator did and the store does not have yet; nothing of it leaves before it has.

A commit that fails is tried again with all that it had, before anything else is done: the state in
memory is never ahead of the store by more than that. A commit whose outcome stayed unknown may be
repeated (`store`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

from helba.reference.protocol.serving.server import Status
from helba.service.checkpoint import Checkpoint
from helba.service.evaluator import Outcome
from helba.service.store import AnsweredRound, LedgerCounts, Store, UpdateRecord


class Journal:
    """The way of one tenant's outcomes into the store."""

    def __init__(self, store: Store, *, tenant: str) -> None:
        self._store = store
        self._tenant = tenant
        self._checkpoint: Checkpoint | None = None
        self._ledger: LedgerCounts | None = None
        self._told: tuple[bytes, int] | None = None
        self._answered: dict[bytes, AnsweredRound] = {}
        self._reported: list[bytes] = []
        self._dropped: list[bytes] = []
        self._updates: list[UpdateRecord] = []
        self._seen_updates: int | None = None
        self._stored = 0

    @property
    def pending(self) -> bool:
        """Whether something has not been stored."""
        return bool(
            self._checkpoint or self._answered or self._reported or self._dropped or self._updates
        )

    def restart(self, *, stored: int) -> None:
        """Drop what was not stored, with the process that did it; go on after that checkpoint."""
        self._stored = stored
        self._checkpoint = self._ledger = self._seen_updates = self._told = None
        self._answered, self._reported, self._dropped, self._updates = {}, [], [], []

    def add(
        self,
        outcome: Outcome,
        *,
        answered: Sequence[AnsweredRound] = (),
        reported: Sequence[bytes] = (),
        dropped: Sequence[bytes] = (),
    ) -> None:
        """Note what is to be stored."""
        checkpoint = outcome.checkpoint
        if checkpoint is not None:
            before = {} if self._checkpoint is None else self._checkpoint.parts
            parts = {**before, **checkpoint.parts}
            self._checkpoint = replace(checkpoint, parts=parts, follows=self._stored)
        self._answered.update({each.round: each for each in answered})
        self._reported += reported
        self._dropped += dropped
        self._note_counts(outcome)

    def commit(self) -> int | None:
        """Store it all, or raise `Unavailable`; return the number of the checkpoint, if any."""
        if not self.pending:
            return None
        self._store.commit(
            self._tenant,
            checkpoint=self._checkpoint,
            answered=tuple(self._answered.values()),
            reported=self._reported,
            dropped=self._dropped,
            ledger=self._ledger,
            updates=self._updates,
            at=_now(),
        )
        number = None if self._checkpoint is None else self._checkpoint.number
        self._stored = self._stored if number is None else number
        self._checkpoint = self._ledger = None
        self._answered, self._reported, self._dropped, self._updates = {}, [], [], []
        return number

    def _note_counts(self, outcome: Outcome) -> None:
        status: Status = outcome.status
        told = (outcome.key, sum(outcome.bits.values()))
        if told != self._told:
            self._told = told
            self._ledger = LedgerCounts(
                key=outcome.key,
                total=status.bits,
                bits=dict(outcome.bits),
                budget=status.bit_budget,
            )
        if self._seen_updates is not None and status.updates > self._seen_updates:
            self._updates.append(
                UpdateRecord(number=outcome.batch, at=_now(), samples=status.samples)
            )
        self._seen_updates = status.updates


def _now() -> datetime:
    return datetime.now(timezone.utc)
