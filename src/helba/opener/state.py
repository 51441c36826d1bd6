"""The state that an opener must not lose: its verdicts on each box, and what it gave away.

Every change of it is one of the classes below, and is stored before the reply that follows from it
is sent. Tasks and garbling sessions are never among it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class OpenerState:
    """Verdicts begun, by the hash of the box; bits returned to the server; aborts."""

    verdicts: dict[bytes, int] = field(default_factory=dict)
    bits_returned: int = 0
    aborts: int = 0


@dataclass(frozen=True, kw_only=True)
class VerdictsBegun:
    """A verdict on each of these boxes: an abort tells something, too, so it counts beforehand."""

    names: Sequence[bytes]

    def apply(self, state: OpenerState) -> None:
        """Count them."""
        for name in self.names:
            state.verdicts[name] = state.verdicts.get(name, 0) + 1


@dataclass(frozen=True, kw_only=True)
class Noted:
    """Counts that go up: bits that the server learns, messages that were not gone on with."""

    bits_returned: int = 0
    aborts: int = 0

    def apply(self, state: OpenerState) -> None:
        """Add them."""
        state.bits_returned += self.bits_returned
        state.aborts += self.aborts
