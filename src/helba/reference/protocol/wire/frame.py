"""A head and parts as bytes, with lengths, a digest, and zeros up to a length that is wanted.

    magic | version | kind | length of the head | number of parts
    length of each part | head | parts | zeros | digest

The digest is of all that stands before it but zeros, which are compared, and the bodies of parts:
of a part it takes the last 32 bytes, and the length of the whole. Parts are envelopes of the engine
(or frames), which end in a digest of their own: **a damaged part is found when it is read, and
whoever takes parts from here reads them before anything depends on them.** So megabytes are hashed
once. The digest finds damage and does not authenticate. Whatever does not fit raises `DamagedData`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

from helba.errors import DamagedData, RunFailed

HEADER = struct.Struct("<8sHHII")
LENGTH = struct.Struct("<Q")
DIGEST_BYTES = 32
# Of a part: its own digest, or all of a part that is shorter.
COVERED_BYTES = 32


def frame(
    *,
    magic: bytes,
    version: int,
    kind: int,
    head: bytes,
    parts: Sequence[bytes],
    length: int | None = None,
) -> bytes:
    """Return head and parts in one piece, of `length` bytes; `RunFailed` if that is too short."""
    needed = frame_bytes(head=len(head), parts=[len(part) for part in parts])
    total = needed if length is None else length
    if needed > total:
        raise RunFailed(f"{needed} bytes are more than the {total} of every message of this kind")
    start = b"".join(
        [
            HEADER.pack(magic, version, kind, len(head), len(parts)),
            *(LENGTH.pack(len(part)) for part in parts),
            head,
        ]
    )
    digest = _digest(start, [part[-COVERED_BYTES:] for part in parts], total=total)
    return b"".join([start, *parts, bytes(total - needed), digest])


def frame_bytes(*, head: int, parts: Sequence[int]) -> int:
    """Return the bytes of a frame with a head and parts of these lengths, without zeros."""
    return HEADER.size + len(parts) * LENGTH.size + head + sum(parts) + DIGEST_BYTES


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
    announced = frame_bytes(head=head_bytes, parts=lengths)
    if len(view) < announced:
        raise DamagedData(f"{what} has {len(view)} bytes and announces {announced}")
    place = start + head_bytes
    before, parts = view[:place], []
    for length in lengths:
        parts.append(bytes(view[place : place + length]))
        place += length
    if bytes(view[place:-DIGEST_BYTES]) != bytes(len(view) - announced):
        raise DamagedData(f"{what} ends in something else than zeros")
    covered = [part[-COVERED_BYTES:] for part in parts]
    if _digest(before, covered, total=len(view)) != view[-DIGEST_BYTES:]:
        raise DamagedData(f"the digest is wrong: {what} was changed or cut")
    return kind, bytes(view[start : start + head_bytes]), parts


def _digest(start: bytes | memoryview, covered: Sequence[bytes], *, total: int) -> bytes:
    digest = hashlib.sha256(start)
    for piece in (*covered, LENGTH.pack(total)):
        digest.update(piece)
    return digest.digest()
