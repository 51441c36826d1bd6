"""Vectors, refresh messages and keys as bytes: what both schemes promise."""

from __future__ import annotations

import gc
import json

import numpy as np
import pytest

from helba.errors import DamagedData, WrongVector
from helba.reference.engine import EncryptedVector, get_scheme
from helba.reference.engine.wire.envelope import FORMAT_VERSION, HEADER
from helba.reference.planning.parameters import Parameters, insecure_parameters
from tests.engines import BOTH, Keyed, open_keyed
from tests.reference.engine.tampering import open_sealed

insecure_small = insecure_parameters(ring_dim=1 << 11, depth=6, scale_bits=45)
SLOTS = 8
CLOSE = {"rtol": 0.0, "atol": 1e-8}

pytestmark = pytest.mark.parametrize("scheme", BOTH)


@pytest.fixture
def keyed(scheme: str) -> Keyed:
    return open_keyed(scheme, parameters=insecure_small, rotations=(1, 2, 3))


def numbers(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, SLOTS)


def again(keyed: Keyed, vector: EncryptedVector) -> EncryptedVector:
    """The vector after a journey as bytes, checked for its shape."""
    data = keyed.engine.vector_to_bytes(vector)
    return keyed.engine.vector_from_bytes(data, slots=vector.slots, level=vector.level)


# -- vectors


def test_fresh_vector_survives_at_every_level(keyed: Keyed) -> None:
    for level in range(insecure_small.depth + 1):
        loaded = again(keyed, keyed.engine.encrypt(numbers(level), level=level))
        assert (loaded.level, loaded.slots) == (level, SLOTS)
        np.testing.assert_allclose(keyed.open(loaded), numbers(level), **CLOSE)


@pytest.mark.parametrize("slots", [1, 2, 64, insecure_small.max_slots])
def test_vector_of_any_slots_survives(keyed: Keyed, slots: int) -> None:
    x = np.random.default_rng(slots).uniform(-2, 2, slots)
    np.testing.assert_allclose(keyed.open(again(keyed, keyed.engine.encrypt(x))), x, **CLOSE)


def test_computed_vectors_survive(keyed: Keyed) -> None:
    engine, x, y = keyed.engine, numbers(1), numbers(2)
    a, b = engine.encrypt(x), engine.encrypt(y)
    product = engine.multiply(a, b)
    made = {
        "pending product": (product, x * y),
        "rotation": (engine.rotate(a, 3), np.roll(x, -3)),
        "hoisted rotation": (engine.rotate_many(product, [1, 2])[1], np.roll(x * y, -2)),
        "sum of rotations": (
            engine.sum_rotations(product, [0, 1, 2]),
            sum(np.roll(x * y, -k) for k in range(3)),
        ),
        "combination": (engine.combine([(a, 0.3), (product, -2.0)]), 0.3 * x - 2 * x * y),
        "plain": (engine.add_plain(engine.multiply_plain(a, y), x), x * y + x),
        "lower": (engine.lower(a, 5), x),
        "repeat": (engine.repeat(a, 2 * SLOTS), np.tile(x, 2)),
        "refresh": (engine.refresh(engine.lower(a, 3), secret_key=keyed.keys.secret), x),
    }
    for name, (vector, expected) in made.items():
        loaded = again(keyed, vector)
        np.testing.assert_allclose(keyed.open(loaded), expected, **CLOSE, err_msg=name)


def test_loaded_vector_computes_like_the_original(keyed: Keyed) -> None:
    engine, x = keyed.engine, numbers(3)
    loaded = again(keyed, engine.multiply(engine.encrypt(x), engine.encrypt(x)))
    made = engine.rotate(engine.multiply(loaded, again(keyed, engine.encrypt(x))), 2)
    assert made.level == 2
    np.testing.assert_allclose(keyed.open(made), np.roll(x**3, -2), **CLOSE)


def test_writing_twice_gives_the_same_bytes(keyed: Keyed) -> None:
    vector = keyed.engine.encrypt(numbers())
    data = keyed.engine.vector_to_bytes(vector)
    assert keyed.engine.vector_to_bytes(vector) == data
    assert keyed.engine.vector_to_bytes(keyed.engine.vector_from_bytes(data)) == data
    assert keyed.engine.vector_to_bytes(keyed.engine.vector_from_bytes(memoryview(data))) == data


def test_buffers_of_any_layout_are_read(keyed: Keyed) -> None:
    vector = keyed.engine.encrypt(numbers())
    data = keyed.engine.vector_to_bytes(vector)
    spread = np.repeat(np.frombuffer(data, dtype=np.uint8), 2)
    words = np.frombuffer(data + bytes(-len(data) % 8), dtype=">u8")
    for strided in (memoryview(spread)[::2], bytearray(data)):
        loaded = keyed.engine.vector_from_bytes(strided)
        np.testing.assert_allclose(keyed.open(loaded), numbers(), **CLOSE)
    for wrong in (memoryview(data)[::2], memoryview(data)[::-1], memoryview(words)[:-1]):
        with pytest.raises(DamagedData):
            keyed.engine.vector_from_bytes(wrong)


def test_shape_other_than_expected_is_refused(keyed: Keyed) -> None:
    data = keyed.engine.vector_to_bytes(keyed.engine.encrypt(numbers(), level=2))
    with pytest.raises(DamagedData, match="has 8 slots instead of 4"):
        keyed.engine.vector_from_bytes(data, slots=4)
    with pytest.raises(DamagedData, match="at level 2 instead of 1"):
        keyed.engine.vector_from_bytes(data, level=1)


def test_vector_of_another_key_is_neither_written_nor_read(keyed: Keyed, scheme: str) -> None:
    keys = get_scheme(scheme).generate_keys(insecure_small)
    other = get_scheme(scheme).engine(keys.public)
    vector = other.encrypt(numbers())
    with pytest.raises(WrongVector):
        keyed.engine.vector_to_bytes(vector)
    with pytest.raises(DamagedData, match="another key"):
        keyed.engine.vector_from_bytes(other.vector_to_bytes(vector))


def test_vector_of_other_parameters_is_refused(keyed: Keyed, scheme: str) -> None:
    other = open_keyed(scheme, parameters=insecure_parameters(ring_dim=1 << 11, depth=5))
    data = other.engine.vector_to_bytes(other.engine.encrypt(numbers()))
    with pytest.raises(DamagedData, match="other parameters"):
        keyed.engine.vector_from_bytes(data)


def test_any_flipped_bit_is_noticed(keyed: Keyed) -> None:
    data = keyed.engine.vector_to_bytes(keyed.engine.encrypt(numbers(), level=6))
    places = np.random.default_rng(0).integers(0, 8 * len(data), 50)
    for place in [*range(0, 8 * HEADER.size, 7), *places]:
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << (place % 8)
        with pytest.raises(DamagedData):
            keyed.engine.vector_from_bytes(bytes(damaged))


def test_errors_of_damaged_data_are_one_line(keyed: Keyed) -> None:
    data = keyed.engine.vector_to_bytes(keyed.engine.encrypt(numbers()))
    for damaged in (b"", data[:50], data[:-1], data + b"x", b"x" + data, bytes(len(data))):
        with pytest.raises(DamagedData) as raised:
            keyed.engine.vector_from_bytes(damaged)
        assert len(str(raised.value)) < 100
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("library", [b"openfhe 1.5.0", b"openfhe 1.6.2", b"simulator 2"])
def test_bytes_of_another_version_are_refused(keyed: Keyed, library: bytes) -> None:
    data = keyed.engine.vector_to_bytes(keyed.engine.encrypt(numbers()))
    with pytest.raises(DamagedData, match=f"was written by {library.decode()}; this is"):
        keyed.engine.vector_from_bytes(open_sealed(data, library=library).seal())
    other = FORMAT_VERSION + 1
    with pytest.raises(DamagedData, match=f"format version {other}"):
        keyed.engine.vector_from_bytes(open_sealed(data, version=other).seal())


# -- refresh


def test_refresh_works_over_bytes(keyed: Keyed) -> None:
    engine, x = keyed.engine, numbers(4)
    request, pending = engine.begin_refresh(engine.encrypt(x, level=3))
    asked = engine.request_from_bytes(engine.request_to_bytes(request), slots=SLOTS)
    reply = engine.answer_refresh(asked, secret_key=keyed.keys.secret)
    got = engine.reply_from_bytes(engine.reply_to_bytes(reply), slots=SLOTS)
    fresh = engine.finish_refresh(got, pending)
    assert fresh.level == 0
    np.testing.assert_allclose(keyed.open(fresh), x, **CLOSE)


def test_messages_of_one_kind_are_not_read_as_another(keyed: Keyed) -> None:
    engine = keyed.engine
    request, _ = engine.begin_refresh(engine.encrypt(numbers()))
    reply = engine.answer_refresh(request, secret_key=keyed.keys.secret)
    written = {
        "vector": engine.vector_to_bytes(engine.encrypt(numbers())),
        "refresh request": engine.request_to_bytes(request),
        "refresh reply": engine.reply_to_bytes(reply),
    }
    readers = {
        "vector": engine.vector_from_bytes,
        "refresh request": engine.request_from_bytes,
        "refresh reply": engine.reply_from_bytes,
    }
    for kind, data in written.items():
        for other, read in readers.items():
            if other != kind:
                with pytest.raises(DamagedData, match=f"no {other}"):
                    read(data)


def test_vector_as_large_as_a_request_is_not_taken_for_one(keyed: Keyed) -> None:
    level = insecure_small.depth - 1
    data = keyed.engine.vector_to_bytes(keyed.engine.encrypt(numbers(), level=level))
    with pytest.raises(DamagedData, match="detail"):
        keyed.engine.request_from_bytes(open_sealed(data, kind=1).seal())
    opened = open_sealed(data, kind=1, level=3)
    opened.detail = bytes(16)
    with pytest.raises(DamagedData, match="level 3 instead of 5"):
        keyed.engine.request_from_bytes(opened.seal())


def test_id_of_a_refresh_survives_and_tells_replies_apart(keyed: Keyed) -> None:
    engine = keyed.engine
    vectors = [engine.encrypt(numbers(seed)) for seed in (1, 2)]
    (request, pending), (other, other_pending) = (engine.begin_refresh(v) for v in vectors)
    asked = engine.request_from_bytes(engine.request_to_bytes(request))
    assert asked.id == request.id == pending.id != other.id
    reply = engine.answer_refresh(asked, secret_key=keyed.keys.secret)
    got = engine.reply_from_bytes(engine.reply_to_bytes(reply))
    assert got.id == request.id
    with pytest.raises(WrongVector, match="another refresh"):
        engine.finish_refresh(got, other_pending)
    np.testing.assert_allclose(keyed.open(engine.finish_refresh(got, pending)), numbers(1), **CLOSE)


@pytest.mark.parametrize("size", [0, 15, 17])
def test_refresh_without_an_id_is_refused(keyed: Keyed, size: int) -> None:
    engine = keyed.engine
    request, _ = engine.begin_refresh(engine.encrypt(numbers()))
    reply = engine.answer_refresh(request, secret_key=keyed.keys.secret)
    for data, read in (
        (engine.request_to_bytes(request), engine.request_from_bytes),
        (engine.reply_to_bytes(reply), engine.reply_from_bytes),
    ):
        opened = open_sealed(data)
        opened.detail = bytes(size)
        with pytest.raises(DamagedData, match="detail"):
            read(opened.seal())


# -- keys


def test_keys_survive_and_work_in_place_of_the_originals(scheme: str) -> None:
    chosen, x = get_scheme(scheme), numbers(5)
    keys = chosen.generate_keys(insecure_small, rotations=(1, 5))
    vector = chosen.engine(keys.public).encrypt(x)
    data = chosen.engine(keys.public).vector_to_bytes(vector)
    written = (
        chosen.public_key_to_bytes(keys.public),
        chosen.evaluation_key_to_bytes(keys.evaluation),
        chosen.secret_key_to_bytes(keys.secret),
    )
    del keys, vector
    gc.collect()
    public = chosen.public_key_from_bytes(written[0], allow_insecure=True)
    evaluation = chosen.evaluation_key_from_bytes(written[1], parameters=insecure_small)
    secret = chosen.secret_key_from_bytes(written[2], allow_insecure=True)
    assert evaluation.rotations == {1, 5}
    assert public.parameters == evaluation.parameters == secret.parameters == insecure_small
    engine = chosen.engine(public, evaluation_key=evaluation)
    loaded = engine.vector_from_bytes(data)
    made = engine.rotate(engine.multiply(loaded, engine.encrypt(x)), 5)
    np.testing.assert_allclose(engine.decrypt(made, secret_key=secret), np.roll(x * x, -5), **CLOSE)
    assert chosen.evaluation_key_to_bytes(evaluation) == written[1]


def test_key_without_security_needs_a_word_of_the_caller(keyed: Keyed, scheme: str) -> None:
    chosen = get_scheme(scheme)
    data = chosen.public_key_to_bytes(keyed.keys.public)
    with pytest.raises(DamagedData, match="no security"):
        chosen.public_key_from_bytes(data)
    other = insecure_parameters(ring_dim=1 << 11, depth=5)
    with pytest.raises(DamagedData, match="other parameters"):
        chosen.public_key_from_bytes(data, parameters=other)
    assert (
        chosen.public_key_from_bytes(data, parameters=insecure_small).tag == keyed.keys.public.tag
    )


def test_parameters_that_claim_too_much_are_refused(keyed: Keyed, scheme: str) -> None:
    chosen = get_scheme(scheme)
    opened = open_sealed(chosen.public_key_to_bytes(keyed.keys.public))
    document = json.loads(opened.detail)
    fields = document["parameters"]
    for change in (
        {"security": 128},
        {"security": 128, "ring_dim": 1 << 13},
        {"ring_dim": 1 << 40},
        {"ring_dim": 3000},
        {"depth": 10**9},
        {"depth": -1},
        {"depth": 0, "digits": 0},
        {"scale_bits": 10**400},
        {"depth": 6.0},
        {"secret": "none"},
        {"more": 1},
    ):
        changed = {**document, "parameters": {**fields, **change}}
        opened.detail = json.dumps(changed, separators=(",", ":"), sort_keys=True).encode()
        with pytest.raises(DamagedData, match="admissible"):
            chosen.public_key_from_bytes(opened.seal(), allow_insecure=True)


@pytest.mark.parametrize("error", [ZeroDivisionError, OverflowError, AttributeError, IndexError])
def test_parameters_that_break_their_own_check_are_refused(
    keyed: Keyed, scheme: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    from helba.reference.engine.wire import description

    def fail(**_: object) -> Parameters:
        raise error

    data = get_scheme(scheme).public_key_to_bytes(keyed.keys.public)
    monkeypatch.setattr(description, "insecure_parameters", fail)
    with pytest.raises(DamagedData, match="admissible"):
        get_scheme(scheme).public_key_from_bytes(data, allow_insecure=True)


@pytest.mark.parametrize("identity", [None, 7, "x", "0" * 63, "0" * 65, "A" * 64, ["0" * 64]])
def test_identity_of_another_form_is_refused(keyed: Keyed, scheme: str, identity: object) -> None:
    opened = open_sealed(get_scheme(scheme).public_key_to_bytes(keyed.keys.public))
    document = {**json.loads(opened.detail), "identity": identity}
    opened.detail = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
    with pytest.raises(DamagedData, match="admissible"):
        get_scheme(scheme).public_key_from_bytes(opened.seal(), allow_insecure=True)


def test_public_key_is_the_one_that_it_names(keyed: Keyed, scheme: str) -> None:
    opened = open_sealed(get_scheme(scheme).public_key_to_bytes(keyed.keys.public))
    document = {**json.loads(opened.detail), "identity": "0" * 64}
    opened.detail = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
    with pytest.raises(DamagedData, match="not the one that it names"):
        get_scheme(scheme).public_key_from_bytes(opened.seal(), allow_insecure=True)


def test_evaluation_key_other_than_expected_is_refused(keyed: Keyed, scheme: str) -> None:
    chosen = get_scheme(scheme)
    data = chosen.evaluation_key_to_bytes(keyed.keys.evaluation)
    for rotations in ((), (1, 2), (1, 2, 3, 4)):
        with pytest.raises(DamagedData, match="other rotations"):
            chosen.evaluation_key_from_bytes(data, parameters=insecure_small, rotations=rotations)
    with pytest.raises(DamagedData, match="other slots"):
        chosen.evaluation_key_from_bytes(data, parameters=insecure_small, bootstrap_slots=8)
    key = chosen.evaluation_key_from_bytes(
        data, parameters=insecure_small, rotations=[3, 2, 1, 1], bootstrap_slots=0
    )
    assert key.rotations == {1, 2, 3}


@pytest.mark.parametrize(
    "detail", [b"", b"[]", b"null", b"[" * 50_000, b"\xff\xfe", b'{"parameters": 1}']
)
def test_description_that_is_none_is_refused(keyed: Keyed, scheme: str, detail: bytes) -> None:
    opened = open_sealed(get_scheme(scheme).public_key_to_bytes(keyed.keys.public))
    opened.detail = detail
    with pytest.raises(DamagedData, match="admissible"):
        get_scheme(scheme).public_key_from_bytes(opened.seal(), allow_insecure=True)


def test_keys_are_not_read_as_one_another(keyed: Keyed, scheme: str) -> None:
    chosen = get_scheme(scheme)
    public = chosen.public_key_to_bytes(keyed.keys.public)
    evaluation = chosen.evaluation_key_to_bytes(keyed.keys.evaluation)
    for data in (public, evaluation):
        with pytest.raises(DamagedData, match="no secret key"):
            chosen.secret_key_from_bytes(data, allow_insecure=True)
    with pytest.raises(DamagedData, match="no public key"):
        chosen.public_key_from_bytes(evaluation, allow_insecure=True)


def test_key_of_full_security_opens_without_a_word(scheme: str) -> None:
    chosen = get_scheme(scheme)
    parameters = Parameters(ring_dim=1 << 14, depth=2, scale_bits=40, digits=3, security=128)
    keys = chosen.generate_keys(parameters)
    public = chosen.public_key_from_bytes(chosen.public_key_to_bytes(keys.public))
    assert public.parameters == parameters
    engine = chosen.engine(public)
    made = engine.decrypt(engine.encrypt([1.0, 2.0]), secret_key=keys.secret)
    np.testing.assert_allclose(made, [1.0, 2.0], rtol=0, atol=1e-6)


@pytest.mark.ckks
def test_schemes_do_not_read_each_other(keyed: Keyed, scheme: str) -> None:
    other = "ckks" if scheme == "simulate" else "simulate"
    stranger = open_keyed(other, parameters=insecure_small)
    data = stranger.engine.vector_to_bytes(stranger.engine.encrypt(numbers()))
    with pytest.raises(DamagedData, match=f"belongs to the scheme {other}"):
        keyed.engine.vector_from_bytes(data)
    key = get_scheme(other).public_key_to_bytes(stranger.keys.public)
    with pytest.raises(DamagedData, match=f"belongs to the scheme {other}"):
        get_scheme(scheme).public_key_from_bytes(key, allow_insecure=True)
    renamed = open_sealed(key, scheme=scheme.encode(), library=keyed.engine.library.encode())
    with pytest.raises(DamagedData):
        get_scheme(scheme).public_key_from_bytes(renamed.seal(), allow_insecure=True)
    with pytest.raises(WrongVector):
        get_scheme(scheme).public_key_to_bytes(stranger.keys.public)
