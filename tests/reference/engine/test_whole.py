"""Factors with whole coefficients: split exactly, multiplied at no level, errors within bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from helba.errors import InvalidInput, OutOfRange, WrongVector
from helba.reference.engine import EncryptedVector
from helba.reference.engine.simulator import SimulatedEngine
from helba.reference.engine.whole import split_whole
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, Desk, open_desk
from tests.reference.engine.reading import read_polynomial

insecure_small = insecure_parameters(ring_dim=1 << 10, depth=2, scale_bits=40)
LAST = insecure_small.depth
SLOTS, PERIOD = 64, 16
BITS = (12, 24, 36)

Array = NDArray[np.float64]


def numbers(count: int, *, seed: int) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, count)


@pytest.fixture(params=BOTH)
def desk(request: pytest.FixtureRequest) -> Desk:
    return open_desk(request.param, parameters=insecure_small)


# -- splitting


@given(log_slots=st.integers(0, 8), seed=st.integers(0, 2**32 - 1))
def test_parts_add_up_to_what_was_split(log_slots: int, seed: int) -> None:
    values = numbers(1 << log_slots, seed=seed)
    parts = split_whole(values, bits=BITS)
    total = np.sum([part * 2.0**-bits for part, bits in zip(parts, BITS, strict=True)], axis=0)
    assert np.abs(total - values).max() <= 2 * len(values) / 2.0 ** (BITS[-1] + 1) + 1e-13
    # each rounds what those before it have left
    rough = np.abs(parts[0] * 2.0 ** -BITS[0] - values).max()
    assert rough <= 2 * len(values) / 2.0 ** (BITS[0] + 1)
    assert np.abs(parts[1]).max() * 2.0 ** -BITS[1] <= rough + 2 * len(values) / 2.0 ** BITS[1]


@pytest.mark.ckks
def test_parts_are_polynomials_with_whole_coefficients() -> None:
    """OpenFHE's encoding at scale 1 loses nothing of them, over all copies of a period."""
    desk = open_desk("ckks", parameters=insecure_small)
    (part,) = split_whole(numbers(PERIOD, seed=1), bits=(20,))
    assert np.abs(part).max() > 2.0**15
    vector = desk.engine.encrypt(np.tile(part, SLOTS // PERIOD) * 2.0**-20, level=LAST)
    found = read_polynomial(desk.engine, vector, secret_key=desk.keys.secret)
    unit = vector._body.payload.GetScalingFactor() * 2.0**-20
    whole = found / unit
    fresh = 2.0**12 / unit  # the error of the encryption
    assert np.abs(whole).max() > 2.0**10
    assert np.abs(whole - np.round(whole)).max() < fresh < 0.25


# -- products


def split_product(desk: Desk, x: Array, mask: Array) -> EncryptedVector:
    engine = desk.engine
    start = engine.encrypt(x, level=LAST - 1)
    vectors = [engine.multiply_scalar(start, 2.0**-bits) for bits in BITS]
    factors = [
        engine.encode_whole(part, slots=len(x), level=LAST) for part in split_whole(mask, bits=BITS)
    ]
    return engine.sum_whole(vectors, factors)


def test_product_with_whole_factors_takes_no_level(desk: Desk) -> None:
    x, mask = numbers(SLOTS, seed=2), (np.arange(PERIOD) == 3).astype(np.float64)
    with desk.engine.count() as done:
        product = split_product(desk, x, mask)
    assert (product.level, product.slots) == (LAST, SLOTS)
    assert done.of("multiply_plain") == done.operations["multiply_plain", LAST] == len(BITS)
    assert done.of("rescale") == len(BITS)  # of the vectors, before
    simulated = open_desk("simulate", parameters=insecure_small)
    assert isinstance(simulated.engine, SimulatedEngine)
    bound = simulated.engine.noise_bound(split_product(simulated, x, mask))
    expected = x * np.tile(mask, SLOTS // PERIOD)
    assert np.abs(desk.open(product) - expected).max() <= bound < 1e-3


@pytest.mark.ckks
def test_both_engines_do_the_same_operations() -> None:
    desks = [open_desk(name, parameters=insecure_small) for name in ("ckks", "simulate")]
    counts = []
    for desk in desks:
        with desk.engine.count() as done:
            split_product(desk, numbers(SLOTS, seed=3), numbers(PERIOD, seed=4))
        counts.append(done.operations)
    assert counts[0] == counts[1]


@pytest.mark.ckks
def test_product_can_be_written_and_goes_on() -> None:
    """It has the canonical scale of its level, above the last one as well."""
    engine = open_desk("ckks", parameters=insecure_small).engine
    desk = open_desk("ckks", parameters=insecure_small)
    x = numbers(SLOTS, seed=5)
    whole = engine.encode_whole([3.0], slots=SLOTS, level=0)
    tripled = engine.sum_whole([engine.encrypt(x)], [whole])
    again = engine.vector_from_bytes(engine.vector_to_bytes(tripled), slots=SLOTS, level=0)
    squared = engine.multiply(again, tripled)
    np.testing.assert_allclose(desk.open(squared), 9.0 * x * x, rtol=0, atol=1e-5)


# -- refusals


def test_whole_and_scaled_plaintexts_do_not_mix(desk: Desk) -> None:
    engine = desk.engine
    vector = engine.encrypt(np.zeros(SLOTS), level=1)
    whole = engine.encode_whole(np.ones(PERIOD), slots=SLOTS, level=1)
    scaled = engine.encode(np.ones(SLOTS), level=1)
    assert "whole" in repr(whole)
    assert "whole" not in repr(scaled)
    for wrong in (
        lambda: engine.sum_whole([vector], [scaled]),
        lambda: engine.multiply_encoded(vector, whole),
        lambda: engine.add_encoded(vector, whole),
    ):
        with pytest.raises(WrongVector, match="meets"):
            wrong()


def test_forms_that_do_not_fit_are_refused(desk: Desk) -> None:
    engine = desk.engine
    vector = engine.encrypt(np.zeros(SLOTS), level=1)
    lower = engine.encrypt(np.zeros(SLOTS), level=2)
    whole, other = (engine.encode_whole([1.0], slots=SLOTS, level=level) for level in (1, 2))
    for vectors, factors in (([], []), ([vector], []), ([vector], [whole, whole])):
        with pytest.raises(InvalidInput, match="factors"):
            engine.sum_whole(vectors, factors)
    with pytest.raises(WrongVector, match="different form"):
        engine.sum_whole([vector, lower], [whole, other])
    with pytest.raises(WrongVector, match="do not fit"):
        engine.encode_whole(np.ones(8), slots=4, level=1)
    with pytest.raises(InvalidInput, match="level"):
        engine.encode_whole(np.ones(8), slots=8, level=LAST + 1)


def test_product_past_the_last_prime_is_out_of_range() -> None:
    engine = open_desk("simulate", parameters=insecure_small).engine
    vector = engine.encrypt(np.ones(SLOTS), level=LAST)
    large = engine.encode_whole([2.0**20], slots=SLOTS, level=LAST)
    with pytest.raises(OutOfRange):
        engine.sum_whole([vector], [large])
