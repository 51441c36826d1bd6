"""Products of matrices by products of polynomials, in blocks where one polynomial is too small."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput, require_whole
from helba.learning.layout.arrangement import Arrangement, require_ring_dim

_MOST = 1 << 12  # rows, columns or inner terms: a guard against mistaken arguments


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
        require_ring_dim(self.ring_dim)
        _require_sizes("shape", self.shape, most=(_MOST, _MOST, _MOST))
        _require_sizes("block", self.block, most=self.shape)
        rows, inner, columns = self.block
        if rows * inner * columns > self.ring_dim:
            found = f"{rows} x {inner} x {columns} = {rows * inner * columns}"
            raise InvalidInput("block", found, f"at most ring_dim = {self.ring_dim} in product")

    @classmethod
    def fitting(cls, shape: tuple[int, int, int], *, ring_dim: int) -> MatrixProduct:
        """Return the layout with the least work: products plus polynomials of all three stacks.

        One block where m n q <= N. Else near-cubic grids win: cutting inner terms, too, leaves
        few results to open (at d = 64, (128 x 64)(64 x 64) and N = 8192: 64 products either way,
        16 + 16 + 16 polynomials, where blocks of rows alone have 64 + 1 + 64).
        Ties go to fewer products, then to fewer results.
        """
        require_ring_dim(ring_dim)
        _require_sizes("shape", shape, most=(_MOST, _MOST, _MOST))
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

    @property
    def product_count(self) -> int:
        """Coefficients of a product that may be nonzero: results, and sums that nobody reads."""
        rows, inner, columns = self.block
        return min(self.ring_dim, rows * inner * columns + inner - 1)

    @cached_property
    def row_places(self) -> Arrangement:
        """Places of the left matrix: shape (m, n)."""
        (m, n, _), (rows, inner, columns) = self.shape, self.block
        i_block, i = np.divmod(np.arange(m)[:, None], rows)
        j_block, j = np.divmod(np.arange(n), inner)
        places = i * inner * columns + inner - 1 - j
        return self._in_grid(places, (i_block, j_block), (self.grid[0], self.grid[1]))

    @cached_property
    def column_places(self) -> Arrangement:
        """Places of the right matrix: shape (n, q)."""
        (_, n, q), (_, inner, columns) = self.shape, self.block
        j_block, j = np.divmod(np.arange(n)[:, None], inner)
        k_block, k = np.divmod(np.arange(q), columns)
        return self._in_grid(k * inner + j, (j_block, k_block), (self.grid[1], self.grid[2]))

    @cached_property
    def result_places(self) -> Arrangement:
        """Places of the product: shape (m, q)."""
        (m, _, q), (rows, inner, columns) = self.shape, self.block
        i_block, i = np.divmod(np.arange(m)[:, None], rows)
        k_block, k = np.divmod(np.arange(q), columns)
        places = i * inner * columns + k * inner + inner - 1
        return self._in_grid(places, (i_block, k_block), (self.grid[0], self.grid[2]))

    def _in_grid(
        self,
        coefficient: NDArray[np.intp],
        block: tuple[NDArray[np.intp], NDArray[np.intp]],
        grid: tuple[int, int],
    ) -> Arrangement:
        """Return the arrangement with one polynomial for each block of a grid, row by row."""
        polynomial = block[0] * grid[1] + block[1]
        places = polynomial * self.ring_dim + coefficient
        return Arrangement(places, ring_dim=self.ring_dim, polynomials=grid[0] * grid[1])


def _require_sizes(name: str, sizes: tuple[int, int, int], *, most: tuple[int, int, int]) -> None:
    """Raise `InvalidInput` unless `sizes` are three counts, each from 1 to its limit in `most`."""
    if len(sizes) != 3:
        raise InvalidInput(name, sizes, "three sizes: rows, inner terms, columns")
    for axis, size, limit in zip(("rows", "inner terms", "columns"), sizes, most, strict=True):
        require_whole(f"{axis} of {name}", size, least=1, most=limit)


def _balanced_sizes(total: int) -> list[int]:
    """Return the sizes of blocks that cover `total` with some number of them and least excess."""
    return sorted({-(-total // blocks) for blocks in range(1, total + 1)})
