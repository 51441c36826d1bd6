"""Commitments to returned labels: their values, their places, and what matches them."""

from hashlib import blake2b

import numpy as np
import pytest

from helba.errors import DamagedData
from helba.garbling.gate import take_colours
from helba.garbling.returned import commit_outputs, match_outputs, read_outputs
from tests.garbling.test_gate import choose, draw_labels, draw_offset

KEY, NAME = bytes(range(16)), b"an opening's own"


def hash_one(label: np.ndarray, *, wire: int, lane: int) -> bytes:
    place = wire.to_bytes(4, "little") + lane.to_bytes(4, "little")
    text = NAME + place + label.tobytes()
    return blake2b(text, key=KEY, digest_size=32, person=b"helba returned").digest()


@pytest.fixture
def committed():
    offset, zero = draw_offset(), draw_labels(3, 40)
    bits = np.random.default_rng(0).random((3, 40)) < 0.5
    hashes = commit_outputs(zero, offset=offset, key=KEY, name=NAME)
    return zero, offset, bits, hashes


def test_hashes_are_ordered_by_colour(committed):
    zero, offset, _, hashes = committed
    assert hashes.shape == (3, 40, 2, 32)
    for labels in (zero, zero ^ offset):
        for wire in range(3):
            for lane in range(40):
                colour = int(take_colours(labels[wire, lane]))
                expected = hash_one(labels[wire, lane], wire=wire, lane=lane)
                assert hashes[wire, lane, colour].tobytes() == expected


def test_hash_has_this_value():
    zero, offset = np.array([[[2, 3]]], dtype=np.uint64), np.array([1, 0], dtype=np.uint64)
    hashes = commit_outputs(zero, offset=offset, key=KEY, name=NAME)
    assert hashes[0, 0, 0].tobytes().hex() == (
        "1312021384de1c8d2b7d527ed65be4c2f34e75fb98e927d08a7afc95adc2575c"
    )
    assert hashes[0, 0, 1].tobytes().hex() == (
        "3c30a847fae58d8d5a9de599d3b051a4d6bfd17143eb7170548e5fdecea87f9f"
    )


def test_labels_match_their_own_place_only(committed):
    zero, offset, bits, hashes = committed
    labels = choose(zero, bits, offset)
    named = {"hashes": hashes, "key": KEY, "name": NAME}
    assert match_outputs(labels, **named)
    assert match_outputs(zero, **named)
    assert not match_outputs(labels[::-1], **named)
    assert not match_outputs(labels[:, ::-1], **named)
    assert not match_outputs(labels, hashes=hashes, key=bytes(16), name=NAME)
    assert not match_outputs(labels, hashes=hashes, key=KEY, name=bytes(16))
    assert not match_outputs(labels, hashes=hashes[:, :, ::-1], key=KEY, name=NAME)


def test_equal_labels_at_two_places_have_other_hashes():
    zero = np.repeat(draw_labels(1, 1), 4, axis=1).repeat(2, axis=0)
    hashes = commit_outputs(zero, offset=draw_offset(), key=KEY, name=NAME)
    assert len({row.tobytes() for row in hashes.reshape(-1, 32)}) == 16


def test_read_labels_are_the_bits_or_nothing(committed):
    zero, offset, bits, _ = committed
    labels = choose(zero, bits, offset)
    assert np.array_equal(read_outputs(labels, zero=zero, offset=offset), bits)
    labels[1, 7, 1] ^= np.uint64(1 << 40)
    with pytest.raises(DamagedData, match="another label"):
        read_outputs(labels, zero=zero, offset=offset)
