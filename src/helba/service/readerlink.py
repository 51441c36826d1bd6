"""Has what arrives read by a reader, and replaces the reader when it ends or the key is another.

One thread talks to the reader, so that the event loop never waits for it. What waits for the thread
is limited as what waits for the evaluator is.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from pickle import PickleBuffer
from typing import Any

from helba.errors import DamagedData, Refused, RunFailed, Unavailable
from helba.reference.protocol.enrolment import Enrolment
from helba.service.failure import TooMany
from helba.service.job import MOST_OF_ONE
from helba.service.protocol.child import ChildEnded, ChildProcess, ChildTooSlow
from helba.service.protocol.serverfiles import enrolment_path
from helba.service.protocol.vault import read_private
from helba.service.reader import Stranger, run_reader
from helba.service.view import View

# How long a message or a key may be read.
READER_SECONDS = 60.0


class ReaderLink:
    """The reader of the deployment in `folder`; `view` says under which collective key it reads.

    At most `most_waiting` checks wait, and `MOST_OF_ONE` of one user: more raise `Unavailable` or
    `TooMany`. Coroutines are for one event loop.
    """

    def __init__(
        self, name: str, folder: Path, *, view: View, allow_insecure: bool, most_waiting: int
    ) -> None:
        self._folder = folder
        self._view = view
        self._allow_insecure = allow_insecure
        self._reader: ChildProcess | None = None
        self._key: bytes | None = None  # the id of the collective key that it reads under
        self._most_waiting = most_waiting
        self._waiting: Counter[bytes | None] = Counter()  # by user, None for the authority
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"reader-{name}")

    @property
    def process(self) -> int | None:
        """The id of the reader's process, if there is one."""
        reader = self._reader
        return None if reader is None else reader.process.pid

    def prepare(self) -> None:
        """Let the reader know the collective key before it is needed."""
        with suppress(RuntimeError):  # the tenant is stopping
            self._thread.submit(self._current)

    def stop(self) -> None:
        """End the reader."""
        self._thread.submit(self._close).result()
        self._thread.shutdown()

    async def check(self, route: str, body: bytes, *, user: bytes) -> Any:
        """Return what a user's message is about: subject and batch.

        Raises `DamagedData`, and `NotYours` for a message in somebody else's name.
        """
        return await self._run(lambda: self._check(route, body, user), user=user)

    async def check_keys(
        self, route: str, keys: bytes, *, user: bytes | None = None
    ) -> bytes | None:
        """Return whose enrolment it is, None for other keys, or raise `DamagedData`.

        `user` is who sends them, None for the authority.
        """
        owner: bytes | None = await self._run(
            lambda: self._read("check_keys", route, PickleBuffer(keys)), user=user
        )
        return owner

    async def _run(self, action: Callable[[], Any], *, user: bytes | None) -> Any:
        if user is not None and self._waiting[user] >= MOST_OF_ONE:
            raise TooMany(1.0, "too many requests of this user wait: try again")
        if self._waiting.total() >= self._most_waiting:
            raise Unavailable("too many requests wait for this tenant: try again")
        self._waiting[user] += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, action)
        finally:
            self._waiting[user] -= 1
            if self._waiting[user] <= 0:
                del self._waiting[user]

    # -- the thread

    def _check(self, route: str, body: bytes, user: bytes) -> Any:
        try:
            return self._read("check", route, PickleBuffer(body), user)
        except Stranger:  # data under its own key, which this reader has not seen yet
            self._read("meet", PickleBuffer(self._public_key_of(user)))
        try:
            return self._read("check", route, PickleBuffer(body), user)
        except Stranger:  # another reader had to take its place in between
            raise Unavailable("the reader was started again: try again") from None

    def _public_key_of(self, user: bytes) -> bytes:
        path = enrolment_path(self._folder, user)
        if not path.exists():
            raise Refused("this key is not enrolled: enrol it with the authority")
        deployment = self._view.deployment
        return Enrolment.from_bytes(read_private(path), deployment=deployment).public_key

    def _read(self, call: str, *arguments: object) -> Any:
        """Have something read; what takes the reader too long is damaged.

        So is what ends the reader twice, unless somebody killed it.
        """
        killed = False
        for _ in range(2):
            try:
                reader = self._current()
            except RunFailed as error:
                raise Unavailable(f"{error}: try again") from None
            try:
                return reader.call(call, *arguments)
            except ChildTooSlow:
                self._close()
                raise DamagedData("the message cannot be read") from None
            except ChildEnded:
                self._close()
                killed = killed or reader.process.exitcode == -signal.SIGKILL
        if killed:  # by the system or its operator: it may have nothing to do with the message
            raise Unavailable("the reader was killed: try again")
        raise DamagedData("the message cannot be read")

    def _current(self) -> ChildProcess:
        """The reader that reads under the key that is served."""
        if self._reader is None or self._key != self._view.key:
            self._close()
            key = self._view.key  # first: the other may be newer, which the next call mends
            public = self._view.public_key
            if public is None:
                raise Unavailable(f"the tenant is {self._view.state}: try again")
            arguments = (self._folder, self._allow_insecure, public)
            self._reader = ChildProcess(
                run_reader, *arguments, what="reader", seconds=READER_SECONDS, replies=()
            )
            self._key = key
        return self._reader

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
