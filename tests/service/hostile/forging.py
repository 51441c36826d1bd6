"""Messages taken apart, changed, and put together again with right digests and lengths.

*Broken* ones are never valid. *Altered* ones may be: a changed residue is a residue, and a share of
somebody else is a share. They are for what is over, where nothing counts any more.
"""

from __future__ import annotations

import hashlib
import json
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import blosc2
import numpy as np

from helba.reference.engine.wire.envelope import DIGEST_BYTES
from helba.reference.engine.wire.envelope import HEADER as SEAL
from helba.reference.protocol.wire.frame import HEADER, LENGTH, frame, frame_bytes
from tests.reference.engine.tampering import open_sealed, with_digest

Case = tuple[str, bytes]


@dataclass(frozen=True, kw_only=True)
class Framed:
    """A message, or keys that the authority issued, in parts."""

    magic: bytes
    version: int
    kind: int
    head: bytes
    parts: tuple[bytes, ...] = field(repr=False)
    length: int

    @classmethod
    def of(cls, data: bytes) -> Framed:
        """Take it apart."""
        magic, version, kind, head_bytes, count = HEADER.unpack_from(data)
        start = HEADER.size + count * LENGTH.size
        sizes = [LENGTH.unpack_from(data, HEADER.size + i * LENGTH.size)[0] for i in range(count)]
        places = np.cumsum([start + head_bytes, *sizes]).tolist()
        return cls(
            magic=magic,
            version=version,
            kind=kind,
            head=data[start : start + head_bytes],
            parts=tuple(data[i:j] for i, j in pairwise(places)),
            length=len(data),
        )

    def close(self) -> bytes:
        """Put it together, with zeros up to its length, if it is not longer."""
        needed = frame_bytes(head=len(self.head), parts=[len(part) for part in self.parts])
        return frame(
            magic=self.magic,
            version=self.version,
            kind=self.kind,
            head=self.head,
            parts=self.parts,
            length=max(needed, self.length),
        )

    def with_head(self, **changes: Any) -> bytes:
        """The same with other fields in its head."""
        head = {**json.loads(self.head), **changes}
        return replace(self, head=json.dumps(head, sort_keys=True).encode()).close()

    def with_part(self, index: int, part: bytes) -> bytes:
        """The same with another part."""
        parts = (*self.parts[:index], part, *self.parts[index + 1 :])
        return replace(self, parts=parts).close()


def is_framed(data: bytes) -> bool:
    """Whether it is a frame around others; else it is one sealed key."""
    return data[:8] in (b"\x89HELMSG\n", b"\x89HELKEY\n")


def boundaries(data: bytes) -> list[int]:
    """Where something ends in the bytes: fields, head, parts and their headers, digests."""
    found = {0, 1, len(data) - DIGEST_BYTES, len(data) - 1}
    parts = (data,)
    place = 0
    if is_framed(data):
        framed = Framed.of(data)
        found |= {8, 10, 12, 16, HEADER.size}
        place = HEADER.size + LENGTH.size * len(framed.parts)
        found |= set(range(HEADER.size, place + 1, LENGTH.size))
        place += len(framed.head)
        parts = framed.parts[:6]
    for part in parts:
        found |= {place, place + SEAL.size, place + len(part) - DIGEST_BYTES, place + len(part)}
        place += len(part)
    near = {each + off for each in found for off in (-1, 0, 1)}
    return sorted(each for each in near if 0 <= each < len(data))


def flip(data: bytes, chance: random.Random, *, low: int = 0, high: int | None = None) -> bytes:
    """The bytes with one to eight other bits in [low, high)."""
    changed = bytearray(data)
    for place in chance.sample(range(8 * low, 8 * (high or len(data))), chance.randint(1, 8)):
        changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


# -- sealed ciphertexts and keys


def bombs() -> list[bytes]:
    """Payloads that are short, and announce or unpack to megabytes."""
    zeros = np.zeros(8 << 20, dtype=np.uint8)
    whole = blosc2.compress2(zeros, codec=blosc2.Codec.LZ4, clevel=9, typesize=8)
    lz4 = b"\x1f\x00\x01\x00" + b"\xff" * 4000 + b"\x00"  # one byte, a million times
    block = struct.pack("<i", len(lz4)) + lz4
    starts = struct.pack("<i", 36)
    huge = struct.pack("<ii", 36, 0x7FFFFFFF) + lz4
    return [whole, whole[32:], starts + block, 64 * starts, huge, struct.pack("<ii", 36, 0), lz4]


def broken_seals(part: bytes, chance: random.Random) -> Iterator[Case]:
    """A ciphertext or key with right digests that cannot be one."""
    opened = open_sealed(part)
    for name, values in {
        "version": (0, 1, 9, 65535),
        "kind": (1, 3, 5, 10, 11, 65535),
        "scheme": (b"", b"none", b"\xff" * 16),
        "library": (b"openfhe 0.0.0", b"\x00x"),
        "fingerprint": (b"0" * 16, b"\xfe" * 16),
        "tag": (b"0" * 32, b"", b"\x80" * 48),
        "slots": (3, 2**31, 2**32 - 1),
        "level": (1000, 2**32 - 1),
    }.items():
        for value in values:
            if opened.header[name] != value:
                yield f"seal: {name}", open_sealed(part, **{name: value}).seal()
    for lengths in (
        {"payload_bytes": 2**64 - 1},
        {"payload_bytes": 0},
        {"detail_bytes": 2**32 - 1},
        {"payload_bytes": len(opened.payload) + 1},
    ):
        lying = open_sealed(part)
        lying.lengths = lengths
        yield "seal: length", lying.seal()
    for payload in (b"", opened.payload[: len(opened.payload) // 2], opened.payload + b"\0"):
        cut = open_sealed(part)
        cut.payload = payload
        yield "seal: cut or extended", cut.seal()
    for payload in bombs():
        bomb = open_sealed(part)
        bomb.payload = payload
        yield "seal: bomb", bomb.seal()
    junk = open_sealed(part)
    junk.payload = b"\xff" * len(junk.payload)
    yield "seal: residues", junk.seal()
    junk.payload = chance.randbytes(len(junk.payload) // 3)
    yield "seal: junk", junk.seal()


def altered_seal(part: bytes, chance: random.Random) -> bytes:
    """A ciphertext with right digests and other residues, or another shape."""
    body = part[:-DIGEST_BYTES]
    low = 0 if chance.random() < 0.3 else SEAL.size
    high = SEAL.size if low == 0 else len(body)
    return with_digest(flip(body, chance, low=low, high=high))


# -- frames and heads


def lying_frames(data: bytes, chance: random.Random) -> Iterator[Case]:
    """Counts and lengths that are not true; the digest is that of the bytes, or not."""
    count = HEADER.unpack_from(data)[4]
    places = [(8, "<H"), (10, "<H"), (12, "<I"), (16, "<I")]
    places += [(HEADER.size + LENGTH.size * i, "<Q") for i in range(min(count, 3))]
    for place, form in places:
        most = 2 ** (8 * struct.calcsize(form)) - 1
        (true,) = struct.unpack_from(form, data, place)
        for value in {0, 1, true + 1, max(0, true - 1), most, most // 2, chance.randint(0, most)}:
            changed = bytearray(data)
            struct.pack_into(form, changed, place, value & most)
            if value != true:
                yield "frame: lying length", bytes(changed)
                body = bytes(changed[:-DIGEST_BYTES])
                yield "frame: lying length", body + hashlib.sha256(body).digest()


def broken_heads(framed: Framed) -> Iterator[Case]:
    """Heads that are no head of this message."""
    head = json.loads(framed.head)
    text = json.dumps(head, sort_keys=True)
    deep = "[" * 400 + "]" * 400
    texts = [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe\x00",
        text.encode("utf-16"),
        b"\xef\xbb\xbf" + framed.head,
        framed.head[:-1],
        framed.head + b"x",
        f'{{"a":{deep}}}'.encode(),
        ("[" * 1000).encode(),
        b'{"deployment":NaN}',
        text.replace("{", '{"more":1,', 1).encode(),
        b"\x00" * 64,
    ]
    for each in texts:
        yield "head: no head", replace(framed, head=each).close()
    odd = ["NaN", "1e999", "-1", "1e3", "true", '"1"', "[]", '{"a":[[[]]]}', "9" * 300, "1.5"]
    odd += ["-Infinity", '"\\ud800"', '"\\u0000"', "9007199254740993"]
    for name in head:
        for value in odd:
            pieces = {**{key: json.dumps(each) for key, each in head.items()}, name: value}
            body = ",".join(f'"{key}":{each}' for key, each in pieces.items())
            yield f"head: {name}", replace(framed, head=f"{{{body}}}".encode()).close()
        rest = {key: each for key, each in head.items() if key != name}
        yield "head: field missing", replace(framed, head=json.dumps(rest).encode()).close()
    yield "foreign deployment", framed.with_head(deployment="0" * 16)
