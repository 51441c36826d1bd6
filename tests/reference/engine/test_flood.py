"""Vectors that leave: what is drawn to flood them, and what it does."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from helba.errors import InvalidInput, WrongVector
from helba.reference.engine import EncryptedVector, get_scheme
from helba.reference.engine.chance import draw_uniform
from helba.reference.engine.reencryption import draw_coefficient_flood, draw_slot_flood
from helba.reference.planning.bounds.noise import NoiseModel
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, Keyed, open_keyed
from tests.reference.engine.reading import in_slots, read_polynomial, read_residues
from tests.significance import PLAUSIBLE_ANEW

insecure_small = insecure_parameters(ring_dim=1 << 10, depth=5, scale_bits=40)
SLOTS = 8
AMOUNT = 2.0**-10
LAST = insecure_small.depth
# d = 1, K = 2; `ScoreLayout.compare_slots`
FEWEST_SLOTS_OF_ANSWERS = 8


def numbers(slots: int = SLOTS, *, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(-3, 3, slots)


@pytest.fixture(params=BOTH)
def keyed(request: pytest.FixtureRequest) -> Keyed:
    return open_keyed(request.param, parameters=insecure_small)


# -- what is drawn


def test_noise_is_uniform_independent_and_within_its_bound() -> None:
    drawn = draw_uniform(100_000, bound=3.0)
    assert -3.0 <= drawn.min() < -2.999
    assert 2.999 < drawn.max() < 3.0
    assert stats.kstest(drawn, "uniform", args=(-3, 6)).pvalue > PLAUSIBLE_ANEW
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.02
    assert not np.array_equal(drawn, draw_uniform(100_000, bound=3.0))
    assert (draw_uniform(1000, bound=1.0) * 2.0**52 % 1.0 == 0.0).all()
    assert np.abs(draw_slot_flood(1000, amount=1.0)).max() < 0.5
    assert np.abs(draw_coefficient_flood(1000, slots=8, amount=1.0)).max() < 1.0 / 32.0


# -- flooding


def drawn_noise(count: int, *, slots: int, name: str) -> NDArray[np.float64]:
    """What a slot gets, as promised: half of it uniform, and 2s uniform coefficients."""
    uniform = draw_slot_flood(count, amount=AMOUNT)
    # the simulator lets four numbers stand for the coefficients
    terms = 4 if name == "simulate" else 2 * slots
    bound = AMOUNT / 2.0 / terms
    weights = np.ones(terms) if name == "simulate" else np.cos(np.pi * np.arange(terms) / terms)
    rest = draw_uniform(count * terms, bound=bound).reshape(count, terms)
    return uniform + rest @ weights


def exact_slots(keyed: Keyed, vector: EncryptedVector) -> NDArray[np.float64]:
    """What the vector holds, without the noise that OpenFHE adds when it decrypts."""
    if keyed.engine.name == "simulate":
        return keyed.open(vector)
    coefficients = read_polynomial(keyed.engine, vector, secret_key=keyed.keys.secret)
    scale = 2.0**insecure_small.scale_bits
    return in_slots(coefficients[None, :], slots=vector.slots, scale=scale)[0]


@pytest.mark.parametrize("slots", [1, 8, 512])
@pytest.mark.parametrize("level", [0, LAST])
def test_every_slot_is_off_by_the_amount_at_most(keyed: Keyed, level: int, slots: int) -> None:
    x = numbers(slots)
    vector = keyed.engine.encrypt(x, level=level)
    made = [keyed.engine.flood(vector, amount=AMOUNT) for _ in range(4)]
    assert {(each.level, each.slots, each.tag) for each in made} == {(level, slots, vector.tag)}
    allowed = AMOUNT + 4.0 * NoiseModel(insecure_small).encryption(slots)
    off = np.abs([exact_slots(keyed, each) - x for each in made])
    assert AMOUNT / 100.0 < off.max() <= allowed
    # OpenFHE's decryption takes the flood for an error and adds as much again, Gaussian; in few
    # slots that can go beyond the amount
    if slots >= FEWEST_SLOTS_OF_ANSWERS:
        assert np.abs([keyed.open(each) - x for each in made]).max() <= allowed
    np.testing.assert_allclose(keyed.open(vector), x, rtol=0, atol=1e-6)  # as it was


def test_noise_of_slots_is_what_was_promised(keyed: Keyed) -> None:
    x = numbers()
    vector = keyed.engine.encrypt(x, level=LAST)
    off = np.array([keyed.open(keyed.engine.flood(vector, amount=AMOUNT)) - x for _ in range(250)])
    promised = drawn_noise(20_000, slots=SLOTS, name=keyed.engine.name)
    assert stats.ks_2samp(off.ravel(), promised).pvalue > PLAUSIBLE_ANEW
    # floods of one vector, and slots of one flood, have nothing to do with one another
    between = np.corrcoef(off[:-1].ravel(), off[1:].ravel())[0, 1]
    within = np.corrcoef(off[:, :-1].ravel(), off[:, 1:].ravel())[0, 1]
    assert max(abs(between), abs(within)) < 0.12
    assert stats.ks_2samp(off.ravel(), 0.7 * promised).pvalue < 1e-4


@pytest.mark.parametrize("amount", [0.0, -1.0, float("nan"), float("inf")])
def test_amounts_that_are_none_are_refused(keyed: Keyed, amount: float) -> None:
    with pytest.raises(InvalidInput, match="amount"):
        keyed.engine.flood(keyed.engine.encrypt(numbers()), amount=amount)


def test_flooding_settles_counts_and_is_for_own_vectors(keyed: Keyed) -> None:
    engine, x = keyed.engine, numbers()
    pending = engine.multiply(engine.encrypt(x), engine.encrypt(x))
    with engine.count() as done:
        flooded = engine.flood(pending, amount=AMOUNT)
    assert flooded.level == 1
    assert done.operations["flood", 1] == done.of("flood") == 1
    assert np.abs(keyed.open(flooded) - x * x).max() <= 1.01 * AMOUNT
    stranger = get_scheme(engine.name).generate_pair(insecure_small)
    with pytest.raises(WrongVector):
        get_scheme(engine.name).engine(stranger.public).flood(pending, amount=AMOUNT)


def flood_of(keyed: Keyed, vector: EncryptedVector) -> NDArray[np.float64]:
    """What a flood adds to every coefficient, over the scale."""
    flooded = keyed.engine.flood(vector, amount=AMOUNT)
    after, before = (
        read_polynomial(keyed.engine, each, secret_key=keyed.keys.secret)
        for each in (flooded, vector)
    )
    return (after - before) / 2.0**insecure_small.scale_bits


@pytest.mark.ckks
def test_all_coefficients_get_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    from helba.reference.engine.ckks import engine as module

    keyed = open_keyed("ckks", parameters=insecure_small)
    vector = keyed.engine.encrypt(numbers(), level=LAST)
    gap = insecure_small.ring_dim // (2 * SLOTS)
    unread = np.arange(insecure_small.ring_dim) % gap != 0
    bound = AMOUNT / (4.0 * SLOTS)
    floods = [flood_of(keyed, vector) for _ in range(3)]
    noise = np.concatenate([flood[unread] for flood in floods])
    assert stats.kstest(noise, "uniform", args=(-bound, 2 * bound)).pvalue > PLAUSIBLE_ANEW
    assert abs(noise.std() / (bound / np.sqrt(3.0)) - 1.0) < 0.05
    assert abs(np.corrcoef(floods[0][unread], floods[1][unread])[0, 1]) < 0.15
    # those that are read have that of the slots on top
    read = np.concatenate([flood[~unread] for flood in floods])
    assert read.std() > 1.5 * noise.std()

    def nothing(count: int, **_: object) -> NDArray[np.float64]:
        return np.zeros(count)

    monkeypatch.setattr(module, "draw_coefficient_flood", nothing)
    bare = flood_of(keyed, vector)[unread]
    fresh = NoiseModel(insecure_small).encryption(1)
    assert np.abs(bare).max() <= fresh
    assert bare.std() < 1e-3 * noise.std()


@pytest.mark.ckks
@pytest.mark.parametrize("level", [0, LAST])
def test_flooding_makes_both_polynomials_anew(level: int) -> None:
    from helba.reference.engine.ckks.context import open_context
    from helba.ring.ckks.context import moduli_of

    engine = open_keyed("ckks", parameters=insecure_small).engine
    vector = engine.encrypt(numbers(), level=level)
    moduli = moduli_of(open_context(insecure_small))[: LAST + 1 - level]
    before = read_residues(engine, vector)
    made = [read_residues(engine, engine.flood(vector, amount=AMOUNT)) for _ in range(2)]
    for first, second in ((before, made[0]), (before, made[1]), (made[0], made[1])):
        for polynomial in (0, 1):
            towers = zip(first[polynomial], second[polynomial], moduli, strict=True)
            for one, other, modulus in towers:
                moved = np.mod(other.astype(object) - one.astype(object), modulus)
                fractions = moved.astype(np.float64) / modulus
                assert stats.kstest(fractions, "uniform").pvalue > PLAUSIBLE_ANEW
