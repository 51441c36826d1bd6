"""Products of matrices, in blocks where a polynomial is too small, and of a report with itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from helba.errors import InvalidInput
from helba.learning.layout.arrangement import Arrangement


@dataclass(frozen=True, kw_only=True)
class MatrixProduct:
    """(m x n)(n x q) in blocks of (R x S)(S x C), where R S C <= N; use `fitting` to choose them.

    Within a block: row entry a_ij stands at i S C + (S-1-j), column entry b_jk at k S + j, the
    result (i, k) at i S C + k S + S-1. Blocks make a grid of `grid` = (m/R, n/S, q/C), rounded up.
    A result's polynomial is a sum of products, one for each block of inner terms: `terms`.

    Why nothing else reaches a result: a_i'j times b_j'k' stands at (i, k) only if
    (i'-i) S C + (k'-k) S = j - j'. The left side is a multiple of S and |j - j'| < S, so j = j';
    |k'-k| < C, so k = k' and i = i'. Degrees reach at most R S C + S-2, so with R S C <= N what
    wraps ends at S-2, below the first result. The limit is tight: from R S C = N + 1 on, the
    coefficient N + S-1 of a product of full blocks wraps onto the result (0, 0).
    """

    ring_dim: int
    shape: tuple[int, int, int]
    block: tuple[int, int, int]

    def __post_init__(self) -> None:
        rows, inner, columns = self.block
        if not 0 < rows * inner * columns <= self.ring_dim:
            found = f"{rows} x {inner} x {columns} = {rows * inner * columns}"
            raise InvalidInput("block", found, f"1 to ring_dim = {self.ring_dim} in product")

    @classmethod
    def gram(cls, dim: int, *, reports: int, ring_dim: int) -> MatrixProduct:
        """Return the layout of P^T P in one block, where row j of P is the report (x_j, r_j).

        That is the sum of x x^T, r x and r^2. Reports stand by rows, and by columns, transposed;
        n = `reports`, n (d+1)^2 <= N. Places depend on n: a group with fewer reports leaves zeros,
        and its sums stand where those of full groups do, so groups can be added. Between the sums
        stand products of different reports; nobody may read those.
        """
        shape = (dim + 1, reports, dim + 1)
        return cls(ring_dim=ring_dim, shape=shape, block=shape)

    @classmethod
    def fitting(cls, shape: tuple[int, int, int], *, ring_dim: int) -> MatrixProduct:
        """Return the layout with the least work: products plus polynomials of all three stacks.

        One block where m n q <= N. Else near-cubic grids win: cutting inner terms, too, leaves
        few results to open (at d = 64, (128 x 64)(64 x 64) and N = 8192: 64 products either way,
        16 + 16 + 16 polynomials, where blocks of rows alone have 64 + 1 + 64).
        Ties go to fewer products, then to fewer results.
        """
        row_sizes, inner_sizes, column_sizes = map(_balanced_sizes, shape)
        candidates = []
        for rows in row_sizes:
            for inner in inner_sizes:
                fit = [columns for columns in column_sizes if rows * inner * columns <= ring_dim]
                if fit:
                    block = (rows, inner, max(fit))
                    candidates.append(cls(ring_dim=ring_dim, shape=shape, block=block))
        return min(candidates, key=lambda layout: layout._work)

    @property
    def _work(self) -> tuple[int, int, int]:
        """Cost that `fitting` minimises: work, then products, then polynomials of results."""
        rows, inner, columns = self.grid
        polynomials = rows * inner + inner * columns + rows * columns
        return self.products + polynomials, self.products, rows * columns

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks of rows, of inner terms, and of columns."""
        m, n, q = self.shape
        rows, inner, columns = self.block
        return -(-m // rows), -(-n // inner), -(-q // columns)

    @property
    def products(self) -> int:
        """Products of polynomials."""
        rows, inner, columns = self.grid
        return rows * inner * columns

    @property
    def terms(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each polynomial of results: the (row, column) polynomials whose products it sums."""
        rows, inner, columns = self.grid
        return tuple(
            tuple((i * inner + j, j * columns + k) for j in range(inner))
            for i in range(rows)
            for k in range(columns)
        )

    @cached_property
    def row_places(self) -> Arrangement:
        """Places of the left matrix: shape (m, n)."""
        _, inner, columns = self.block
        return self._arrange((0, 1), steps=(inner * columns, -1), first=inner - 1)

    @cached_property
    def column_places(self) -> Arrangement:
        """Places of the right matrix: shape (n, q)."""
        return self._arrange((1, 2), steps=(1, self.block[1]), first=0)

    @cached_property
    def result_places(self) -> Arrangement:
        """Places of the product: shape (m, q)."""
        _, inner, columns = self.block
        return self._arrange((0, 2), steps=(inner * columns, inner), first=inner - 1)

    def _arrange(self, axes: tuple[int, int], *, steps: tuple[int, int], first: int) -> Arrangement:
        """Entry (i, j) of a block at first + steps (i, j); blocks row by row, one a polynomial."""
        (rows, columns), (size, width) = ([of[x] for x in axes] for of in (self.grid, self.block))
        height, length = (self.shape[x] for x in axes)
        i_block, i = np.divmod(np.arange(height)[:, None], size)
        j_block, j = np.divmod(np.arange(length), width)
        places = (i_block * columns + j_block) * self.ring_dim + first + steps[0] * i + steps[1] * j
        return Arrangement(places, ring_dim=self.ring_dim, polynomials=rows * columns)


def _balanced_sizes(total: int) -> list[int]:
    """Return the sizes of blocks that cover `total` with some number of them and least excess."""
    return sorted({-(-total // blocks) for blocks in range(1, total + 1)})


@dataclass(frozen=True, kw_only=True)
class OuterProduct:
    """p p^T of one report p = (x, r): p(X) = sum_i p_i X^i times its automorphism p(X^s).

    s = `step` is the least number with s >= d+1 and s = 1 mod 4, for which OpenFHE makes keys.
    p_i p_j stands at i + s j: distinct for all i <= d < s. Degrees reach d + s d, which must be
    below N: then nothing wraps, and all other coefficients are zero.
    """

    ring_dim: int
    dim: int

    def __post_init__(self) -> None:
        if self.dim + self.step * self.dim >= self.ring_dim:
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
    def sum_places(self) -> Arrangement:
        """Places of p p^T, and of sums of several: shape (d + 1, d + 1)."""
        i, j = np.indices((self.dim + 1, self.dim + 1), dtype=np.intp)
        return Arrangement(i + self.step * j, ring_dim=self.ring_dim)
