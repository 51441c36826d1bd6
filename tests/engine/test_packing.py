"""Packed words: exact, small, and strict about what they are unpacked from."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from helba.engine.packing import pack_words, unpack_words
from helba.errors import DamagedData


def residues(modulus: int, *, count: int = 1 << 16) -> np.ndarray:
    return np.random.default_rng(0).integers(0, modulus, count, dtype=np.uint64)


@pytest.mark.parametrize("count", [0, 1, 3, 1000, 20_000])
def test_packed_words_come_back_whatever_they_are(count: int) -> None:
    random = np.random.default_rng(count)
    for words in (
        np.zeros(count, dtype=np.uint64),
        np.full(count, 2**64 - 1, dtype=np.uint64),
        random.integers(0, 2**64, count, dtype=np.uint64),
        random.integers(0, 2**45, count, dtype=np.uint64),
        np.where(np.arange(count) < count // 2, 0, 2**45 - 1).astype(np.uint64),
    ):
        packed = pack_words(words)
        assert len(packed) <= 8 * count
        np.testing.assert_array_equal(unpack_words(memoryview(packed), count=count), words)


@pytest.mark.parametrize("modulus", [2**35 + 65537, 2**40 - 65535, 2**45 + 1, 2**60 - 16383])
def test_uniform_residues_pack_to_within_1_percent_of_their_entropy(modulus: int) -> None:
    words = residues(modulus)
    entropy = len(words) * math.log2(modulus) / 8
    assert entropy < len(pack_words(words)) < 1.01 * entropy


def test_packed_words_of_another_count_are_refused() -> None:
    words = residues(2**45)
    packed = memoryview(pack_words(words))
    for count in (0, 1, len(words) // 2, len(words) - 1, len(words) + 1, 10 * len(words)):
        with pytest.raises(DamagedData):
            unpack_words(packed, count=count)


def test_blocks_that_do_not_follow_one_another_are_refused() -> None:
    words = residues(2**45)
    packed = pack_words(words)
    blocks = 8 * len(words) >> 17
    (length,) = struct.unpack_from("<i", packed, 4 * blocks)
    for place, value in (
        (0, 0),
        (0, -1),
        (4, struct.unpack_from("<i", packed, 0)[0]),
        (4 * blocks, -1),
        (4 * blocks, length + 1),
        (4 * blocks, 2**31 - 1),
    ):
        changed = bytearray(packed)
        struct.pack_into("<i", changed, place, value)
        with pytest.raises(DamagedData, match="follow one another"):
            unpack_words(memoryview(changed), count=len(words))
    for cut in (packed[:-1], packed + b"x", packed[:3], b"", bytes(len(packed))):
        with pytest.raises(DamagedData, match="follow one another"):
            unpack_words(memoryview(cut), count=len(words))


def test_block_that_is_no_lz4_is_refused() -> None:
    words = residues(2**45)
    packed = bytearray(pack_words(words))
    start = 4 * (8 * len(words) >> 17) + 4
    packed[start : start + 1000] = b"\xff" * 1000
    with pytest.raises(DamagedData, match="cannot be unpacked"):
        unpack_words(memoryview(packed), count=len(words))
