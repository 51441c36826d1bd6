"""The simulator is faithful: same levels and operations as OpenFHE, errors within its bound."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from helba.errors import OutOfRange
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.engine.simulator import SimulatedEngine
from helba.reference.planning.parameters import Parameters, insecure_parameters
from tests.engines import new_keyed, open_keyed

pytestmark = pytest.mark.ckks

ROTATIONS = (1, 2, 3, 5)
insecure_narrow = insecure_parameters(ring_dim=1 << 11, depth=8, scale_bits=35)
insecure_wide = insecure_parameters(ring_dim=1 << 12, depth=7, scale_bits=45, digits=4)
real = Parameters(ring_dim=1 << 14, depth=6, scale_bits=40, digits=4, security=128)


def run_program(engine: Engine, *, seed: int, slots: int) -> list[EncryptedVector]:
    """Random operations that use every level and every primitive."""
    rng = np.random.default_rng(seed)
    held = [engine.encrypt(rng.uniform(-1, 1, slots), level=i) for i in range(3)]
    for _ in range(24):
        kind, i, j = rng.integers(8), rng.integers(3), rng.integers(3)
        weights = rng.uniform(-1, 1, slots)
        factor = float(rng.uniform(-1, 1))
        if max(held[i].level, held[j].level) >= engine.parameters.depth:
            continue
        if kind == 0:
            held[i] = engine.combine([(held[i], 0.5), (held[j], factor)], constant=factor)
        elif kind == 1:
            held[i] = engine.combine([(held[i], 1.0), (engine.multiply(held[i], held[j]), -2.0)])
            held[i] = engine.multiply_scalar(held[i], 1.0)
        elif kind == 2:
            held[i] = engine.multiply(held[i], held[j])
        elif kind == 3:
            held[i] = engine.multiply_plain(engine.rotate(held[i], 1), weights)
        elif kind == 4:
            held[i] = engine.add_plain(held[i], weights)
        elif kind == 5:
            held[i] = engine.rotate_many(held[i], [1, 2, 5])[rng.integers(3)]
        elif kind == 6:
            held[i] = engine.combine([(engine.sum_rotations(held[i], [0, 1, 2, 3]), 0.25)])
        else:
            held[i] = engine.lower(held[i], held[i].level + 1)
    return held


def values_of(keyed: object, vectors: list[EncryptedVector]) -> list[NDArray[np.float64]]:
    return [keyed.open(vector) for vector in vectors]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("parameters", "slots", "seeds"),
    [(insecure_narrow, 8, 12), (insecure_wide, 256, 6), (real, 64, 2)],
    ids=["narrow", "wide", "128 bit"],
)
def test_levels_operations_and_errors_agree(parameters: Parameters, slots: int, seeds: int) -> None:
    real_desk = open_keyed("ckks", parameters=parameters, rotations=ROTATIONS)
    simulated = open_keyed("simulate", parameters=parameters, rotations=ROTATIONS)
    assert isinstance(simulated.engine, SimulatedEngine)
    ratios = []
    for seed in range(seeds):
        with real_desk.engine.count() as done, simulated.engine.count() as predicted:
            found = run_program(real_desk.engine, seed=seed, slots=slots)
            expected = run_program(simulated.engine, seed=seed, slots=slots)
        assert done.operations == predicted.operations
        for vector, model in zip(found, expected, strict=True):
            assert vector.level == model.level
            error = np.abs(real_desk.open(vector) - simulated.open(model)).max()
            bound = simulated.engine.noise_bound(model)
            assert error <= bound
            ratios.append(error / bound)
            # and OpenFHE counts the levels like we do
            ciphertext = real_desk.engine._settled(vector).payload
            assert ciphertext.GetLevel() == vector.level
            assert ciphertext.GetNoiseScaleDeg() == 1
    assert max(ratios) > 1e-3  # a bound, not a blank cheque


def test_a_refresh_errs_within_the_bound() -> None:
    rng = np.random.default_rng(1)
    for parameters in (insecure_narrow, insecure_wide, real):
        real_desk = open_keyed("ckks", parameters=parameters, rotations=ROTATIONS)
        simulated = open_keyed("simulate", parameters=parameters, rotations=ROTATIONS)
        x = rng.uniform(-8, 8, 128)
        errors, bounds = [], []
        for keyed in (real_desk, simulated):
            vector = keyed.engine.multiply_scalar(keyed.engine.encrypt(x, level=1), 0.5)
            fresh = keyed.engine.refresh(vector, secret_key=keyed.keys.secret)
            errors.append(np.abs(keyed.open(fresh) - x / 2).max())
            if isinstance(keyed.engine, SimulatedEngine):
                bounds.append(keyed.engine.noise_bound(fresh))
        assert errors[0] <= bounds[0]
        assert errors[1] <= 2.0**-39


@pytest.mark.parametrize(("depth", "digits"), [(2, 3), (7, 4), (7, 2), (7, 1)])
@pytest.mark.parametrize("slots", [64, 4096])
def test_the_peak_of_key_switching_is_within_the_bound(depth: int, digits: int, slots: int) -> None:
    # a quiet vector, all slots: the biased division by P shows in slot 0
    parameters = insecure_parameters(
        ring_dim=1 << 13, depth=depth, scale_bits=40, digits=digits, first_bits=60
    )
    ratios = []
    for seed in range(3):
        found, bounds = {}, {}
        for scheme in ("ckks", "simulate"):
            keyed = new_keyed(scheme, parameters=parameters, rotations=(1, 2, 3))
            engine = keyed.engine
            x = np.random.default_rng(seed).uniform(-1, 1, slots)
            quiet = engine.lower(engine.multiply_scalar(engine.encrypt(x), 1e-3), 1)
            made = {
                "rotate": engine.rotate(quiet, 1),
                "many": engine.rotate_many(quiet, [1, 2])[1],
                "sum": engine.sum_rotations(quiet, [1, 2, 3]),
            }
            for name, vector in made.items():
                found[scheme, name] = keyed.open(vector)
                if isinstance(engine, SimulatedEngine):
                    bounds[name] = engine.noise_bound(vector)
        for name, bound in bounds.items():
            error = np.abs(found["ckks", name] - found["simulate", name]).max()
            assert error <= bound, name
            ratios.append(error / bound)
    assert max(ratios) > 0.005


def test_errors_that_all_copies_share_survive_folding() -> None:
    parameters = insecure_parameters(ring_dim=1 << 12, depth=4, scale_bits=40)
    real_desk = open_keyed("ckks", parameters=parameters, rotations=ROTATIONS)
    simulated = open_keyed("simulate", parameters=parameters, rotations=ROTATIONS)
    results = []
    for keyed in (real_desk, simulated):
        wide = keyed.engine.repeat(keyed.engine.encrypt([2.0**15, 1.0]), 2048)
        folded = keyed.engine.fold(keyed.engine.multiply_scalar(wide, 0.1234567), 2)
        results.append(folded)
    error = np.abs(real_desk.open(results[0]) - simulated.open(results[1])).max()
    assert error <= simulated.engine.noise_bound(results[1])
    back = simulated.engine.repeat(results[1], 2048)
    assert simulated.engine.noise_bound(back) >= simulated.engine.noise_bound(results[1])


@pytest.mark.parametrize(("bits", "size"), [(59, 1e2), (50, 1e6), (40, 1e9), (40, 1.0)])
def test_large_values_lose_no_more_than_double_precision_allows(bits: int, size: float) -> None:
    parameters = insecure_parameters(
        ring_dim=1 << 12, depth=4, scale_bits=bits, first_bits=60, digits=5
    )
    real_desk = open_keyed("ckks", parameters=parameters)
    simulated = open_keyed("simulate", parameters=parameters)
    x = size * np.random.default_rng(3).uniform(-1, 1, 64)
    pairs = []
    for keyed in (real_desk, simulated):
        vector = keyed.engine.encrypt(x)
        pairs.append(
            (vector, keyed.engine.add_plain(vector, size), keyed.engine.add_plain(vector, x))
        )
    for found, model in zip(*pairs, strict=True):
        error = np.abs(real_desk.open(found) - simulated.open(model)).max()
        assert error <= simulated.engine.noise_bound(model)


def test_a_refresh_of_values_that_may_wrap_is_refused_by_the_simulator() -> None:
    simulated = open_keyed("simulate", parameters=insecure_narrow)
    limit = 2.0 ** (60 - 30 - 11)
    simulated.engine.begin_refresh(simulated.engine.encrypt([limit, 0.0]))
    with pytest.raises(OutOfRange, match="refresh"):
        simulated.engine.begin_refresh(simulated.engine.encrypt([1.01 * limit, 0.0]))


def test_what_wraps_around_in_ckks_is_refused_by_the_simulator() -> None:
    parameters = insecure_parameters(ring_dim=1 << 11, depth=2, scale_bits=45)
    real_desk = open_keyed("ckks", parameters=parameters)
    simulated = open_keyed("simulate", parameters=parameters)
    x = np.full(4, 2.0**9)
    vector = real_desk.engine.encrypt(x, level=1)
    wrapped = real_desk.open(real_desk.engine.multiply(vector, vector))
    assert np.abs(wrapped - 2.0**18).min() > 1.0
    held = simulated.engine.encrypt(x, level=1)
    product = simulated.engine.multiply(held, held)
    with pytest.raises(OutOfRange):
        simulated.open(product)


def test_bootstrapping_lands_where_planned() -> None:
    from helba.reference.engine import get_scheme
    from helba.reference.planning.bounds.bootstrap import BOOTSTRAP_LEVELS, bootstrap_error

    parameters = insecure_parameters(
        ring_dim=1 << 11, depth=15, scale_bits=50, digits=3, secret="sparse"
    )
    x = np.random.default_rng(2).uniform(-1, 1, 8)
    for name in ("ckks", "simulate"):
        scheme = get_scheme(name)
        keys = scheme.generate_keys(parameters, bootstrap_slots=8)
        engine = scheme.engine(keys.public, evaluation_key=keys.evaluation)
        fresh = engine.bootstrap(engine.multiply_scalar(engine.encrypt(x, level=13), 0.5))
        assert fresh.level == BOOTSTRAP_LEVELS
        error = np.abs(engine.decrypt(fresh, secret_key=keys.secret) - x / 2).max()
        assert error <= bootstrap_error(parameters)
        onward = engine.multiply(fresh, fresh)
        again = engine.decrypt(onward, secret_key=keys.secret)
        np.testing.assert_allclose(again, x * x / 4, rtol=0, atol=2 * bootstrap_error(parameters))
