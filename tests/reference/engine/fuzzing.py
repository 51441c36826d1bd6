"""Thousands of damaged and forged ciphertexts and keys for one engine; run as a process of its own.

Prints as JSON how many were refused and accepted by kind of damage, the growth of memory after a
first pass, and the number of OpenFHE's contexts before and after; the argument is how many of each
kind there are. Whatever is accepted must be a
vector that the engine can compute with; any other exception, or a crash, ends the process.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import openfhe as fhe

from helba.errors import DamagedData, EngineError, WrongVector
from helba.reference.engine import EncryptedVector, Engine, PendingOpening, get_scheme
from helba.reference.engine.wire.envelope import DIGEST_BYTES, HEADER
from helba.reference.engine.wire.packing import pack_words, unpack_words
from helba.reference.planning.parameters import insecure_parameters
from tests.reference.engine.tampering import open_sealed, with_digest

PARAMETERS = insecure_parameters(ring_dim=1 << 10, depth=3)
SLOTS = 8
Case = tuple[str, bytes]


def flip(data: bytes, places: np.ndarray) -> bytes:
    damaged = bytearray(data)
    for place in places:
        damaged[place // 8] ^= 1 << (place % 8)
    return bytes(damaged)


def damaged(data: bytes, random: np.random.Generator, *, rounds: int, every: int) -> Iterator[Case]:
    """Flips, cuts and additions, with the digest as it was and with a right one.

    Of the bits of the header `every` so many are flipped.
    """
    body, bits = data[:-DIGEST_BYTES], 8 * (len(data) - DIGEST_BYTES)
    for place in range(0, 8 * HEADER.size, every):
        yield "header flip, sealed", with_digest(flip(body, np.array([place])))
    for _ in range(rounds):
        yield "flip", flip(data, random.integers(0, 8 * len(data), 1))
        some = random.integers(8 * HEADER.size, bits, random.integers(1, 20))
        yield "payload flips, sealed", with_digest(flip(body, some))
        # the offsets of the packed blocks stand at the start of the payload
        start = 8 * HEADER.size
        some = random.integers(start, start + 512, random.integers(1, 4))
        yield "block offset flips, sealed", with_digest(flip(body, some))
    for _ in range(rounds // 4):
        yield "cut", data[: random.integers(0, len(data))]
        yield "extended", data + random.bytes(int(random.integers(1, 100)))
        opened = open_sealed(data)
        opened.payload = opened.payload[: random.integers(0, len(opened.payload))]
        yield "cut, sealed", opened.seal()
        opened = open_sealed(data)
        opened.payload += random.bytes(int(random.integers(1, 100)))
        yield "extended, sealed", opened.seal()
        opened.payload = random.bytes(int(random.integers(0, 5000)))
        yield "random payload, sealed", opened.seal()


def forged(data: bytes, vector: EncryptedVector, foreign: Engine) -> Iterator[Case]:
    """False shapes, residues past their modulus, and OpenFHE's own malformed ciphertexts."""
    for level in (0, 2, 3, 4, 1000, 2**32 - 1):
        yield "false level", open_sealed(data, level=level).seal()
    for slots in (0, 3, 2**31, PARAMETERS.ring_dim, 2**32 - 1):
        yield "false slots", open_sealed(data, slots=slots).seal()
    for kind in (1, 2, 3, 5, 6, 65535):
        yield "false kind", open_sealed(data, kind=kind).seal()
    yield "foreign tag", open_sealed(data, tag=b"0" * 32).seal()
    yield "foreign parameters", open_sealed(data, fingerprint=b"0" * 16).seal()
    yield "unneeded detail", HEADER.pack(*HEADER.unpack_from(data)) + data
    for lengths in ({"payload_bytes": 2**63}, {"detail_bytes": 2**32 - 1}, {"payload_bytes": 0}):
        opened = open_sealed(data)
        opened.lengths = lengths
        yield "false length", opened.seal()
    towers = PARAMETERS.depth + 1 - vector.level
    words = unpack_words(
        memoryview(open_sealed(data).payload), count=2 * towers * PARAMETERS.ring_dim
    )
    for value in (2**60, 2**63, 2**64 - 1):
        changed = words.copy()
        changed[::97] = value
        opened = open_sealed(data)
        opened.payload = pack_words(changed)
        yield "residues past the modulus", opened.seal()
    for name, ciphertext in malformed(vector, foreign):
        written = fhe.Serialize(ciphertext, fhe.BINARY)
        opened = open_sealed(data)
        opened.payload = written
        yield name, written
        yield name + ", sealed", opened.seal()
    yield "empty", b""


def malformed(vector: EncryptedVector, foreign: Engine) -> Iterator[tuple[str, object]]:
    """Ciphertexts that OpenFHE writes and reads without a word."""
    whole = vector._body.payload
    for count in (0, 1, 3, 40):
        changed = whole.Clone()
        changed.SetElements([whole.GetElements()[0]] * count)
        yield f"{count} elements", changed
    changed = whole.Clone()
    changed.SetLevel(3)
    yield "false level inside", changed
    changed = whole.Clone()
    changed.SetKeyTag("0" * 32)
    yield "foreign key tag inside", changed
    yield "foreign context", foreign.encrypt(np.ones(SLOTS))._body.payload


def make_foreign_engine() -> Engine:
    scheme = get_scheme("ckks")
    keys = scheme.generate_keys(insecure_parameters(ring_dim=1 << 10, depth=4))
    return scheme.engine(keys.public)


def resident_bytes() -> int:
    with open("/proc/self/statm") as statistics:
        return int(statistics.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    scheme = get_scheme("ckks")
    keys = scheme.generate_keys(PARAMETERS, rotations=(1,))
    engine = scheme.engine(keys.public, evaluation_key=keys.evaluation)
    foreign = make_foreign_engine()
    random = np.random.default_rng(0)
    vector = engine.encrypt(np.ones(SLOTS), level=1)
    request, _ = engine.begin_refresh(engine.encrypt(np.ones(SLOTS)))
    written = engine.vector_to_bytes(vector)
    asked = engine.request_to_bytes(request)
    opening, mask = engine.begin_opening(engine.encrypt(np.ones(SLOTS)))
    to_open = engine.opening_request_to_bytes(opening)
    kept = engine.pending_to_bytes(mask)
    opened = engine.opening_reply_to_bytes(engine.answer_opening(opening, secret_key=keys.secret))
    public = scheme.public_key_to_bytes(keys.public)
    evaluation = scheme.evaluation_key_to_bytes(keys.evaluation)
    reader = scheme.generate_pair(PARAMETERS)
    way = scheme.make_reencryption_key(keys.secret, recipient=reader.public, level=1)
    reencryption = scheme.reencryption_key_to_bytes(way)
    refused: Counter[str] = Counter()
    accepted: Counter[str] = Counter()

    def use(vector: EncryptedVector) -> None:
        if vector.levels_left:
            vector = engine.multiply(vector, engine.add(vector, vector))
        engine.vector_to_bytes(vector)
        with suppress(EngineError):  # noise where a value was
            engine.decrypt(vector, secret_key=keys.secret)

    def read_vector(data: bytes) -> None:
        use(engine.vector_from_bytes(data))

    def read_request(data: bytes) -> None:
        engine.answer_refresh(engine.request_from_bytes(data), secret_key=keys.secret)

    def read_opening_request(data: bytes) -> None:
        request = engine.opening_request_from_bytes(data)
        engine.answer_opening(request, secret_key=keys.secret)

    def read_opening_reply(data: bytes) -> None:
        reply = engine.opening_reply_from_bytes(data, slots=SLOTS)
        pending = engine.pending_from_bytes(kept)
        assert isinstance(pending, PendingOpening)
        with suppress(WrongVector):  # a changed id
            assert np.abs(engine.finish_opening(reply, pending)).max() < 2.0**30

    def read_public_key(data: bytes) -> None:
        key = scheme.public_key_from_bytes(data, parameters=PARAMETERS)
        scheme.engine(key).encrypt(np.ones(SLOTS))

    def read_evaluation_key(data: bytes) -> None:
        scheme.evaluation_key_from_bytes(data, parameters=PARAMETERS)

    def read_reencryption_key(data: bytes) -> None:
        key = scheme.reencryption_key_from_bytes(data, parameters=PARAMETERS)
        scheme.reencryption_key_to_bytes(key)
        for level in range(key.level, PARAMETERS.depth + 1):
            with suppress(WrongVector):  # a changed tag
                engine.reencrypt(engine.encrypt(np.ones(SLOTS), level=level), key=key)

    def attempt(read: Callable[[bytes], None], data: bytes) -> Counter[str]:
        try:
            read(data)
        except DamagedData as error:
            if "\n" in str(error):
                raise
            return refused
        return accepted

    def read_all(prefix: str, read: Callable[[bytes], None], cases: Iterator[Case]) -> None:
        for name, data in cases:
            attempt(read, data)[prefix + name] += 1

    def fuzz(rounds: int, *, every: int = 1) -> None:
        read_all("", read_vector, damaged(written, random, rounds=rounds, every=every))
        read_all("", read_vector, forged(written, vector, foreign))
        for prefix, read, data in (
            ("request: ", read_request, asked),
            ("opening request: ", read_opening_request, to_open),
            ("opening reply: ", read_opening_reply, opened),
            ("public key: ", read_public_key, public),
            ("evaluation key: ", read_evaluation_key, evaluation),
            ("re-encryption key: ", read_reencryption_key, reencryption),
        ):
            cases = damaged(data, random, rounds=rounds // 10, every=every)
            read_all(prefix, read, cases)

    fuzz(100, every=8)
    memory, contexts = resident_bytes(), len(fhe.GetAllContexts())
    refused.clear()
    accepted.clear()
    fuzz(int(sys.argv[1]))
    found = {
        "refused": refused,
        "accepted": accepted,
        "growth_megabytes": (resident_bytes() - memory) / 2**20,
        "contexts": [contexts, len(fhe.GetAllContexts())],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
