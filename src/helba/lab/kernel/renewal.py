"""Renewal of levels: the masked client refresh and bootstrapping, timed and checked."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from helba.lab.kernel.kernel import KERNEL_PARAMETERS
from helba.reference.engine import get_scheme
from helba.reference.planning.bounds.bootstrap import BOOTSTRAP_LEVELS, bootstrap_error
from helba.reference.planning.bounds.noise import NoiseModel
from helba.reference.planning.parameters import Parameters

BOOTSTRAP_PARAMETERS = Parameters(
    ring_dim=1 << 16, depth=20, scale_bits=55, digits=3, security=128, secret="sparse"
)
SLOTS = 64
RANGE = 8.0


@dataclass(frozen=True, kw_only=True)
class RenewalResult:
    """Seconds in all, of which the user's; `levels` that it needs or uses; bits that are right."""

    seconds: float
    user_seconds: float
    levels: int
    products: int
    rotations: int
    error: float
    error_bound: float
    bits: float
    overhead: float


def measure_refresh(*, repetitions: int = 5) -> RenewalResult:
    """Time the three steps of the masked refresh for values up to 8; the fastest run counts."""
    scheme = get_scheme("ckks")
    keys = scheme.generate_keys(KERNEL_PARAMETERS)
    engine = scheme.engine(keys.public, evaluation_key=keys.evaluation)
    x = np.random.default_rng().uniform(-RANGE, RANGE, SLOTS)
    vector = engine.encrypt(x, level=KERNEL_PARAMETERS.depth - 2)
    best, worst = None, 0.0
    for _ in range(repetitions + 1):
        with engine.count() as tally:
            began = time.perf_counter()
            request, pending = engine.begin_refresh(vector)
            sent = time.perf_counter()
            reply = engine.answer_refresh(request, secret_key=keys.secret)
            returned = time.perf_counter()
            fresh = engine.finish_refresh(reply, pending)
            ended = time.perf_counter()
        found = engine.decrypt(fresh, secret_key=keys.secret)
        worst = max(worst, float(np.abs(found - x).max()))
        if best is None or ended - began < best[0]:
            best = (ended - began, returned - sent, tally.seconds)
    assert best is not None
    noise = NoiseModel(KERNEL_PARAMETERS)
    bound = 3.0 * noise.encryption(SLOTS) + 2.0 * noise.rescaling(SLOTS)
    return RenewalResult(
        seconds=best[0],
        user_seconds=best[1],
        levels=2,
        products=0,
        rotations=0,
        error=worst,
        error_bound=bound,
        bits=math.log2(RANGE / worst),
        overhead=best[0] / best[2],
    )


def measure_bootstrap(*, slots: int = 16) -> RenewalResult:
    """Time one bootstrapping of values in [-1, 1] at N = 2^16, after one that warms up."""
    scheme = get_scheme("ckks")
    keys = scheme.generate_keys(BOOTSTRAP_PARAMETERS, bootstrap_slots=slots)
    engine = scheme.engine(keys.public, evaluation_key=keys.evaluation)
    x = np.random.default_rng().uniform(-1.0, 1.0, slots)
    vector = engine.encrypt(x, level=BOOTSTRAP_PARAMETERS.depth - 1)
    engine.bootstrap(vector)
    with engine.count() as tally:
        began = time.perf_counter()
        fresh = engine.bootstrap(vector)
        seconds = time.perf_counter() - began
    error = float(np.abs(engine.decrypt(fresh, secret_key=keys.secret) - x).max())
    return RenewalResult(
        seconds=seconds,
        user_seconds=0.0,
        levels=BOOTSTRAP_LEVELS,
        products=0,
        rotations=0,
        error=error,
        error_bound=bootstrap_error(BOOTSTRAP_PARAMETERS),
        bits=-math.log2(error),
        overhead=seconds / tally.seconds,
    )
