"""What a ciphertext holds in every coefficient: c0 + c1 s modulo the last prime, read by hand.

An engine's own decryption shows the slots, after OpenFHE has added noise to them.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from helba.reference.engine import EncryptedVector, Engine, SecretKey, get_scheme
from helba.reference.engine.wire.packing import unpack_words
from helba.reference.planning.parameters import Parameters
from tests.reference.engine.tampering import open_sealed


def read_residues(engine: Engine, vector: EncryptedVector) -> NDArray[np.uint64]:
    """The residues of both polynomials, one row for each prime that is left; the last one first."""
    shape = (2, engine.parameters.depth + 1 - vector.level, engine.parameters.ring_dim)
    payload = open_sealed(engine.vector_to_bytes(vector)).payload
    return unpack_words(memoryview(payload), count=int(np.prod(shape))).reshape(shape)


def read_polynomial(
    engine: Engine, vector: EncryptedVector, *, secret_key: SecretKey
) -> NDArray[np.float64]:
    """The N coefficients of c0 + c1 s, all of them below half the last prime."""
    parameters = engine.parameters
    count = (parameters.depth + 1) * parameters.ring_dim
    data = open_sealed(get_scheme("ckks").secret_key_to_bytes(secret_key)).payload
    secret = unpack_words(memoryview(data), count=count)[: parameters.ring_dim].astype(object)
    first, second = (rows[0].astype(object) for rows in read_residues(engine, vector))
    modulus, order, root = _transform_of(parameters)
    values = (first + second * secret)[order] % modulus
    degree = len(values)
    sums = _transformed(values, pow(root, -2, modulus), modulus)
    turns = _powers(pow(root, -1, modulus), degree, modulus)
    whole = sums * pow(degree, -1, modulus) % modulus * turns % modulus
    return np.where(whole > modulus // 2, whole - modulus, whole).astype(np.float64)


def in_slots(coefficients: NDArray[np.float64], *, slots: int, scale: float) -> NDArray[np.float64]:
    """What rows of coefficients, as read by `read_polynomial`, are in slots."""
    from helba.reference.engine.ckks.share import decode_coefficients

    gap = coefficients.shape[1] // (2 * slots)
    rows = np.ascontiguousarray(coefficients[:, ::gap])
    return np.array([decode_coefficients(row, scale=scale) for row in rows])


def _transformed(values: NDArray[np.object_], root: int, modulus: int) -> NDArray[np.object_]:
    """The sums of values[i] root^(i k), for every k."""
    half = len(values) // 2
    if half == 0:
        return values
    even, odd = (_transformed(values[i::2], root * root % modulus, modulus) for i in (0, 1))
    turned = odd * _powers(root, half, modulus) % modulus
    return np.concatenate([even + turned, even - turned]) % modulus


@lru_cache(maxsize=64)
def _powers(root: int, count: int, modulus: int) -> NDArray[np.object_]:
    powers = [1]
    for _ in range(count - 1):
        powers.append(powers[-1] * root % modulus)
    return np.array(powers, dtype=object)


@lru_cache(maxsize=8)
def _transform_of(parameters: Parameters) -> tuple[int, NDArray[np.intp], int]:
    """The last prime, where OpenFHE keeps the values at root^1, root^3, ..., and that root."""
    import openfhe as fhe

    from helba.reference.engine.ckks.polynomial import encoder_of
    from helba.ring.ckks.template import Template

    encoder = encoder_of(parameters)
    monomial = encoder.encode(np.arange(parameters.ring_dim) == 1.0, level=parameters.depth)
    written = encoder.ciphertext(monomial, monomial, level=parameters.depth, tag="0" * 32)
    data = fhe.Serialize(written, fhe.BINARY)
    template = Template.of(data, ring_dim=parameters.ring_dim)
    points = [int(point) for point in template.gather(data)[0]]
    modulus, root = template.moduli[0], points[0]
    places, power = {point: place for place, point in enumerate(points)}, root
    order = []
    for _ in points:
        order.append(places[power])
        power = power * root * root % modulus
    return modulus, np.array(order), root
