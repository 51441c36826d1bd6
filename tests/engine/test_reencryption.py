"""Re-encryption: the value arrives, only the recipient reads it, and what its keys look like."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from helba.engine import EncryptedVector, Engine, KeyPair, Scheme, SecretKey, get_scheme
from helba.engine.keys import Recipient, ReencryptionKey
from helba.engine.packing import pack_words, unpack_words
from helba.errors import (
    DamagedData,
    EngineError,
    InvalidInput,
    MissingKey,
    WrongVector,
)
from helba.planning.noise import NoiseModel
from helba.planning.parameters import Parameters, insecure_parameters
from tests.engine.keeping import describe
from tests.engine.reading import read_polynomial, read_residues
from tests.engine.tampering import open_sealed
from tests.engines import BOTH, Desk, open_desk

insecure_small = insecure_parameters(ring_dim=1 << 10, depth=5, scale_bits=40)
insecure_other = insecure_parameters(ring_dim=1 << 10, depth=4, scale_bits=40)
# P is 8 bits longer than the largest digit: the errors of a key made with a public key show
insecure_tight = insecure_parameters(ring_dim=1 << 11, depth=5, scale_bits=56, digits=2)
toy_plan = Parameters(ring_dim=1 << 15, depth=15, scale_bits=38, digits=4, security=128)
SLOTS = 8


@dataclass(frozen=True)
class Parties:
    """The collective with all its keys, and a user."""

    scheme: Scheme
    collective: Desk
    user: KeyPair
    user_engine: Engine

    def way_out(self, *, level: int = 0) -> ReencryptionKey:
        """From the collective to the user."""
        return self.scheme.make_reencryption_key(
            self.collective.keys.secret, recipient=self.user.public, level=level
        )

    def way_in(self, *, level: int = 0) -> ReencryptionKey:
        """From the user to the collective."""
        return self.scheme.make_reencryption_key(
            self.user.secret, recipient=self.collective.keys.public, level=level
        )

    def read(self, vector: EncryptedVector) -> NDArray[np.float64]:
        return self.user_engine.decrypt(vector, secret_key=self.user.secret)


def meet(name: str, parameters: Parameters = insecure_small) -> Parties:
    scheme = get_scheme(name)
    user = scheme.generate_pair(parameters)
    desk = open_desk(name, parameters=parameters, rotations=(1,))
    return Parties(scheme, desk, user, scheme.engine(user.public))


@pytest.fixture(params=BOTH)
def parties(request: pytest.FixtureRequest) -> Parties:
    return meet(request.param)


def numbers(slots: int = SLOTS, *, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(-3, 3, slots)


def close(level: int, *, slots: int = SLOTS, parameters: Parameters = insecure_small) -> float:
    """Encryption, re-encryption, and the noise that OpenFHE's decryption adds of their size."""
    model = NoiseModel(parameters)
    return 2.0 * (model.encryption(slots) + model.reencryption(slots, level=level)) + 1e-12


# -- the value and who reads it


@pytest.mark.parametrize("slots", [1, 8, 512])
@pytest.mark.parametrize("level", range(insecure_small.depth + 1))
def test_value_arrives_under_the_recipients_key(parties: Parties, level: int, slots: int) -> None:
    engine, x = parties.collective.engine, numbers(slots)
    sent = engine.reencrypt(engine.encrypt(x, level=level), key=parties.way_out())
    assert (sent.tag, sent.level, sent.slots) == (parties.user.public.tag, level, slots)
    assert np.abs(parties.read(sent) - x).max() <= close(level, slots=slots)


def test_only_the_recipient_takes_it_and_reads_it(parties: Parties) -> None:
    engine, secret = parties.collective.engine, parties.collective.keys.secret
    sent = engine.reencrypt(engine.encrypt(numbers()), key=parties.way_out())
    with pytest.raises(WrongVector):
        engine.decrypt(sent, secret_key=secret)
    with pytest.raises(WrongVector):
        engine.add(sent, sent)
    with pytest.raises(WrongVector):
        engine.vector_to_bytes(sent)
    with pytest.raises(WrongVector):
        parties.user_engine.decrypt(sent, secret_key=secret)
    with pytest.raises(WrongVector):
        parties.user_engine.add(sent, engine.encrypt(numbers()))


@pytest.mark.ckks
@pytest.mark.parametrize("level", [0, insecure_small.depth])
def test_key_of_the_sender_finds_noise_in_it(level: int) -> None:
    parties = meet("ckks")
    engine, user = parties.collective.engine, parties.user
    sent = engine.reencrypt(engine.encrypt(numbers(), level=level), key=parties.way_out())
    forged = SecretKey(
        parameters=insecure_small,
        tag=user.secret.tag,
        identity=user.secret.identity,
        payload=parties.collective.keys.secret._payload,
    )
    with pytest.raises(EngineError):
        parties.user_engine.decrypt(sent, secret_key=forged)
    found = read_polynomial(parties.user_engine, sent, secret_key=forged)
    half = 2.0 ** (insecure_small.first_bits - 1)
    assert stats.kstest(found / half, "uniform", args=(-1, 2)).pvalue > 1e-4
    own = read_polynomial(parties.user_engine, sent, secret_key=user.secret)
    assert np.abs(own).max() < 2.0**-10 * half


def test_bytes_travel_to_the_recipient(parties: Parties) -> None:
    engine, x = parties.collective.engine, numbers()
    sent = engine.reencrypt(engine.encrypt(x, level=2), key=parties.way_out())
    # the server writes it as an engine of the recipient's public key, and has no other key
    writer = parties.scheme.engine(parties.user.public)
    got = parties.user_engine.vector_from_bytes(writer.vector_to_bytes(sent))
    assert np.abs(parties.read(got) - x).max() <= close(2)


def test_sums_and_products_go_on_under_the_recipients_engine(parties: Parties) -> None:
    x, y = numbers(seed=1), numbers(seed=2)
    way, server = parties.way_in(), parties.scheme.engine(parties.user.public)
    desk = parties.collective
    came = [server.reencrypt(server.encrypt(each), key=way) for each in (x, y)]
    own = desk.engine.encrypt(x)
    total = desk.engine.add(desk.engine.add(*came), own)
    assert np.abs(desk.open(total) - (2 * x + y)).max() <= 3 * close(0)
    product = desk.engine.rotate(desk.engine.multiply(came[0], came[1]), 1)
    np.testing.assert_allclose(desk.open(product), np.roll(x * y, -1), rtol=0, atol=1e-5)


def test_pending_product_is_settled_first_and_all_is_counted(parties: Parties) -> None:
    engine, x = parties.collective.engine, numbers()
    pending = engine.multiply(engine.encrypt(x), engine.encrypt(x))
    with engine.count() as done:
        sent = engine.reencrypt(pending, key=parties.way_out(level=1))
    assert sent.level == 1
    assert done.operations["reencrypt", 1] == done.of("reencrypt") == done.of("rescale") == 1
    np.testing.assert_allclose(parties.read(sent), x * x, rtol=0, atol=1e-6)
    with engine.count() as again:
        engine.reencrypt(pending, key=parties.way_out())
    assert again.operations == {("reencrypt", 1): 1}


@pytest.mark.ckks
def test_simulator_bounds_the_error() -> None:
    real, simulated = meet("ckks"), meet("simulate")
    for level in (0, 3, insecure_small.depth):
        found = []
        for parties in (real, simulated):
            engine = parties.collective.engine
            vector = engine.encrypt(numbers(), level=level)
            found.append(engine.reencrypt(vector, key=parties.way_out()))
        error = np.abs(real.read(found[0]) - simulated.read(found[1])).max()
        assert error <= simulated.user_engine.noise_bound(found[1])  # type: ignore[attr-defined]


# -- what is refused


def test_levels_before_the_keys_own_are_refused(parties: Parties) -> None:
    engine, way = parties.collective.engine, parties.way_out(level=3)
    for level in range(3):
        with pytest.raises(MissingKey, match="serves level 3 and later"):
            engine.reencrypt(engine.encrypt(numbers(), level=level), key=way)
    for level in range(3, insecure_small.depth + 1):
        sent = engine.reencrypt(engine.encrypt(numbers(), level=level), key=way)
        assert np.abs(parties.read(sent) - numbers()).max() <= close(level)


def test_keys_of_others_are_refused(parties: Parties) -> None:
    engine, scheme = parties.collective.engine, parties.scheme
    vector = engine.encrypt(numbers())
    with pytest.raises(WrongVector, match="another owner"):
        engine.reencrypt(vector, key=parties.way_in())
    with pytest.raises(WrongVector):
        parties.user_engine.reencrypt(vector, key=parties.way_in())
    foreign = [scheme.generate_pair(insecure_other) for _ in range(2)]
    way = scheme.make_reencryption_key(foreign[0].secret, recipient=foreign[1].public)
    with pytest.raises(WrongVector, match="another owner"):
        engine.reencrypt(vector, key=way)
    stranger = scheme.generate_pair(insecure_small)
    with pytest.raises(WrongVector, match="leads to another"):
        Recipient(key=parties.way_out(), public_key=stranger.public)
    with pytest.raises(WrongVector, match="leads to another"):
        Recipient(key=parties.way_in(), public_key=parties.user.public)
    Recipient(key=parties.way_out(), public_key=parties.user.public)


def test_keys_that_lead_nowhere_are_not_made(parties: Parties) -> None:
    make, secret = parties.scheme.make_reencryption_key, parties.user.secret
    for recipient in (parties.user.public, parties.user.secret):
        with pytest.raises(WrongVector, match="somebody else"):
            make(secret, recipient=recipient)
    with pytest.raises(WrongVector, match="different parameters"):
        make(secret, recipient=parties.scheme.generate_pair(insecure_other).public)
    for level in (-1, insecure_small.depth + 1):
        with pytest.raises(InvalidInput, match="level"):
            make(secret, recipient=parties.collective.keys.public, level=level)


@pytest.mark.ckks
def test_keys_of_another_scheme_are_refused() -> None:
    real, simulated = meet("ckks"), meet("simulate")
    with pytest.raises(WrongVector):
        real.scheme.make_reencryption_key(real.user.secret, recipient=simulated.user.public)
    with pytest.raises(WrongVector):
        real.scheme.reencryption_key_to_bytes(simulated.way_in())
    with pytest.raises(WrongVector):
        simulated.scheme.reencryption_key_to_bytes(real.way_in())
    with pytest.raises(WrongVector):
        real.collective.engine.reencrypt(
            real.collective.engine.encrypt(numbers()), key=simulated.way_out()
        )


# -- noise


def added(parties: Parties, key: ReencryptionKey, *, level: int, count: int) -> NDArray[np.float64]:
    """What re-encryptions add to every coefficient."""
    parameters = parties.user.public.parameters
    to = parties.collective
    server, found = parties.scheme.engine(parties.user.public), []
    for _ in range(count):
        vector = server.encrypt(np.zeros(parameters.max_slots), level=level)
        before = read_polynomial(server, vector, secret_key=parties.user.secret)
        moved = server.reencrypt(vector, key=key)
        found.append(read_polynomial(to.engine, moved, secret_key=to.keys.secret) - before)
    return np.array(found)


def in_slots(coefficients: NDArray[np.float64], *, slots: int, scale: float) -> NDArray[np.float64]:
    from helba.engine.ckks.share import decode_coefficients

    gap = coefficients.shape[1] // (2 * slots)
    rows = np.ascontiguousarray(coefficients[:, ::gap])
    return np.array([decode_coefficients(row, scale=scale) for row in rows])


@pytest.mark.ckks
@pytest.mark.parametrize("parameters", [insecure_small, insecure_tight], ids=["small", "tight"])
@pytest.mark.parametrize("public", [True, False])
def test_errors_are_those_of_the_noise_model(parameters: Parameters, public: bool) -> None:
    parties, model = meet("ckks", parameters), NoiseModel(parameters)
    keys = parties.collective.keys
    key = parties.scheme.make_reencryption_key(
        parties.user.secret, recipient=keys.public if public else keys.secret
    )
    for level in (0, parameters.depth // 2, parameters.depth):
        errors = added(parties, key, level=level, count=6)
        for slots in (SLOTS, parameters.max_slots):
            seen = in_slots(errors, slots=slots, scale=2.0**parameters.scale_bits)
            bound = model.reencryption(slots, level=level, public=public)
            assert np.abs(seen).max() <= bound
            assert np.abs(seen).max() >= 0.005 * bound
        if level == parameters.depth:  # the division alone: eight deviations, somewhat too large
            assert 0.3 * bound <= 8.0 * seen.std() <= 0.8 * bound


@pytest.mark.ckks
def test_mean_of_the_digits_peaks_in_the_first_slot() -> None:
    parties = meet("ckks", insecure_tight)
    model, slots = NoiseModel(insecure_tight), insecure_tight.max_slots
    found = []
    for _ in range(4):
        errors = added(parties, parties.way_in(), level=0, count=2)
        found.append(in_slots(errors, slots=slots, scale=2.0**insecure_tight.scale_bits))
    seen = max(found, key=lambda each: float(np.abs(each[:, 0]).max()))
    peak = np.abs(seen[:, 0]).max()
    # the same in every re-encryption with one key, and far above the other slots
    assert abs(seen[0, 0] - seen[1, 0]) < 0.5 * peak
    assert 5.0 * seen[:, 10:-10].std() < peak <= model.reencryption(slots, level=0)


@pytest.mark.ckks
def test_key_made_of_two_secret_keys_errs_less() -> None:
    parties = meet("ckks", insecure_tight)
    of_two = parties.scheme.make_reencryption_key(
        parties.user.secret, recipient=parties.collective.keys.secret
    )
    model = NoiseModel(insecure_tight)
    of_secret = added(parties, of_two, level=0, count=3).std()
    of_public = [added(parties, parties.way_in(), level=0, count=1).std() for _ in range(8)]
    assert of_secret < 0.8 * np.mean(of_public)
    for level in range(insecure_tight.depth + 1):
        few, many = (
            model.reencryption(SLOTS, level=level, public=public) for public in (False, True)
        )
        assert few <= many


@pytest.mark.ckks
@pytest.mark.parametrize(
    ("ring_dim", "scale_bits", "width", "digits"),
    [(1 << 10, 37, 9, 3), (1 << 13, 44, 5, 1), (1 << 10, 40, 2, 3), (1 << 11, 56, 3, 2)],
)
def test_noise_model_never_takes_p_for_longer_than_it_is(
    ring_dim: int, scale_bits: int, width: int, digits: int
) -> None:
    from helba.engine.ckks.context import open_context
    from helba.engine.ckks.evaluation import switching_template

    parameters = insecure_parameters(
        ring_dim=ring_dim, depth=width * digits - 1, scale_bits=scale_bits, digits=digits
    )
    open_context(parameters)
    rows = switching_template(parameters).moduli
    towers = len(rows) // (2 * digits)
    log2_p = sum(math.log2(prime) for prime in rows[parameters.depth + 1 : towers])
    largest = parameters.first_bits + (width - 1) * scale_bits
    assert NoiseModel(parameters)._digits(0)[2] >= 2.0 ** (largest - log2_p - 1e-6)


def test_errors_of_the_key_do_not_show_at_the_last_level() -> None:
    model = NoiseModel(toy_plan)
    traces = [model.reencryption_trace(level=level) for level in range(toy_plan.depth + 1)]
    assert traces == sorted(traces, reverse=True)
    assert traces[-1] < 2.0**-80
    assert traces[-2] < 2.0**-40
    assert traces[-3] > 2.0**-10  # three primes left are too many


def divide(
    errors: list[NDArray[np.float64]], secret: NDArray[np.float64], *, draws: int
) -> NDArray[np.float64]:
    """What OpenFHE's division by P rounds off, as fractions of its primes; see `engine.leaving`."""
    random, degree = np.random.default_rng(0), len(secret)
    twist = np.exp(1j * np.pi * np.arange(degree) / degree)
    values, total = np.fft.fft(secret * twist), np.zeros((draws, degree))
    for error in errors:
        product = np.fft.ifft(np.fft.fft(random.random((draws, degree)) * twist) * values) / twist
        total += np.floor(error - product.real)
    rounded: NDArray[np.float64] = total - np.round(np.sum(errors, axis=0))
    return rounded


def test_errors_of_the_key_change_the_rounding_but_not_its_distribution() -> None:
    random, degree = np.random.default_rng(1), 64
    secret = random.integers(-1, 2, degree).astype(float)
    first, second = random.random((2, degree))
    third = -(first + second) % 1.0
    without = divide([np.zeros(degree)] * 3, secret, draws=20_000)
    with_errors = divide([first, second, third], secret, draws=20_000)
    assert 0.3 < (without != with_errors).mean() < 0.6
    for functional in (np.eye(degree)[0], secret, np.ones(degree)):
        apart = [made @ functional for made in (without, with_errors[::-1])]
        assert stats.ks_2samp(*apart).pvalue > 1e-4
    # a secret with a single coefficient would show them
    single = np.eye(degree)[0]
    apart = [
        divide(errors, single, draws=5000)[:, 0]
        for errors in ([np.zeros(degree)] * 3, [first, second, third])
    ]
    assert stats.ks_2samp(*apart).pvalue < 1e-9


# -- full security


@pytest.mark.ckks
@pytest.mark.slow
def test_keys_and_answers_at_full_security() -> None:
    scheme, level = get_scheme("ckks"), 13
    collective, user = scheme.generate_pair(toy_plan), scheme.generate_pair(toy_plan)
    engine, x = scheme.engine(collective.public), numbers(64)
    reader = scheme.engine(user.public)
    size, found = {}, {}
    for least in (0, level):
        key = scheme.make_reencryption_key(collective.secret, recipient=user.public, level=least)
        data = scheme.reencryption_key_to_bytes(key)
        size[least], found[least] = len(data), scheme.reencryption_key_from_bytes(data)
    assert size[level] < 3e6
    assert size[level] < 0.1 * size[0]
    for at, key in ((0, found[0]), (level, found[level]), (toy_plan.depth, found[level])):
        sent = engine.reencrypt(engine.encrypt(x, level=at), key=key)
        read = reader.decrypt(sent, secret_key=user.secret)
        assert np.abs(read - x).max() <= close(at, slots=64, parameters=toy_plan)
        with pytest.raises(WrongVector):
            reader.decrypt(sent, secret_key=collective.secret)
    with pytest.raises(MissingKey):
        engine.reencrypt(engine.encrypt(x, level=level - 1), key=found[level])


# -- bytes


@pytest.mark.parametrize("level", range(insecure_small.depth + 1))
def test_keys_survive_their_bytes(parties: Parties, level: int) -> None:
    scheme, key = parties.scheme, parties.way_out(level=level)
    data = scheme.reencryption_key_to_bytes(key)
    found = scheme.reencryption_key_from_bytes(data, parameters=insecure_small)
    assert scheme.reencryption_key_to_bytes(found) == data
    assert found.belongs_to(key)
    assert found.leads_to(parties.user.public)
    assert found.level == level
    engine = parties.collective.engine
    for at in range(level, insecure_small.depth + 1):
        sent = engine.reencrypt(engine.encrypt(numbers(), level=at), key=found)
        assert np.abs(parties.read(sent) - numbers()).max() <= close(at)
    if level:
        with pytest.raises(MissingKey):
            engine.reencrypt(engine.encrypt(numbers(), level=level - 1), key=found)


@pytest.mark.ckks
def test_bytes_hold_what_the_level_needs() -> None:
    parties, width = meet("ckks"), insecure_small.digit_width
    auxiliary = len(_rows(parties.user.public)) - (insecure_small.depth + 1)
    for level in range(insecure_small.depth + 1):
        left = insecure_small.depth + 1 - level
        rows = 2 * math.ceil(left / width) * (left + auxiliary)
        data = parties.scheme.reencryption_key_to_bytes(parties.way_out(level=level))
        payload = open_sealed(data).payload
        words = unpack_words(memoryview(payload), count=rows * insecure_small.ring_dim)
        assert words.reshape(rows, -1).max(axis=1).all()
        with pytest.raises(DamagedData):
            unpack_words(memoryview(payload), count=(rows + 1) * insecure_small.ring_dim)


def _rows(public: object) -> tuple[int, ...]:
    """The moduli of one polynomial of a public key."""
    from helba.engine.ckks.wire import _samples

    moduli = _samples(public.parameters).public.moduli  # type: ignore[attr-defined]
    return moduli[: len(moduli) // 2]


@pytest.mark.ckks
def test_key_of_bytes_gives_the_same_ciphertext() -> None:
    parties = meet("ckks")
    engine, key = parties.collective.engine, parties.way_out(level=3)
    data = parties.scheme.reencryption_key_to_bytes(key)
    found = parties.scheme.reencryption_key_from_bytes(data, parameters=insecure_small)
    for level in (3, 4, 5):
        vector = engine.encrypt(numbers(), level=level)
        made = [
            read_residues(parties.user_engine, engine.reencrypt(vector, key=each))
            for each in (key, found)
        ]
        np.testing.assert_array_equal(*made)


def test_keys_neither_print_nor_pickle(parties: Parties) -> None:
    key = parties.way_out(level=2)
    assert repr(key) == f"<ReencryptionKey of {insecure_small.fingerprint}>"
    for action in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            action(key)
    way = Recipient(key=key, public_key=parties.user.public)
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        pickle.dumps(way)


LEADS = {
    "missing": None,
    "a list": [],
    "a text": "nowhere",
    "no level": {"level": ...},
    "no tag": {"tag": ...},
    "no identity": {"identity": ...},
    "unknown field": {"more": 1},
    "level below": {"level": -1},
    "level beyond": {"level": insecure_small.depth + 1},
    "level as text": {"level": "2"},
    "level as truth": {"level": True},
    "level as fraction": {"level": 2.0},
    "tag as number": {"tag": 7},
    "tag empty": {"tag": ""},
    "tag too long": {"tag": "a" * 49},
    "tag with others": {"tag": "A" * 32},
    "tag with a line": {"tag": "0" * 32 + "\n"},
    "identity as number": {"identity": 7},
    "identity too short": {"identity": "0" * 63},
    "identity with others": {"identity": "g" * 64},
}


@pytest.mark.parametrize("change", LEADS)
def test_false_destinations_are_refused(parties: Parties, change: str) -> None:
    scheme = parties.scheme
    opened = open_sealed(scheme.reencryption_key_to_bytes(parties.way_out(level=2)))
    to, fields = json.loads(opened.detail)["leads_to"], LEADS[change]
    if isinstance(fields, dict):
        to = {name: value for name, value in {**to, **fields}.items() if value is not ...}
    else:
        to = fields
    with pytest.raises(DamagedData):
        scheme.reencryption_key_from_bytes(
            describe(opened, leads_to=to).seal(), parameters=insecure_small
        )


def test_false_descriptions_are_refused(parties: Parties) -> None:
    scheme = parties.scheme
    data = scheme.reencryption_key_to_bytes(parties.way_out(level=2))

    def refuse(changed: bytes, *, match: str = ".", parameters: object = insecure_small) -> None:
        with pytest.raises(DamagedData, match=match):
            scheme.reencryption_key_from_bytes(changed, parameters=parameters)  # type: ignore[arg-type]

    refuse(data, match="no security", parameters=None)
    refuse(data, match="other parameters", parameters=insecure_other)
    refuse(describe(open_sealed(data), rotations=[1]).seal(), match="neither rotates")
    refuse(describe(open_sealed(data), more=1).seal(), match="one form")
    refuse(describe(open_sealed(data), identity="g" * 64).seal())
    refuse(open_sealed(data, fingerprint=b"0" * 16).seal(), match="other parameters")
    for header in ({"slots": 8}, {"level": 2}):
        refuse(open_sealed(data, **header).seal(), match="neither slots nor level")
    for kind in (0, 3, 4, 5, 11, 65535):
        refuse(open_sealed(data, kind=kind).seal())
    other = "ckks" if scheme.name == "simulate" else "simulate"
    refuse(open_sealed(data, scheme=other.encode()).seal())
    refuse(open_sealed(data, library=b"openfhe 1.0.0").seal())
    for tag in (b"", b"x", b"0" * 31):
        refuse(open_sealed(data, tag=tag).seal())
    opened = open_sealed(data)
    opened.detail = opened.detail.replace(b'"leads_to"', b'"leads_up"')
    refuse(opened.seal())
    for cut in (0, 100, len(data) - 1):
        refuse(data[:cut])
    refuse(data + b"x")
    scheme.reencryption_key_from_bytes(data, allow_insecure=True)


def test_kinds_are_not_mistaken_for_one_another(parties: Parties) -> None:
    scheme, keys = parties.scheme, parties.collective.keys
    data = scheme.reencryption_key_to_bytes(parties.way_out())
    for read in (
        scheme.public_key_from_bytes,
        scheme.evaluation_key_from_bytes,
        scheme.secret_key_from_bytes,
    ):
        with pytest.raises(DamagedData):
            read(data, parameters=insecure_small)
    to = json.loads(open_sealed(data).detail)["leads_to"]
    for written, read in (
        (scheme.public_key_to_bytes(keys.public), scheme.public_key_from_bytes),
        (scheme.evaluation_key_to_bytes(keys.evaluation), scheme.evaluation_key_from_bytes),
        (scheme.secret_key_to_bytes(keys.secret), scheme.secret_key_from_bytes),
    ):
        with pytest.raises(DamagedData):
            scheme.reencryption_key_from_bytes(written, parameters=insecure_small)
        with pytest.raises(DamagedData, match="leads nowhere"):
            read(describe(open_sealed(written), leads_to=to).seal(), parameters=insecure_small)


@pytest.mark.ckks
def test_false_residues_are_refused() -> None:
    parties = meet("ckks")
    scheme, level = parties.scheme, 3
    data = scheme.reencryption_key_to_bytes(parties.way_out(level=level))
    left = insecure_small.depth + 1 - level
    auxiliary = len(_rows(parties.user.public)) - (insecure_small.depth + 1)
    rows = 2 * math.ceil(left / insecure_small.digit_width) * (left + auxiliary)
    opened = open_sealed(data)
    words = unpack_words(memoryview(opened.payload), count=rows * insecure_small.ring_dim)
    words = words.reshape(rows, -1)

    def refuse(changed: NDArray[np.uint64], match: str) -> None:
        opened.payload = pack_words(np.ascontiguousarray(changed))
        with pytest.raises(DamagedData, match=match):
            scheme.reencryption_key_from_bytes(opened.seal(), parameters=insecure_small)

    for row in range(rows):
        changed = words.copy()
        changed[row, -1] = 2**60
        refuse(changed, "not below its modulus")
        changed[row] = 0
        refuse(changed, "all zeros|shorter")
    refuse(words[:-1], "too few|shorter|unpack|packed")
    refuse(np.zeros_like(words), "too few|shorter|all zeros")
    opened.payload = b""
    with pytest.raises(DamagedData, match="too few"):
        scheme.reencryption_key_from_bytes(opened.seal(), parameters=insecure_small)
    # a key of a later level is too short for an earlier one, and the other way round
    for other in (level - 1, level + 1):
        opened = open_sealed(data)
        to = {**json.loads(opened.detail)["leads_to"], "level": other}
        with pytest.raises(DamagedData):
            scheme.reencryption_key_from_bytes(
                describe(opened, leads_to=to).seal(), parameters=insecure_small
            )


@pytest.mark.ckks
def test_short_keys_set_nothing_up() -> None:
    import openfhe as fhe

    parties = meet("ckks")
    scheme = parties.scheme
    data = scheme.reencryption_key_to_bytes(parties.way_out(level=2))
    never_opened = insecure_parameters(ring_dim=1 << 12, depth=7, scale_bits=43)
    before = len(fhe.GetAllContexts())
    opened = open_sealed(data, fingerprint=never_opened.fingerprint.encode())
    fields = json.loads(opened.detail)["parameters"]
    describe(opened, parameters={name: getattr(never_opened, name) for name in fields})
    with pytest.raises(DamagedData, match="too few for the"):
        scheme.reencryption_key_from_bytes(opened.seal(), allow_insecure=True)
    assert len(fhe.GetAllContexts()) == before
    # nor does a key that names no public key of its own or of its recipient
    for change in ({"identity": ""}, {"leads_to": {"identity": ""}}):
        opened = open_sealed(data)
        document = json.loads(opened.detail)
        if "leads_to" in change:
            change = {"leads_to": {**document["leads_to"], "identity": ""}}
        with pytest.raises(DamagedData, match="does not name its public key"):
            scheme.reencryption_key_from_bytes(
                describe(opened, **change).seal(), parameters=insecure_small
            )


def test_key_that_was_renamed_serves_nobody(parties: Parties) -> None:
    scheme = parties.scheme
    stranger = scheme.generate_pair(insecure_small)
    key = parties.way_out()
    opened = open_sealed(
        scheme.reencryption_key_to_bytes(key), tag=parties.user.public.tag.encode()
    )
    renamed = scheme.reencryption_key_from_bytes(opened.seal(), parameters=insecure_small)
    engine = parties.collective.engine
    with pytest.raises(WrongVector, match="another owner"):
        engine.reencrypt(engine.encrypt(numbers()), key=renamed)
    opened = open_sealed(scheme.reencryption_key_to_bytes(key))
    to = {**json.loads(opened.detail)["leads_to"], "tag": stranger.public.tag}
    describe(opened, leads_to=to)
    renamed = scheme.reencryption_key_from_bytes(opened.seal(), parameters=insecure_small)
    with pytest.raises(WrongVector, match="leads to another"):
        Recipient(key=renamed, public_key=parties.user.public)
    if scheme.name == "ckks":  # a tag is not all: identities name the public key
        with pytest.raises(WrongVector, match="leads to another"):
            Recipient(key=renamed, public_key=stranger.public)
    assert replace(Recipient(key=key, public_key=parties.user.public)).key is key
