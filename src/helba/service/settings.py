"""What an operator may set of a server: limits of what users may do."""

from __future__ import annotations

from dataclasses import dataclass

from helba.errors import require_positive, require_whole

MOST = 1 << 40


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one user, and all together, may do before requests are turned away for a while.

    Requests of a user come at `rate_per_second` in the long run, and `burst` at once. A user may
    have `most_open_rounds` rounds without a reward. At most `most_waiting` requests wait for a
    tenant, and bodies of `most_bytes_in_flight` bytes are in memory, of all users together.
    """

    rate_per_second: float = 20.0
    burst: int = 60
    most_open_rounds: int = 64
    most_waiting: int = 1024
    most_bytes_in_flight: int = 1 << 31

    def __post_init__(self) -> None:
        require_positive("rate_per_second", self.rate_per_second)
        for name in ("burst", "most_open_rounds", "most_waiting", "most_bytes_in_flight"):
            require_whole(name, getattr(self, name), least=1, most=MOST)
