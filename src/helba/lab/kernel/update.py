"""Kernels of an update: inverse, estimate, refinement, model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from helba.lab.kernel.kernel import KERNEL_PARAMETERS, Kernel
from helba.lab.kernel.matrix import design_matrix, matrix_layout
from helba.numerics.inverse import plan_warm_start
from helba.reference.circuits.algebra.estimate import compute_estimate, refine_estimate
from helba.reference.circuits.algebra.inverse import invert_cold, invert_warm
from helba.reference.circuits.scores.model import assemble_model
from helba.reference.numerics.composite import CompositeSign
from helba.reference.numerics.inverse import cold_error, cold_iterations
from helba.reference.planning.cost.matrix_cost import (
    cold_cost,
    estimate_cost,
    refinement_cost,
    warm_cost,
)
from helba.reference.planning.layout.model import ModelAssembly
from helba.reference.planning.layout.score import choose_score_layout, score_cost
from helba.reference.planning.layout.score_packing import pack_model
from helba.reference.planning.layout.stages import distinct_steps, steps_of

INVERSE_ERROR = 1e-4


def update_kernels(sign: CompositeSign) -> Iterator[Kernel]:
    """Yield the kernels where an update has them.

    The inverse starts from fresh ciphertexts and is refreshed; so the estimate starts at level 0,
    and its refinement at level 1. The model leaves what scores and sign need.
    """
    yield _warm(dim=8)
    yield _cold(dim=2)
    yield _estimate(dim=8)
    yield _refinement(dim=8)
    yield _model(dim=8, arms=8, levels=1, sign=sign)
    yield _model(dim=16, arms=16, levels=2, sign=sign)


def _warm(*, dim: int) -> Kernel:
    """From the inverse of I to that of a matrix whose trace has grown by up to 2."""
    layout, high = matrix_layout(dim), 3.0
    V = design_matrix(dim, spread=high - 1.0)
    plan = plan_warm_start(low=1.0, high=high, error=INVERSE_ERROR)
    return Kernel(
        name=f"warm inverse d={dim}, {plan.steps} steps",
        inputs=[layout.pack(V), layout.pack(np.eye(dim))],
        run=lambda engine, held: (
            invert_warm(
                engine,
                matrix=held[0],
                start=held[1],
                layout=layout,
                low=1.0,
                high=high,
                error=INVERSE_ERROR,
            ).value
        ),
        expected=layout.pack(np.linalg.inv(V)),
        error=plan.error,
        cost=warm_cost(layout, steps=plan.steps),
        rotations=layout.rotations,
        level=0,
    )


def _cold(*, dim: int) -> Kernel:
    layout, ridge = matrix_layout(dim), 1.0
    V = design_matrix(dim, spread=1.0)
    bound = float(np.trace(V))
    steps = cold_iterations(ridge=ridge, trace_bound=bound, error=INVERSE_ERROR)
    error = cold_error(ridge=ridge, trace_bound=bound, iterations=steps)
    return Kernel(
        name=f"cold inverse d={dim}, {steps} steps",
        inputs=[layout.pack(V)],
        run=lambda engine, held: (
            invert_cold(
                engine,
                matrix=held[0],
                layout=layout,
                ridge=ridge,
                trace_bound=bound,
                error=INVERSE_ERROR,
            ).value
        ),
        expected=layout.pack(np.linalg.inv(V)),
        error=error,
        cost=cold_cost(layout, steps=steps),
        rotations=layout.rotations,
        level=0,
    )


def _estimate(*, dim: int) -> Kernel:
    layout = matrix_layout(dim)
    A, g = np.linalg.inv(design_matrix(dim, spread=1.0)), np.linspace(-1.0, 1.0, dim)
    return Kernel(
        name=f"estimate d={dim}",
        inputs=[layout.pack(A), layout.pack_by_row(g)],
        run=lambda engine, held: compute_estimate(
            engine, inverse=held[0], response=held[1], layout=layout
        ),
        expected=layout.pack_by_column(A @ g),
        cost=estimate_cost(layout),
        rotations=distinct_steps(steps_of(layout.sum_rows), slots=layout.size),
        level=0,
    )


def _refinement(*, dim: int) -> Kernel:
    layout = matrix_layout(dim)
    V, g = design_matrix(dim, spread=1.0), np.linspace(-1.0, 1.0, dim)
    A = np.linalg.inv(V) + 1e-3 * np.eye(dim)
    w = A @ g
    refined = w + A @ (g - V @ w)
    steps = steps_of(layout.sum_all, layout.spread_columns)
    return Kernel(
        name=f"refined estimate d={dim}",
        inputs=[
            layout.pack_by_column(w),
            layout.pack(A),
            layout.pack(V),
            layout.pack_by_row(g),
        ],
        run=lambda engine, held: refine_estimate(
            engine,
            estimate=held[0],
            inverse=held[1],
            matrix=held[2],
            response=held[3],
            layout=layout,
        ),
        expected=layout.pack_by_column(refined),
        cost=refinement_cost(layout),
        rotations=distinct_steps(steps, slots=layout.size),
        level=1,
    )


def _model(*, dim: int, arms: int, levels: int, sign: CompositeSign) -> Kernel:
    layout = matrix_layout(dim)
    score = choose_score_layout(dim=dim, arms=arms, max_slots=KERNEL_PARAMETERS.max_slots)
    assembly = ModelAssembly(matrix=layout, score=score, levels=levels)
    A, w = np.linalg.inv(design_matrix(dim, spread=1.0)), np.linspace(-1.0, 1.0, dim)
    needed = levels + score_cost(score).levels + sign.levels
    return Kernel(
        name=f"model d={dim} K={arms} in {levels} level{'s' if levels > 1 else ''}",
        inputs=[layout.pack(A), layout.pack_by_column(w)],
        run=lambda engine, held: assemble_model(
            engine, inverse=held[0], estimate=held[1], assembly=assembly
        ),
        expected=pack_model(score, inverse=A, estimate=w),
        cost=assembly.cost,
        rotations=assembly.rotations,
        level=KERNEL_PARAMETERS.depth - needed,
    )
