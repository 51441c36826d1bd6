"""Inputs as shares: numbers minus a pad modulo 2^96, and the seed that the pad grows from.

A user sends `split(numbers, seed=...)` to the server and the seed, sealed, to the opener. Neither
learns anything of the numbers: the pad is a stream cipher's output. Added up as integers, pad and
share are the number plus 2^96, but for probability (|number| + 1)/2^96, so both sides can lift
their part into any ring (`Opener.encrypt_pads`, `Ring.add_shares`).

A pad is 12 bytes a number of AES-256 in counter mode, from a counter of 0. The key is BLAKE2b keyed
with the seed over what the caller binds into it: purpose, deployment, name. So a seed never makes
the same pad for two purposes, and whoever draws a fresh seed for each message never repeats a pad.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from helba.errors import DamagedData, InvalidInput
from helba.randomness import Draw, draw_bytes
from helba.ring.sharing.integer import Integers, as_integers, largest_of

NUMBER_BYTES = 12
SHARE_MODULUS = 1 << (8 * NUMBER_BYTES)
SEED_BYTES = 32
# Larger numbers would wrap around with a probability above 2^-41.
MOST_INPUT = 1 << 55
MOST_MULTIPLE = 1 << 60  # by which inputs are multiplied when they are lifted into a ring
SHARE_DIGEST_BYTES = 8  # it finds damage, and nothing else


def draw_seed(draw: Draw = draw_bytes) -> bytes:
    """Return a fresh seed; it serves one message."""
    return draw(SEED_BYTES)


def expand_pad(seed: bytes, *, count: int, context: bytes) -> Integers:
    """Return `count` numbers below 2^96 that only who has the seed can tell from uniform ones."""
    if len(seed) != SEED_BYTES:
        raise InvalidInput("seed", f"{len(seed)} bytes", f"{SEED_BYTES} bytes")
    key = hashlib.blake2b(context, key=seed, digest_size=32, person=b"helba.ring.pad").digest()
    cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    return _read_numbers(cipher.update(bytes(NUMBER_BYTES * count)), count=count)


def split(values: Any, *, seed: bytes, context: bytes) -> Integers:
    """Return the server's share of integers up to 2^55: they minus the pad, modulo 2^96."""
    integers = as_integers(values)
    if largest_of(integers) > MOST_INPUT:
        raise InvalidInput("values", "a larger one", "at most 2^55 in size")
    pad = expand_pad(seed, count=len(integers), context=context)
    share: Integers = (integers - pad) % SHARE_MODULUS
    return share


def sum_signed(numbers: Integers, *, signs: NDArray[np.int8]) -> Integers:
    """Return sums of numbers below 2^96 with signs, modulo 2^96: one for each row of `signs`.

    A sign is 1, -1 or 0. Each party does it to its own part of inputs, and the results are parts of
    the sum. Numbers are cut into six limbs of 16 bits, of which sums of up to 2^36 are exact in
    doubles: 30 times as fast as Python's integers for 128 sums of a full polynomial.
    """
    if signs.ndim != 2 or signs.shape[1] != len(numbers) or not (np.abs(signs) <= 1).all():
        raise InvalidInput("signs", f"of shape {signs.shape}", f"1, -1 or 0, {len(numbers)} a row")
    data = b"".join(int(number).to_bytes(NUMBER_BYTES, "little") for number in numbers)
    limbs = np.frombuffer(data, dtype="<u2").reshape(len(numbers), -1).astype(np.float64)
    sums = (signs.astype(np.float64) @ limbs).astype(np.int64).astype(object)
    weights = np.array([1 << (16 * limb) for limb in range(sums.shape[1])], dtype=object)
    total: Integers = (sums @ weights) % SHARE_MODULUS
    return total


def dump_shares(shares: Integers) -> bytes:
    """Return shares of inputs: 12 bytes a number, lowest byte first, and a digest."""
    body = b"".join(int(number).to_bytes(NUMBER_BYTES, "little") for number in shares)
    return body + hashlib.blake2b(body, digest_size=SHARE_DIGEST_BYTES).digest()


def load_shares(data: bytes | memoryview, *, count: int) -> Integers:
    """Return `count` shares of inputs, or raise `DamagedData`."""
    view = memoryview(data).cast("B")
    expected = NUMBER_BYTES * count + SHARE_DIGEST_BYTES
    if len(view) != expected:
        raise DamagedData(f"{count} shares take {expected} bytes, got {len(view)}")
    body = view[:-SHARE_DIGEST_BYTES]
    if hashlib.blake2b(body, digest_size=SHARE_DIGEST_BYTES).digest() != view[len(body) :]:
        raise DamagedData("the digest is wrong: the shares were changed or cut")
    return _read_numbers(body, count=count)


def _read_numbers(data: bytes | memoryview, *, count: int) -> Integers:
    words = np.frombuffer(data, dtype="<u4").reshape(count, 3).astype(object)
    numbers: Integers = words[:, 0] + (words[:, 1] << 32) + (words[:, 2] << 64)
    return numbers
