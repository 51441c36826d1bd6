"""Thousands of damaged payloads of every kind; run as a process of its own.

    python -m tests.ring.fuzzing BACKEND COUNT

Prints as JSON, for each kind, how many were refused and how many read, the growth of memory after a
first pass, and the number of OpenFHE's contexts. What is read must be usable; any exception but
`DamagedData`, or a crash, ends the process.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter

import numpy as np

from helba.errors import DamagedData
from helba.ring import insecure_parameters
from helba.ring.secret.wire import dump_secret_key, load_secret_key
from helba.ring.sharing.pad import draw_seed, dump_shares, load_shares, split
from helba.ring.wire import (
    DIGEST_BYTES,
    HEADER,
    dump_ciphertext,
    dump_key,
    dump_opening,
    load_ciphertext,
    load_evaluation_key,
    load_opening,
    load_public_key,
    load_reencryption_key,
)
from tests.ring.parties import AUTOMORPHISM, make_parties


def sealed(data):
    """The same bytes with a right digest."""
    body = data[:-DIGEST_BYTES]
    return body + hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()


def damage(data, rng):
    """Damage bytes as a bad line would: return its name, and the bytes."""
    kind = int(rng.integers(0, 4))
    changed = bytearray(data)
    if kind == 0:
        for bit in rng.integers(0, 8 * len(data), int(rng.integers(1, 4))):
            changed[bit // 8] ^= 1 << int(bit) % 8
        return "flip", bytes(changed)
    if kind == 1:
        return "cut", bytes(data[: int(rng.integers(0, len(data)))])
    if kind == 2:
        return "extended", bytes(data) + rng.bytes(int(rng.integers(1, 50)))
    return "random", rng.bytes(int(rng.integers(0, 400)))


def forge(data, rng):
    """Change bytes as somebody would who also makes the digest right."""
    kind = int(rng.integers(0, 3))
    if len(data) < HEADER.size + DIGEST_BYTES:  # shares, which are shorter than a header
        return "cut, sealed", sealed(bytes(data[: int(rng.integers(DIGEST_BYTES, len(data)))]))
    changed = bytearray(data)
    if kind == 0:
        bit = int(rng.integers(0, 8 * HEADER.size))
        changed[bit // 8] ^= 1 << bit % 8
        return "header flip, sealed", sealed(bytes(changed))
    if kind == 1:
        cut = int(rng.integers(HEADER.size + DIGEST_BYTES, len(data)))
        return "cut, sealed", sealed(bytes(data[:cut]))
    start = int(rng.integers(HEADER.size, len(data) - DIGEST_BYTES))
    stop = min(len(data) - DIGEST_BYTES, start + 64)
    changed[start:stop] = b"\xff" * (stop - start)  # residues past their modulus
    return "ones, sealed", sealed(bytes(changed))


def main(backend, count):
    parties = make_parties(backend)
    ring, keys, engine = parties.ring, parties.keys, parties.keys.public.backend
    parameters = insecure_parameters()
    made = ring.encrypt([1, 2, 3], places=[0, 1, 2], scale=1.0, peak=8.0, primes=2)
    opening, _ = ring.open(made, places=[0, 1, 2])

    def read_ciphertext(data):
        found = load_ciphertext(data, public_key=keys.public)
        if found != made:
            raise DamagedData("it claims something else than is expected")
        parties.read(ring.product(found, found), [0])

    def read_opening(data):
        found = load_opening(data, backend=engine, key_id=keys.public.key_id, count=3)
        parties.opener.receive(found, places=[0, 1, 2])

    kinds = {
        "ciphertext": (dump_ciphertext(made, backend=engine), read_ciphertext),
        "opening": (dump_opening(opening, backend=engine), read_opening),
        "public key": (
            dump_key(keys.public),
            lambda data: load_public_key(data, parameters=parameters, backend=backend),
        ),
        "evaluation key": (
            dump_key(keys.evaluation),
            lambda data: load_evaluation_key(
                data, public_key=keys.public, automorphism=AUTOMORPHISM
            ),
        ),
        "re-encryption key": (
            dump_key(parties.to_user.reencryption),
            lambda data: load_reencryption_key(
                data, public_key=keys.public, to=parties.user_keys.public
            ),
        ),
        "input shares": (
            dump_shares(split([1, 2, 3], seed=draw_seed(), context=b"")),
            lambda data: load_shares(data, count=3),
        ),
        "secret key": (
            dump_secret_key(keys.secret),
            lambda data: load_secret_key(data, public_key=keys.public),
        ),
    }
    rng, report = np.random.default_rng(0), {}
    before = None
    for name, (data, read) in kinds.items():
        read(data)
        refused, accepted, words = Counter(), Counter(), set()
        for index in range(count + count // 4):
            what, damaged = (damage if index < count else forge)(data, rng)
            if damaged == data:
                continue
            try:
                read(damaged)
                accepted[what] += 1
            except DamagedData as error:
                refused[what] += 1
                words.add(str(error).count("\n"))
            if name == "ciphertext" and index == count // 4:
                before = memory()
        report[name] = {"refused": refused, "accepted": accepted, "lines": sorted(words)}
    found = {"kinds": report, "growth_megabytes": memory() - before}
    if backend == "openfhe":
        import openfhe

        found["contexts"] = len(openfhe.GetAllContexts())
        tags = openfhe.CryptoContext.GetAllEvalMultKeys()
        found["evaluation_keys"] = len(tags)
    print(json.dumps(found))


def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
