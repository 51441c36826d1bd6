"""Kernels on matrices: products in slices and by Jiang et al., with vectors, and their norms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from helba.lab.kernel.kernel import KERNEL_PARAMETERS, Kernel
from helba.reference.circuits.algebra.jiang import jiang_product
from helba.reference.circuits.algebra.matrix import matrix_product, residual, squared_norm
from helba.reference.circuits.algebra.rows import multiply_rows
from helba.reference.planning.cost.matrix_cost import (
    residual_cost,
    row_product_cost,
    squared_norm_cost,
)
from helba.reference.planning.layout.jiang import JiangLayout
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.stages import distinct_steps, steps_of

Array = NDArray[np.float64]
SEED = 20261115


def matrix_kernels() -> Iterator[Kernel]:
    """Yield the kernels; products start at level 0, where an update does."""
    for dim in (5, 8, 16):
        yield _product(dim)
    for dim in (8, 16):
        yield _jiang(dim)
    yield _residual(dim=8)
    yield _rows(dim=8)


def matrix_layout(dim: int) -> MatrixLayout:
    """Return the layout of d x d matrices in the kernels' ring."""
    return MatrixLayout(dim=dim, max_slots=KERNEL_PARAMETERS.max_slots)


def design_matrix(dim: int, *, spread: float) -> Array:
    """Return a symmetric matrix with eigenvalues from 1 to 1 + spread."""
    basis, _ = np.linalg.qr(np.random.default_rng(SEED).normal(size=(dim, dim)))
    symmetric: Array = basis @ np.diag(1.0 + spread * np.linspace(0.0, 1.0, dim)) @ basis.T
    return symmetric


def _product(dim: int) -> Kernel:
    layout = matrix_layout(dim)
    A, B = np.random.default_rng(SEED).normal(size=(2, dim, dim)) / np.sqrt(dim)
    return Kernel(
        name=f"matrix product d={dim}",
        inputs=[layout.pack(A), layout.pack(B)],
        run=lambda engine, held: matrix_product(engine, left=held[0], right=held[1], layout=layout),
        expected=layout.pack(A @ B),
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
        cost=layout.cost,
        rotations=layout.rotations,
        level=0,
    )


def _residual(*, dim: int) -> Kernel:
    """The check of a new inverse, once it has been refreshed."""
    layout = matrix_layout(dim)
    V = design_matrix(dim, spread=1.0)
    X = np.linalg.inv(V) + 0.01 * np.outer(np.ones(dim), np.linspace(-1.0, 1.0, dim))
    norm = float(np.linalg.norm(np.eye(dim) - V @ X) ** 2)
    steps = {*layout.single.rotations, *steps_of(layout.sum_all)}
    return Kernel(
        name=f"residual and its squared norm d={dim}",
        inputs=[layout.pack(V), layout.pack(X)],
        run=lambda engine, held: squared_norm(
            engine,
            matrix=residual(engine, matrix=held[0], inverse=held[1], layout=layout),
            layout=layout,
        ),
        expected=np.full(layout.size, norm),
        cost=residual_cost(layout) + squared_norm_cost(layout),
        rotations=distinct_steps(steps, slots=layout.slots),
        level=0,
    )


def _rows(*, dim: int) -> Kernel:
    """As in the refinement of an estimate, which has used a level."""
    layout = matrix_layout(dim)
    V, w = design_matrix(dim, spread=1.0), np.linspace(-1.0, 1.0, dim)
    column = np.zeros((layout.side, layout.side))
    column[:dim, 0] = V @ w
    return Kernel(
        name=f"row packing product d={dim}",
        inputs=[layout.pack(V), layout.pack_by_column(w)],
        run=lambda engine, held: multiply_rows(
            engine, matrix=held[0], vector=held[1], layout=layout
        ),
        expected=column.ravel(),
        cost=row_product_cost(layout),
        rotations=distinct_steps(steps_of(layout.sum_columns), slots=layout.size),
        level=1,
    )
