"""Kernels on matrices: products in slices and by Jiang et al., inverse, estimate, model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from helba.circuits.estimate import compute_estimate, refine_estimate
from helba.circuits.inverse import invert_cold, invert_warm
from helba.circuits.jiang import jiang_product
from helba.circuits.matrix import matrix_product
from helba.circuits.model import assemble_model
from helba.circuits.rows import multiply_rows
from helba.experiments.kernels import KERNEL_PARAMETERS, Kernel
from helba.numerics.inverse import cold_error, cold_iterations, plan_warm_start
from helba.planning.jiang import JiangLayout
from helba.planning.matrix import MatrixLayout
from helba.planning.matrix_cost import (
    cold_cost,
    estimate_cost,
    refinement_cost,
    row_product_cost,
    warm_cost,
)
from helba.planning.model import ModelAssembly
from helba.planning.score import ScoreLayout
from helba.planning.score_packing import pack_model

__all__ = ["matrix_kernels"]

Array = NDArray[np.float64]
SEED = 20261115
INVERSE_ERROR = 1e-4


def matrix_kernels() -> Iterator[Kernel]:
    """Yield the kernels; products start at level 0, where an update does."""
    for dim in (8, 16):
        yield _product(dim)
        yield _jiang(dim)
    yield _warm(dim=8)
    yield _cold(dim=2)
    yield _rows(dim=8)
    yield _estimate(dim=8)
    yield _refinement(dim=8)
    yield _model(dim=8, arms=8)


def _layout(dim: int) -> MatrixLayout:
    return MatrixLayout(dim=dim, max_slots=KERNEL_PARAMETERS.max_slots)


def _design(dim: int, *, spread: float) -> Array:
    """A symmetric matrix with eigenvalues from 1 to 1 + spread."""
    basis, _ = np.linalg.qr(np.random.default_rng(SEED).normal(size=(dim, dim)))
    symmetric: Array = basis @ np.diag(1.0 + spread * np.linspace(0.0, 1.0, dim)) @ basis.T
    return symmetric


def _product(dim: int) -> Kernel:
    layout = _layout(dim)
    A, B = np.random.default_rng(SEED).normal(size=(2, dim, dim)) / np.sqrt(dim)
    return Kernel(
        name=f"matrix product d={dim}",
        inputs=[layout.pack(A), layout.pack(B)],
        run=lambda engine, held: matrix_product(engine, left=held[0], right=held[1], layout=layout),
        expected=layout.pack(A @ B),
        error=0.0,
        cost=layout.single.cost,
        rotations=layout.single.rotations,
        level=0,
    )


def _jiang(dim: int) -> Kernel:
    layout = JiangLayout(dim=dim)
    A, B = np.random.default_rng(SEED).normal(size=(2, dim, dim)) / np.sqrt(dim)
    return Kernel(
        name=f"Jiang product d={dim}",
        inputs=[layout.pack(A), layout.pack(B)],
        run=lambda engine, held: jiang_product(engine, left=held[0], right=held[1], layout=layout),
        expected=layout.pack(A @ B),
        error=0.0,
        cost=layout.cost,
        rotations=layout.rotations,
        level=0,
    )


def _warm(*, dim: int) -> Kernel:
    """From the inverse of I to that of a matrix whose trace has grown by up to 2."""
    layout, high = _layout(dim), 3.0
    V = _design(dim, spread=high - 1.0)
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
    )


def _cold(*, dim: int) -> Kernel:
    layout, ridge = _layout(dim), 1.0
    V = _design(dim, spread=1.0)
    bound = float(np.trace(V))
    steps = cold_iterations(ridge=ridge, trace_bound=bound, error=INVERSE_ERROR)
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
        error=cold_error(ridge=ridge, trace_bound=bound, iterations=steps),
        cost=cold_cost(layout, steps=steps),
        rotations=layout.rotations,
    )


def _rows(*, dim: int) -> Kernel:
    layout = _layout(dim)
    V, w = _design(dim, spread=1.0), np.linspace(-1.0, 1.0, dim)
    column = np.zeros((layout.side, layout.side))
    column[:dim, 0] = V @ w
    return Kernel(
        name=f"row packing product d={dim}",
        inputs=[layout.pack(V), layout.pack_by_column(w)],
        run=lambda engine, held: multiply_rows(
            engine, matrix=held[0], vector=held[1], layout=layout
        ),
        expected=column.ravel(),
        error=0.0,
        cost=row_product_cost(layout),
        rotations=layout.rotations,
    )


def _estimate(*, dim: int) -> Kernel:
    layout = _layout(dim)
    A, g = np.linalg.inv(_design(dim, spread=1.0)), np.linspace(-1.0, 1.0, dim)
    return Kernel(
        name=f"estimate d={dim}",
        inputs=[layout.pack(A), layout.pack_by_row(g)],
        run=lambda engine, held: compute_estimate(
            engine, inverse=held[0], response=held[1], layout=layout
        ),
        expected=layout.pack_by_column(A @ g),
        error=0.0,
        cost=estimate_cost(layout),
        rotations=layout.rotations,
    )


def _refinement(*, dim: int) -> Kernel:
    layout = _layout(dim)
    V, g = _design(dim, spread=1.0), np.linspace(-1.0, 1.0, dim)
    A = np.linalg.inv(V) + 1e-3 * np.eye(dim)
    w = A @ g
    refined = w + A @ (g - V @ w)
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
        error=0.0,
        cost=refinement_cost(layout),
        rotations=layout.rotations,
    )


def _model(*, dim: int, arms: int) -> Kernel:
    layout, score = _layout(dim), ScoreLayout(dim=dim, arms=arms)
    assembly = ModelAssembly(matrix=layout, score=score)
    A, w = np.linalg.inv(_design(dim, spread=1.0)), np.linspace(-1.0, 1.0, dim)
    return Kernel(
        name=f"model d={dim} K={arms}",
        inputs=[layout.pack(A), layout.pack_by_column(w)],
        run=lambda engine, held: assemble_model(
            engine, inverse=held[0], estimate=held[1], assembly=assembly
        ),
        expected=pack_model(score, inverse=A, estimate=w),
        error=0.0,
        cost=assembly.cost,
        rotations=assembly.rotations,
    )
