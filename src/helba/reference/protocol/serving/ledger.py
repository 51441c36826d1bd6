"""How many bits travelled back from users, by key: what the server was told of decrypted values.

A test tells one bit. A check that passes tells one: its 64 signs are then those the server drew
itself; one that fails, or comes too late to be compared, tells all of them. An opening (the paper's
profile) tells a number in [0, 1] that is off by its flooding.

How many there may be, and why, is in `planning.bounds.flooding`.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Mapping

from helba.reference.engine.exchanges.opening import OPENING_FLOOD
from helba.reference.protocol.wire.messages import TaskReply

TEST_BITS = 1
MOST_RECENT = 1 << 12
OPENING_BITS = 1 + math.ceil(math.log2(1.0 / OPENING_FLOOD))


class Recent:
    """Names of what was asked and is closed, the last ones: late replies to it still tell bits.

    A user tells them once: who sends its reply again, or another, tells nothing that it decrypted.
    Nor does who was not asked.
    """

    def __init__(self) -> None:
        self._names: OrderedDict[bytes, tuple[bytes | None, set[bytes]]] = OrderedDict()

    def add(self, name: bytes, *, asked: bytes | None = None) -> None:
        """Remember a name, and who was `asked`, if it was one; of too many the oldest goes."""
        self._names.setdefault(name, (asked, set()))
        while len(self._names) > MOST_RECENT:
            self._names.popitem(last=False)

    def tell(self, name: bytes, *, user: bytes) -> bool:
        """Note the reply of a user; return whether it is its first to what was asked."""
        asked, told = self._names.get(name, (b"", set()))
        if asked not in (None, user) or user in told:
            return False
        told.add(user)
        return True


def bits_told(reply: TaskReply) -> int:
    """Return how many bits a reply tells whoever has not compared it with anything."""
    if reply.bits is not None:
        return len(reply.bits)
    return OPENING_BITS if reply.work == "opening" else 0


class Ledger:
    """Bits by user key, and `total`, which counts for the collective key since it was made."""

    def __init__(
        self, *, budget: int, bits: Mapping[bytes, int] | None = None, total: int = 0
    ) -> None:
        self.budget = budget
        self.total = total
        self._bits: Counter[bytes] = Counter(bits or {})

    def add(self, user: bytes, bits: int) -> None:
        """Count bits that came back under the key of `user`."""
        if bits:
            self._bits[user] += bits
            self.total += bits

    def include(self, other: Ledger) -> None:
        """Count at least what `other` has counted: of two records of one history the later one."""
        for user, bits in other._bits.items():
            self._bits[user] = max(self._bits[user], bits)
        self.total = max(self.total, other.total)

    def of(self, user: bytes) -> int:
        """Return the bits that came back under one user's key."""
        return self._bits[user]

    @property
    def spent(self) -> bool:
        """Whether the collective key should be rotated."""
        return self.total > self.budget

    def spent_keys(self) -> tuple[bytes, ...]:
        """Return the users whose own keys should be replaced."""
        return tuple(user for user, bits in self._bits.items() if bits > self.budget)

    def as_dict(self) -> dict[bytes, int]:
        """Return all counts."""
        return dict(self._bits)

    def __repr__(self) -> str:
        return f"<Ledger: {self.total} of {self.budget} bits>"
