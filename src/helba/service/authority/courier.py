"""A thread that delivers: when told, soon after a change on disk, and again while it fails.

A look at the folder costs a few calls of the system, once a second; a look at the server one
request, every 30 seconds. While the server is away it is tried again after 1/4 second, and then
less and less often, up to every 3 seconds.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from helba.errors import HelbaError, Unavailable
from helba.service.authority.delivery import Outcome, deliver
from helba.service.authority.link import Link
from helba.service.protocol.authorityfiles import CURRENT, MEMBERS, SERVER
from helba.service.protocol.files import ROTATION
from helba.service.protocol.tokens import read_token_hash

LOOK_SECONDS, PASS_SECONDS = 1.0, 30.0
FIRST_RETRY_SECONDS, MOST_RETRY_SECONDS = 0.25, 3.0

log = logging.getLogger("helba.service.authority")


class Courier:
    """Keeps the server in step with the authority in `folder`, from `start` to `stop`.

    `state` is "starting", "in step", "behind" (the server refuses somebody), "away" or "refused";
    `observe` is told it after each pass, with the outcome if there is one.
    """

    def __init__(
        self,
        folder: Path,
        *,
        link: Link,
        observe: Callable[[str, Outcome | None], None] = lambda _state, _outcome: None,
    ) -> None:
        self.folder = folder
        self.link = link
        self.state = "starting"
        self.last_error: str | None = None
        self._observe = observe
        self._outcome: Outcome | None = None
        self._told: set[bytes] = set()
        self._signal = threading.Condition()
        self._stopping = False
        self._asked = self._begun = self._done = 0
        self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)

    def __repr__(self) -> str:
        return f"<Courier to {self.link.url}, {self.state}>"

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def stop(self) -> None:
        """End after the pass that is under way; what is left is delivered after the next start."""
        with self._signal:
            self._stopping = True
            self._signal.notify_all()
        self._thread.join(timeout=2 * MOST_RETRY_SECONDS)
        self.link.close()

    def poke(self) -> int:
        """Ask for a delivery of what the folder has now; return a ticket for `is_done`."""
        with self._signal:
            self._asked = self._begun + 1
            self._signal.notify_all()
            return self._asked

    def is_done(self, ticket: int) -> bool:
        """Whether the delivery that was asked for has been tried."""
        return self._done >= ticket

    def has(self, user: bytes) -> bool:
        """Whether the server has a user, by the token that the folder has; both as last seen."""
        outcome = self._outcome
        if outcome is None:
            return False
        token_hash = read_token_hash(self.folder / SERVER, user)
        return token_hash is not None and outcome.held.get(user) == token_hash

    # -- the thread

    def _run(self) -> None:
        retry = FIRST_RETRY_SECONDS
        while not self._stopping:
            stamp = self._look()
            with self._signal:
                self._begun += 1
            sound = self._deliver()
            with self._signal:
                self._done = self._begun
                self._signal.notify_all()
            retry = FIRST_RETRY_SECONDS if sound else min(2 * retry, MOST_RETRY_SECONDS)
            self._rest(PASS_SECONDS if sound else retry, stamp=stamp)

    def _rest(self, seconds: float, *, stamp: object) -> None:
        """Wait, until it is time, somebody asks, or the folder changes."""
        end = time.monotonic() + seconds
        with self._signal:
            while not self._stopping and self._asked <= self._begun:
                left = end - time.monotonic()
                if left <= 0 or self._look() != stamp:
                    return
                self._signal.wait(min(left, LOOK_SECONDS))

    def _deliver(self) -> bool:
        outcome, state, line = None, "in step", None
        try:
            outcome = deliver(self.folder, link=self.link, told=self._told)
            if outcome.left:
                state, line = "behind", next(iter(outcome.left.values()))
        except Unavailable as error:
            state, line = "away", str(error)
        except HelbaError as error:
            state, line = "refused", str(error)
        except Exception as error:  # the thread must outlive what nobody thought of
            state, line = "refused", type(error).__name__
        self._report(state, line, outcome)
        self._observe(state, outcome)
        return state == "in step"

    def _report(self, state: str, line: str | None, outcome: Outcome | None) -> None:
        if outcome is not None:
            self._outcome = outcome
            if outcome.changed:
                done = {
                    "rotated": outcome.rotated,
                    "enrolled": len(outcome.enrolled),
                    "revoked": len(outcome.revoked),
                }
                log.info("delivered", extra={"fields": done})
        if (state, line) != (self.state, self.last_error):
            level = logging.INFO if state == "in step" else logging.WARNING
            fields = {"state": state} if line is None else {"state": state, "reason": line}
            log.log(level, "server", extra={"fields": fields})
        self.state, self.last_error = state, line

    def _look(self) -> tuple[object, ...]:
        """What changes with the folder; each change puts a new file in place."""
        paths = (CURRENT, MEMBERS, f"{SERVER}/{ROTATION}")
        return tuple(_stamp_of(self.folder / path) for path in paths)


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
