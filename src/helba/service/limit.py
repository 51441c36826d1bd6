"""What a request may take: the length of its body, memory for all bodies, and how often it comes.

A body is read only as far as it is admissible. What is in memory counts from when it arrives until
its request is answered, and an answer to a user until it has left.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from fastapi import Request
from starlette.requests import ClientDisconnect

from helba.errors import DamagedData, Unavailable, require_positive
from helba.service.failure import TooLarge, TooMany, TooSlow

IDLE_SECONDS = 30.0  # between two pieces of a body
MOST_SECONDS = 600.0  # for all of it
# Read on so far, for a client that sends all before it reads the answer.
DISCARDED_BYTES, DISCARDED_SECONDS = 8 << 20, 2.0
MOST_KEYS = 1 << 16


class BytesInFlight:
    """Counts the bytes of bodies in memory; more than `most` raise `Unavailable`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    def take(self, count: int) -> None:
        """Count `count` bytes more."""
        if self.held + count > self.most:
            raise Unavailable("too much is being sent here at once")
        self.held += count

    def give_back(self, count: int) -> None:
        """Count `count` bytes less."""
        self.held -= count


class Share(BytesInFlight):
    """What one of many may have of all `flight`: a share of `most`, for what it sends or gets now.

    `uses` counts the requests that have it.
    """

    def __init__(self, flight: BytesInFlight, *, most: int) -> None:
        super().__init__(most)
        self.uses = 0
        self._all = flight

    def take(self, count: int) -> None:
        """Count `count` bytes more, here and for all."""
        if self.held + count > self.most:
            raise TooMany(1.0, "this user sends too much at once: wait before the next")
        self._all.take(count)
        self.held += count

    def give_back(self, count: int) -> None:
        """Count `count` bytes less, here and for all."""
        super().give_back(count)
        self._all.give_back(count)

    @contextmanager
    def holding(self, count: int) -> Iterator[None]:
        """Count an answer of `count` bytes, here only, while the block lasts; one always may be."""
        if self.held > 0 and self.held + count > self.most:
            raise TooMany(1.0, "this user does not read its answers: wait before the next")
        self.held += count
        try:
            yield
        finally:
            self.held -= count


async def read_body(request: Request, most: int, *, idle_seconds: float = IDLE_SECONDS) -> bytes:
    """Return the body of a request, of at most `most` bytes.

    Raises `TooLarge` as soon as it is longer, by its Content-Length or while it arrives, `TooSlow`
    where it stops arriving, and `DamagedData` where the client goes away in the middle.
    """
    async with reading_body(request, most=most, idle_seconds=idle_seconds) as body:
        return body


@asynccontextmanager
async def reading_body(
    request: Request,
    *,
    most: int,
    flight: BytesInFlight | None = None,
    idle_seconds: float = IDLE_SECONDS,
) -> AsyncIterator[bytes]:
    """As `read_body`; the body counts in `flight` until the block ends."""
    flight = BytesInFlight(most) if flight is None else flight
    held = 0
    pieces = request.stream()
    deadline = time.monotonic() + MOST_SECONDS
    try:
        if _declared_length(request) > most:
            await _discard(pieces)
            raise TooLarge(most)
        body = io.BytesIO()  # which grows in place, and is returned without a copy
        while (part := await _next_piece(pieces, seconds=idle_seconds)) is not None:
            if held + len(part) > most:
                await _discard(pieces)
                raise TooLarge(most)
            flight.take(len(part))
            held += len(part)
            body.write(part)
            if time.monotonic() > deadline:
                raise TooSlow
        whole = body.getvalue()
        del body
        yield whole
    finally:
        flight.give_back(held)


def _declared_length(request: Request) -> int:
    text = request.headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise DamagedData("the length of the body is no number")
    return int(text)


async def _next_piece(pieces: Any, *, seconds: float) -> bytes | None:
    try:
        part: bytes = await asyncio.wait_for(pieces.__anext__(), seconds)
    except StopAsyncIteration:
        return None
    except ClientDisconnect:
        raise DamagedData("the client went away in the middle of the body") from None
    except asyncio.TimeoutError:
        raise TooSlow from None
    return part


async def _discard(pieces: Any) -> None:
    """Read on for a little: a connection that is closed on what was sent loses the answer."""
    left, end = DISCARDED_BYTES, time.monotonic() + DISCARDED_SECONDS
    try:
        while left > 0 and (seconds := end - time.monotonic()) > 0:
            part = await _next_piece(pieces, seconds=seconds)
            if part is None:
                return
            left -= len(part)
    except (DamagedData, TooSlow):
        return


class OneCopy:
    """Bytes that are read again and again, kept once however many responses have them."""

    def __init__(self) -> None:
        self._last = b""

    def of(self, data: bytes) -> bytes:
        """Return those that are kept, if they are the same; else keep these."""
        last = self._last
        if data == last:
            return last
        self._last = data
        return data


class RateLimiter:
    """A bucket of tokens for each key: `rate` come in a second, and at most `burst` are kept.

    Memory is bounded: past `MOST_KEYS` keys, those that came longest ago are forgotten.
    """

    def __init__(
        self, rate: float, burst: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        require_positive("rate", rate)
        require_positive("burst", burst)
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[object, tuple[float, float]] = OrderedDict()

    def take(self, key: object) -> None:
        """Take a token of `key`, or raise `TooMany` with the seconds until there is one."""
        now = self._clock()
        tokens, at = self._buckets.pop(key, (self._burst, now))
        tokens = min(self._burst, tokens + (now - at) * self._rate)
        allowed = tokens >= 1.0
        self._buckets[key] = (tokens - 1.0 if allowed else tokens, now)
        if len(self._buckets) > MOST_KEYS:
            self._buckets.popitem(last=False)
        if not allowed:
            raise TooMany((1.0 - tokens) / self._rate)
