"""What an opener must not lose: how often each box was judged, and what it gave away.

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
class BitsReturned:
    """Bits that the server learns."""

    count: int

    def apply(self, state: OpenerState) -> None:
        """Count them."""
        state.bits_returned += self.count


@dataclass(frozen=True, kw_only=True)
class Aborted:
    """A message that the opener did not go on with."""

    def apply(self, state: OpenerState) -> None:
        """Count it."""
        state.aborts += 1
