"""State of a server, which it must not lose: model, sums, stored reports, members, and counts.

Every change of it is one of the classes below, and is stored before anything that follows from it
is sent. Masks, labels, offsets and open conversations are never among it: a server that restarts
begins those again, with everything fresh.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from helba.learning.update import Learned
from helba.learning.update_certificate import UpdateTerms
from helba.ring import Ciphertext, Recipient, Ring
from helba.ring.sharing.integer import Integers


@dataclass(frozen=True, kw_only=True, eq=False)
class Row:
    """A report that is stored and not folded yet: the server's share, and the sealed seed.

    `judged` counts the checks of its range that were begun; the opener allows a few.
    """

    name: bytes
    shares: Integers = field(repr=False)
    box: bytes = field(repr=False)
    judged: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Growth:
    """The sum of `count` reports."""

    total: Ciphertext
    count: int

    def plus(self, other: Growth | None, *, ring: Ring) -> Growth:
        """Return the sum of both."""
        if other is None:
            return self
        total = ring.sum([other.total, self.total])
        return Growth(total=total, count=self.count + other.count)


@dataclass(kw_only=True, eq=False)
class ServerState:
    """The state; it changes by `Change`s and by nothing else.

    `growth` sums reports beyond the model, but for those that an update under way has `taken`.
    `rows` are reports that are not summed yet, in order of arrival, `names` those of all reports
    that were taken in. `members` are the users by name, in the setting `users` with the keys by
    which the server reaches them. `cleared` is the number of reports up to which the last test of
    this batch said no, `adopted` has the counts of the model's own update, `attempts` counts models
    that were rejected since.
    """

    learned: Learned
    growth: Growth | None = None
    taken: Growth | None = None
    cleared: int = 0
    rows: dict[bytes, Row] = field(default_factory=dict)
    names: dict[bytes, None] = field(default_factory=dict)
    members: dict[bytes, Recipient | None] = field(default_factory=dict)
    adopted: UpdateTerms | None = None
    attempts: int = 0
    tests: int = 0
    rejected: int = 0
    abandoned: int = 0
    dropped_reports: int = 0
    failure: float = 0.0

    @property
    def updates(self) -> int:
        """Updates that made the model, one after the other."""
        return self.learned.batch.number

    @property
    def samples(self) -> int:
        """Reports that the sums hold, those of the model included."""
        return self.learned.batch.samples + self.unseen

    @property
    def unseen(self) -> int:
        """Reports that the sums hold beyond the model."""
        return sum(each.count for each in (self.growth, self.taken) if each is not None)

    @property
    def untested(self) -> int:
        """Reports that the sums hold and no test has seen."""
        return self.samples - max(self.cleared, self.learned.batch.samples)


@dataclass(frozen=True, kw_only=True, eq=False)
class Enrolled:
    """A user may ask and report from now on."""

    user: bytes
    recipient: Recipient | None = None

    def apply(self, state: ServerState) -> None:
        """Add the member."""
        state.members[self.user] = self.recipient


@dataclass(frozen=True, kw_only=True, eq=False)
class Stored:
    """A report came as shares; it counts once it is folded."""

    row: Row

    def apply(self, state: ServerState) -> None:
        """Add the row."""
        state.rows[self.row.name] = self.row
        state.names[self.row.name] = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Folded:
    """`growth` is the sum with these: a report that came as a ciphertext, or rows in range."""

    names: Sequence[bytes]
    growth: Growth

    def apply(self, state: ServerState) -> None:
        """Put the new sum in place of the old one, and remove the rows."""
        for name in self.names:
            if name in state.names:  # a stored report, whose row goes: it is summed once
                del state.rows[name]
            state.names[name] = None
        state.growth = self.growth


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A check of these reports' range was begun: it counts, whatever comes of it."""

    names: Sequence[bytes]

    def apply(self, state: ServerState) -> None:
        """Count the check."""
        for name in self.names:
            row = state.rows[name]
            state.rows[name] = replace(row, judged=row.judged + 1)


@dataclass(frozen=True, kw_only=True)
class Dropped:
    """A stored report is out of range, or cannot be read: it will not count."""

    name: bytes

    def apply(self, state: ServerState) -> None:
        """Remove the row; its name stays, so that the report does not come back."""
        del state.rows[self.name]
        state.dropped_reports += 1


@dataclass(frozen=True, kw_only=True)
class Tested:
    """An update test came to its end; reports up to `cleared` make no update due."""

    cleared: int = 0

    def apply(self, state: ServerState) -> None:
        """Count the test."""
        state.tests += 1
        state.cleared = max(state.cleared, self.cleared)


@dataclass(frozen=True, kw_only=True)
class UpdateBegun:
    """An update takes the sum as it is; reports that come now are for the next one."""

    def apply(self, state: ServerState) -> None:
        """Set the sum apart."""
        state.taken, state.growth = state.growth, None


@dataclass(frozen=True, kw_only=True, eq=False)
class GivenUp:
    """An update does not come to its end; `growth` is all that is beyond the model again."""

    growth: Growth
    rejected: bool = False

    def apply(self, state: ServerState) -> None:
        """Put the sums together."""
        state.growth, state.taken = self.growth, None
        if self.rejected:
            state.rejected += 1
            state.attempts += 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Adopted:
    """The update's model passed its check; it serves from now on."""

    learned: Learned
    terms: UpdateTerms

    def apply(self, state: ServerState) -> None:
        """Put the new model in place of the old one, and forget the sum that it was made of."""
        state.learned, state.adopted, state.taken = self.learned, self.terms, None
        state.cleared, state.attempts = self.learned.batch.samples, 0


@dataclass(frozen=True, kw_only=True)
class Noted:
    """Counts that go up: conversations given up, and the chance that a reopening went wrong."""

    abandoned: int = 0
    failure: float = 0.0

    def apply(self, state: ServerState) -> None:
        """Add them."""
        state.abandoned += self.abandoned
        state.failure += self.failure
