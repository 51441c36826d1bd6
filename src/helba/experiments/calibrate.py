"""Measures how long each operation of CKKS takes on this machine, for the planner's predictions."""

from __future__ import annotations

import numpy as np

from helba.engine import EncryptedVector, Engine, get_scheme
from helba.experiments.progress import Progress
from helba.planning.calibration import KINDS, Measurement
from helba.planning.parameters import Parameters

__all__ = ["CALIBRATION_PARAMETERS", "measure_operations"]

CALIBRATION_PARAMETERS = (
    Parameters(ring_dim=1 << 14, depth=6, scale_bits=40, digits=4, security=128),
    Parameters(ring_dim=1 << 15, depth=12, scale_bits=40, digits=3, security=128),
)
SLOTS = 1024
REPETITIONS = 3
ROTATIONS = (1, 2, 3)


def measure_operations() -> list[Measurement]:
    """Return seconds of each kind at two levels of two rings; bootstrapping is left as shipped."""
    total = 2 * len(CALIBRATION_PARAMETERS)
    found = []
    with Progress("calibration", total=total, unit="levels of a ring") as progress:
        for parameters in CALIBRATION_PARAMETERS:
            for level in (0, parameters.depth // 2):
                found += _measure(parameters, level=level)
                progress.advance()
    return found


def _measure(parameters: Parameters, *, level: int) -> list[Measurement]:
    scheme = get_scheme("ckks")
    keys = scheme.generate_keys(parameters, rotations=ROTATIONS)
    engine = scheme.engine(keys.public, evaluation_key=keys.evaluation)
    _exercise(engine, level)  # OpenFHE makes tables at first use
    with engine.count() as tally:
        for _ in range(REPETITIONS):
            vector = _exercise(engine, level)
            engine.refresh(vector, secret_key=keys.secret)
            engine.decrypt(vector, secret_key=keys.secret)
    found = []
    for kind in KINDS:
        count = tally.encodings if kind == "encode" else tally.of(kind)
        if kind == "multiply_scalar":  # levels are adjusted by such products, refreshes begin so
            count += tally.of("adjust", "refresh")
        if count:
            seconds = tally.seconds_by_kind[kind] / count
            found.append(Measurement.of(kind, seconds=seconds, parameters=parameters, level=level))
    return found


def _exercise(engine: Engine, level: int) -> EncryptedVector:
    """Do every operation at `level` at least once."""
    values = np.random.default_rng().uniform(-1.0, 1.0, SLOTS)
    vector = engine.encrypt(values, level=level)
    engine.combine([(vector, 0.3), (vector, 1.0)])
    engine.multiply_plain(vector, values)
    engine.rotate(vector, 1)
    engine.rotate_many(vector, ROTATIONS)
    engine.sum_rotations(vector, ROTATIONS)
    product = engine.multiply(vector, vector)
    engine.lower(product, product.level + 1)
    return engine.add(vector, vector)
