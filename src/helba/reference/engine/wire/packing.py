"""Words of 64 bits, packed: residues take little more than the bits they carry.

Bits of equal weight are brought together (blosc2's bit shuffle), so that the bits above the modulus
become runs of zeros, and those are cut out (LZ4). Uniform residues of 35 to 60 bits come within 1%
of their entropy, at about 2 GB/s.

The packed form is a chunk of blosc2 without its header: count, block size, codec and filter are
known to both sides, and the header is written here. What remains is where the blocks start and how
long they are, and it must be as this module writes it: one block after the other, to the last byte.
The bytes of a stranger decide neither how much memory is taken nor which part of blosc2 runs; they
reach no more than LZ4, block by block.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from helba.errors import DamagedData

Words = NDArray[np.uint64]

WORD_BYTES = 8
BLOCK_BYTES = 1 << 17
# blosc2's chunk header: format 5, LZ4's 1, flags (extended header, LZ4, streams not split), word
# size; sizes of the words, of a block, of the chunk; filters (bit shuffle), codec, their metadata.
HEADER = struct.Struct("<4BIII6B10x")
FORMAT = (5, 1, 0x35, WORD_BYTES)
FILTERS = (2, 0, 0, 0, 0, 0)
CODEC = b"\x01" + bytes(9)
LENGTH = struct.Struct("<i")
WORD_BITS = 8 * WORD_BYTES
PLANE_WORDS = 8  # a byte of a plane holds one bit each of so many words
# What LZ4 may leave of a run of zeros, beside a byte for each 255, and of the end of a block; see
# `packed_limit`.
RUN_LEFT = 160
END_LEFT = 2


def pack_words(words: Words) -> bytes:
    """Return `words` packed; what does not get smaller is returned as it is."""
    library = _library()
    flat = np.ascontiguousarray(words, dtype="<u8").reshape(-1)
    chunk: bytes = library.compress2(
        flat,
        codec=library.Codec.LZ4,
        clevel=1,
        typesize=WORD_BYTES,
        filters=[library.Filter.BITSHUFFLE],
        filters_meta=[0],
        blocksize=_block_bytes(flat.nbytes),
        nthreads=1,
    )
    packed = chunk[HEADER.size :]
    usual = chunk[: HEADER.size] == _header(flat.nbytes, len(packed))
    if not usual or len(packed) >= flat.nbytes or not _is_regular(packed, size=flat.nbytes):
        return flat.tobytes()  # blosc2 chose another form: few words, or all the same
    return packed


def unpack_words(data: memoryview, *, count: int) -> Words:
    """Return exactly `count` words, or raise `DamagedData`."""
    size = count * WORD_BYTES
    if len(data) > size:
        raise DamagedData(f"{len(data)} bytes are more than {count} words take")
    if len(data) == size:
        return np.frombuffer(data, dtype="<u8")
    if not _is_regular(data, size=size):
        raise DamagedData("the blocks of the packed words do not follow one another")
    words = np.empty(count, dtype="<u8")
    chunk = _header(size, len(data)) + data
    try:
        _library().decompress2(chunk, dst=words, nthreads=1)
    except (RuntimeError, ValueError) as error:
        raise DamagedData("the packed words cannot be unpacked") from error
    return words


def packed_limit(bits: Sequence[int], *, ring_dim: int) -> int:
    """Return the most bytes that `pack_words` makes of rows of `ring_dim` words below 2^bits each.

    It holds for all words, unless every one is zero (then they are written as they are), and is
    never above their raw size.

    A block of n bytes holds 64 planes; those above the bits of a row are zeros where that row is.
    LZ4 writes sequences: a token, l literals and their count in (l + 240) // 255 bytes, 2 bytes of
    offset, and a match of m >= 4 bytes with its count in (m + 236) // 255. Without the literals
    that is at most l/255 + m: so no sequence is longer than what it stands for and a byte for each
    255 literals, and the last one, without a match, than 2 bytes more. In all n + n/255 + 2.

    Of a run of zeros less is left. LZ4 looks for matches in steps, from 9 bytes (blosc2's level 1)
    and one more after each 64 looks without success: at most 66 in a block. The second look within
    a run finds the first one, and the match goes on to the end of the run. So less than 2 x 66
    literals are left of it, two sequences (the first look may have matched older and fewer zeros)
    of 5 bytes, 4 bytes where the hash already sees the next ones, 12 at the end of a block, where
    LZ4 does not look: less than `RUN_LEFT`, and a byte for each 255 zeros.

    Each block has a start and a length; one that would not get smaller is stored as it is.
    """
    return _packed_limit(tuple(bits), ring_dim)


@lru_cache(maxsize=256)
def _packed_limit(bits: tuple[int, ...], ring_dim: int) -> int:
    row, raw = ring_dim * WORD_BYTES, len(bits) * ring_dim * WORD_BYTES
    if ring_dim % PLANE_WORDS or (row % BLOCK_BYTES and BLOCK_BYTES % row):
        return raw  # planes that end within a byte, or blocks within a row
    words = min(ring_dim, BLOCK_BYTES // WORD_BYTES)  # of each row in a block
    rows = [each for each in bits for _ in range(ring_dim // words)]
    together = BLOCK_BYTES // (words * WORD_BYTES)
    blocks = [tuple(rows[i : i + together]) for i in range(0, len(rows), together)]
    return min(raw, sum(2 * LENGTH.size + _block_limit(block, words) for block in blocks))


@lru_cache(maxsize=256)
def _block_limit(bits: tuple[int, ...], words: int) -> int:
    """The most bytes of a block with `words` words of each row."""
    size = len(bits) * words * WORD_BYTES
    zeros = (plane >= each for plane in range(WORD_BITS) for each in bits)
    limit = END_LEFT + -(-size // 255)
    for zero, run in groupby(zeros):
        length = sum(1 for _ in run) * words // PLANE_WORDS
        limit += min(length, RUN_LEFT) if zero else length
    return min(size, limit)


def _header(size: int, packed: int) -> bytes:
    block = _block_bytes(size)
    header = HEADER.pack(*FORMAT, size, block, HEADER.size + packed, *FILTERS)
    return header[: -len(CODEC)] + CODEC


def _is_regular(packed: bytes | memoryview, *, size: int) -> bool:
    """Whether the blocks start where they should and end with the data.

    First come the starts of the blocks, counted from the header; each block is its length, 0 if it
    is all zeros, and that many bytes.
    """
    block = _block_bytes(size)
    count = -(-size // block)
    place = LENGTH.size * count
    if len(packed) < place:
        return False
    for (start,) in LENGTH.iter_unpack(packed[:place]):
        if start != HEADER.size + place or len(packed) < place + LENGTH.size:
            return False
        (length,) = LENGTH.unpack_from(packed, place)
        if not 0 <= length <= block:
            return False
        place += LENGTH.size + length
    return place == len(packed)


def _block_bytes(size: int) -> int:
    return min(size, BLOCK_BYTES)


def _library() -> Any:
    import blosc2  # takes a sixth of a second: only who packs pays for it

    return blosc2
