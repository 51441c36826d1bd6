"""CKKS as bytes: close to the entropy, one structure for each shape, nothing that hides nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helba.errors import DamagedData, EngineError
from helba.reference.engine import get_scheme
from helba.reference.engine.wire.packing import pack_words, unpack_words
from helba.reference.planning.parameters import Parameters, insecure_parameters
from tests.engines import Keyed, open_keyed
from tests.reference.engine.tampering import open_sealed

pytestmark = pytest.mark.ckks

insecure_small = insecure_parameters(ring_dim=1 << 11, depth=6, scale_bits=45)
SLOTS = 8
CLOSE = {"rtol": 0.0, "atol": 1e-8}


@pytest.fixture
def keyed() -> Keyed:
    return open_keyed("ckks", parameters=insecure_small, rotations=(1, 2, 3))


def entropy_bytes(parameters: Parameters, *, level: int) -> float:
    """Two uniform polynomials modulo the primes that are left, in bytes."""
    from helba.reference.engine.ckks.context import open_context
    from helba.ring.ckks.context import moduli_of

    moduli = moduli_of(open_context(parameters))[: parameters.depth + 1 - level]
    return 2 * parameters.ring_dim * sum(math.log2(q) for q in moduli) / 8


# -- size


@pytest.mark.parametrize("level", [0, 3, 6])
@pytest.mark.parametrize("scale_bits", [35, 40, 45, 50])
def test_ciphertext_is_within_3_percent_of_its_entropy(scale_bits: int, level: int) -> None:
    parameters = insecure_parameters(ring_dim=1 << 12, depth=6, scale_bits=scale_bits)
    engine = open_keyed("ckks", parameters=parameters).engine
    size = len(engine.vector_to_bytes(engine.encrypt(np.ones(SLOTS), level=level)))
    entropy = entropy_bytes(parameters, level=level)
    assert entropy < size < 1.03 * entropy


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        Parameters(ring_dim=1 << 14, depth=6, scale_bits=40, digits=4, security=128),
        Parameters(ring_dim=1 << 15, depth=14, scale_bits=40, digits=5, security=128),
    ],
    ids=["2^14", "2^15"],
)
def test_ciphertext_of_full_security_is_within_1_percent(parameters: Parameters) -> None:
    engine = open_keyed("ckks", parameters=parameters).engine
    for level in (0, parameters.depth):
        size = len(engine.vector_to_bytes(engine.encrypt(np.ones(SLOTS), level=level)))
        entropy = entropy_bytes(parameters, level=level)
        assert entropy < size < 1.01 * entropy


def test_size_does_not_depend_on_the_values(keyed: Keyed) -> None:
    sizes = [
        len(keyed.engine.vector_to_bytes(keyed.engine.encrypt(factor * np.ones(SLOTS))))
        for factor in (0.0, 1.0, 1e3)
        for _ in range(3)
    ]
    assert max(sizes) - min(sizes) < 1e-3 * min(sizes)


# -- structure


def test_two_encryptions_of_one_shape_differ_in_residues_alone(keyed: Keyed) -> None:
    import openfhe as fhe

    from helba.ring.ckks.template import Template

    for level in range(insecure_small.depth + 1):
        templates = [
            Template.of(
                fhe.Serialize(keyed.engine._encrypt(values, level), fhe.BINARY),
                ring_dim=insecure_small.ring_dim,
            )
            for values in (np.zeros(SLOTS), np.arange(SLOTS) / 3)
        ]
        assert templates[0] == templates[1]
        assert len(templates[0].moduli) == 2 * (insecure_small.depth + 1 - level)


def test_loaded_ciphertext_has_the_form_of_a_fresh_one(keyed: Keyed) -> None:
    import openfhe as fhe

    before = len(fhe.GetAllContexts())
    for level in range(insecure_small.depth + 1):
        fresh = keyed.engine.encrypt(np.ones(SLOTS), level=level)
        loaded = keyed.engine.vector_from_bytes(keyed.engine.vector_to_bytes(fresh))
        ours, theirs = (vector._body.payload for vector in (loaded, fresh))
        for name in ("GetLevel", "GetNoiseScaleDeg", "GetSlots", "GetKeyTag", "GetScalingFactor"):
            assert getattr(ours, name)() == getattr(theirs, name)()
        assert ours.GetCryptoContext() == keyed.engine._context
    assert len(fhe.GetAllContexts()) == before


def test_residue_at_its_modulus_is_refused(keyed: Keyed) -> None:
    from helba.reference.engine.ckks.context import open_context
    from helba.ring.ckks.context import moduli_of

    moduli = moduli_of(open_context(insecure_small))
    data = keyed.engine.vector_to_bytes(keyed.engine.encrypt(np.ones(SLOTS), level=5))
    count = 4 * insecure_small.ring_dim
    for row, modulus in enumerate((moduli[0], moduli[1], moduli[0], moduli[1])):
        opened = open_sealed(data)
        words = unpack_words(memoryview(opened.payload), count=count).copy()
        place = row * insecure_small.ring_dim + 17
        words[place] = modulus - 1
        opened.payload = pack_words(words)
        keyed.engine.vector_from_bytes(opened.seal())
        words[place] = modulus
        opened.payload = pack_words(words)
        with pytest.raises(DamagedData, match="not below its modulus"):
            keyed.engine.vector_from_bytes(opened.seal())


def test_payload_that_unpacks_to_another_size_is_refused(keyed: Keyed) -> None:
    data = keyed.engine.vector_to_bytes(keyed.engine.encrypt(np.ones(SLOTS), level=5))
    for payload in (
        b"",
        bytes(10),
        bytes(8 * 4 * insecure_small.ring_dim + 1),
        pack_words(np.zeros(2 * insecure_small.ring_dim, dtype=np.uint64)) + b"x",
        open_sealed(data).payload * 2,
    ):
        opened = open_sealed(data)
        opened.payload = payload
        with pytest.raises(DamagedData):
            keyed.engine.vector_from_bytes(opened.seal())


@pytest.mark.parametrize("level", [0, 6])
def test_payload_shorter_than_residues_can_be_is_refused_unread(keyed: Keyed, level: int) -> None:
    from helba.reference.engine.wire import packing

    data = keyed.engine.vector_to_bytes(keyed.engine.encrypt(np.ones(SLOTS), level=level))
    count = 2 * (insecure_small.depth + 1 - level) * insecure_small.ring_dim
    blocks = -(-8 * count // packing.BLOCK_BYTES)
    starts = packing.HEADER.size + 4 * blocks + 4 * np.arange(blocks, dtype="<i4")
    opened = open_sealed(data)
    opened.payload = starts.astype("<i4").tobytes() + bytes(4 * blocks)
    assert not unpack_words(memoryview(opened.payload), count=count).any()  # 1 kB becomes 200
    with pytest.raises(DamagedData, match="shorter than residues can be"):
        keyed.engine.vector_from_bytes(opened.seal())


# -- what hides nothing


def test_vector_that_is_no_encryption_is_not_written(keyed: Keyed) -> None:
    engine = keyed.engine
    a = engine.encrypt(np.ones(SLOTS))
    nothing = engine.subtract(a, a)
    for vector in (
        nothing,
        engine.add_plain(nothing, 1.0),
        engine.multiply_plain(a, [0.0] * SLOTS),
    ):
        with pytest.raises(EngineError, match="no encryption"):
            engine.vector_to_bytes(vector)
    hidden = engine.add(nothing, engine.encrypt(np.zeros(SLOTS)))
    loaded = engine.vector_from_bytes(engine.vector_to_bytes(hidden))
    np.testing.assert_allclose(keyed.open(loaded), np.zeros(SLOTS), **CLOSE)


@pytest.mark.parametrize("polynomial", [0, 1])
def test_polynomial_of_zeros_is_not_read(keyed: Keyed, polynomial: int) -> None:
    scheme, engine = get_scheme("ckks"), keyed.engine
    primes = insecure_small.depth + 1
    extended = primes + insecure_small.auxiliary_primes
    vector = open_sealed(engine.vector_to_bytes(engine.encrypt(np.ones(SLOTS))))
    public = open_sealed(scheme.public_key_to_bytes(keyed.keys.public))
    for opened, towers in ((vector, primes), (public, extended)):
        shape = (2, towers, insecure_small.ring_dim)
        words = unpack_words(memoryview(opened.payload), count=int(np.prod(shape))).reshape(shape)
        words = words.copy()
        words[polynomial] = 0
        opened.payload = words.tobytes()
    with pytest.raises(DamagedData, match="hides nothing"):
        engine.vector_from_bytes(vector.seal())
    with pytest.raises(DamagedData, match="hides nothing"):
        scheme.public_key_from_bytes(public.seal(), parameters=insecure_small)
