"""Residues as bytes: each row takes as many bits a number as its modulus has, and not one more.

Eight numbers of b bits take b bytes, so every eighth number begins at the same bit of its byte, and
is read or written with the others by one strided operation on words of 64 bits. A few numbers are
quicker as one long integer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from helba.errors import DamagedData
from helba.ring.sharing.integer import Residues

_WORD_BYTES = 8
_FEW = 64  # numbers that are packed as one integer
_MOST_SHIFTED = 57  # bits of a number that fit a word wherever in its first byte they begin


def packed_bytes(moduli: Sequence[int], *, count: int) -> int:
    """Return the bytes of one row of `count` residues for each modulus, of 8 to 64 bits each."""
    return sum(_row_bytes(modulus, count) for modulus in moduli)


def pack_rows(rows: Residues, moduli: Sequence[int]) -> bytes:
    """Return rows of residues, the lowest bit first."""
    parts, count = [], rows.shape[1]
    if not count:
        return b""
    for row, modulus in zip(rows, moduli, strict=True):
        width = modulus.bit_length()
        if count <= _FEW:
            parts.append(_join(row.tolist(), width).to_bytes(_row_bytes(modulus, count), "little"))
            continue
        packed, words = _make_room(count, width)
        words[:count] = row
        for lane, (start, length) in _pieces(width):
            piece = (words[lane::8] >> np.uint64(start)) & _mask(length)
            place, shift = _place(packed, lane * width + start, width=width)
            place |= piece << shift
        parts.append(packed[: _row_bytes(modulus, count)].tobytes())
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
        if count <= _FEW:
            row[:], rest = _cut(data[offset : offset + size], count=count, width=width)
        else:
            packed, words = _make_room(count, width)
            packed[:size] = np.frombuffer(data, dtype=np.uint8, count=size, offset=offset)
            for lane, (start, length) in _pieces(width):
                place, shift = _place(packed, lane * width + start, width=width)
                words[lane::8] |= ((place >> shift) & _mask(length)) << np.uint64(start)
            row[:], rest = words[:count], int(words[count:].any())
        if rest:
            raise DamagedData("the bits after the last residue are not 0")
        if int(row.max()) >= modulus:
            raise DamagedData("a residue is not below its modulus")
        offset += size
    return rows


def _join(numbers: list[int], width: int) -> int:
    """One integer of all numbers, the first in its lowest bits."""
    joined = 0
    for number in reversed(numbers):
        joined = joined << width | number
    return joined


def _cut(data: bytes | memoryview, *, count: int, width: int) -> tuple[list[int], int]:
    """The numbers, and what is above the last one."""
    joined, mask = int.from_bytes(data, "little"), (1 << width) - 1
    return [joined >> index * width & mask for index in range(count)], joined >> count * width


def _make_room(count: int, width: int) -> tuple[NDArray[np.uint8], Residues]:
    """Zeros for whole groups of eight numbers, packed, with room for a last word, and as words."""
    groups = -(-count // 8)
    packed = np.zeros(groups * width + 2 * _WORD_BYTES, dtype=np.uint8)
    return packed, np.zeros(8 * groups, dtype="<u8")


def _pieces(width: int) -> list[tuple[int, tuple[int, int]]]:
    """For each of eight numbers the pieces, first bit and length, that are moved one by one."""
    cut = [(0, width)] if width <= _MOST_SHIFTED else [(0, 32), (32, width - 32)]
    return [(lane, piece) for lane in range(8) for piece in cut]


def _place(
    packed: NDArray[np.uint8], bit: int, *, width: int
) -> tuple[NDArray[np.uint64], np.uint64]:
    """The words in which every eighth number begins, from this bit on, and the bit in them."""
    at, shift = divmod(bit, 8)
    groups = (len(packed) - 2 * _WORD_BYTES) // width
    words: NDArray[np.uint64] = np.ndarray(
        (groups,), dtype="<u8", buffer=packed, offset=at, strides=(width,)
    )
    return words, np.uint64(shift)


def _mask(bits: int) -> np.uint64:
    return np.uint64((1 << bits) - 1)


def _row_bytes(modulus: int, count: int) -> int:
    return -(-count * modulus.bit_length() // 8)
