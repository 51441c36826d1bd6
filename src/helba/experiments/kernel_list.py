"""The kernels that `helba bench kernels` measures: every circuit, with an oracle from numpy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from helba.circuits.argmax import Rider, comparison_vector
from helba.circuits.compare import acomp
from helba.circuits.root import square_root
from helba.circuits.scores import score_differences
from helba.circuits.sign import evaluate_sign
from helba.circuits.trace import trace_test
from helba.experiments.kernels import KERNEL_PARAMETERS, Kernel
from helba.experiments.matrix_kernels import matrix_kernels
from helba.numerics import argmax as clear_argmax
from helba.numerics import compare as clear_compare
from helba.numerics.composite import CompositeSign
from helba.numerics.root import root_error
from helba.numerics.sign import cheapest_composition
from helba.planning.compare_cost import (
    acomp_cost,
    acomp_rotations,
    argmax_cost,
    root_cost,
    trace_cost,
    trace_rotations,
)
from helba.planning.polynomial import sign_cost
from helba.planning.score import ScoreLayout, choose_score_layout, score_cost
from helba.planning.score_packing import pack_contexts, pack_model

__all__ = ["all_kernels"]

Array = NDArray[np.float64]
RESOLUTION = 2.0**-6
SIGN_ERROR = 0.02
SEED = 20261115


def all_kernels() -> Iterator[Kernel]:
    """Yield every kernel; scores start where the sign that follows them can still end."""
    sign = cheapest_composition(resolution=RESOLUTION, error=SIGN_ERROR, depth=9)
    yield _scores(dim=8, arms=8, sign=sign)
    yield _sign(sign)
    for arms, method in ((2, "sum"), (16, "sum"), (16, "product"), (64, "sum")):
        yield _argmax(arms=arms, method=method, sign=sign)
    yield _trace(dim=8, sign=sign)
    yield _root()
    yield _acomp()
    yield from matrix_kernels()


def _scores(*, dim: int, arms: int, sign: CompositeSign) -> Kernel:
    rng = np.random.default_rng(SEED)
    layout = choose_score_layout(dim=dim, arms=arms, max_slots=KERNEL_PARAMETERS.max_slots)
    contexts = rng.uniform(-1.0, 1.0, (arms, dim)) / np.sqrt(dim)
    A = np.linalg.inv(np.eye(dim) + 4.0 * np.cov(rng.normal(size=(dim, 3 * dim))))
    w, gamma, scale = rng.normal(size=dim) / np.sqrt(dim), 2.0, 8.0
    scores = contexts @ w + gamma / 2.0 * np.einsum("ki,ij,kj->k", contexts, A, contexts)
    a, b = layout.compared_arms()
    return Kernel(
        name=f"scores d={dim} K={arms}",
        inputs=[
            pack_contexts(layout, contexts=contexts, gamma=gamma, scale=scale),
            pack_model(layout, inverse=A, estimate=w),
        ],
        run=lambda engine, held: score_differences(engine, held[0], model=held[1], layout=layout),
        expected=(scores[a] - scores[b]) / scale,
        error=0.0,
        cost=score_cost(layout),
        rotations=layout.score_rotations,
        level=KERNEL_PARAMETERS.depth - score_cost(layout).levels - sign.levels,
    )


def _sign(sign: CompositeSign) -> Kernel:
    x: Array = np.linspace(-1.0, 1.0, 1024, dtype=np.float64)
    return Kernel(
        name="sign",
        inputs=[x],
        run=lambda engine, held: evaluate_sign(engine, held[0], sign=sign),
        expected=sign(x),
        error=0.0,
        cost=sign_cost(sign),
    )


def _argmax(*, arms: int, method: str, sign: CompositeSign) -> Kernel:
    layout = ScoreLayout(dim=1, arms=arms)
    scores = np.random.default_rng(SEED).uniform(0.0, 1.0, arms)
    a, b = layout.compared_arms()
    grid = np.tile(scores[a] - scores[b], layout.compare_slots // layout.grid)
    vector = clear_argmax.comparison_vector(scores, sign=sign, scale=1.0, method=method)
    label = f" by {method}" if arms > 2 else ""
    return Kernel(
        name=f"argmax K={arms}{label}",
        inputs=[grid],
        run=lambda engine, held: comparison_vector(
            engine, held[0], layout=layout, sign=sign, method=method
        ),
        expected=vector.value,
        error=0.0,
        cost=argmax_cost(layout, sign=sign, method=method),
        rotations=layout.rotations_for(method),
    )


def _trace(*, dim: int, sign: CompositeSign) -> Kernel:
    rng = np.random.default_rng(SEED)
    half = rng.normal(size=(dim, dim)) / dim
    growth, inverse = half @ half.T, np.eye(dim)
    threshold, reach = 1.0, 8.0
    value = sign((float(np.trace(inverse @ growth)) - threshold) / reach)
    return Kernel(
        name=f"trace test d={dim}",
        inputs=[inverse.ravel(), growth.ravel() / reach],
        run=lambda engine, held: trace_test(
            engine,
            held[0],
            growth=held[1],
            dim=dim,
            threshold=threshold / reach,
            reach=1.0,
            sign=sign,
            rider=Rider(flip=1),
        ),
        expected=np.full(dim * dim, float(value)),
        error=0.0,
        cost=trace_cost(dim, sign=sign),
        rotations=trace_rotations(dim),
    )


def _root() -> Kernel:
    low, high, steps = 1.0 / 64.0, 1.0, 6
    z: Array = np.linspace(low, high, 1024, dtype=np.float64)
    return Kernel(
        name=f"root, {steps} steps",
        inputs=[z],
        run=lambda engine, held: square_root(engine, held[0], high=high, iterations=steps),
        expected=np.sqrt(z),
        error=root_error(low=low, high=high, iterations=steps),
        cost=root_cost(high=high, iterations=steps),
    )


def _acomp() -> Kernel:
    """The paper's argmax, as coarse as fits without a refresh."""
    arms, error, n = 2, 0.1, 3
    values = np.array([0.9, 0.2])
    exact = clear_compare.acomp(values, error=error, n=n)
    return Kernel(
        name=f"acomp K={arms}, error {error}",
        inputs=[values],
        run=lambda engine, held: acomp(engine, held[0], arms=arms, error=error, n=n),
        expected=exact.value,
        error=0.0,
        cost=acomp_cost(error=error, arms=arms, n=n),
        rotations=acomp_rotations(arms),
    )
