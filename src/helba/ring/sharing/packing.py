"""Residues as bytes: each row takes as many bits a number as its modulus has, and not one more.

Eight numbers of b bits take b bytes. So numbers are handled in groups of eight: the first of all
groups at once, then the second, each at its place in the words of 64 bits of the group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from helba.errors import DamagedData
from helba.ring.sharing.integer import Residues

_LANES = 8  # numbers of a group
_WORD_BITS = 64


def packed_bytes(moduli: Sequence[int], *, count: int) -> int:
    """Return the bytes of one row of `count` residues for each modulus, of up to 64 bits each."""
    return sum(_row_bytes(modulus, count) for modulus in moduli)


def pack_rows(rows: Residues, moduli: Sequence[int]) -> bytes:
    """Return rows of residues, the lowest bit first."""
    parts, count = [], rows.shape[1]
    for row, modulus in zip(rows, moduli, strict=True):
        width = modulus.bit_length()
        numbers, packed = _make_groups(count), _make_groups(count)
        numbers.reshape(-1)[:count] = row
        for lane in range(_LANES):
            word, shift = divmod(lane * width, _WORD_BITS)
            packed[:, word] |= numbers[:, lane] << np.uint64(shift)
            if shift + width > _WORD_BITS:
                packed[:, word + 1] |= numbers[:, lane] >> np.uint64(_WORD_BITS - shift)
        groups = packed.view(np.uint8)[:, :width].copy()  # `tobytes` alone copies byte by byte
        parts.append(groups.tobytes()[: _row_bytes(modulus, count)])
    return b"".join(parts)


def unpack_rows(data: bytes | memoryview, moduli: Sequence[int], *, count: int) -> Residues:
    """Return the rows; `DamagedData` if bytes are missing or left, or a residue is too large."""
    expected = packed_bytes(moduli, count=count)
    if len(data) != expected:
        raise DamagedData(f"{len(moduli)} rows of {count} take {expected} bytes, got {len(data)}")
    rows, offset = np.empty((len(moduli), count), dtype="<u8"), 0
    if not count:
        return rows
    for row, modulus in zip(rows, moduli, strict=True):
        size, width = _row_bytes(modulus, count), modulus.bit_length()
        numbers, packed = _make_groups(count), _make_groups(count)
        padded = bytes(data[offset : offset + size]).ljust(len(packed) * width, b"\0")
        packed.view(np.uint8)[:, :width] = np.frombuffer(padded, np.uint8).reshape(-1, width)
        for lane in range(_LANES):
            word, shift = divmod(lane * width, _WORD_BITS)
            numbers[:, lane] = packed[:, word] >> np.uint64(shift)
            if shift + width > _WORD_BITS:
                numbers[:, lane] |= packed[:, word + 1] << np.uint64(_WORD_BITS - shift)
        numbers &= np.uint64((1 << width) - 1)
        row[:] = numbers.reshape(-1)[:count]
        if numbers.reshape(-1)[count:].any():
            raise DamagedData("the bits after the last residue are not 0")
        if int(row.max()) >= modulus:
            raise DamagedData("a residue is not below its modulus")
        offset += size
    return rows


def _make_groups(count: int) -> Residues:
    """Zeros for so many numbers, rounded up to whole groups: a row for each, a word a number."""
    return np.zeros((-(-count // _LANES), _LANES), dtype="<u8")


def _row_bytes(modulus: int, count: int) -> int:
    return -(-count * modulus.bit_length() // 8)
