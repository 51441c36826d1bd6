"""Kernels of a round: scores, sign, argmax, the update test, and the paper's comparisons."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from helba.errors import RunFailed
from helba.lab.kernel.kernel import KERNEL_PARAMETERS, Kernel
from helba.reference.circuits.comparison.argmax import Rider, comparison_vector
from helba.reference.circuits.comparison.compare import acomp
from helba.reference.circuits.comparison.root import square_root
from helba.reference.circuits.comparison.sign import evaluate_sign
from helba.reference.circuits.scores.scores import score_differences
from helba.reference.circuits.scores.trace import trace_test
from helba.reference.numerics import argmax as clear_argmax
from helba.reference.numerics import compare as clear_compare
from helba.reference.numerics.composite import CompositeSign
from helba.reference.numerics.root import root_error
from helba.reference.planning.cost.chain import REFRESH_LEVELS
from helba.reference.planning.cost.compare_cost import (
    acomp_cost,
    acomp_rotations,
    argmax_cost,
    root_cost,
    trace_cost,
    trace_rotations,
)
from helba.reference.planning.cost.polynomial import sign_cost
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.score import ScoreLayout, choose_score_layout, score_cost
from helba.reference.planning.layout.score_packing import pack_contexts, pack_model, read_answer

Array = NDArray[np.float64]
SEED = 20261115


def round_kernels(sign: CompositeSign) -> Iterator[Kernel]:
    """Yield the kernels; scores start where the sign that follows them can still end."""
    yield _scores(dim=8, arms=8, sign=sign)
    yield _scores(dim=16, arms=16, sign=sign)
    yield _sign(sign)
    for arms, method in ((2, "sum"), (16, "sum"), (16, "product"), (64, "sum")):
        yield _argmax(arms=arms, method=method, sign=sign)
    yield _riding(arms=5, sign=sign)
    yield _trace(dim=8, sign=sign)
    yield _root()
    yield _acomp()


def _scores(*, dim: int, arms: int, sign: CompositeSign) -> Kernel:
    rng = np.random.default_rng(SEED)
    layout = choose_score_layout(dim=dim, arms=arms, max_slots=KERNEL_PARAMETERS.max_slots)
    contexts = rng.uniform(-1.0, 1.0, (arms, dim)) / np.sqrt(dim)
    A = np.linalg.inv(np.eye(dim) + 4.0 * np.cov(rng.normal(size=(dim, 3 * dim))))
    w, gamma, scale = rng.normal(size=dim) / np.sqrt(dim), 2.0, 8.0
    scores = contexts @ w + gamma / 2.0 * np.einsum("ki,ij,kj->k", contexts, A, contexts)
    return Kernel(
        name=f"scores d={dim} K={arms} by {layout.form}",
        inputs=[
            pack_contexts(layout, contexts=contexts, gamma=gamma, scale=scale),
            pack_model(layout, inverse=A, estimate=w),
        ],
        run=lambda engine, held: score_differences(engine, held[0], model=held[1], layout=layout),
        expected=_grid(layout, scores / scale),
        cost=score_cost(layout),
        rotations=layout.score_rotations,
        level=KERNEL_PARAMETERS.depth - score_cost(layout).levels - sign.levels,
    )


def _sign(sign: CompositeSign) -> Kernel:
    x: Array = np.linspace(-1.0, 1.0, 1024, dtype=np.float64)
    past = np.abs(x) >= sign.resolution

    def check(values: Array, noise: float) -> None:
        if np.abs(values - np.sign(x))[past].max() > sign.error + noise:
            raise RunFailed("sign: further from the sign than certified, past the resolution")

    return Kernel(
        name="sign",
        inputs=[x],
        run=lambda engine, held: evaluate_sign(engine, held[0], sign=sign),
        expected=sign(x),
        cost=sign_cost(sign),
        check=check,
    )


def _argmax(*, arms: int, method: str, sign: CompositeSign) -> Kernel:
    # past 16 arms a plan compares scores that come by arms: two copies of the grid
    layout = ScoreLayout(dim=1, arms=arms, form="pairs" if arms <= 16 else "arms")
    scores = np.random.default_rng(SEED).uniform(0.0, 1.0, arms)
    vector = clear_argmax.comparison_vector(scores, sign=sign, scale=1.0, method=method).value
    # by pairs of two arms only the first one's entry is computed
    entries = vector if layout.columns > 1 else np.array([0.0, vector[0]])
    name = f"argmax K={arms} by {method}" if arms > 2 else "argmax K=2"

    def check(values: Array, noise: float) -> None:
        found = read_answer(layout, values=values, method=method).comparison
        _require_best(name, found, scores=scores, noise=noise)

    return Kernel(
        name=name,
        inputs=[_grid(layout, scores)],
        run=lambda engine, held: comparison_vector(
            engine, held[0], layout=layout, sign=sign, method=method
        ),
        expected=np.tile(entries, layout.compare_slots // len(entries)),
        cost=argmax_cost(layout, sign=sign, method=method),
        rotations=layout.argmax_rotations(method),
        check=check,
    )


def _riding(*, arms: int, sign: CompositeSign) -> Kernel:
    """By product, arms that fill no power of two, and the update test in the free slot."""
    layout, method, trace = ScoreLayout(dim=1, arms=arms), "product", 0.4
    scores = np.random.default_rng(SEED).uniform(0.0, 1.0, arms)
    grid = _grid(layout, scores)
    grid[:: layout.grid] = trace
    rider = Rider(flip=-1, noise=0.25)
    test = -float(sign(np.array(trace))) + rider.noise
    # what the slots multiply: wins, 1 against oneself and padding, 0 for padding, the test
    arm, _ = layout.compared_arms()
    factors = np.where(layout.compared_pairs(), 0.0, (arm < arms) * 1.0)
    wins = np.tile(layout.compared_pairs(), layout.compare_slots // layout.grid)
    factors = np.where(
        wins, (1.0 + sign(grid)) / 2.0, np.tile(factors, layout.compare_slots // layout.grid)
    )
    factors[0] = test
    shifts = range(0, layout.grid, layout.padded_arms)
    expected = np.prod([np.roll(factors, -shift) for shift in shifts], axis=0)
    expected[0] += test
    name = f"argmax K={arms} by product, update test riding"

    def check(values: Array, noise: float) -> None:
        found = read_answer(layout, values=values, method=method, riding=True)
        _require_best(name, found.comparison, scores=scores, noise=noise)
        assert found.test is not None
        if rider.flip * (found.test - rider.noise) <= 0.0:
            raise RunFailed(f"{name}: the bit of the test is wrong")

    return Kernel(
        name=name,
        inputs=[grid],
        run=lambda engine, held: comparison_vector(
            engine, held[0], layout=layout, sign=sign, method=method, rider=rider
        ),
        expected=expected,
        cost=argmax_cost(layout, sign=sign, method=method, riding=True),
        rotations=layout.argmax_rotations(method),
        check=check,
    )


def _trace(*, dim: int, sign: CompositeSign) -> Kernel:
    rng = np.random.default_rng(SEED)
    layout = MatrixLayout(dim=dim, max_slots=KERNEL_PARAMETERS.max_slots)
    half, other = rng.normal(size=(2, dim, dim)) / np.sqrt(dim)
    growth, inverse = half @ half.T / dim, np.linalg.inv(np.eye(dim) + other @ other.T)
    threshold, reach = 0.1, 2.0
    distance = (float(np.trace(inverse @ growth)) - threshold) / reach
    assert sign.resolution <= distance <= 1.0
    rider = Rider(flip=-1, noise=0.25)

    def check(values: Array, noise: float) -> None:
        found = rider.flip * (values - rider.noise)
        if np.abs(found - 1.0).max() > sign.error + noise:
            raise RunFailed("trace test: the bit is wrong")

    return Kernel(
        name=f"trace test d={dim}",
        inputs=[layout.pack(inverse), layout.pack(growth / reach)],
        run=lambda engine, held: trace_test(
            engine,
            held[0],
            growth=held[1],
            layout=layout,
            threshold=threshold / reach,
            reach=1.0,
            sign=sign,
            rider=rider,
        ),
        expected=np.full(layout.size, -float(sign(np.array(distance))) + rider.noise),
        cost=trace_cost(layout, sign=sign),
        rotations=trace_rotations(layout),
        check=check,
    )


def _root() -> Kernel:
    """Its result is refreshed before the arms are compared."""
    low, high, steps = 1.0 / 64.0, 1.0, 6
    z: Array = np.linspace(low, high, 1024, dtype=np.float64)
    cost = root_cost(high=high, iterations=steps)
    return Kernel(
        name=f"root, {steps} steps",
        inputs=[z],
        run=lambda engine, held: square_root(engine, held[0], high=high, iterations=steps),
        expected=np.sqrt(z),
        error=root_error(low=low, high=high, iterations=steps),
        cost=cost,
        level=KERNEL_PARAMETERS.depth - cost.levels - REFRESH_LEVELS,
    )


def _acomp() -> Kernel:
    """The paper's argmax, as coarse as fits without a refresh."""
    arms, error, n = 2, 0.1, 3
    values = np.array([0.9, 0.2])
    exact = clear_compare.acomp(values, error=error, n=n)
    name = f"acomp K={arms}, error {error}"

    def check(found: Array, noise: float) -> None:
        _require_best(name, found, scores=values, noise=noise)

    return Kernel(
        name=name,
        inputs=[values],
        run=lambda engine, held: acomp(engine, held[0], arms=arms, error=error, n=n),
        expected=exact.value,
        cost=acomp_cost(error=error, arms=arms, n=n),
        rotations=acomp_rotations(arms),
        check=check,
    )


def _grid(layout: ScoreLayout, scores: Array) -> Array:
    """Differences of all pairs that compare, 0 elsewhere, in every slot."""
    padded = np.pad(scores, (0, layout.padded_arms - layout.arms))
    a, b = layout.compared_arms()
    grid = np.where(layout.compared_pairs(), padded[a] - padded[b], 0.0)
    return np.tile(grid, layout.compare_slots // layout.grid)


def _require_best(name: str, found: Array, *, scores: Array, noise: float) -> None:
    """The best arm has the largest entry, by more than the noise of two."""
    best = int(np.argmax(scores))
    others = np.delete(found, best)
    if int(np.argmax(found)) != best or found[best] - others.max() <= 2.0 * noise:
        raise RunFailed(f"{name}: the largest entry is not surely that of the best arm")
