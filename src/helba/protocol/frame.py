"""A head and parts as bytes, with lengths and a digest.

    magic | version | kind | length of the head | number of parts
    length of each part | head | parts | digest

The digest finds damage and does not authenticate. Whatever does not fit raises `DamagedData`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

from helba.errors import DamagedData

__all__ = ["frame", "unframe"]

HEADER = struct.Struct("<8sHHII")
LENGTH = struct.Struct("<Q")
DIGEST_BYTES = 32


def frame(*, magic: bytes, version: int, kind: int, head: bytes, parts: Sequence[bytes]) -> bytes:
    """Return head and parts in one piece."""
    pieces = [
        HEADER.pack(magic, version, kind, len(head), len(parts)),
        *(LENGTH.pack(len(part)) for part in parts),
        head,
        *parts,
    ]
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for piece in pieces:
        digest.update(piece)
    return b"".join([*pieces, digest.digest()])


def unframe(
    data: bytes, *, magic: bytes, version: int, what: str, most_head: int, most_parts: int
) -> tuple[int, bytes, list[bytes]]:
    """Return kind, head and parts; `what` names the thing in errors."""
    view = memoryview(data)
    if len(view) < HEADER.size + DIGEST_BYTES:
        raise DamagedData(f"{len(view)} bytes are too short for {what}")
    found, number, kind, head_bytes, count = HEADER.unpack_from(view)
    if found != magic:
        raise DamagedData(f"the bytes do not start like {what} of helba")
    if number != version:
        raise DamagedData(f"{what} of version {number}; this is {version}")
    if head_bytes > most_head or count > most_parts:
        raise DamagedData(f"the head of {what} is longer than any")
    start = HEADER.size + count * LENGTH.size
    if len(view) < start + head_bytes + DIGEST_BYTES:
        raise DamagedData(f"{what} is cut short")
    lengths = [LENGTH.unpack_from(view, HEADER.size + i * LENGTH.size)[0] for i in range(count)]
    expected = start + head_bytes + sum(lengths) + DIGEST_BYTES
    if len(view) != expected:
        raise DamagedData(f"{what} has {len(view)} bytes and announces {expected}")
    digest = hashlib.blake2b(view[:-DIGEST_BYTES], digest_size=DIGEST_BYTES).digest()
    if digest != view[-DIGEST_BYTES:]:
        raise DamagedData(f"the digest is wrong: {what} was changed or cut")
    parts, offset = [], start + head_bytes
    for length in lengths:
        parts.append(bytes(view[offset : offset + length]))
        offset += length
    return kind, bytes(view[start : start + head_bytes]), parts
