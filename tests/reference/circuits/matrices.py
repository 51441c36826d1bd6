"""Random matrices, and desks with the keys that a layout asks for."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import Keyed, open_keyed
from tests.sweep import in_soak

Array = NDArray[np.float64]

# (scheme, dimension): every shape on the simulator, a few on CKKS; d = 8 is at full security, too
SMALL = [("simulate", dim) for dim in (1, 2, 3, 5, 8)]
CASES = [
    *SMALL,
    *(pytest.param("ckks", dim, marks=pytest.mark.ckks) for dim in (1, 3)),
    in_soak("ckks", 8, marks=pytest.mark.ckks),
]
LARGE = [("simulate", 16), ("simulate", 32)]


def open_matrix_desk(
    scheme: str, *, dim: int, depth: int = 6, max_slots: int | None = None, more: object = ()
) -> tuple[Keyed, MatrixLayout]:
    parameters = insecure_parameters(ring_dim=1 << (15 if dim > 8 else 11), depth=depth)
    layout = MatrixLayout(dim=dim, max_slots=max_slots or parameters.max_slots)
    rotations = {*layout.rotations, *more}  # type: ignore[call-overload]
    return open_keyed(scheme, parameters=parameters, rotations=rotations), layout


def random_matrices(count: int, *, dim: int, seed: int = 1) -> list[Array]:
    generator = np.random.default_rng(seed)
    return [generator.uniform(-1.0, 1.0, (dim, dim)) / np.sqrt(dim) for _ in range(count)]


def random_design(dim: int, *, seed: int = 1) -> tuple[Array, Array]:
    """A positive definite matrix and the inverse of an earlier one."""
    contexts = np.random.default_rng(seed).normal(size=(3 * dim, dim))
    early = np.eye(dim) + contexts[:dim].T @ contexts[:dim] / dim
    late = early + contexts[dim:].T @ contexts[dim:] / (4 * dim)
    return late, np.linalg.inv(early)
