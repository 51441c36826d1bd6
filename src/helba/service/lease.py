"""What the server lends for a while: slots of a ciphertext, and the work of helping an update.

A lease that is not used ends by itself, so that nobody waits for a user who went away. Times are
those of `time.monotonic`, given by the caller. For one thread at a time.
"""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["HelpLease", "SlotLeases"]

SLOT_SECONDS = 10.0
HELP_SECONDS = 15.0


class SlotLeases:
    """Lends each user the lowest slots that are free; users who have not asked yet keep theirs.

    An update test rides in slot 0, so it should be in use whenever there is anybody. Where all are
    lent the one that was lent first is lent again: two asks for it are scored one after the other.
    """

    def __init__(self, slots: int, *, seconds: float = SLOT_SECONDS) -> None:
        self._slots = slots
        self._seconds = seconds
        self._lent: OrderedDict[int, tuple[bytes, float]] = OrderedDict()

    def lend(self, user: bytes, *, now: float) -> int:
        """Return the slots for the next ask of a user; they are lent once, not anew each time."""
        self._end(now)
        for slot, (holder, _) in self._lent.items():
            if holder == user:
                return slot
        free = (slot for slot in range(self._slots) if slot not in self._lent)
        slot = next(free, -1)
        if slot < 0:
            slot = next(iter(self._lent))
            del self._lent[slot]
        self._lent[slot] = (user, now + self._seconds)
        return slot

    def use(self, user: bytes, *, slot: int) -> None:
        """Take a lease back: the ask has come."""
        if slot in self._lent and self._lent[slot][0] == user:
            del self._lent[slot]

    def outstanding(self, *, now: float) -> int:
        """Return how many asks may still be on their way."""
        self._end(now)
        return len(self._lent)

    def _end(self, now: float) -> None:
        for slot in [slot for slot, (_, until) in self._lent.items() if until <= now]:
            del self._lent[slot]


class HelpLease:
    """Lets one user at a time help with updates: one reply is enough, and others need not work.

    Who has it keeps it as long as shares come. Who let it end without any is passed over for as
    long again, so that somebody else may help.
    """

    def __init__(self, *, seconds: float = HELP_SECONDS) -> None:
        self._seconds = seconds
        self._holder: bytes | None = None
        self._until = 0.0

    def is_free(self, *, now: float) -> bool:
        """Whether nobody is helping."""
        return self._holder is None or now >= self._until

    def take(self, user: bytes, *, now: float) -> bool:
        """Let a user help from now on; return whether it may, or is helping already."""
        if not self.is_free(now=now):
            return self._holder == user
        if self._holder == user and now < self._until + self._seconds:
            return False
        self._holder, self._until = user, now + self._seconds
        return True

    def extend(self, user: bytes, *, now: float) -> None:
        """A share has come."""
        if self.is_free(now=now) or self._holder == user:
            self._holder, self._until = user, now + self._seconds

    def end(self) -> None:
        """There is nothing to help with."""
        self._holder = None
