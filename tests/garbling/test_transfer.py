"""The transfer extension against its definition, bit by bit, and its streams against AES-CTR."""

import hashlib

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from helba.garbling.transfer import (
    TransferReceiver,
    TransferSender,
    column_bytes,
    expand_labels,
)

SEEDS = [
    (hashlib.sha256(b"0/%d" % i).digest()[:16], hashlib.sha256(b"1/%d" % i).digest()[:16])
    for i in range(128)
]
OFFSET = np.array([0x0123456789ABCDEF, 0x0F1E2D3C4B5A6978], dtype=np.uint64)
OFFSET_BITS = [int(OFFSET[i // 64]) >> (i % 64) & 1 for i in range(128)]


def stream(key: bytes, nonce: bytes, bits: int) -> list[int]:
    data = Cipher(algorithms.AES(key), modes.CTR(nonce)).encryptor().update(bytes(bits // 8 + 1))
    return [data[j // 8] >> (j % 8) & 1 for j in range(bits)]


def transfer(bits: np.ndarray, nonce: bytes):
    receiver = TransferReceiver(SEEDS)
    chosen = [pair[bit] for pair, bit in zip(SEEDS, OFFSET_BITS, strict=True)]
    sender = TransferSender(chosen, offset=OFFSET)
    columns, labels = receiver.receive(bits, nonce=nonce)
    return columns, labels, sender.send(columns, nonce=nonce, bits=len(bits))


@pytest.mark.parametrize("count", [1, 7, 8, 9, 127, 128, 129, 1000])
def test_transferred_labels_differ_by_the_offset_where_the_bit_is_one(count):
    bits = np.random.default_rng(count).random(count) < 0.5
    columns, labels, zeros = transfer(bits, bytes(range(16)))
    assert columns.shape == (128, column_bytes(count))
    assert np.array_equal(labels, np.where(bits[:, None], zeros ^ OFFSET, zeros))


@pytest.mark.parametrize("nonce", [bytes(16), b"\xff" * 16, b"\xab" * 8 + b"\xff" * 8])
def test_transfer_is_the_one_of_the_paper(nonce):
    count = 150
    bits = np.random.default_rng(0).random(count) < 0.5
    columns, labels, zeros = transfer(bits, nonce)
    for i in range(128):
        zero, one = (stream(seed, nonce, count) for seed in SEEDS[i])
        sent = np.unpackbits(columns[i], bitorder="little")[:count]
        assert sent.tolist() == [t ^ s ^ r for t, s, r in zip(zero, one, bits, strict=True)]
        word, shift = i // 64, np.uint64(i % 64)
        assert (labels[:, word] >> shift & np.uint64(1)).tolist() == zero
        chosen = one if OFFSET_BITS[i] else zero
        expected = [c ^ (u & OFFSET_BITS[i]) for c, u in zip(chosen, sent.tolist(), strict=True)]
        assert (zeros[:, word] >> shift & np.uint64(1)).tolist() == expected


def test_transfer_has_these_values():
    bits = np.array([True, False, True])
    columns, labels, zeros = transfer(bits, b"sixteen bytes on")
    assert hashlib.sha256(columns.tobytes()).hexdigest()[:32] == "b53feafe06b260cb317a733038f70de4"
    assert labels[0].tobytes().hex() == "238d897483c6b46656b7ad81f80da36a"
    assert zeros[0].tobytes().hex() == "cc4022fde48397672edef7cac420bd65"


def test_columns_differ_under_another_nonce():
    bits = np.zeros(400, dtype=bool)
    first, second = transfer(bits, bytes(16))[0], transfer(bits, b"\x01" * 16)[0]
    # 51200 bits: equal ones are within 7 standard deviations of a half (one in 10^11).
    equal = 1 - np.unpackbits(first ^ second).mean()
    assert abs(equal - 0.5) < 7 * 0.5 / np.sqrt(8 * first.size)


def test_expanded_labels_are_a_stream_of_the_seed():
    seed = bytes(range(16))
    expected = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor().update(bytes(16 * 6))
    assert expand_labels(seed, shape=(2, 3)).tobytes() == expected
    assert expand_labels(seed, shape=(0, 3)).shape == (0, 3, 2)
