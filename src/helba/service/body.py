"""Several messages in one body: each after its length, in four bytes, the lowest first."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from helba.errors import DamagedData

LENGTH = struct.Struct("<I")
MOST_MESSAGES = 1 << 12


def pack_messages(messages: Sequence[bytes]) -> bytes:
    """Return the body of these messages, which may be none."""
    return b"".join(part for each in messages for part in (LENGTH.pack(len(each)), each))


def unpack_messages(body: bytes) -> list[bytes]:
    """Return the messages of a body, or raise `DamagedData`."""
    messages: list[bytes] = []
    start = 0
    while start < len(body):
        if len(body) - start < LENGTH.size or len(messages) == MOST_MESSAGES:
            raise DamagedData("the body is not a list of messages")
        (length,) = LENGTH.unpack_from(body, start)
        start += LENGTH.size
        if len(body) - start < length:
            raise DamagedData("the body ends in the middle of a message")
        messages.append(body[start : start + length])
        start += length
    return messages
