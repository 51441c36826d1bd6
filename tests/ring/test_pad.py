from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helba.errors import DamagedData, InvalidInput
from helba.ring.sharing.pad import (
    MOST_INPUT,
    SHARE_MODULUS,
    draw_seed,
    dump_shares,
    expand_pad,
    load_shares,
    split,
    sum_signed,
)

SEED = bytes(range(32))


@given(
    st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=30),
    st.binary(min_size=32, max_size=32),
)
def test_share_and_pad_are_the_number_and_one_modulus(values, seed):
    share = split(values, seed=seed, context=b"ask")
    pad = expand_pad(seed, count=len(values), context=b"ask")
    assert [int(a + b) - SHARE_MODULUS for a, b in zip(share, pad, strict=True)] == values


def test_pad_is_the_stream_that_every_language_has():
    """AES-256-CTR under BLAKE2b of the context: written out, for clients in other languages."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = hashlib.blake2b(b"context", key=SEED, digest_size=32, person=b"helba.ring.pad").digest()
    blocks = b""
    for counter in range(3):
        ecb = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        blocks += ecb.update(counter.to_bytes(16, "big"))
    exact = [int.from_bytes(blocks[12 * i : 12 * i + 12], "little") for i in range(4)]
    assert list(expand_pad(SEED, count=4, context=b"context")) == exact


def test_pads_differ_by_seed_and_by_context():
    pads = [
        tuple(expand_pad(seed, count=4, context=context))
        for seed in (SEED, draw_seed(), draw_seed())
        for context in (b"ask", b"report", b"")
    ]
    assert len(set(pads)) == 9


def test_shares_tell_nothing_of_the_numbers():
    # the high and low bits of shares of one number, over fresh seeds
    shares = [int(split([12345], seed=draw_seed(), context=b"")[0]) for _ in range(2000)]
    for bit in (0, 1, 50, 95):
        ones = sum(share >> bit & 1 for share in shares)
        assert abs(ones - 1000) < 125  # 5.6 deviations: 2e-8


def test_shares_survive_bytes_and_damage_is_found():
    numbers = np.array([0, 1, SHARE_MODULUS - 1, 1 << 64], dtype=object)
    data = dump_shares(numbers)
    assert len(data) == 4 * 12 + 8
    assert list(load_shares(data, count=4)) == list(numbers)
    assert list(load_shares(memoryview(data), count=4)) == list(numbers)
    for wrong in (data[:-1], data + b"x", b""):
        with pytest.raises(DamagedData, match="4 shares take 56 bytes"):
            load_shares(wrong, count=4)
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedData, match="digest is wrong"):
            load_shares(bytes(damaged), count=4)


def test_bytes_of_shares_are_those_that_every_language_writes():
    """Twelve bytes a number, lowest first, and eight of BLAKE2b: written out for other clients."""
    numbers = [0x0102030405060708090A0B0C, 255]
    body = bytes(range(12, 0, -1)) + b"\xff" + bytes(11)
    digest = hashlib.blake2b(body, digest_size=8).digest()
    assert dump_shares(np.array(numbers, dtype=object)) == body + digest
    assert list(load_shares(body + digest, count=2)) == numbers


@given(st.lists(st.integers(0, SHARE_MODULUS - 1), max_size=20), st.integers(0, 25))
def test_shares_are_loaded_in_the_number_that_was_dumped_only(numbers, count):
    data = dump_shares(np.array(numbers, dtype=object))
    if count == len(numbers):
        assert list(load_shares(data, count=count)) == numbers
    else:
        with pytest.raises(DamagedData, match=f"{count} shares take"):
            load_shares(data, count=count)


def test_inputs_that_could_wrap_are_refused():
    with pytest.raises(InvalidInput, match=r"at most 2\^55"):
        split([MOST_INPUT + 1], seed=SEED, context=b"")
    with pytest.raises(InvalidInput, match="32 bytes"):
        split([1], seed=SEED[:-1], context=b"")


@given(st.integers(0, 2**32), st.integers(1, 300))
def test_sums_with_signs_are_those_of_python(seed, count):
    rng = np.random.default_rng(seed)
    numbers = expand_pad(rng.bytes(32), count=count, context=b"")
    numbers[0] = SHARE_MODULUS - 1
    signs = rng.choice(np.array([-1, 0, 1], dtype=np.int8), (5, count))
    exact = [sum(int(s) * int(n) for s, n in zip(row, numbers, strict=True)) for row in signs]
    assert list(sum_signed(numbers, signs=signs)) == [each % SHARE_MODULUS for each in exact]


@pytest.mark.parametrize(
    "signs", [np.ones((2, 3), np.int8), np.full((2, 2), 2, np.int8), np.ones(2)]
)
def test_sums_take_one_sign_a_number(signs):
    with pytest.raises(InvalidInput, match="signs"):
        sum_signed(np.array([1, 2], dtype=object), signs=signs)
