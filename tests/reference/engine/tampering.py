"""Sealed bytes, opened and sealed again: what stands behind the digest gets tested, too."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from helba.reference.engine.wire.envelope import DIGEST_BYTES, HEADER

FIELDS = (
    "magic",
    "version",
    "kind",
    "scheme",
    "library",
    "fingerprint",
    "tag",
    "slots",
    "level",
    "detail_bytes",
    "payload_bytes",
)


@dataclass
class Opened:
    """Header fields by name, detail and payload, all of them free to be changed."""

    header: dict[str, object]
    detail: bytes
    payload: bytes
    lengths: dict[str, int] = field(default_factory=dict)

    def seal(self) -> bytes:
        """Return bytes with a right digest, and right lengths unless `lengths` says others."""
        sizes = {"detail_bytes": len(self.detail), "payload_bytes": len(self.payload)}
        header = {**self.header, **sizes, **self.lengths}
        return with_digest(
            HEADER.pack(*(header[name] for name in FIELDS)) + self.detail + self.payload
        )


def open_sealed(data: bytes, **changes: object) -> Opened:
    """Return the parts of sealed bytes, with some header fields changed."""
    header: dict[str, object] = dict(zip(FIELDS, HEADER.unpack_from(data), strict=True))
    end = HEADER.size + int(str(header["detail_bytes"]))
    detail, payload = data[HEADER.size : end], data[end:-DIGEST_BYTES]
    return Opened({**header, **changes}, detail, payload)


def with_digest(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()
