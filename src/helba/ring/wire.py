"""Ciphertexts, openings and keys as bytes.

    header | payload | digest

The header says what it is, of which ring and key, and the public side of a ciphertext. The payload
has as many bytes as that implies: residues in as many bits as their moduli have, a row for each.
The digest is BLAKE2b over all that stands before it. It finds damage; it does not authenticate:
whoever can change the bytes can change the digest, so nothing behind it is trusted either. Every
failure raises `DamagedData` with one line that quotes nothing of the payload.

A reader knows the ring it expects, and what bytes claim decides neither which context is set up nor
how much memory is taken. What a ciphertext claims of its scale, bounds and noise is the sender's
word: whoever reads one from a stranger compares it with one that claims what it must (`==` compares
all but the polynomials).
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import replace
from typing import Any

from helba.errors import DamagedData, InvalidInput
from helba.ring.backend import Backend
from helba.ring.ciphertext import Ciphertext
from helba.ring.key import (
    KEY_ID_BYTES,
    EvaluationKey,
    PublicKey,
    ReencryptionKey,
    SecretKey,
)
from helba.ring.keygen import BACKENDS, find_backend
from helba.ring.noise import Bound
from helba.ring.parameters import PRIMES, RingParameters
from helba.ring.sharing.packing import pack_rows, packed_bytes, unpack_rows
from helba.ring.sharing.share import Opening

FORMAT_VERSION = 1
KINDS = (
    "ciphertext",
    "opening",
    "public key",
    "evaluation key",
    "re-encryption key",
    "secret key",
)
# The first byte is not ASCII and a line end follows: transfers as text break here, not later.
MAGIC = b"\x89HR\r\n"
# magic, version, kind, backend, primes, ring's fingerprint, key's id, another key's id or a name,
# scale, peak, norm, noise, its computed part, failure, count, automorphism, bytes of the payload
HEADER = struct.Struct("<5sBBBB8s16s16sddddddIII")
DIGEST_BYTES = 16
NO_NUMBERS = (0.0,) * 6
Key = PublicKey | EvaluationKey | ReencryptionKey


def ciphertext_bytes(parameters: RingParameters, *, primes: int) -> int:
    """Return the bytes of a ciphertext of OpenFHE."""
    moduli = parameters.moduli[:primes]
    return _frame_bytes() + 2 * packed_bytes(moduli, count=parameters.ring_dim)


def opening_bytes(parameters: RingParameters, *, primes: int, count: int) -> int:
    """Return the bytes of an opening of `count` numbers of OpenFHE."""
    moduli = parameters.moduli[:primes]
    second = packed_bytes(moduli, count=parameters.ring_dim)
    return _frame_bytes() + second + packed_bytes(moduli, count=count)


# -- ciphertexts


def dump_ciphertext(ciphertext: Ciphertext, *, backend: Backend) -> bytes:
    """Return a ciphertext with its public side."""
    payload = backend.dump(
        "ciphertext", ciphertext.body, primes=ciphertext.primes, automorphism=None
    )
    bound = ciphertext.bound
    errors = (ciphertext.noise, ciphertext.computed, ciphertext.failure)
    numbers = (ciphertext.scale, bound.peak, bound.norm, *errors)
    return _seal(
        "ciphertext",
        payload,
        backend=backend,
        primes=ciphertext.primes,
        key_id=ciphertext.key_id,
        numbers=numbers,
        count=bound.count,
    )


def load_ciphertext(data: bytes | memoryview, *, public_key: PublicKey) -> Ciphertext:
    """Return a ciphertext under `public_key`, or raise `DamagedData`."""
    backend = public_key.backend
    head, payload = _unseal(data, kind="ciphertext", backend=backend)
    head.require_key(public_key.key_id)
    if head.other != bytes(KEY_ID_BYTES) or head.automorphism:
        raise DamagedData("expected no second key and no automorphism in a ciphertext, got one")
    scale, peak, norm, noise, computed, failure = head.numbers
    sound = all(math.isfinite(each) and each >= 0 for each in head.numbers) and scale > 0
    if (
        not (sound and computed <= noise)
        or not 1 <= head.primes <= PRIMES
        or head.count > backend.parameters.ring_dim
    ):
        raise DamagedData("the ciphertext's scale, bounds or primes make no sense")
    found = Ciphertext(
        body=None,
        parameters=backend.parameters,
        key_id=head.key_id,
        primes=head.primes,
        scale=scale,
        bound=Bound(peak=peak, norm=norm, count=head.count),
        noise=noise,
        computed=computed,
        failure=failure,
    )
    if not found.has_room:
        raise DamagedData("the ciphertext's bounds do not fit its primes")
    body = backend.load(
        "ciphertext", payload, primes=head.primes, key_id=head.key_id, automorphism=None
    )
    return replace(found, body=body)


# -- openings


def dump_opening(opening: Opening, *, backend: Backend) -> bytes:
    """Return an opening: the second polynomial, and the masked numbers."""
    moduli = opening.parameters.moduli[: opening.primes]
    payload = pack_rows(opening.second, moduli) + pack_rows(opening.masked, moduli)
    return _seal(
        "opening",
        payload,
        backend=backend,
        primes=opening.primes,
        key_id=opening.key_id,
        other=opening.name,
        count=opening.count,
    )


def load_opening(
    data: bytes | memoryview, *, backend: Backend, key_id: bytes, count: int
) -> Opening:
    """Return an opening of `count` numbers for the owner of `key_id`, or raise `DamagedData`."""
    head, payload = _unseal(data, kind="opening", backend=backend)
    head.require_key(key_id)
    if head.count != count:
        raise DamagedData(f"the opening has {head.count} numbers, {count} were expected")
    if head.automorphism or head.numbers != NO_NUMBERS:
        raise DamagedData("expected no automorphism and no bounds in an opening, got some")
    if head.primes not in (1, 2):
        raise DamagedData(f"an opening has one prime or two, not {head.primes}")
    moduli = backend.parameters.moduli[: head.primes]
    width = backend.parameters.ring_dim if backend.name == "openfhe" else 0
    cut = packed_bytes(moduli, count=width)
    if len(payload) < cut:
        raise DamagedData("the opening is too short for its ring")
    second = unpack_rows(payload[:cut], moduli, count=width)
    if width and not second.any(axis=1).all():
        raise DamagedData("a row of residues is all zeros: that hides nothing")
    return Opening(
        name=head.other,
        parameters=backend.parameters,
        key_id=head.key_id,
        primes=head.primes,
        second=second,
        masked=unpack_rows(payload[cut:], moduli, count=count),
    )


# -- keys


def dump_key(key: Key) -> bytes:
    """Return a key that its holder may have: public, evaluation or re-encryption."""
    if isinstance(key, PublicKey):
        return _dump_key("public key", key)
    if isinstance(key, EvaluationKey):
        return _dump_key("evaluation key", key, automorphism=key.automorphism)
    if isinstance(key, ReencryptionKey):
        return _dump_key("re-encryption key", key, other=key.recipient_id)
    raise InvalidInput("key", type(key).__name__, "a public, evaluation or re-encryption key")


def dump_secret_key(key: SecretKey) -> bytes:
    """Return a secret key in the clear: who has these bytes can decrypt everything."""
    return _dump_key("secret key", key)


def load_public_key(
    data: bytes | memoryview, *, parameters: RingParameters, backend: str = "openfhe"
) -> PublicKey:
    """Return a public key of this ring and backend, or raise `DamagedData`.

    The reader names the backend, never the bytes: the simulator hides nothing.
    """
    engine = find_backend(backend, parameters)
    key_id, payload = _load_key("public key", data, backend=engine)
    return PublicKey(backend=engine, key_id=key_id, payload=payload)


def load_evaluation_key(
    data: bytes | memoryview, *, public_key: PublicKey, automorphism: int | None = None
) -> EvaluationKey:
    """Return the evaluation key of a public key, with that automorphism, or raise `DamagedData`.

    OpenFHE keeps it until the process ends.
    """
    key_id, payload = _load_key(
        "evaluation key",
        data,
        backend=public_key.backend,
        key_id=public_key.key_id,
        automorphism=automorphism,
    )
    return EvaluationKey(
        backend=public_key.backend, key_id=key_id, payload=payload, automorphism=automorphism
    )


def load_reencryption_key(
    data: bytes | memoryview, *, public_key: PublicKey, to: PublicKey
) -> ReencryptionKey:
    """Return the key that leads from one public key to another, or raise `DamagedData`."""
    key_id, payload = _load_key(
        "re-encryption key",
        data,
        backend=public_key.backend,
        key_id=public_key.key_id,
        other=to.key_id,
    )
    return ReencryptionKey(
        backend=public_key.backend, key_id=key_id, recipient_id=to.key_id, payload=payload
    )


def load_secret_key(data: bytes | memoryview, *, public_key: PublicKey) -> SecretKey:
    """Return the secret key of a public key, or raise `DamagedData`.

    It must decrypt what the public key encrypts, modulo all primes.
    """
    backend = public_key.backend
    key_id, payload = _load_key("secret key", data, backend=backend, key_id=public_key.key_id)
    if not backend.is_pair(payload, public_key.payload):
        raise DamagedData("the secret key is not that of the public key")
    return SecretKey(backend=backend, key_id=key_id, payload=payload)


# -- frame


class _Head:
    def __init__(self, fields: tuple[Any, ...]) -> None:
        self.version, self.kind, self.backend, self.primes = fields[1:5]
        self.fingerprint, self.key_id, self.other = fields[5:8]
        self.numbers: tuple[float, ...] = fields[8:14]
        self.count, self.automorphism, self.payload_bytes = fields[14:]

    def require_key(self, key_id: bytes) -> None:
        if self.key_id != key_id:
            raise DamagedData("the data belongs to another key")


def _frame_bytes() -> int:
    return HEADER.size + DIGEST_BYTES


def _dump_key(kind: str, key: Any, *, other: bytes = b"", automorphism: int | None = None) -> bytes:
    payload = key.backend.dump(kind, key.payload, primes=PRIMES, automorphism=automorphism)
    return _seal(
        kind,
        payload,
        backend=key.backend,
        primes=PRIMES,
        key_id=key.key_id,
        other=other,
        automorphism=automorphism or 0,
    )


def _seal(
    kind: str,
    payload: bytes,
    *,
    backend: Backend,
    primes: int,
    key_id: bytes,
    other: bytes = b"",
    numbers: tuple[float, ...] = NO_NUMBERS,
    count: int = 0,
    automorphism: int = 0,
) -> bytes:
    header = HEADER.pack(
        MAGIC,
        FORMAT_VERSION,
        KINDS.index(kind),
        BACKENDS.index(backend.name),
        primes,
        backend.parameters.fingerprint,
        key_id,
        other,
        *numbers,
        count,
        automorphism,
        len(payload),
    )
    digest = hashlib.blake2b(header, digest_size=DIGEST_BYTES)
    digest.update(payload)
    return b"".join([header, payload, digest.digest()])


def _load_key(
    kind: str,
    data: bytes | memoryview,
    *,
    backend: Backend,
    key_id: bytes | None = None,
    other: bytes = bytes(KEY_ID_BYTES),
    automorphism: int | None = None,
) -> tuple[bytes, Any]:
    """The name and payload of a key whose header says nothing but what was expected."""
    head, payload = _unseal(data, kind=kind, backend=backend)
    if key_id is not None:
        head.require_key(key_id)
    if head.other != other:
        raise DamagedData(f"the {kind} leads to another key")
    if head.automorphism != (automorphism or 0):
        expected, got = (
            f"X^{each}" if each else "none" for each in (automorphism, head.automorphism)
        )
        raise DamagedData(f"the {kind} has another automorphism: expected {expected}, got {got}")
    if (head.primes, head.count, *head.numbers) != (PRIMES, 0, *NO_NUMBERS):
        raise DamagedData(
            f"expected {PRIMES} primes, no count and no bounds in the {kind}'s header, got others"
        )
    return head.key_id, backend.load(
        kind, payload, primes=PRIMES, key_id=head.key_id, automorphism=automorphism
    )


def _unseal(data: bytes | memoryview, *, kind: str, backend: Backend) -> tuple[_Head, memoryview]:
    view = memoryview(data).cast("B")
    if len(view) < _frame_bytes():
        raise DamagedData(f"{len(view)} bytes are too few for a {kind}")
    fields = HEADER.unpack_from(view)
    if fields[0] != MAGIC:
        raise DamagedData("the bytes do not start like data of helba's ring")
    head = _Head(fields)
    if head.version != FORMAT_VERSION:
        raise DamagedData(f"format version {head.version} is not {FORMAT_VERSION}, the one known")
    if len(view) != _frame_bytes() + head.payload_bytes:
        raise DamagedData(
            f"the data has {len(view)} bytes and announces {_frame_bytes() + head.payload_bytes}"
        )
    digest = hashlib.blake2b(view[:-DIGEST_BYTES], digest_size=DIGEST_BYTES).digest()
    if digest != view[-DIGEST_BYTES:]:
        raise DamagedData("the digest is wrong: the data was changed or cut")
    if head.kind != KINDS.index(kind):
        raise DamagedData(f"the data is no {kind}")
    if head.backend != BACKENDS.index(backend.name):
        raise DamagedData("the data comes from another backend")
    if any(math.copysign(1.0, number) < 0 for number in head.numbers):
        raise DamagedData("the header has a negative number")
    if head.fingerprint != backend.parameters.fingerprint:
        raise DamagedData("the data belongs to another ring")
    return head, view[HEADER.size : -DIGEST_BYTES]
