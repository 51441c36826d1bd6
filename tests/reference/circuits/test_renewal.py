"""Bootstrapping of vectors with any bound and fewer slots than the keys are for."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from helba.errors import InvalidInput, LevelsExhausted, MissingKey, WrongVector
from helba.reference.circuits.levels import run_steps, with_levels
from helba.reference.circuits.renewal import bootstrap_renewal
from helba.reference.engine import get_scheme
from helba.reference.planning.bounds.bootstrap import (
    BOOTSTRAP_LEVELS,
    bootstrap_error,
    renewal_exponent,
)
from helba.reference.planning.cost.chain import REFRESH_LEVELS
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, Keyed, open_keyed

SLOTS = 16
insecure_deep = insecure_parameters(
    ring_dim=1 << 11, depth=15, scale_bits=53, digits=3, secret="sparse"
)
LAST = insecure_deep.depth - REFRESH_LEVELS


@lru_cache(maxsize=2)
def bootstrapping_desk(scheme: str) -> Keyed:
    chosen = get_scheme(scheme)
    keys = chosen.generate_keys(insecure_deep, rotations=range(1, SLOTS), bootstrap_slots=SLOTS)
    return Keyed(engine=chosen.engine(keys.public, evaluation_key=keys.evaluation), keys=keys)


@pytest.mark.parametrize(
    ("bound", "exponent"), [(0.1, 0), (1.0, 0), (1.01, 1), (2.0, 1), (3.0, 2), (1e6, 20)]
)
def test_exponent_is_the_least_that_covers_the_bound(bound: float, exponent: int) -> None:
    assert renewal_exponent(bound) == exponent


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("bound", [0.5, 1.0, 30.0, 64.0])
@pytest.mark.parametrize("slots", [1, 4, SLOTS])
def test_renewal_keeps_the_values(scheme: str, bound: float, slots: int) -> None:
    keyed = bootstrapping_desk(scheme)
    x = np.random.default_rng(slots).uniform(-bound, bound, slots)
    x[0] = bound
    with keyed.engine.count() as tally:
        fresh = bootstrap_renewal(keyed.engine, keyed.engine.encrypt(x, level=LAST), bound=bound)
    assert tally.of("bootstrap") == 1
    assert fresh.level == BOOTSTRAP_LEVELS
    assert fresh.slots == slots
    error = np.abs(keyed.open(fresh) - x).max()
    promised = bootstrap_error(insecure_deep, bound=bound, slots=SLOTS, copies=SLOTS // slots)
    assert error <= promised


@pytest.mark.ckks
def test_error_of_a_renewal_is_relative_to_its_bound() -> None:
    keyed, errors = bootstrapping_desk("ckks"), []
    x = np.random.default_rng(0).uniform(-1, 1, SLOTS)
    for bound in (1.0, 1024.0):
        vector = keyed.engine.encrypt(x, level=LAST)
        fresh = bootstrap_renewal(keyed.engine, vector, bound=bound)
        errors.append(np.abs(keyed.open(fresh) - x).max())
    assert errors[1] > 100 * errors[0]


@pytest.mark.parametrize("scheme", BOTH)
def test_renewal_drives_a_circuit(scheme: str) -> None:
    keyed = bootstrapping_desk(scheme)
    x = np.random.default_rng(1).uniform(-3, 3, 4)
    engine, renewed = keyed.engine, []

    def steps():
        vector = engine.encrypt(x, level=LAST)
        for _ in range(2):
            vector = yield from with_levels(vector, needed=1, bound=9.0)
            vector = engine.multiply_scalar(vector, 0.5)
        return vector

    def renew(vector):
        renewed.append(vector.level)
        return bootstrap_renewal(engine, vector, bound=9.0)

    assert np.allclose(keyed.open(run_steps(steps(), refresh=renew)), x / 4, atol=1e-3)
    assert renewed == [LAST, LAST]  # depth 15 leaves one level between two bootstrappings


@pytest.mark.parametrize("scheme", BOTH)
def test_renewal_that_cannot_be_is_refused(scheme: str) -> None:
    keyed = bootstrapping_desk(scheme)
    engine = keyed.engine
    with pytest.raises(WrongVector, match="16 slots, too few for 32"):
        bootstrap_renewal(engine, engine.encrypt(np.ones(32)), bound=1.0)
    with pytest.raises(LevelsExhausted, match="2 levels, 1 left"):
        bootstrap_renewal(engine, engine.encrypt(np.ones(4), level=LAST + 1), bound=1.0)
    with pytest.raises(LevelsExhausted, match="1 level"):
        engine.bootstrap(engine.encrypt(np.ones(SLOTS), level=LAST + 2))
    for bound in (0.0, -1.0, float("nan")):
        with pytest.raises(InvalidInput, match="bound"):
            bootstrap_renewal(engine, engine.encrypt(np.ones(4)), bound=bound)
    plain = open_keyed(scheme, parameters=insecure_deep)
    with pytest.raises(MissingKey, match="bootstrapping"):
        bootstrap_renewal(plain.engine, plain.engine.encrypt(np.ones(4)), bound=1.0)
