"""Ridge regression, and the quadratic forms of an index."""

from __future__ import annotations

import numpy as np

from helba.bandits.policy import Array


def solve_ridge(design: Array, *, response: Array) -> tuple[Array, Array]:
    """Return (V^-1, V^-1 g) by LAPACK: what every approximate inverse is measured against."""
    inverse = np.asarray(np.linalg.inv(design), dtype=np.float64)
    estimate = np.asarray(np.linalg.solve(design, response), dtype=np.float64)
    return (inverse + inverse.T) / 2.0, estimate


def quadratic_forms(contexts: Array, *, matrix: Array) -> Array:
    """Return x^T M x for every row x, never below 0."""
    forms: Array = np.einsum("ij,ij->i", contexts @ matrix, contexts)
    return np.maximum(forms, 0.0)
