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
from dataclasses import dataclass, replace
from typing import Any

from helba.errors import DamagedData, InvalidInput, OutOfRange
from helba.ring.backend import KEY_ID_BYTES, Backend
from helba.ring.ciphertext import Ciphertext
from helba.ring.key import BACKENDS, EvaluationKey, Key, PublicKey, ReencryptionKey, find_backend
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
FRAME_BYTES = HEADER.size + DIGEST_BYTES  # of a message, beside its payload
_NO_KEY = bytes(KEY_ID_BYTES)
_NO_BOUNDS = (0.0,) * 6


# -- ciphertexts


def dump_ciphertext(ciphertext: Ciphertext, *, backend: Backend) -> bytes:
    """Return a ciphertext with its public side."""
    primes, bound = ciphertext.primes, ciphertext.bound
    errors = (ciphertext.noise, ciphertext.computed, ciphertext.failure)
    header = _Header(
        kind="ciphertext",
        primes=primes,
        key=ciphertext.key_id,
        bounds=(ciphertext.scale, bound.peak, bound.norm, *errors),
        count=bound.count,
    )
    payload = backend.dump("ciphertext", ciphertext.body, primes=primes, automorphism=None)
    return _seal(header, payload, backend=backend)


def load_ciphertext(data: bytes | memoryview, *, public_key: PublicKey) -> Ciphertext:
    """Return a ciphertext under `public_key`, or raise `DamagedData`."""
    backend, key_id = public_key.backend, public_key.key_id
    head, payload = _unseal(
        data, backend=backend, kind="ciphertext", key=key_id, recipient=_NO_KEY, automorphism=0
    )
    scale, peak, norm, noise, computed, failure = head.bounds
    sound = all(math.isfinite(each) and each >= 0 for each in head.bounds) and scale > 0
    if (
        not (sound and computed <= noise)
        or not 1 <= head.primes <= PRIMES
        or head.count > backend.parameters.ring_dim
    ):
        raise DamagedData("the ciphertext's scale, bounds or primes make no sense")
    found = Ciphertext(
        body=None,
        parameters=backend.parameters,
        key_id=key_id,
        primes=head.primes,
        scale=scale,
        bound=Bound(peak=peak, norm=norm, count=head.count),
        noise=noise,
        computed=computed,
        failure=failure,
    )
    try:
        found.require_room()
    except OutOfRange as error:
        raise DamagedData(f"the ciphertext's bounds do not fit its primes: {error}") from error
    body = backend.load("ciphertext", payload, primes=head.primes, key_id=key_id, automorphism=None)
    return replace(found, body=body)


# -- openings


def dump_opening(opening: Opening, *, backend: Backend) -> bytes:
    """Return an opening: the second polynomial, and the masked numbers."""
    moduli = opening.parameters.moduli[: opening.primes]
    header = _Header(
        kind="opening",
        primes=opening.primes,
        key=opening.key_id,
        recipient=opening.name,
        count=opening.count,
    )
    payload = pack_rows(opening.second, moduli) + pack_rows(opening.masked, moduli)
    return _seal(header, payload, backend=backend)


def load_opening(
    data: bytes | memoryview, *, backend: Backend, key_id: bytes, count: int
) -> Opening:
    """Return an opening of `count` numbers for the owner of `key_id`, or raise `DamagedData`."""
    head, payload = _unseal(
        data,
        backend=backend,
        kind="opening",
        key=key_id,
        count=count,
        automorphism=0,
        bounds=_NO_BOUNDS,
    )
    if head.primes not in (1, 2):
        raise DamagedData(f"an opening has one prime or two, not {head.primes}")
    moduli = backend.parameters.moduli[: head.primes]
    width = backend.parameters.ring_dim if backend.name == "openfhe" else 0
    cut = packed_bytes(moduli, count=width)
    second = unpack_rows(payload[:cut], moduli, count=width)
    if width and not second.any(axis=1).all():
        raise DamagedData("a row of residues is all zeros: that hides nothing")
    return Opening(
        name=head.recipient,
        parameters=backend.parameters,
        key_id=key_id,
        primes=head.primes,
        second=second,
        masked=unpack_rows(payload[cut:], moduli, count=count),
    )


# -- keys


def dump_key(key: PublicKey | EvaluationKey | ReencryptionKey) -> bytes:
    """Return a key that its holder may have: public, evaluation or re-encryption."""
    if isinstance(key, PublicKey):
        return dump_any_key(key, kind="public key")
    if isinstance(key, EvaluationKey):
        return dump_any_key(key, kind="evaluation key", automorphism=key.automorphism)
    if isinstance(key, ReencryptionKey):
        return dump_any_key(key, kind="re-encryption key", recipient=key.recipient_id)
    raise InvalidInput("key", type(key).__name__, "a public, evaluation or re-encryption key")


def load_public_key(
    data: bytes | memoryview, *, parameters: RingParameters, backend: str | Backend = "openfhe"
) -> PublicKey:
    """Return a public key of this ring and backend, or raise `DamagedData`.

    The reader names the backend, never the bytes: the simulator hides nothing.
    """
    engine = find_backend(backend, parameters) if isinstance(backend, str) else backend
    return PublicKey(**load_any_key(data, backend=engine, kind="public key"))


def load_evaluation_key(
    data: bytes | memoryview, *, public_key: PublicKey, automorphism: int | None = None
) -> EvaluationKey:
    """Return the evaluation key of a public key, with that automorphism, or raise `DamagedData`.

    OpenFHE keeps it until the process ends.
    """
    backend, key = public_key.backend, public_key.key_id
    read = load_any_key(
        data, backend=backend, kind="evaluation key", key=key, automorphism=automorphism
    )
    return EvaluationKey(**read, automorphism=automorphism)


def load_reencryption_key(
    data: bytes | memoryview, *, public_key: PublicKey, to: PublicKey
) -> ReencryptionKey:
    """Return the key that leads from one public key to another, or raise `DamagedData`."""
    backend, key = public_key.backend, public_key.key_id
    read = load_any_key(
        data, backend=backend, kind="re-encryption key", key=key, recipient=to.key_id
    )
    return ReencryptionKey(**read, recipient_id=to.key_id)


def dump_any_key(
    key: Key, *, kind: str, recipient: bytes = _NO_KEY, automorphism: int | None = None
) -> bytes:
    """Return a key of the kind that is named."""
    header = _Header(
        kind=kind,
        primes=PRIMES,
        key=key.key_id,
        recipient=recipient,
        automorphism=automorphism or 0,
    )
    payload = key.backend.dump(kind, key.payload, primes=PRIMES, automorphism=automorphism)
    return _seal(header, payload, backend=key.backend)


def load_any_key(
    data: bytes | memoryview,
    *,
    backend: Backend,
    kind: str,
    automorphism: int | None = None,
    recipient: bytes = _NO_KEY,
    **expected: Any,
) -> dict[str, Any]:
    """Return what every key has, of one whose header says nothing but what was expected."""
    head, payload = _unseal(
        data,
        backend=backend,
        kind=kind,
        primes=PRIMES,
        recipient=recipient,
        automorphism=automorphism or 0,
        count=0,
        bounds=_NO_BOUNDS,
        **expected,
    )
    key_id = head.key
    read = backend.load(kind, payload, primes=PRIMES, key_id=key_id, automorphism=automorphism)
    return {"backend": backend, "key_id": key_id, "payload": read}


# -- frame


@dataclass(frozen=True, kw_only=True)
class _Header:
    """The fields before a payload, but for the backend, its ring and the number of bytes."""

    kind: str
    primes: int
    key: bytes
    recipient: bytes = _NO_KEY
    bounds: tuple[float, ...] = _NO_BOUNDS
    count: int = 0
    automorphism: int = 0


def _seal(header: _Header, payload: bytes, *, backend: Backend) -> bytes:
    head = HEADER.pack(
        MAGIC,
        FORMAT_VERSION,
        KINDS.index(header.kind),
        BACKENDS.index(backend.name),
        header.primes,
        backend.parameters.fingerprint,
        header.key,
        header.recipient,
        *header.bounds,
        header.count,
        header.automorphism,
        len(payload),
    )
    digest = hashlib.blake2b(head, digest_size=DIGEST_BYTES)
    digest.update(payload)
    return b"".join([head, payload, digest.digest()])


def _unseal(
    data: bytes | memoryview, *, backend: Backend, kind: str, **expected: Any
) -> tuple[_Header, memoryview]:
    """The header, whose fields must be those expected, and the payload."""
    view = memoryview(data).cast("B")
    if len(view) < FRAME_BYTES:
        raise DamagedData(f"{len(view)} bytes are too few for a {kind}")
    magic, version, number, engine, primes, ring, key, recipient, *rest = HEADER.unpack_from(view)
    *bounds, count, automorphism, payload_bytes = rest
    if magic != MAGIC:
        raise DamagedData("the bytes do not start like data of helba's ring")
    if version != FORMAT_VERSION:
        raise DamagedData(f"format version {version} is not {FORMAT_VERSION}, the one known")
    if len(view) != FRAME_BYTES + payload_bytes:
        raise DamagedData(
            f"the data has {len(view)} bytes and announces {FRAME_BYTES + payload_bytes}"
        )
    digest = hashlib.blake2b(view[:-DIGEST_BYTES], digest_size=DIGEST_BYTES).digest()
    if digest != view[-DIGEST_BYTES:]:
        raise DamagedData("the digest is wrong: the data was changed or cut")
    if number != KINDS.index(kind):
        raise DamagedData(f"the data is no {kind}")
    if engine != BACKENDS.index(backend.name):
        raise DamagedData("the data comes from another backend")
    if any(math.copysign(1.0, number) < 0 for number in bounds):
        raise DamagedData("the header has a negative number")
    if ring != backend.parameters.fingerprint:
        raise DamagedData("the data belongs to another ring")
    header = _Header(
        kind=kind,
        primes=primes,
        key=key,
        recipient=recipient,
        bounds=tuple(bounds),
        count=count,
        automorphism=automorphism,
    )
    for name, value in expected.items():
        found = getattr(header, name)
        if found != value:
            wanted, got = (
                each.hex() if isinstance(each, bytes) else each for each in (value, found)
            )
            raise DamagedData(f"expected {name} {wanted} in the header of the {kind}, got {got}")
    return header, view[HEADER.size : -DIGEST_BYTES]
