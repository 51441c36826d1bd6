"""Evaluation keys for tests of their bytes: made, loaded, counted and forged."""

from __future__ import annotations

import gc
import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from helba.reference.engine import EvaluationKey, ReencryptionKey, get_scheme
from helba.reference.planning.parameters import Parameters, insecure_parameters
from tests.engines import Keyed
from tests.reference.engine.tampering import Opened

insecure_small = insecure_parameters(ring_dim=1 << 11, depth=6, scale_bits=45)
SLOTS = 8
CLOSE = {"rtol": 0.0, "atol": 1e-8}


@contextmanager
def old_heap_apart() -> Iterator[None]:
    """Collections look at what is made inside alone: a long run has a heap that takes seconds."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def make_key(
    rotations: tuple[int, ...] = (1, 2), *, parameters: Parameters = insecure_small
) -> tuple[Keyed, bytes]:
    scheme = get_scheme("ckks")
    keys = scheme.generate_keys(parameters, rotations=rotations)
    engine = scheme.engine(keys.public, evaluation_key=keys.evaluation)
    return Keyed(engine=engine, keys=keys), scheme.evaluation_key_to_bytes(keys.evaluation)


def load_key(data: bytes, **expected: Any) -> EvaluationKey:
    return get_scheme("ckks").evaluation_key_from_bytes(data, allow_insecure=True, **expected)


def make_way(keyed: Keyed) -> ReencryptionKey:
    """A re-encryption key from the keyed's owner to somebody new."""
    scheme = get_scheme("ckks")
    to = scheme.generate_pair(keyed.keys.public.parameters)
    return scheme.make_reencryption_key(keyed.keys.secret, recipient=to.public)


def held(tag: str) -> tuple[int, int]:
    """How many relinearisation and rotation keys OpenFHE holds for an owner."""
    import openfhe as fhe

    return (
        len(fhe.CryptoContext.GetAllEvalMultKeys().get(tag, [])),
        len(fhe.CryptoContext.GetExistingEvalAutomorphismKeyIndices(tag)),
    )


def remove_unused() -> None:
    from helba.reference.engine.ckks.ownership import remove_unused_keys

    gc.collect()
    remove_unused_keys()


def require_right(keyed: Keyed) -> None:
    """Products and rotations of the keyed are what they should be."""
    x = keyed.engine.encrypt(np.arange(SLOTS))
    made = keyed.open(keyed.engine.rotate(keyed.engine.multiply(x, x), 1))
    np.testing.assert_allclose(made, np.roll(np.arange(SLOTS) ** 2, -1), **CLOSE)


def describe(opened: Opened, **changes: object) -> Opened:
    """Change what the detail says about the key."""
    document = {**json.loads(opened.detail), **changes}
    opened.detail = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
    return opened


def frames(payload: bytes) -> list[bytes]:
    """The packed keys of a payload, each with its length."""
    found = []
    while payload:
        (size,) = struct.unpack_from("<Q", payload)
        found.append(payload[: 8 + size])
        payload = payload[8 + size :]
    return found
