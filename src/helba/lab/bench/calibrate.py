"""Measures how long each operation of CKKS takes on this machine, for the planner's predictions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from helba.garbling import build_argmax
from helba.lab.bench.argmax import bench_argmax
from helba.lab.kernel.ring import measure_ring_kernels
from helba.lab.progress import Progress
from helba.reference.engine import EncryptedVector, Engine, get_scheme
from helba.reference.planning.cost.calibration import KINDS, Measurement
from helba.reference.planning.parameters import Parameters

CALIBRATION_PARAMETERS = (
    Parameters(ring_dim=1 << 14, depth=6, scale_bits=40, digits=4, security=128),
    Parameters(ring_dim=1 << 15, depth=12, scale_bits=40, digits=3, security=128),
)
SLOTS = 1024
REPETITIONS = 3
ROTATIONS = (1, 2, 3)
TIMED_ARMS, TIMED_BITS = 16, 40  # of the garbled argmax


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


def measure_timing() -> dict[str, float]:
    """Return seconds of each operation on shares, as `helba.lab.plan.cost` has them."""
    names = {
        "encrypt": "ring encrypt, 3 primes",
        "product": "ring product, 3 primes",
        "automorphism": "ring outer product",
        "open": "ring open, server",
        "receive": "ring open, opener",
    }
    measured = measure_ring_kernels(list(names.values()))
    found = {kind: measured[name].seconds for kind, name in names.items()}
    found["automorphism"] = max(1e-6, found["automorphism"] - found["product"])
    circuit = build_argmax(TIMED_ARMS, bits=TIMED_BITS)
    for kind, lanes, steps in (("gate", 256, circuit.and_gates), ("level", 1, circuit.depth)):
        (row,) = bench_argmax([TIMED_ARMS], lanes=lanes, bits=TIMED_BITS)["results"]
        both = row["garbler_seconds"] + row["evaluator_seconds"]
        found[kind] = both / (lanes * steps)
    return found


def _measure(parameters: Parameters, *, level: int) -> list[Measurement]:
    """The fastest of the repetitions, for each kind."""
    scheme = get_scheme("ckks")
    keys = scheme.generate_keys(parameters, rotations=ROTATIONS)
    engine = scheme.engine(keys.public, evaluation_key=keys.evaluation)
    best: dict[str, float] = {}
    for repetition in range(REPETITIONS + 1):
        with engine.count() as scaling:
            _scale(engine, level)
        with engine.count() as others:
            vector = _exercise(engine, level)
            engine.refresh(vector, secret_key=keys.secret)
            engine.decrypt(vector, secret_key=keys.secret)
        if repetition == 0:  # OpenFHE makes tables at first use
            continue
        for kind in KINDS:
            # a refresh and an adjusted level are products with numbers too, at other levels
            tally = scaling if kind == "multiply_scalar" else others
            count = tally.encodings if kind == "encode" else tally.of(kind)
            if count:
                seconds = tally.seconds_by_kind[kind] / count
                best[kind] = min(seconds, best.get(kind, seconds))
    return [
        Measurement.of(kind, seconds=seconds, parameters=parameters, level=level)
        for kind, seconds in best.items()
    ]


def _scale(engine: Engine, level: int) -> None:
    """Multiply by a number at `level`, and rescale."""
    product = engine.multiply_scalar(_encrypt(engine, level), 0.3)
    engine.lower(product, product.level)


def _exercise(engine: Engine, level: int) -> EncryptedVector:
    """Do every other operation at `level`, and only there, at least once."""
    vector = _encrypt(engine, level)
    engine.multiply_plain(vector, _values())
    engine.rotate(vector, ROTATIONS[0])
    engine.rotate_many(vector, ROTATIONS)
    engine.sum_rotations(vector, ROTATIONS)
    product = engine.multiply(vector, vector)
    engine.lower(product, product.level)  # relinearised and rescaled
    return engine.add(vector, vector)


def _encrypt(engine: Engine, level: int) -> EncryptedVector:
    return engine.encrypt(_values(), level=level)


def _values() -> NDArray[np.float64]:
    """New numbers, so that they are encoded anew."""
    return np.random.default_rng().uniform(-1.0, 1.0, SLOTS)
