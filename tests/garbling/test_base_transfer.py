"""The base transfers: right seeds, validated points, and nothing about the choices."""

import itertools
import secrets
from hashlib import blake2b

import numpy as np
import pytest
from nacl import bindings as sodium

from helba.errors import DamagedData
from helba.garbling import base_transfer
from helba.garbling.base_transfer import BaseReceiver, send_seeds

SESSION = b"a session's name"
ORDER = 2**252 + 27742317777372353535851937790883648493
# (0, -1), the point of order 2, and its sum with the generator: CVE-2025-69277.
ORDER_TWO = ((2**255 - 19) - 1).to_bytes(32, "little")
GENERATOR = sodium.crypto_scalarmult_ed25519_base_noclamp((1).to_bytes(32, "little"))


def choose():
    return [secrets.randbelow(2) for _ in range(128)]


def test_receiver_gets_the_seeds_of_its_choices_and_no_others():
    choices = choose()
    receiver = BaseReceiver(choices, session=SESSION)
    answer, seeds = send_seeds(receiver.points, session=SESSION)
    got = receiver.receive(answer)
    assert got == [pair[choice] for pair, choice in zip(seeds, choices, strict=True)]
    assert len({seed for pair in seeds for seed in pair}) == 256


def add_points(left, right):
    """The sum on edwards25519 (RFC 8032, section 5.1), in affine coordinates."""
    prime = 2**255 - 19
    d = -121665 * pow(121666, -1, prime) % prime
    (x, y), (u, v) = left, right
    cross = d * x * u * y * v % prime
    return (
        (x * v + y * u) * pow(1 + cross, -1, prime) % prime,
        (y * v + x * u) * pow(1 - cross, -1, prime) % prime,
    )


def decode_point(data: bytes):
    prime = 2**255 - 19
    d = -121665 * pow(121666, -1, prime) % prime
    number = int.from_bytes(data, "little")
    y, sign = number % 2**255, number >> 255
    square = (y * y - 1) * pow(d * y * y + 1, -1, prime) % prime
    x = pow(square, (prime + 3) // 8, prime)
    if x * x % prime != square:
        x = x * pow(2, (prime - 1) // 4, prime) % prime
    assert x * x % prime == square
    return (x if x % 2 == sign else prime - x), y


def hash_point(point: bytes, *, index: int, side: int):
    """The hash to the group, from its definition: two maps of two halves, added."""
    text = SESSION + bytes([index, side]) + point
    digest = blake2b(text, digest_size=64, person=b"helba base point").digest()
    halves = (sodium.crypto_core_ed25519_from_uniform(digest[i : i + 32]) for i in (0, 32))
    return add_points(*(decode_point(half) for half in halves))


def test_base_transfers_are_those_of_the_paper(monkeypatch):
    numbers = itertools.count(1)

    def next_scalar():
        number = int.from_bytes(blake2b(b"%d" % next(numbers)).digest(), "little")
        return (number % ORDER).to_bytes(32, "little")

    monkeypatch.setattr(base_transfer, "_draw_scalar", next_scalar)
    choices = [i % 3 % 2 for i in range(128)]
    receiver = BaseReceiver(choices, session=SESSION)
    answer, seeds = send_seeds(receiver.points, session=SESSION)
    everything = blake2b(SESSION + receiver.points + answer, person=b"helba base all").digest()
    for i in (0, 1, 77, 127):
        pair = [receiver.points[32 * j : 32 * j + 32] for j in (2 * i, 2 * i + 1)]
        choice = choices[i]
        own, other = pair[choice], pair[1 - choice]
        public = sodium.crypto_scalarmult_ed25519_base_noclamp(receiver._scalars[i])
        hashed = hash_point(other, index=i, side=choice)
        assert add_points(decode_point(own), hashed) == decode_point(public)
        shared = sodium.crypto_scalarmult_ed25519_noclamp(
            receiver._scalars[i], answer[32 * i : 32 * i + 32]
        )
        text = everything + bytes([i, choice]) + shared
        expected = blake2b(text, digest_size=16, person=b"helba base seed").digest()
        assert seeds[i][choice] == expected
    assert seeds[0][0].hex() == "0baef97e74f52ffcb438f239528d5234"
    assert seeds[127][1].hex() == "2bb5d7cd075a93d987e01eeaa1ae8a82"


def test_seeds_of_another_session_are_others():
    receiver = BaseReceiver(choose(), session=SESSION)
    answer, seeds = send_seeds(receiver.points, session=b"another session!")
    assert not set(receiver.receive(answer)) & {seed for pair in seeds for seed in pair}


def test_every_seed_depends_on_all_points():
    receiver = BaseReceiver([0] * 128, session=SESSION)
    answer, seeds = send_seeds(receiver.points, session=SESSION)
    changed = answer[:-32] + GENERATOR
    got = receiver.receive(changed)
    assert not set(got) & {seed for pair in seeds for seed in pair}


@pytest.mark.parametrize(
    "point",
    [
        bytes(32),
        b"\x01" + bytes(31),
        b"\xff" * 32,
        ORDER_TWO,
        # The generator with the sign of both coordinates turned: generator + (0, -1).
        ((2**255 - 19) - int.from_bytes(GENERATOR, "little")).to_bytes(32, "little"),
        (int.from_bytes(GENERATOR, "little") + 2**255 - 19).to_bytes(32, "little"),
    ],
    ids=["order 4", "identity", "not canonical", "order 2", "order 2 L", "unreduced"],
)
@pytest.mark.parametrize("place", [0, 77])
def test_points_outside_of_the_group_are_refused(point, place):
    receiver = BaseReceiver(choose(), session=SESSION)
    damaged = bytearray(receiver.points)
    damaged[32 * place : 32 * place + 32] = point
    with pytest.raises(DamagedData, match=f"at place {place}"):
        send_seeds(bytes(damaged), session=SESSION)
    answer = bytearray(send_seeds(receiver.points, session=SESSION)[0])
    answer[32 * place : 32 * place + 32] = point
    with pytest.raises(DamagedData, match=f"at place {place}"):
        receiver.receive(bytes(answer))


def test_points_of_another_number_are_refused():
    receiver = BaseReceiver(choose(), session=SESSION)
    with pytest.raises(DamagedData, match="expected 8192 bytes of points, got 8160"):
        send_seeds(receiver.points[:-32], session=SESSION)
    with pytest.raises(DamagedData, match="expected 4096 bytes of points, got 0"):
        receiver.receive(b"")


def test_points_of_both_sides_look_alike():
    # The first byte of a point has 8 free bits; the mean of each is within 6 standard deviations of
    # a half whatever was chosen, but for one run in 10^7.
    for choice in (0, 1):
        points = b"".join(BaseReceiver([choice] * 128, session=SESSION).points for _ in range(10))
        first = np.frombuffer(points, dtype=np.uint8).reshape(-1, 2, 32)[:, :, 0]
        for side in (0, 1):
            means = np.unpackbits(first[:, side, None], axis=1).mean(axis=0)
            assert (abs(means - 0.5) < 6 * 0.5 / np.sqrt(len(first))).all()
