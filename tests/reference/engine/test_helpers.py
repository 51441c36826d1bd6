"""Refreshes and openings with the help of somebody who has a key of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from helba.errors import DamagedData, LevelsExhausted, MissingKey, WrongVector
from helba.reference.engine import Engine, KeyPair, Scheme, get_scheme
from helba.reference.engine.exchanges.opening import OPENING_FLOOD
from helba.reference.engine.keys import Recipient
from helba.reference.planning.bounds.noise import NoiseModel
from helba.reference.planning.bounds.precision import renewal_error
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, Keyed, open_keyed
from tests.reference.engine.reading import read_polynomial
from tests.reference.engine.switching import SLOTS, insecure_small, numbers
from tests.significance import PLAUSIBLE_ANEW, SHOWN

LAST = insecure_small.depth


@dataclass(frozen=True)
class Helped:
    """A server without secrets, and two users who may help it."""

    scheme: Scheme
    keyed: Keyed
    users: tuple[KeyPair, KeyPair]

    def to(self, user: int = 0, *, level: int = LAST - 2) -> Recipient:
        public = self.users[user].public
        key = self.scheme.make_reencryption_key(
            self.keyed.keys.secret, recipient=public, level=level
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
    return Helped(scheme, open_keyed(name, parameters=insecure_small), users)


@pytest.mark.parametrize("slots", [1, 8, 512])
@pytest.mark.parametrize("level", [0, 1, LAST - 2])
def test_refresh_by_somebody_else_keeps_the_value(helped: Helped, level: int, slots: int) -> None:
    engine, x, user = helped.keyed.engine, numbers(slots), helped.users[0]
    request, pending = engine.begin_refresh(engine.encrypt(x, level=level), to=helped.to())
    assert (request.tag, pending.tag) == (user.public.tag, engine.public_key.tag)
    reply = helped.helper().answer_refresh(request, secret_key=user.secret, under=engine.public_key)
    fresh = engine.finish_refresh(reply, pending)
    assert (fresh.level, fresh.tag) == (0, engine.public_key.tag)
    error = renewal_error(refresh="client", parameters=insecure_small, slots=slots, bound=3.0)
    decrypting = NoiseModel(insecure_small).encryption(slots)
    assert np.abs(helped.keyed.open(fresh) - x).max() <= error + decrypting
    product = engine.multiply(fresh, fresh)
    np.testing.assert_allclose(helped.keyed.open(product), x * x, rtol=0, atol=1e-5)


@pytest.mark.ckks
def test_refresh_by_somebody_else_errs_as_planned() -> None:
    helped, errors = help_by("ckks"), []
    engine, user = helped.keyed.engine, helped.users[0]
    secret, scale = helped.keyed.keys.secret, 2.0**insecure_small.scale_bits
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
    engine, x, user = helped.keyed.engine, numbers(), helped.users[0]
    request, pending = engine.begin_opening(engine.encrypt(x), to=helped.to())
    assert request.tag == user.public.tag
    reply = helped.helper().answer_opening(request, secret_key=user.secret, under=engine.public_key)
    assert reply.tag == engine.public_key.tag
    opened = engine.finish_opening(reply, pending)
    assert np.abs(opened - x).max() <= 1.001 * OPENING_FLOOD


def test_exchanges_with_somebody_else_travel_as_bytes(helped: Helped) -> None:
    engine, x, user = helped.keyed.engine, numbers(), helped.users[0]
    helper, writer = helped.helper(), helped.helper()  # the server writes with the public key
    vector = engine.encrypt(x)
    request, pending = engine.begin_refresh(vector, to=helped.to())
    asked = helper.request_from_bytes(writer.request_to_bytes(request), slots=SLOTS)
    own = helped.scheme.engine(engine.public_key)  # the helper writes the reply with that of all
    reply = helper.answer_refresh(asked, secret_key=user.secret, under=own.public_key)
    got = engine.reply_from_bytes(own.reply_to_bytes(reply), slots=SLOTS)
    kept = engine.pending_from_bytes(engine.pending_to_bytes(pending))
    fresh = engine.finish_refresh(got, kept)  # type: ignore[arg-type]
    np.testing.assert_allclose(helped.keyed.open(fresh), x, rtol=0, atol=1e-6)
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
    engine, users = helped.keyed.engine, helped.users
    vector, secret = engine.encrypt(numbers()), helped.keyed.keys.secret
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
    engine, users, x = helped.keyed.engine, helped.users, numbers()
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
    np.testing.assert_allclose(helped.keyed.open(fresh), x, rtol=0, atol=1e-6)
    other = helper.answer_opening(opening, secret_key=secret, under=engine.public_key)
    _, unfit = engine.begin_opening(engine.encrypt(x), to=helped.to())
    with pytest.raises(DamagedData, match="does not fit its mask"):
        engine.finish_opening(replace(other, id=unfit.id), unfit)


def test_ways_that_do_not_serve_are_refused(helped: Helped) -> None:
    engine, scheme, users = helped.keyed.engine, helped.scheme, helped.users
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
    engine, found = helped.keyed.engine, []
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
    engine = helped.keyed.engine

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
    engine, to = helped.keyed.engine, helped.to()
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
