"""Vectors that leave: flooding, and the exchanges with a helper who has a key of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from helba.engine import EncryptedVector, Engine, KeyPair, Scheme, get_scheme
from helba.engine.chance import draw_uniform
from helba.engine.keys import Recipient
from helba.engine.leaving import draw_coefficient_flood, draw_slot_flood
from helba.engine.opening import OPENING_FLOOD
from helba.errors import DamagedData, InvalidInput, LevelsExhausted, MissingKey, WrongVector
from helba.planning.noise import NoiseModel
from helba.planning.parameters import insecure_parameters
from helba.planning.precision import renewal_error
from tests.engine.reading import in_slots, read_polynomial, read_residues
from tests.engines import BOTH, Desk, open_desk
from tests.significance import PLAUSIBLE_ANEW, SHOWN

insecure_small = insecure_parameters(ring_dim=1 << 10, depth=5, scale_bits=40)
SLOTS = 8
AMOUNT = 2.0**-10
LAST = insecure_small.depth
# d = 1, K = 2; `ScoreLayout.compare_slots`
FEWEST_SLOTS_OF_ANSWERS = 8


def numbers(slots: int = SLOTS, *, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(-3, 3, slots)


@pytest.fixture(params=BOTH)
def desk(request: pytest.FixtureRequest) -> Desk:
    return open_desk(request.param, parameters=insecure_small)


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


def exact_slots(desk: Desk, vector: EncryptedVector) -> NDArray[np.float64]:
    """What the vector holds, without the noise that OpenFHE adds when it decrypts."""
    if desk.engine.name == "simulate":
        return desk.open(vector)
    coefficients = read_polynomial(desk.engine, vector, secret_key=desk.keys.secret)
    scale = 2.0**insecure_small.scale_bits
    return in_slots(coefficients[None, :], slots=vector.slots, scale=scale)[0]


@pytest.mark.parametrize("slots", [1, 8, 512])
@pytest.mark.parametrize("level", [0, LAST])
def test_every_slot_is_off_by_the_amount_at_most(desk: Desk, level: int, slots: int) -> None:
    x = numbers(slots)
    vector = desk.engine.encrypt(x, level=level)
    made = [desk.engine.flood(vector, amount=AMOUNT) for _ in range(4)]
    assert {(each.level, each.slots, each.tag) for each in made} == {(level, slots, vector.tag)}
    allowed = AMOUNT + 4.0 * NoiseModel(insecure_small).encryption(slots)
    off = np.abs([exact_slots(desk, each) - x for each in made])
    assert AMOUNT / 100.0 < off.max() <= allowed
    # OpenFHE's decryption takes the flood for an error and adds as much again, Gaussian; in few
    # slots that can go beyond the amount
    if slots >= FEWEST_SLOTS_OF_ANSWERS:
        assert np.abs([desk.open(each) - x for each in made]).max() <= allowed
    np.testing.assert_allclose(desk.open(vector), x, rtol=0, atol=1e-6)  # as it was


def test_noise_of_slots_is_what_was_promised(desk: Desk) -> None:
    x = numbers()
    vector = desk.engine.encrypt(x, level=LAST)
    off = np.array([desk.open(desk.engine.flood(vector, amount=AMOUNT)) - x for _ in range(250)])
    promised = drawn_noise(20_000, slots=SLOTS, name=desk.engine.name)
    assert stats.ks_2samp(off.ravel(), promised).pvalue > PLAUSIBLE_ANEW
    # floods of one vector, and slots of one flood, have nothing to do with one another
    between = np.corrcoef(off[:-1].ravel(), off[1:].ravel())[0, 1]
    within = np.corrcoef(off[:, :-1].ravel(), off[:, 1:].ravel())[0, 1]
    assert max(abs(between), abs(within)) < 0.12
    assert stats.ks_2samp(off.ravel(), 0.7 * promised).pvalue < 1e-4


@pytest.mark.parametrize("amount", [0.0, -1.0, float("nan"), float("inf")])
def test_amounts_that_are_none_are_refused(desk: Desk, amount: float) -> None:
    with pytest.raises(InvalidInput, match="amount"):
        desk.engine.flood(desk.engine.encrypt(numbers()), amount=amount)


def test_flooding_settles_counts_and_is_for_own_vectors(desk: Desk) -> None:
    engine, x = desk.engine, numbers()
    pending = engine.multiply(engine.encrypt(x), engine.encrypt(x))
    with engine.count() as done:
        flooded = engine.flood(pending, amount=AMOUNT)
    assert flooded.level == 1
    assert done.operations["flood", 1] == done.of("flood") == 1
    assert np.abs(desk.open(flooded) - x * x).max() <= 1.01 * AMOUNT
    stranger = get_scheme(engine.name).generate_pair(insecure_small)
    with pytest.raises(WrongVector):
        get_scheme(engine.name).engine(stranger.public).flood(pending, amount=AMOUNT)


def flood_of(desk: Desk, vector: EncryptedVector) -> NDArray[np.float64]:
    """What a flood adds to every coefficient, over the scale."""
    flooded = desk.engine.flood(vector, amount=AMOUNT)
    after, before = (
        read_polynomial(desk.engine, each, secret_key=desk.keys.secret)
        for each in (flooded, vector)
    )
    return (after - before) / 2.0**insecure_small.scale_bits


@pytest.mark.ckks
def test_all_coefficients_get_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    from helba.engine.ckks import engine as module

    desk = open_desk("ckks", parameters=insecure_small)
    vector = desk.engine.encrypt(numbers(), level=LAST)
    gap = insecure_small.ring_dim // (2 * SLOTS)
    unread = np.arange(insecure_small.ring_dim) % gap != 0
    bound = AMOUNT / (4.0 * SLOTS)
    floods = [flood_of(desk, vector) for _ in range(3)]
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
    bare = flood_of(desk, vector)[unread]
    fresh = NoiseModel(insecure_small).encryption(1)
    assert np.abs(bare).max() <= fresh
    assert bare.std() < 1e-3 * noise.std()


@pytest.mark.ckks
@pytest.mark.parametrize("level", [0, LAST])
def test_flooding_makes_both_polynomials_anew(level: int) -> None:
    from helba.engine.ckks.context import moduli_of, open_context

    engine = open_desk("ckks", parameters=insecure_small).engine
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


# -- a helper with a key of their own


@dataclass(frozen=True)
class Helped:
    """A server without secrets, and two users who may help it."""

    scheme: Scheme
    desk: Desk
    users: tuple[KeyPair, KeyPair]

    def to(self, user: int = 0, *, level: int = LAST - 2) -> Recipient:
        public = self.users[user].public
        key = self.scheme.make_reencryption_key(
            self.desk.keys.secret, recipient=public, level=level
        )
        return Recipient(key=key, public_key=public)

    def helper(self, user: int = 0) -> Engine:
        return self.scheme.engine(self.users[user].public)


@pytest.fixture(params=BOTH)
def helped(request: pytest.FixtureRequest) -> Helped:
    return help_by(request.param)


def help_by(name: str) -> Helped:
    scheme = get_scheme(name)
    users = scheme.generate_pair(insecure_small), scheme.generate_pair(insecure_small)
    return Helped(scheme, open_desk(name, parameters=insecure_small), users)


@pytest.mark.parametrize("slots", [1, 8, 512])
@pytest.mark.parametrize("level", [0, 1, LAST - 2])
def test_refresh_by_somebody_else_keeps_the_value(helped: Helped, level: int, slots: int) -> None:
    engine, x, user = helped.desk.engine, numbers(slots), helped.users[0]
    request, pending = engine.begin_refresh(engine.encrypt(x, level=level), to=helped.to())
    assert (request.tag, pending.tag) == (user.public.tag, engine.public_key.tag)
    reply = helped.helper().answer_refresh(request, secret_key=user.secret, under=engine.public_key)
    fresh = engine.finish_refresh(reply, pending)
    assert (fresh.level, fresh.tag) == (0, engine.public_key.tag)
    error = renewal_error(refresh="client", parameters=insecure_small, slots=slots, bound=3.0)
    decrypting = NoiseModel(insecure_small).encryption(slots)
    assert np.abs(helped.desk.open(fresh) - x).max() <= error + decrypting
    product = engine.multiply(fresh, fresh)
    np.testing.assert_allclose(helped.desk.open(product), x * x, rtol=0, atol=1e-5)


@pytest.mark.ckks
def test_refresh_by_somebody_else_errs_as_planned() -> None:
    helped, errors = help_by("ckks"), []
    engine, user = helped.desk.engine, helped.users[0]
    secret, scale = helped.desk.keys.secret, 2.0**insecure_small.scale_bits
    to = helped.to()
    for _ in range(6):
        vector = engine.encrypt(np.zeros(insecure_small.max_slots), level=LAST - 2)
        request, pending = engine.begin_refresh(vector, to=to)
        reply = helped.helper().answer_refresh(
            request, secret_key=user.secret, under=engine.public_key
        )
        fresh = engine.finish_refresh(reply, pending)
        after, before = (
            read_polynomial(engine, each, secret_key=secret) for each in (fresh, vector)
        )
        errors.append((after - before) / scale)
    slots = insecure_small.max_slots
    promised = renewal_error(refresh="client", parameters=insecure_small, slots=slots, bound=1.0)
    # of a coefficient: 2s of them meet in a slot
    deviation = promised / 8.0 / np.sqrt(2.0 * slots)
    assert 0.3 * deviation < np.std(errors) < deviation


def test_opening_by_somebody_else_shows_the_server_the_values(helped: Helped) -> None:
    engine, x, user = helped.desk.engine, numbers(), helped.users[0]
    request, pending = engine.begin_opening(engine.encrypt(x), to=helped.to())
    assert request.tag == user.public.tag
    reply = helped.helper().answer_opening(request, secret_key=user.secret, under=engine.public_key)
    assert reply.tag == engine.public_key.tag
    opened = engine.finish_opening(reply, pending)
    assert np.abs(opened - x).max() <= 1.001 * OPENING_FLOOD


def test_exchanges_with_somebody_else_travel_as_bytes(helped: Helped) -> None:
    engine, x, user = helped.desk.engine, numbers(), helped.users[0]
    helper, writer = helped.helper(), helped.helper()  # the server writes with the public key
    vector = engine.encrypt(x)
    request, pending = engine.begin_refresh(vector, to=helped.to())
    asked = helper.request_from_bytes(writer.request_to_bytes(request), slots=SLOTS)
    own = helped.scheme.engine(engine.public_key)  # the helper writes the reply with that of all
    reply = helper.answer_refresh(asked, secret_key=user.secret, under=own.public_key)
    got = engine.reply_from_bytes(own.reply_to_bytes(reply), slots=SLOTS)
    kept = engine.pending_from_bytes(engine.pending_to_bytes(pending))
    fresh = engine.finish_refresh(got, kept)  # type: ignore[arg-type]
    np.testing.assert_allclose(helped.desk.open(fresh), x, rtol=0, atol=1e-6)
    for refused in (lambda: engine.request_to_bytes(request), lambda: helper.reply_to_bytes(reply)):
        with pytest.raises(WrongVector):
            refused()

    opening, mask = engine.begin_opening(vector, to=helped.to())
    to_open = helper.opening_request_from_bytes(writer.opening_request_to_bytes(opening))
    opened = helper.answer_opening(to_open, secret_key=user.secret, under=own.public_key)
    answer = engine.opening_reply_from_bytes(own.opening_reply_to_bytes(opened))
    kept = engine.pending_from_bytes(engine.pending_to_bytes(mask))
    found = engine.finish_opening(answer, kept)  # type: ignore[arg-type]
    assert np.abs(found - x).max() <= 1.001 * OPENING_FLOOD


def test_nobody_else_answers(helped: Helped) -> None:
    engine, users = helped.desk.engine, helped.users
    vector, secret = engine.encrypt(numbers()), helped.desk.keys.secret
    refresh, _ = engine.begin_refresh(vector, to=helped.to())
    opening, _ = engine.begin_opening(vector, to=helped.to())
    for answerer, key in (
        (engine, secret),  # the owner of the vector
        (helped.helper(0), secret),
        (helped.helper(1), users[1].secret),  # another user
        (helped.helper(0), users[1].secret),
        (engine, users[0].secret),
    ):
        with pytest.raises(WrongVector, match="another key"):
            answerer.answer_refresh(refresh, secret_key=key)
        with pytest.raises(WrongVector, match="another key"):
            answerer.answer_opening(opening, secret_key=key)
    foreign = helped.scheme.generate_pair(insecure_parameters(ring_dim=1 << 10, depth=4))
    with pytest.raises(WrongVector, match="other parameters"):
        helped.helper().answer_refresh(refresh, secret_key=users[0].secret, under=foreign.public)


def test_replies_under_a_wrong_key_are_refused(helped: Helped) -> None:
    engine, users, x = helped.desk.engine, helped.users, numbers()
    helper, secret = helped.helper(), users[0].secret
    request, pending = engine.begin_refresh(engine.encrypt(x), to=helped.to())
    for under in (None, users[0].public, users[1].public):
        reply = helper.answer_refresh(request, secret_key=secret, under=under)
        with pytest.raises(WrongVector, match="another refresh"):
            engine.finish_refresh(reply, pending)
    opening, mask = engine.begin_opening(engine.encrypt(x), to=helped.to())
    for under in (None, users[1].public):
        opened = helper.answer_opening(opening, secret_key=secret, under=under)
        with pytest.raises(WrongVector, match="another opening"):
            engine.finish_opening(opened, mask)
    # what is refused leaves the mask for the right one
    reply = helper.answer_refresh(request, secret_key=secret, under=engine.public_key)
    fresh = engine.finish_refresh(reply, pending)
    np.testing.assert_allclose(helped.desk.open(fresh), x, rtol=0, atol=1e-6)
    other = helper.answer_opening(opening, secret_key=secret, under=engine.public_key)
    _, unfit = engine.begin_opening(engine.encrypt(x), to=helped.to())
    with pytest.raises(DamagedData, match="does not fit its mask"):
        engine.finish_opening(replace(other, id=unfit.id), unfit)


def test_ways_that_do_not_serve_are_refused(helped: Helped) -> None:
    engine, scheme, users = helped.desk.engine, helped.scheme, helped.users
    vector = engine.encrypt(numbers())
    between = scheme.make_reencryption_key(users[0].secret, recipient=users[1].public)
    begins = (engine.begin_refresh, engine.begin_opening)
    for begin in begins:
        with pytest.raises(WrongVector, match="another owner"):
            begin(vector, to=Recipient(key=between, public_key=users[1].public))
        with pytest.raises(MissingKey, match="serves level"):
            begin(vector, to=helped.to(level=LAST - 1))
        with pytest.raises(LevelsExhausted):
            begin(engine.encrypt(numbers(), level=LAST - 1), to=helped.to())
        with engine.count() as done:
            begin(vector, to=helped.to(level=LAST - 2))
        assert done.of("refresh", "opening") == 1


def seen_by_the_helper(helped: Helped, *, count: int, value: float) -> NDArray[np.float64]:
    """What the helper decrypts, as fractions of the modulus."""
    engine, found = helped.desk.engine, []
    to, helper = helped.to(), helped.helper()
    for _ in range(count):
        request, _ = engine.begin_opening(engine.encrypt(np.full(SLOTS, value)), to=to)
        reply = helper.answer_opening(
            request, secret_key=helped.users[0].secret, under=engine.public_key
        )
        if engine.name == "simulate":
            found.append(reply.payload.integers / 2.0**64)
        else:
            moduli = np.array(engine._last_moduli, dtype=np.float64)  # type: ignore[attr-defined]
            found.append((reply.payload / moduli[:, None]).ravel())
    return np.concatenate(found)


def test_helper_sees_what_is_uniform_and_only_because_of_the_mask(
    helped: Helped, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (
        stats.kstest(seen_by_the_helper(helped, count=60, value=2.0), "uniform").pvalue
        > PLAUSIBLE_ANEW
    )
    apart = [seen_by_the_helper(helped, count=60, value=value) for value in (0.0, 2.0)]
    assert stats.ks_2samp(*apart).pvalue > PLAUSIBLE_ANEW
    engine = helped.desk.engine

    def unmasked(body: object, slots: int, to: Recipient) -> object:  # noqa: ARG001
        return engine._at_two_towers(body, to), None  # type: ignore[attr-defined]

    def unmasked_numbers(body: object, slots: int, to: Recipient) -> object:  # noqa: ARG001
        request, mask = engine._begin_refresh(body, to)  # type: ignore[arg-type]
        return replace(request, integers=request.integers - mask), None

    bare = unmasked_numbers if engine.name == "simulate" else unmasked
    monkeypatch.setattr(engine, "_begin_opening", bare)
    seen = seen_by_the_helper(helped, count=60, value=2.0)
    assert stats.kstest(seen, "uniform").pvalue < SHOWN


@pytest.mark.ckks
def test_request_to_a_helper_is_re_randomised() -> None:
    helped = help_by("ckks")
    engine, to = helped.desk.engine, helped.to()
    vector = engine.encrypt(numbers())
    seconds = []
    for _ in range(2):
        request, _ = engine.begin_refresh(vector, to=to)
        form = helped.helper()._form("masked", SLOTS, LAST - 1)  # type: ignore[attr-defined]
        seconds.append(form.gather(request.payload)[2:].astype(object))
    moduli = np.array(engine._last_moduli, dtype=object)[:, None]  # type: ignore[attr-defined]
    moved = np.mod(seconds[0] - seconds[1], moduli) / moduli
    for row in moved.astype(np.float64):
        assert stats.kstest(row, "uniform").pvalue > PLAUSIBLE_ANEW
