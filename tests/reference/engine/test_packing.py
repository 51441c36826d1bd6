"""Packed words: exact, small, and strict about what they are unpacked from."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import DamagedData
from helba.reference.engine.wire.packing import pack_words, packed_limit, unpack_words


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


def is_prime(number: int) -> bool:
    return number % 2 == 1 and all(
        pow(base, number - 1, number) == 1 for base in (2, 3, 5, 7, 11, 13, 17, 19, 23)
    )


def prime_near(bits: int, *, ring_dim: int, above: bool) -> int:
    """The prime next to 2^bits that is 1 modulo 2N."""
    step = 2 * ring_dim
    number = (1 << bits) + 1 if above else (1 << bits) + 1 - step
    while not is_prime(number):
        number += step if above else -step
    return number


@st.composite
def moduli(draw: st.DrawFn) -> tuple[list[int], int]:
    """Primes of the rows of an object, and the ring dimension."""
    ring_dim = 1 << draw(st.integers(4, 13))
    least = max(20, ring_dim.bit_length() + 5)
    kinds = draw(st.lists(st.tuples(st.integers(least, 60), st.booleans()), min_size=1, max_size=6))
    rows = [
        prime_near(bits, ring_dim=ring_dim, above=above and bits < 60)
        for bits, above in draw(st.sampled_from([kinds, kinds[:1] * 7, kinds * 4]))
    ]
    return rows, ring_dim


def limit_of(rows: list[int], *, ring_dim: int) -> int:
    return packed_limit([modulus.bit_length() for modulus in rows], ring_dim=ring_dim)


@settings(max_examples=150, deadline=None)
@given(moduli(), st.integers(0, 2**32))
def test_uniform_residues_pack_within_the_limit(chosen: tuple[list[int], int], seed: int) -> None:
    rows, ring_dim = chosen
    random = np.random.default_rng(seed)
    words = np.stack([random.integers(0, q, ring_dim, dtype=np.uint64) for q in rows])
    limit = limit_of(rows, ring_dim=ring_dim)
    assert len(pack_words(words)) <= limit <= words.nbytes


@settings(max_examples=200, deadline=None)
@given(moduli(), st.integers(0, 2**32), st.data())
def test_no_words_below_their_moduli_pack_past_the_limit(
    chosen: tuple[list[int], int], seed: int, data: st.DataObject
) -> None:
    """Planes that are nearly empty, or repeat, or end in what looks like the beginning."""
    rows, ring_dim = chosen
    random = np.random.default_rng(seed)
    words = np.empty((len(rows), ring_dim), dtype=np.uint64)
    for row, modulus in zip(words, rows, strict=True):
        row[:] = random.integers(0, modulus, ring_dim, dtype=np.uint64)
        kind = data.draw(st.sampled_from(["whole", "sparse", "periodic", "top", "few bits"]))
        if kind == "sparse":
            row[random.random(ring_dim) > data.draw(st.sampled_from([0.001, 0.01, 0.1]))] = 0
        elif kind == "periodic":
            period = data.draw(st.sampled_from([1, 8, 16]))
            row[:] = np.tile(row[:period], ring_dim // period)
        elif kind == "top":  # bits that only a prime above a power of two allows
            least = 1 << (modulus.bit_length() - 1)
            chance = random.random(ring_dim) < data.draw(st.sampled_from([0.001, 0.1, 0.5]))
            row[chance] = least + random.integers(0, modulus - least, chance.sum(), dtype=np.uint64)
        elif kind == "few bits":
            row &= random.integers(0, 2**64, dtype=np.uint64)
    words[0, 0] = 1  # all zeros are written as they are
    assert len(pack_words(words)) <= limit_of(rows, ring_dim=ring_dim)


@pytest.mark.parametrize("bits", [35, 40, 60])
@pytest.mark.parametrize("ring_dim", [1 << 14, 1 << 15])
def test_limit_is_within_half_a_percent_of_what_uniform_residues_take(
    bits: int, ring_dim: int
) -> None:
    words = residues(2**bits, count=4 * ring_dim)
    packed = len(pack_words(words))
    assert packed <= packed_limit([bits] * 4, ring_dim=ring_dim) <= 1.005 * packed


@pytest.mark.parametrize("ring_dim", [1, 2, 4, 12, 3 << 13])
def test_limit_of_rows_that_blocks_or_bytes_cut_is_their_size(ring_dim: int) -> None:
    assert packed_limit([30, 30], ring_dim=ring_dim) == 16 * ring_dim
