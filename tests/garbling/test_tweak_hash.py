"""The hash of labels against single calls of AES."""

import itertools
from hashlib import blake2b

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from helba.garbling.tweak_hash import SPAN, TweakHash

KEY = bytes(range(16))


def permute(key: bytes, block: bytes) -> bytes:
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)


def xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def span_key(key: bytes, tweak: int) -> bytes:
    number = (tweak // 4096).to_bytes(8, "little")
    return blake2b(number, key=key, digest_size=16, person=b"helba span").digest()


def hash_one(key: bytes, label: bytes, tweak: int) -> bytes:
    """pi(pi(x) xor i) xor pi(x), word for word, under the key of the tweak's span."""
    key = span_key(key, tweak)
    inner = permute(key, label)
    return xor(permute(key, xor(inner, tweak.to_bytes(16, "little"))), inner)


def to_labels(*blocks: bytes) -> np.ndarray:
    return np.frombuffer(b"".join(blocks), dtype="<u8").reshape(-1, 2).copy()


def test_permutation_is_aes_128_of_the_standard():
    # FIPS 197, appendix C.1.
    block = bytes.fromhex("00112233445566778899aabbccddeeff")
    assert permute(KEY, block).hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"


@pytest.mark.parametrize(
    ("label", "tweak", "expected"),
    [
        ("00" * 16, 0, "759153a0e51f9d854e6a4ba923a7bcd2"),
        ("00112233445566778899aabbccddeeff", 1, "454af7dc30d558afb52a0f96141df3f0"),
        ("ff" * 16, 2**63 + 5, "dd83081d0a9814be2274c22621539d5a"),
    ],
)
def test_hash_has_these_values(label, tweak, expected):
    got = TweakHash(KEY, capacity=1).hash(
        to_labels(bytes.fromhex(label)),
        tweaks=np.array([[tweak, 0]], dtype=np.uint64),
        first=tweak,
    )
    assert got.tobytes().hex() == expected
    assert hash_one(KEY, bytes.fromhex(label), tweak).hex() == expected


@pytest.mark.parametrize("first", [0, 7, 4096 - 20, 2**40 - 1, 3 * 4096 - 50])
def test_hash_of_many_labels_is_the_hash_of_each(first):
    rng = np.random.default_rng(first)
    labels = rng.integers(0, 2**64, size=(2, 50, 2), dtype=np.uint64)
    tweaks = np.zeros((50, 2), dtype=np.uint64)
    tweaks[:, 0] = first + np.arange(50)
    hasher = TweakHash(KEY, capacity=120)
    for shape in ((2, 50, 2), (50, 2)):
        part = labels if len(shape) == 3 else labels[1]
        got = hasher.hash(part, tweaks=tweaks, first=first).reshape(-1, 50, 2)
        for copy, lane in enumerate(part.reshape(-1, 50, 2)):
            for i in range(50):
                assert got[copy, i].tobytes() == hash_one(KEY, lane[i].tobytes(), first + i)


def test_no_key_serves_more_than_a_span():
    # one call over many spans: each has its own key, and neighbours share it
    count = 3 * SPAN + 5
    labels, tweaks = np.zeros((count, 2), dtype=np.uint64), np.zeros((count, 2), dtype=np.uint64)
    got = TweakHash(KEY, capacity=count).hash(labels, tweaks=tweaks, first=SPAN - 3)
    # equal labels and tweaks: equal values under one key only
    values = [value.tobytes() for value in got]
    runs = [len(list(run)) for _, run in itertools.groupby(values)]
    assert runs == [3, SPAN, SPAN, SPAN, 2]
    assert len(set(values)) == 5


def test_hash_depends_on_key_label_and_tweak():
    label, zero = to_labels(bytes(16)), np.zeros((1, 2), dtype=np.uint64)
    values = {
        TweakHash(KEY, capacity=1).hash(label, tweaks=zero, first=0).tobytes(),
        TweakHash(bytes(16), capacity=1).hash(label, tweaks=zero, first=0).tobytes(),
        TweakHash(KEY, capacity=1).hash(label + np.uint64(1), tweaks=zero, first=0).tobytes(),
        TweakHash(KEY, capacity=1).hash(label, tweaks=zero + np.uint64(1), first=0).tobytes(),
    }
    assert len(values) == 4


def test_hash_does_not_change_its_input():
    labels = to_labels(bytes(range(16)))
    before = labels.copy()
    TweakHash(KEY, capacity=1).hash(labels, tweaks=np.ones((1, 2), dtype=np.uint64), first=1)
    assert np.array_equal(labels, before)
