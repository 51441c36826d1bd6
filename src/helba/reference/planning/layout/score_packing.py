"""What users, the server's first model and readers put into the slots of a `ScoreLayout`. Plain.

Feature f of an arm x against feature f of the model (A, w), for i <= j in row order:

    f                                x's side                          model's side
    i                                x_i                               w_i
    d + i d - i(i-1)/2 + (j - i)     (gamma/2) x_i x_j (2 if i < j)    A_ij
    d + d(d+1)/2                     constant                          1

x's side is divided by `scale`, so that differences of scores lie in [-1, 1]. Whoever has fewer than
K arms fills up with dummies, which the server cannot see:

- by pairs, a real arm beats a dummy by the full scale (constant +1), a dummy loses (-1), and two
  dummies tie (0);
- by arms, where a score cannot depend on its opponent, a dummy repeats the first arm. It ties with
  that one, which the certificates for K arms allow for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from helba.errors import InvalidInput, require_at_least, require_choice, require_positive
from helba.reference.planning.layout.matrix import require_square
from helba.reference.planning.layout.score import ScoreLayout

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """The comparison vector b of K arms, and the test value if one rode along."""

    comparison: Array
    test: float | None


def pack_contexts(layout: ScoreLayout, *, contexts: ArrayLike, gamma: float, scale: float) -> Array:
    """Return the slots of up to K contexts, one a row: features over `scale`, by pairs or arms.

    Scores may differ by at most `scale`: the caller knows the range of the model, this does not.
    """
    rows = np.asarray(contexts, dtype=np.float64)
    if rows.ndim != 2 or not 1 <= len(rows) <= layout.arms or rows.shape[1] != layout.dim:
        allowed = f"1 to {layout.arms} rows of {layout.dim} numbers"
        raise InvalidInput("contexts", f"shape {rows.shape}", allowed)
    if not np.isfinite(rows).all():
        raise InvalidInput("contexts", "a number that is not finite", "finite")
    require_at_least("gamma", gamma, 0.0)
    require_positive("scale", scale)
    real, table = len(rows), np.zeros((layout.features, layout.padded_arms))
    table[: layout.dim, :real] = rows.T / scale
    quadratic = svec(rows[:, :, None] * rows[:, None, :])
    table[layout.dim : layout.constant_feature, :real] = gamma / (2.0 * scale) * quadratic.T
    if layout.form == "arms":
        table[:, real : layout.arms] = table[:, :1]
        return table.ravel()
    a, b = layout.compared_arms()
    both = (a < real) & (b < real)
    grid = np.where(both, table[:, a] - table[:, b], 0.0)
    grid[layout.constant_feature] += (a < real).astype(np.float64) - (b < real)
    packed: Array = grid.ravel()
    return packed


def pack_model(layout: ScoreLayout, *, inverse: ArrayLike, estimate: ArrayLike) -> Array:
    """Return the slots of the model (A, w): each feature repeated over the minor index."""
    matrix = require_square("inverse", inverse, dim=layout.dim)
    w = np.asarray(estimate, dtype=np.float64)
    if w.shape != (layout.dim,):
        raise InvalidInput("estimate", f"shape {w.shape}", f"{layout.dim} numbers")
    column = np.zeros(layout.features)
    column[: layout.dim] = w
    column[layout.dim : layout.constant_feature] = matrix[np.triu_indices(layout.dim)]
    column[layout.constant_feature] = 1.0
    return np.repeat(column, layout.pairs)


def pack_trace(layout: ScoreLayout, *, growth: ArrayLike, threshold: float, reach: float) -> Array:
    """Return the slots whose score is (Tr(A D) - threshold)/reach, for the symmetric D = `growth`.

    By pairs it fills the free slot q = 0 only, to be added to the contexts; by
    arms all of them, as contexts of their own. The sign that follows needs a score in [-1, 1], so
    `reach` must be at least threshold and at least the largest Tr(A D) - threshold that can be:
    past it the polynomial explodes (degrees (5, 3): 1.05 gives -1.07).
    """
    require_positive("reach", reach)
    matrix = require_square("growth", growth, dim=layout.dim)
    table = np.zeros((layout.features, layout.pairs))
    column = table[:, 0] if layout.form == "pairs" else table.T
    column[..., layout.dim : layout.constant_feature] = svec(matrix) / reach
    column[..., layout.constant_feature] = -threshold / reach
    return table.ravel()


def svec(matrix: Array) -> Array:
    """Return the upper triangle by rows, off-diagonal entries doubled: <svec(M), A> = Tr(M A).

    Of several matrices, if there are axes before the last two.
    """
    rows, columns = np.triu_indices(matrix.shape[-1])
    doubled: Array = matrix[..., rows, columns] * np.where(rows == columns, 1.0, 2.0)
    return doubled


def read_answer(
    layout: ScoreLayout, *, values: ArrayLike, method: str, riding: bool = False
) -> Answer:
    """Return b and, if the update test rode along, its value, from decrypted slots.

    b stands in the second copy of the grid. Slot 0 holds b_0 + test (sum) or (1 + b_0) test
    (product; two arms are a sum): see `circuits.comparison.argmax`. By pairs of two arms b_0 stands
    at c = 1, b_1 is 1 - b_0, and slot 0 holds the test alone.
    """
    require_choice("method", method, ("product", "sum"))
    slots = np.asarray(values, dtype=np.float64)
    if slots.shape != (layout.compare_slots,):
        raise InvalidInput("values", f"shape {slots.shape}", f"{layout.compare_slots} numbers")
    if layout.columns == 1:
        win = slots[layout.columns]
        return Answer(np.array([win, 1.0 - win]), float(slots[0]) if riding else None)
    b = slots[layout.grid : layout.grid + layout.arms].copy()
    if not riding:
        return Answer(b, None)
    if method == "sum" or layout.arms == 2:
        return Answer(b, float(slots[0] - b[0]))
    return Answer(b, float(slots[0] / (1.0 + b[0])))
