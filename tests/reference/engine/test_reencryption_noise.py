"""What re-encryption adds to a value, and what it shows of its key."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from helba.reference.engine.keys import PublicKey, ReencryptionKey, SecretKey
from helba.reference.planning.bounds.noise import NoiseModel
from helba.reference.planning.parameters import Parameters, insecure_parameters
from tests.reference.engine.reading import in_slots, read_polynomial
from tests.reference.engine.switching import (
    SLOTS,
    Parties,
    insecure_small,
    insecure_tight,
    meet,
    numbers,
    toy_plan,
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
    model, keys = NoiseModel(insecure_tight), parties.collective.keys

    def typical(recipient: PublicKey | SecretKey) -> float:
        """The median over keys: a few of those made of public keys err much more than others."""
        made = [
            parties.scheme.make_reencryption_key(parties.user.secret, recipient=recipient)
            for _ in range(9)
        ]
        return float(np.median([added(parties, key, level=0, count=1).std() for key in made]))

    of_secret, of_public = typical(keys.secret), typical(keys.public)
    assert of_secret < 0.95 * of_public
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
    from helba.reference.engine.ckks.context import open_context
    from helba.reference.engine.ckks.evaluation import switching_template

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
    """What OpenFHE's division by P rounds off, as fractions of its primes."""
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


@pytest.mark.ckks
def test_errors_of_one_users_switches_add_up_and_the_model_says_so() -> None:
    """The mean of the digits is the same in every vector of a key: sums err by more than a root."""
    parties = meet("ckks", insecure_tight)
    key, engine, count = parties.way_in(), parties.collective.engine, 64
    x, model = numbers(), NoiseModel(insecure_tight)
    user_engine = parties.user_engine
    switched = (user_engine.reencrypt(user_engine.encrypt(x), key=key) for _ in range(count))
    total = reduce(engine.add, switched)
    found = parties.collective.open(total)
    error = float(np.abs(found - count * x).max())
    decryption = model.encryption(SLOTS)
    assert error <= model.arrivals(SLOTS, count=count, keys="switched") + decryption
    assert model.arrivals(SLOTS, count=count, keys="switched") > np.sqrt(count) * model.arrival(
        SLOTS, keys="switched"
    )
    own = model.arrivals(SLOTS, count=count, keys="own")
    assert own == pytest.approx(np.sqrt(count) * model.encryption(SLOTS))
