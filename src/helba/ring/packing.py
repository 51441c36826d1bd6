"""Residues as bytes: each row takes as many bits a number as its modulus has, and not one more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from helba.errors import DamagedData
from helba.ring.integer import Residues

__all__ = ["pack_rows", "packed_bytes", "unpack_rows"]


def packed_bytes(moduli: Sequence[int], *, count: int) -> int:
    """Return the bytes of one row of `count` residues for each modulus."""
    return sum(_row_bytes(modulus, count) for modulus in moduli)


def pack_rows(rows: Residues, moduli: Sequence[int]) -> bytes:
    """Return rows of residues, the lowest bit first."""
    parts = []
    for row, modulus in zip(rows, moduli, strict=True):
        words = np.ascontiguousarray(row, dtype="<u8").view(np.uint8).reshape(len(row), 8)
        bits = np.unpackbits(words, axis=1, count=modulus.bit_length(), bitorder="little")
        parts.append(np.packbits(bits.reshape(-1), bitorder="little").tobytes())
    return b"".join(parts)


def unpack_rows(data: bytes | memoryview, moduli: Sequence[int], *, count: int) -> Residues:
    """Return the rows; `DamagedData` if bytes are missing or left, or a residue is too large."""
    expected = packed_bytes(moduli, count=count)
    if len(data) != expected:
        raise DamagedData(f"{len(moduli)} rows of {count} take {expected} bytes, got {len(data)}")
    rows = np.empty((len(moduli), count), dtype="<u8")
    start = 0
    for row, modulus in zip(rows, moduli, strict=True):
        size, width = _row_bytes(modulus, count), modulus.bit_length()
        packed = np.frombuffer(data, dtype=np.uint8, count=size, offset=start)
        bits = np.unpackbits(packed, bitorder="little")
        if bits[count * width :].any():
            raise DamagedData("the bits after the last residue are not 0")
        words = np.zeros((count, 8), dtype=np.uint8)
        words[:, : -(-width // 8)] = np.packbits(
            bits[: count * width].reshape(count, width), axis=1, bitorder="little"
        )
        row[:] = words.view("<u8").reshape(-1)
        if count and int(row.max()) >= modulus:
            raise DamagedData("a residue is not below its modulus")
        start += size
    return rows


def _row_bytes(modulus: int, count: int) -> int:
    return -(-count * modulus.bit_length() // 8)
