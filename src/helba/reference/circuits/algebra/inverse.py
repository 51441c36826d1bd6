"""Newton's inverse of an encrypted matrix, the twin of `numerics.inverse`. 2 levels a step.

X and M = V X advance together, X <- X R and M <- M R with R = 2s I - s^2 M (scale s), by one
product of the stacked vector [M; X] (`planning.layout.matrix`). The scale rides in the masks of the
right factor, so that the masks of the left one are the same in every step. The last step computes X
alone, and leaves it with period p^2.

The certificates are those of exact arithmetic plus what `noise` says that a product may add; with
the default, 0, they know nothing of CKKS. Noise also leaves X slightly unsymmetric, by at most
twice the noise that it carries. That is within the noise for whoever takes X for symmetric: the
transpose (`circuits.algebra.estimate`) is as close to the inverse, and a triangle
(`circuits.scores.model`) has no more noise in an entry.

The steps yield an operand whose levels do not suffice for the next product and a refresh after it
(`circuits.levels`); a call without `refresh` raises `LevelsExhausted` when the engine must.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from helba.errors import InvalidInput, require_at_least
from helba.numerics.inverse import InverseNoise, plan_warm_start
from helba.reference.circuits.algebra.matrix import matrix_product, multiply_matrices
from helba.reference.circuits.levels import Refresh, Steps, run_steps, sink, with_levels
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.numerics.certificate import Certificate, Certified
from helba.reference.numerics.inverse import MATRIX_PRODUCT_LEVELS, cold_iterations
from helba.reference.planning.layout.matrix import MatrixLayout, MatrixProduct


def invert_warm(
    engine: Engine,
    *,
    matrix: EncryptedVector,
    start: EncryptedVector,
    layout: MatrixLayout,
    low: float,
    high: float,
    error: float,
    noise: float | InverseNoise = 0.0,
    bound: float = 1.0,
    piece_levels: int | None = None,
    refresh: Refresh | None = None,
) -> Certified[EncryptedVector]:
    """Run `invert_warm_steps`."""
    steps = invert_warm_steps(
        engine,
        matrix=matrix,
        start=start,
        layout=layout,
        low=low,
        high=high,
        error=error,
        noise=noise,
        bound=bound,
        piece_levels=piece_levels,
    )
    return run_steps(steps, refresh=refresh)


def invert_warm_steps(
    engine: Engine,
    *,
    matrix: EncryptedVector,
    start: EncryptedVector,
    layout: MatrixLayout,
    low: float,
    high: float,
    error: float,
    noise: float | InverseNoise = 0.0,
    bound: float = 1.0,
    piece_levels: int | None = None,
) -> Steps[Certified[EncryptedVector]]:
    """Return X with ||V^(1/2) X V^(1/2) - I|| <= certificate.error, from X = `start`.

    Needs V = `matrix` and `start` symmetric, and the eigenvalues of V times `start` in [low, high].
    `noise` bounds what a product may add to V^(1/2) X V^(1/2) and to V^(-1/2) M V^(1/2); how it
    adds up, and which `error` it does not allow, is `plan_warm_start`'s. 2 levels for V times
    `start`, 2 for each step; none if `start` is good enough already. `bound` and `piece_levels` are
    those of `_Supply`.
    """
    plan = plan_warm_start(low=low, high=high, error=error, noise=noise)
    supply = _Supply(engine=engine, bound=bound, piece_levels=piece_levels)
    X = start
    if plan.steps:
        V = yield from supply.ready(supply.begin(matrix))
        X = yield from supply.ready(supply.begin(start))
        M = matrix_product(engine, left=V, right=X, layout=layout)
        X = yield from _advance(supply, X, M=M, scales=plan.scales, layout=layout)
    certificate = Certificate(
        quantity="spectral norm of V^(1/2) X V^(1/2) - I",
        interval=(low, high),
        error=plan.error,
        levels=MATRIX_PRODUCT_LEVELS * (plan.steps + 1) if plan.steps else 0,
    )
    return Certified(value=X, certificate=certificate)


def invert_cold(
    engine: Engine,
    *,
    matrix: EncryptedVector,
    layout: MatrixLayout,
    ridge: float,
    trace_bound: float,
    error: float,
    noise: float = 0.0,
    bound: float = 1.0,
    piece_levels: int | None = None,
    refresh: Refresh | None = None,
) -> Certified[EncryptedVector]:
    """Run `invert_cold_steps`."""
    steps = invert_cold_steps(
        engine,
        matrix=matrix,
        layout=layout,
        ridge=ridge,
        trace_bound=trace_bound,
        error=error,
        noise=noise,
        bound=bound,
        piece_levels=piece_levels,
    )
    return run_steps(steps, refresh=refresh)


def invert_cold_steps(
    engine: Engine,
    *,
    matrix: EncryptedVector,
    layout: MatrixLayout,
    ridge: float,
    trace_bound: float,
    error: float,
    noise: float = 0.0,
    bound: float = 1.0,
    piece_levels: int | None = None,
) -> Steps[Certified[EncryptedVector]]:
    """Return X with ||X - V^-1|| <= certificate.error, from X = I / trace_bound.

    Needs V = `matrix` symmetric, its eigenvalues at least `ridge`, its trace at most c =
    `trace_bound`. k1(error) steps (Prop. 1 of the paper), 2 levels each, and with `noise`, that of
    `cold_bound`, as many more as bring its bound to `error`; an error that the noise does not allow
    is refused. The first step needs no encrypted X: X = (2 I - V/c)/c is linear in V, and
    M = (V/c)(2 I - V/c) one product. `bound` and `piece_levels` are those of `_Supply`.
    """
    steps, reached = _cold_plan(ridge=ridge, trace_bound=trace_bound, error=error, noise=noise)
    supply = _Supply(engine=engine, bound=bound, piece_levels=piece_levels)
    V = supply.begin(engine.fold(matrix, layout.size))
    if steps:
        V = yield from supply.ready(V, bound=trace_bound)
    identity = np.eye(layout.dim)
    slope, diagonal = -1.0 / trace_bound**2, 2.0 / trace_bound
    if steps == 0:
        slope, diagonal = 0.0, 1.0 / trace_bound
    X = engine.add_plain(engine.multiply_scalar(V, slope), layout.pack(diagonal * identity))
    if steps > 1:
        M = matrix_product(
            engine,
            left=V,
            right=V,
            layout=layout,
            left_factor=1.0 / trace_bound,
            right_factor=-1.0 / trace_bound,
            right_plus=2.0 * identity,
        )
        scales = (1.0,) * (steps - 1)
        X = yield from _advance(supply, X, M=M, scales=scales, layout=layout)
    certificate = Certificate(
        quantity="spectral norm of X - V^-1",
        interval=(ridge, trace_bound),
        error=reached,
        levels=MATRIX_PRODUCT_LEVELS * steps if steps > 1 else steps,
    )
    return Certified(value=X, certificate=certificate)


def cold_bound(*, ridge: float, trace_bound: float, iterations: int, noise: float = 0.0) -> float:
    """Return a bound of ||X - V^-1|| after `iterations` cold steps; without noise, Prop. 1's.

    `noise` bounds what every step may add to V^(1/2) X V^(1/2) and to M. Then the residual of M is
    squared and grows by it, r <- r^2 + noise, and the gap between M and V X grows as in
    `plan_warm_start` with scale 1: D <- (1 + r) D + 2 noise. X is wrong by (r + D)/ridge.
    """
    require_at_least("noise", noise, 0.0)
    rest, drift = 1.0 - ridge / trace_bound, 0.0
    for _ in range(iterations):
        drift = (1.0 + rest) * drift + 2.0 * noise
        rest = rest**2 + noise
    return (rest + drift) / ridge


def _cold_plan(
    *, ridge: float, trace_bound: float, error: float, noise: float
) -> tuple[int, float]:
    """The fewest steps from k1(error) on whose bound is at most `error`, and that bound."""

    def bound_after(iterations: int) -> float:
        return cold_bound(ridge=ridge, trace_bound=trace_bound, iterations=iterations, noise=noise)

    steps = cold_iterations(ridge=ridge, trace_bound=trace_bound, error=error)
    bound = bound_after(steps)
    while noise > 0.0 and bound > error:
        after = bound_after(steps + 1)
        if after >= bound:
            raise InvalidInput("error", error, f"at least {bound:.3g} at noise {noise:g}")
        steps, bound = steps + 1, after
    return steps, bound


@dataclass(frozen=True, kw_only=True)
class _Supply:
    """How operands come by their levels.

    No entry of X or M exceeds `bound` in size, nor one of V if it comes deep. With `piece_levels`,
    operands are lowered at the start and after each refresh to leave that many levels and a
    refresh: cheaper deep down.
    """

    engine: Engine
    bound: float
    piece_levels: int | None

    def begin(self, vector: EncryptedVector) -> EncryptedVector:
        """The vector, as deep as a piece allows."""
        if self.piece_levels is None:
            return vector
        return sink(self.engine, vector, levels=self.piece_levels)

    def ready(
        self, vector: EncryptedVector, *, bound: float | None = None
    ) -> Steps[EncryptedVector]:
        """The vector with the levels of a product and a refresh after it."""
        most = self.bound if bound is None else bound
        renewed = yield from with_levels(vector, needed=MATRIX_PRODUCT_LEVELS, bound=most)
        return vector if renewed is vector else self.begin(renewed)


def _advance(
    supply: _Supply,
    X: EncryptedVector,
    *,
    M: EncryptedVector,
    scales: Sequence[float],
    layout: MatrixLayout,
) -> Steps[EncryptedVector]:
    """Newton steps with these scales from X and M, both of period p^2."""
    identity = np.eye(layout.dim)

    def step(
        product: MatrixProduct, left: Sequence[EncryptedVector], of: EncryptedVector, scale: float
    ) -> EncryptedVector:
        return multiply_matrices(
            supply.engine,
            product,
            left=left,
            right=of,
            right_factor=-(scale**2),
            right_plus=2.0 * scale * identity,
        )

    X = yield from supply.ready(X)
    M = yield from supply.ready(M)
    if len(scales) == 1:
        return step(layout.single, [X], M, scales[0])
    both = yield from supply.ready(step(layout.opening, [M, X], M, scales[0]))
    for scale in scales[1:-1]:
        both = yield from supply.ready(step(layout.advancing, [both], both, scale))
    return step(layout.closing, [both], both, scales[-1])
