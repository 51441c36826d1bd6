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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from helba.errors import DamagedData

__all__ = ["pack_words", "unpack_words"]

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
