"""Sums of x x^T, r x and r^2: of many reports by one product, or of one report and its image."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from helba.errors import InvalidInput, require_whole
from helba.learning.layout.arrangement import MOST_COEFFICIENTS, Arrangement, require_ring_dim
from helba.learning.layout.matrix import MatrixProduct


class Statistic(ABC):
    """Places of sums of p p^T, p = (x, r), and of their parts."""

    dim: int

    @property
    @abstractmethod
    def sum_places(self) -> Arrangement:
        """Places of the sums of p p^T: shape (d + 1, d + 1)."""

    @property
    def context_places(self) -> Arrangement:
        """Places of the sum of x x^T: shape (d, d)."""
        return self.sum_places[: self.dim, : self.dim]

    @property
    def reward_places(self) -> Arrangement:
        """Places of the sum of r x: shape (d,)."""
        return self.sum_places[: self.dim, self.dim]

    @property
    def square_places(self) -> Arrangement:
        """Places of the sum of r^2: shape ()."""
        return self.sum_places[self.dim, self.dim]


@dataclass(frozen=True, kw_only=True)
class Gram(Statistic):
    """Sums over a group of reports: P^T P, where row j of P is the report p_j = (x_j, r_j).

    It is the `MatrixProduct` (d+1 x n)(n x d+1) in one block: the same reports in both
    arrangements, n = `reports`, n (d+1)^2 <= N. Places depend on n: a group with fewer reports
    leaves zeros, and its sums stand where those of full groups do, so groups can be added.
    Between the sums stand products of different reports; nobody may read those.
    """

    ring_dim: int
    dim: int
    reports: int

    def __post_init__(self) -> None:
        most = self.capacity(self.dim, ring_dim=self.ring_dim)
        require_whole("reports", self.reports, least=1, most=most)

    @classmethod
    def capacity(cls, dim: int, *, ring_dim: int) -> int:
        """Return how many reports one product sums: N // (d+1)^2, which must not be 0."""
        require_ring_dim(ring_dim)
        require_whole("dim", dim, least=1, most=MOST_COEFFICIENTS)
        if (dim + 1) ** 2 > ring_dim:
            raise InvalidInput("dim", dim, f"such that (dim + 1)^2 <= ring_dim = {ring_dim}")
        return ring_dim // (dim + 1) ** 2

    @cached_property
    def matrix_product(self) -> MatrixProduct:
        """The product of matrices that computes the sums."""
        shape = (self.dim + 1, self.reports, self.dim + 1)
        return MatrixProduct(ring_dim=self.ring_dim, shape=shape, block=shape)

    @property
    def left_places(self) -> Arrangement:
        """Places of the reports in the left operand: shape (reports, d + 1)."""
        return self.matrix_product.row_places.transposed

    @property
    def right_places(self) -> Arrangement:
        """Places of the reports in the right operand: shape (reports, d + 1)."""
        return self.matrix_product.column_places

    @cached_property
    def sum_places(self) -> Arrangement:
        """Places of the sums of p p^T: shape (d + 1, d + 1)."""
        return self.matrix_product.result_places

    @property
    def product_count(self) -> int:
        """Coefficients of the product that may be nonzero: sums, and what stands between them."""
        return self.matrix_product.product_count


@dataclass(frozen=True, kw_only=True)
class OuterProduct(Statistic):
    """p p^T of one report p = (x, r): p(X) = sum_i p_i X^i times its automorphism p(X^s).

    s = `step` is the least number with s >= d+1 and s = 1 mod 4, for which OpenFHE makes keys.
    p_i p_j stands at i + s j: distinct for all i <= d < s. Degrees reach d + s d, which must be
    below N: then nothing wraps, and all other coefficients are zero.
    """

    ring_dim: int
    dim: int

    def __post_init__(self) -> None:
        require_ring_dim(self.ring_dim)
        require_whole("dim", self.dim, least=1, most=MOST_COEFFICIENTS)
        top = self.dim + self.step * self.dim
        if top >= self.ring_dim:
            allowed = f"such that dim + {self.step} dim < ring_dim = {self.ring_dim}"
            raise InvalidInput("dim", self.dim, allowed)

    @property
    def step(self) -> int:
        """The exponent s of the automorphism X -> X^s."""
        return self.dim + 1 + -self.dim % 4

    @cached_property
    def report_places(self) -> Arrangement:
        """Places of a report: shape (d + 1,)."""
        return Arrangement(np.arange(self.dim + 1), ring_dim=self.ring_dim)

    @cached_property
    def image_places(self) -> Arrangement:
        """Places of the report after the automorphism: shape (d + 1,)."""
        return Arrangement(self.step * np.arange(self.dim + 1), ring_dim=self.ring_dim)

    @cached_property
    def sum_places(self) -> Arrangement:
        """Places of p p^T, and of sums of several: shape (d + 1, d + 1)."""
        i, j = np.indices((self.dim + 1, self.dim + 1), dtype=np.intp)
        return Arrangement(i + self.step * j, ring_dim=self.ring_dim)

    @property
    def product_count(self) -> int:
        """Coefficients of the product that may be nonzero."""
        return self.sum_places.count
