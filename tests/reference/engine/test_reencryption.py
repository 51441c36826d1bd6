"""Re-encryption: the value arrives, and only the recipient reads it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from helba.errors import (
    EngineError,
    InvalidInput,
    MissingKey,
    WrongVector,
)
from helba.reference.engine import SecretKey, get_scheme
from helba.reference.engine.keys import Recipient
from tests.reference.engine.reading import read_polynomial
from tests.reference.engine.switching import (
    Parties,
    close,
    insecure_other,
    insecure_small,
    meet,
    numbers,
    toy_plan,
)
from tests.significance import PLAUSIBLE_ANEW

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
    assert stats.kstest(found / half, "uniform", args=(-1, 2)).pvalue > PLAUSIBLE_ANEW
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
    keyed = parties.collective
    came = [server.reencrypt(server.encrypt(each), key=way) for each in (x, y)]
    own = keyed.engine.encrypt(x)
    total = keyed.engine.add(keyed.engine.add(*came), own)
    assert np.abs(keyed.open(total) - (2 * x + y)).max() <= 3 * close(0)
    product = keyed.engine.rotate(keyed.engine.multiply(came[0], came[1]), 1)
    np.testing.assert_allclose(keyed.open(product), np.roll(x * y, -1), rtol=0, atol=1e-5)


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
