"""CKKS as bytes: close to the entropy, one structure for each shape, keys that stay with owners."""

from __future__ import annotations

import gc
import math
import struct

import numpy as np
import pytest

from helba.engine import EvaluationKey, get_scheme
from helba.engine.packing import pack_words, unpack_words
from helba.errors import DamagedData, MissingKey
from helba.planning.parameters import Parameters, insecure_parameters
from tests.engine.tampering import open_sealed
from tests.engines import Desk, open_desk

pytestmark = pytest.mark.ckks

insecure_small = insecure_parameters(ring_dim=1 << 11, depth=6, scale_bits=45)
SLOTS = 8
CLOSE = {"rtol": 0.0, "atol": 1e-8}


@pytest.fixture
def desk() -> Desk:
    return open_desk("ckks", parameters=insecure_small, rotations=(1, 2, 3))


def entropy_bytes(parameters: Parameters, *, level: int) -> float:
    """Two uniform polynomials modulo the primes that are left, in bytes."""
    from helba.engine.ckks.context import moduli_of, open_context

    moduli = moduli_of(open_context(parameters))[: parameters.depth + 1 - level]
    return 2 * parameters.ring_dim * sum(math.log2(q) for q in moduli) / 8


# -- size


@pytest.mark.parametrize("level", [0, 3, 6])
@pytest.mark.parametrize("scale_bits", [35, 40, 45, 50])
def test_ciphertext_is_within_3_percent_of_its_entropy(scale_bits: int, level: int) -> None:
    parameters = insecure_parameters(ring_dim=1 << 12, depth=6, scale_bits=scale_bits)
    engine = open_desk("ckks", parameters=parameters).engine
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
    engine = open_desk("ckks", parameters=parameters).engine
    for level in (0, parameters.depth):
        size = len(engine.vector_to_bytes(engine.encrypt(np.ones(SLOTS), level=level)))
        entropy = entropy_bytes(parameters, level=level)
        assert entropy < size < 1.01 * entropy


def test_size_does_not_depend_on_the_values(desk: Desk) -> None:
    sizes = [
        len(desk.engine.vector_to_bytes(desk.engine.encrypt(factor * np.ones(SLOTS))))
        for factor in (0.0, 1.0, 1e3)
        for _ in range(3)
    ]
    assert max(sizes) - min(sizes) < 1e-3 * min(sizes)


# -- structure


def test_two_encryptions_of_one_shape_differ_in_residues_alone(desk: Desk) -> None:
    import openfhe as fhe

    from helba.engine.ckks.template import Template

    for level in range(insecure_small.depth + 1):
        templates = [
            Template.of(
                fhe.Serialize(desk.engine._encrypt(values, level), fhe.BINARY),
                ring_dim=insecure_small.ring_dim,
            )
            for values in (np.zeros(SLOTS), np.arange(SLOTS) / 3)
        ]
        assert templates[0] == templates[1]
        assert len(templates[0].moduli) == 2 * (insecure_small.depth + 1 - level)


def test_loaded_ciphertext_has_the_form_of_a_fresh_one(desk: Desk) -> None:
    import openfhe as fhe

    before = len(fhe.GetAllContexts())
    for level in range(insecure_small.depth + 1):
        fresh = desk.engine.encrypt(np.ones(SLOTS), level=level)
        loaded = desk.engine.vector_from_bytes(desk.engine.vector_to_bytes(fresh))
        ours, theirs = (vector._body.payload for vector in (loaded, fresh))
        for name in ("GetLevel", "GetNoiseScaleDeg", "GetSlots", "GetKeyTag", "GetScalingFactor"):
            assert getattr(ours, name)() == getattr(theirs, name)()
        assert ours.GetCryptoContext() == desk.engine._context
    assert len(fhe.GetAllContexts()) == before


def test_residue_at_its_modulus_is_refused(desk: Desk) -> None:
    from helba.engine.ckks.context import moduli_of, open_context

    moduli = moduli_of(open_context(insecure_small))
    data = desk.engine.vector_to_bytes(desk.engine.encrypt(np.ones(SLOTS), level=5))
    count = 4 * insecure_small.ring_dim
    for row, modulus in enumerate((moduli[0], moduli[1], moduli[0], moduli[1])):
        opened = open_sealed(data)
        words = unpack_words(memoryview(opened.payload), count=count).copy()
        place = row * insecure_small.ring_dim + 17
        words[place] = modulus - 1
        opened.payload = pack_words(words)
        desk.engine.vector_from_bytes(opened.seal())
        words[place] = modulus
        opened.payload = pack_words(words)
        with pytest.raises(DamagedData, match="not below its modulus"):
            desk.engine.vector_from_bytes(opened.seal())


def test_payload_that_unpacks_to_another_size_is_refused(desk: Desk) -> None:
    data = desk.engine.vector_to_bytes(desk.engine.encrypt(np.ones(SLOTS), level=5))
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
            desk.engine.vector_from_bytes(opened.seal())


# -- evaluation keys


def make_key(rotations: tuple[int, ...] = (1, 2)) -> tuple[Desk, bytes]:
    scheme = get_scheme("ckks")
    keys = scheme.generate_keys(insecure_small, rotations=rotations)
    engine = scheme.engine(keys.public, evaluation_key=keys.evaluation)
    return Desk(engine=engine, keys=keys), scheme.evaluation_key_to_bytes(keys.evaluation)


def load_key(data: bytes) -> EvaluationKey:
    return get_scheme("ckks").evaluation_key_from_bytes(data, parameters=insecure_small)


def held(tag: str) -> tuple[int, int]:
    """How many relinearisation and rotation keys OpenFHE holds for an owner."""
    import openfhe as fhe

    return (
        len(fhe.CryptoContext.GetAllEvalMultKeys().get(tag, [])),
        len(fhe.CryptoContext.GetExistingEvalAutomorphismKeyIndices(tag)),
    )


def test_evaluation_key_loaded_twice_stays_until_both_are_gone() -> None:
    desk, data = make_key()
    tag = desk.keys.public.tag
    copies = [load_key(data), load_key(data)]
    assert held(tag) == (1, 2)
    copies.pop()
    gc.collect()
    assert held(tag) == (1, 2)
    x = desk.engine.encrypt(np.arange(SLOTS))
    made = desk.open(desk.engine.rotate(desk.engine.multiply(x, x), 1))
    np.testing.assert_allclose(made, np.roll(np.arange(SLOTS) ** 2, -1), **CLOSE)
    del desk, x
    gc.collect()
    assert held(tag) == (1, 2)
    copies.clear()
    gc.collect()
    assert held(tag) == (0, 0)


def test_evaluation_key_of_one_owner_leaves_the_others_alone(desk: Desk) -> None:
    before = held(desk.keys.public.tag)
    other, data = make_key()
    tag = other.keys.public.tag
    del other
    gc.collect()
    assert held(tag) == (0, 0)
    key = load_key(data)
    assert held(tag) == (1, 2)
    assert held(desk.keys.public.tag) == before
    del key
    gc.collect()
    assert held(tag) == (0, 0)
    assert held(desk.keys.public.tag) == before == (1, 3)


def test_damaged_evaluation_key_leaves_nothing_behind() -> None:
    desk, data = make_key()
    tag = desk.keys.public.tag
    del desk
    gc.collect()
    opened = open_sealed(data)
    sizes, rest = [], opened.payload
    while rest:
        (size,) = struct.unpack_from("<Q", rest)
        sizes.append(8 + size)
        rest = rest[8 + size :]
    assert len(sizes) == 3
    for payload in (
        opened.payload[: sum(sizes[:2])],
        opened.payload + opened.payload[: sizes[0]],
        opened.payload[:-1],
        opened.payload + b"x",
        opened.payload[: sum(sizes[:2])] + struct.pack("<Q", 1 << 60),
        opened.payload[: sum(sizes[:2])] + struct.pack("<Q", 20) + bytes(20),
        b"",
    ):
        opened.payload = payload
        with pytest.raises(DamagedData):
            load_key(opened.seal())
        assert held(tag) == (0, 0)


def test_loading_does_not_replace_a_key_in_use() -> None:
    desk, _ = make_key()
    _, other = make_key()
    forged = open_sealed(other, tag=desk.keys.public.tag.encode()).seal()
    false_key = load_key(forged)
    assert false_key.tag == desk.keys.public.tag
    x = desk.engine.encrypt(np.arange(SLOTS))
    made = desk.open(desk.engine.rotate(desk.engine.multiply(x, x), 1))
    np.testing.assert_allclose(made, np.roll(np.arange(SLOTS) ** 2, -1), **CLOSE)


@pytest.mark.parametrize("tag", [b"simulated-00", b"0" * 31, b"0" * 33, b"z" * 32])
def test_key_with_a_false_tag_is_refused(desk: Desk, tag: bytes) -> None:
    scheme = get_scheme("ckks")
    public = open_sealed(scheme.public_key_to_bytes(desk.keys.public), tag=tag).seal()
    with pytest.raises(DamagedData, match="tag"):
        scheme.public_key_from_bytes(public, allow_insecure=True)
    evaluation = open_sealed(scheme.evaluation_key_to_bytes(desk.keys.evaluation), tag=tag).seal()
    with pytest.raises(DamagedData, match="tag"):
        scheme.evaluation_key_from_bytes(evaluation, allow_insecure=True)


def test_evaluation_key_that_openfhe_lost_is_not_written() -> None:
    from helba.engine.ckks.ownership import forget_keys

    desk, _ = make_key()
    forget_keys(desk.keys.public.tag)
    with pytest.raises(MissingKey):
        get_scheme("ckks").evaluation_key_to_bytes(desk.keys.evaluation)


def test_keys_made_as_samples_leave_nothing_in_the_maps() -> None:
    import openfhe as fhe

    scheme = get_scheme("ckks")
    keys = scheme.generate_keys(insecure_parameters(ring_dim=1 << 10, depth=3), rotations=(1,))
    owners = set(fhe.CryptoContext.GetAllEvalAutomorphismKeys())
    assert keys.public.tag in owners
    scheme.evaluation_key_to_bytes(keys.evaluation)
    assert set(fhe.CryptoContext.GetAllEvalAutomorphismKeys()) == owners


@pytest.mark.slow
def test_bootstrapping_keys_survive() -> None:
    scheme = get_scheme("ckks")
    parameters = insecure_parameters(
        ring_dim=1 << 10, depth=18, scale_bits=50, digits=4, secret="sparse"
    )
    keys = scheme.generate_keys(parameters, rotations=(1,), bootstrap_slots=SLOTS)
    data = scheme.evaluation_key_to_bytes(keys.evaluation)
    public, secret = keys.public, keys.secret
    del keys
    gc.collect()
    assert held(public.tag) == (0, 0)
    key = scheme.evaluation_key_from_bytes(data, parameters=parameters)
    assert key.bootstrap_slots == SLOTS
    engine = scheme.engine(public, evaluation_key=key)
    x = np.linspace(-1, 1, SLOTS)
    fresh = engine.rotate(engine.bootstrap(engine.encrypt(x, level=parameters.depth - 1)), 1)
    assert fresh.levels_left > 1
    np.testing.assert_allclose(
        engine.decrypt(fresh, secret_key=secret), np.roll(x, -1), rtol=0, atol=1e-3
    )
