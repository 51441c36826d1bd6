"""What the server lends for a while: the work of helping an update.

A lease that is not used ends by itself, so that nobody waits for a user who went away. Times are
those of `time.monotonic`, given by the caller. For one thread at a time.
"""

from __future__ import annotations

HELP_SECONDS = 15.0


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
