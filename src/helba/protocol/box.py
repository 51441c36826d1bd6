"""Sealed seeds: what a user sends to the opener through the server, and the keys that they make.

A box is libsodium's sealed box (X25519, XSalsa20-Poly1305) over

    version, kind, the deployment's digest, the sealing key's id, a random name, a seed

and never a user, a batch or a model's version. Pads and the key of the answer come from the seed by
BLAKE2b, over what they are for, the kind, the deployment and the name. The answer is sealed by
XChaCha20-Poly1305 under a nonce that the opener draws, with the task and the circuit as associated
data. All of these are libsodium's or Python's own.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from typing import NoReturn

import nacl.bindings
import nacl.exceptions
import nacl.public
import numpy as np

from helba.errors import DamagedData
from helba.garbling.circuits.circuit import Bits
from helba.randomness import Draw, draw_bytes
from helba.ring.sharing.integer import Integers
from helba.ring.sharing.pad import SEED_BYTES, draw_seed, expand_pad

VERSION = 1
KINDS = ("ask", "report")
KEY_ID_BYTES = 8
NAME_BYTES = 16
_PLAIN = struct.Struct(f"<BB16s{KEY_ID_BYTES}s{NAME_BYTES}s{SEED_BYTES}s")
BOX_BYTES = _PLAIN.size + 48
NONCE_BYTES = 24
TAG_BYTES = 16


@dataclass(frozen=True, kw_only=True)
class SealedSeed:
    """A seed with what it is bound to; it serves one message."""

    kind: str
    deployment: bytes
    name: bytes
    seed: bytes = field(repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a seed is secret: it is neither pickled nor copied")

    def expand(self, count: int) -> Integers:
        """Return the pad of `count` numbers."""
        return expand_pad(self.seed, count=count, context=self.context(b"pad"))

    def context(self, purpose: bytes) -> bytes:
        """Return what keys for a purpose are derived over."""
        return b"|".join((purpose, self.kind.encode(), self.deployment, self.name))

    @property
    def answer_key(self) -> bytes:
        """The key that the answer is sealed under."""
        text = hashlib.blake2b(self.context(b"answer"), key=self.seed, digest_size=32)
        return text.digest()


def key_id(public_key: bytes) -> bytes:
    """Return the name of a sealing key."""
    return hashlib.blake2b(public_key, digest_size=KEY_ID_BYTES).digest()


def seal_seed(
    public_key: bytes, *, kind: str, deployment: bytes, draw: Draw = draw_bytes
) -> tuple[SealedSeed, bytes]:
    """Draw a seed and return it with its box for the owner of `public_key`."""
    drawn = SealedSeed(
        kind=kind,
        deployment=deployment,
        name=draw(NAME_BYTES),
        seed=draw_seed(draw),
    )
    number = KINDS.index(kind)
    plain = _PLAIN.pack(VERSION, number, deployment, key_id(public_key), drawn.name, drawn.seed)
    box = nacl.public.SealedBox(nacl.public.PublicKey(public_key)).encrypt(plain)
    return drawn, bytes(box)


def open_box(
    box: bytes, *, key: nacl.public.PrivateKey, kind: str, deployment: bytes
) -> SealedSeed:
    """Return the seed of a box, or raise `DamagedData`: a box for something else is refused."""
    try:
        plain = nacl.public.SealedBox(key).decrypt(box)
    except (nacl.exceptions.CryptoError, TypeError, ValueError):
        raise DamagedData("the box was not sealed to this opener, or was changed") from None
    if len(plain) != _PLAIN.size:
        raise DamagedData(f"a box holds {_PLAIN.size} bytes, got {len(plain)}")
    version, number, digest, key_name, name, seed = _PLAIN.unpack(plain)
    wanted = (VERSION, KINDS.index(kind), deployment, key_id(bytes(key.public_key)))
    if (version, number, digest, key_name) != wanted:
        raise DamagedData("the box is of another version, kind, deployment or key")
    return SealedSeed(kind=kind, deployment=deployment, name=name, seed=seed)


def sealed_bytes(count: int) -> int:
    """Return the length of a sealed half of an answer of `count` bits."""
    return NONCE_BYTES + -(-count // 8) + TAG_BYTES


def seal_answer(
    colours: Bits, *, seed: SealedSeed, task: bytes, circuit: bytes, draw: Draw = draw_bytes
) -> bytes:
    """Return the opener's half of an answer, sealed to the user who drew the seed."""
    nonce = draw(NONCE_BYTES)
    sealed = nacl.bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(
        pack_bits(colours), task + circuit, nonce, seed.answer_key
    )
    return nonce + sealed


def open_answer(
    sealed: bytes, *, count: int, seed: SealedSeed, task: bytes, circuit: bytes
) -> Bits:
    """Return the opener's half of an answer, or raise `DamagedData`."""
    try:
        plain = nacl.bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(
            sealed[NONCE_BYTES:], task + circuit, sealed[:NONCE_BYTES], seed.answer_key
        )
    except (nacl.exceptions.CryptoError, TypeError, ValueError):
        raise DamagedData("the answer was not sealed to this ask, or was changed") from None
    return unpack_bits(plain, count=count)


def pack_bits(bits: Bits) -> bytes:
    """Return bits as bytes, the first one lowest."""
    return np.packbits(bits, bitorder="little").tobytes()


def unpack_bits(data: bytes | memoryview, *, count: int) -> Bits:
    """Return `count` bits, or raise `DamagedData`."""
    if len(data) != -(-count // 8):
        raise DamagedData(f"expected {count} bits, got {8 * len(data)}")
    packed = np.frombuffer(data, dtype=np.uint8)
    return np.unpackbits(packed, count=count, bitorder="little").astype(np.bool_)
