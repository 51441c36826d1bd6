"""The frame around everything that is stored or sent: what it is, whose, of which parameters.

    header | detail | payload | digest

The header has a fixed layout (see `HEADER`), the detail is a key's description (see
`helba.reference.engine.wire.description`) or the id of an exchange, the payload belongs to the
scheme, the digest is SHA-256 over all that stands before it, for which processors have
instructions. The digest finds damage. It does not authenticate: whoever can change the bytes can
also change the digest, so nothing behind it is trusted either. Every failure raises `DamagedData`
with one line that quotes nothing of the payload.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from helba.errors import DamagedData

FORMAT_VERSION = 2
# The first byte is not ASCII and a line end follows: transfers as text break here, not later.
MAGIC = b"\x89HELBA\r\n"
# magic, version, kind, scheme, library, fingerprint, tag, slots, level, bytes of detail, of payload
HEADER = struct.Struct("<8sHH16s16s16s48sIIIQ")
DIGEST_BYTES = 32
MOST_DETAIL_BYTES = 1 << 20

KINDS = (
    "vector",
    "refresh request",
    "refresh reply",
    "public key",
    "evaluation key",
    "secret key",
    "opening request",
    "opening reply",
    "pending refresh",
    "pending opening",
    "re-encryption key",
)
NAME = re.compile(rb"([a-z0-9. -]+)\x00*")


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """What stands outside: `kind`, `scheme` and `library` that made it, whose (`tag`), its shape.

    `slots` and `level` are 0 for keys; `detail` describes a key, names a refresh or an opening, and
    is empty for a vector.
    """

    kind: str
    scheme: str
    library: str
    fingerprint: str
    tag: str
    slots: int = 0
    level: int = 0
    detail: bytes = b""


def seal(envelope: Envelope, payload: Sequence[bytes]) -> bytes:
    """Return the parts of `payload` inside the envelope; they are copied once."""
    header = HEADER.pack(
        MAGIC,
        FORMAT_VERSION,
        KINDS.index(envelope.kind),
        envelope.scheme.encode(),
        envelope.library.encode(),
        envelope.fingerprint.encode(),
        envelope.tag.encode(),
        envelope.slots,
        envelope.level,
        len(envelope.detail),
        sum(len(part) for part in payload),
    )
    parts = [header, envelope.detail, *payload]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return b"".join([*parts, digest.digest()])


def unseal(
    data: bytes | memoryview, *, kind: str, scheme: str, library: str
) -> tuple[Envelope, memoryview]:
    """Return the envelope and its payload, not copied, or raise `DamagedData`.

    Lengths, digest, version, kind, scheme and library are right then; the rest is the caller's.
    """
    view = _flat(data)
    if len(view) < HEADER.size + DIGEST_BYTES:
        raise DamagedData(f"{len(view)} bytes are too short for a {kind}")
    fields = HEADER.unpack_from(view)
    if fields[0] != MAGIC:
        raise DamagedData("the bytes do not start like data of helba")
    if fields[1] != FORMAT_VERSION:
        raise DamagedData(f"format version {fields[1]} is not {FORMAT_VERSION}, the one known here")
    detail_bytes, payload_bytes = fields[9:]
    if detail_bytes > MOST_DETAIL_BYTES:
        raise DamagedData(f"a detail of {detail_bytes} bytes is longer than any")
    expected = HEADER.size + detail_bytes + payload_bytes + DIGEST_BYTES
    if len(view) != expected:
        raise DamagedData(f"the data has {len(view)} bytes and announces {expected}")
    require_digest(view)
    if fields[2] >= len(KINDS) or KINDS[fields[2]] != kind:
        raise DamagedData(f"the data is no {kind}")
    found = Envelope(
        kind=kind,
        scheme=_name(fields[3]),
        library=_name(fields[4]),
        fingerprint=_name(fields[5]),
        tag=_name(fields[6]),
        slots=fields[7],
        level=fields[8],
        detail=bytes(view[HEADER.size : HEADER.size + detail_bytes]),
    )
    if found.scheme != scheme:
        raise DamagedData(f"the {kind} belongs to the scheme {found.scheme}, not to {scheme}")
    if found.library != library:
        raise DamagedData(f"the {kind} was written by {found.library}; this is {library}")
    return found, view[HEADER.size + detail_bytes : -DIGEST_BYTES]


def require_digest(data: bytes | memoryview) -> None:
    """Raise `DamagedData` unless the digest at the end is that of the bytes before it."""
    view = _flat(data)
    digest = hashlib.sha256(view[:-DIGEST_BYTES])
    if digest.digest() != view[-DIGEST_BYTES:]:
        raise DamagedData("the digest is wrong: the data was changed or cut")


def kind_of(data: bytes | memoryview) -> str | None:
    """Return the kind that the bytes claim to be, unchecked: `unseal` says whether it is true."""
    view = _flat(data)
    if len(view) < HEADER.size:
        return None
    index = HEADER.unpack_from(view)[2]
    return KINDS[index] if index < len(KINDS) else None


def _flat(data: bytes | memoryview) -> memoryview:
    """The bytes of a buffer; copied only if they do not lie one after the other."""
    view = memoryview(data)
    try:
        return view.cast("B")
    except (TypeError, ValueError):  # strided, or words of a foreign byte order
        return memoryview(view.tobytes())


def _name(field: bytes) -> str:
    match = NAME.fullmatch(field)
    if match is None:
        raise DamagedData("a name in the header is not one")
    return match[1].decode()
