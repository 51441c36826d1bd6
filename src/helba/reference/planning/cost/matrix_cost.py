"""What the circuits on matrices cost, before they run. Refreshes are not counted."""

from __future__ import annotations

from helba.errors import require_whole
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.stages import count_rotations

MOST_STEPS = 1000


def warm_cost(layout: MatrixLayout, *, steps: int) -> Cost:
    """Cost of a warm inverse with that many Newton steps, 2 levels each and 2 before the first."""
    require_whole("steps", steps, least=0, most=MOST_STEPS)
    if steps == 0:
        return Cost()
    return layout.single.cost + _newton(layout, steps=steps)


def cold_cost(layout: MatrixLayout, *, steps: int) -> Cost:
    """Cost of a cold inverse; its first step is linear in V for X, and one product for M."""
    require_whole("steps", steps, least=0, most=MOST_STEPS)
    if steps == 0:
        return Cost()
    linear = Cost(levels=1, plain_products=1)
    if steps == 1:
        return linear
    return (linear | layout.single.cost) + _newton(layout, steps=steps - 1)


def residual_cost(layout: MatrixLayout) -> Cost:
    """Cost of I - V X."""
    return layout.single.cost


def squared_norm_cost(layout: MatrixLayout) -> Cost:
    """Cost of the squared Frobenius norm."""
    rotations = count_rotations(layout.sum_columns, layout.sum_rows)
    return Cost(levels=1, products=1, rotations=rotations)


def estimate_cost(layout: MatrixLayout) -> Cost:
    """Cost of a symmetric matrix times a vector by row."""
    return Cost(levels=1, products=1, rotations=count_rotations(layout.sum_rows))


def row_product_cost(layout: MatrixLayout) -> Cost:
    """Cost of a matrix times a vector by column, in the paper's row packing."""
    return Cost(
        levels=2, products=1, plain_products=1, rotations=count_rotations(layout.sum_columns)
    )


def refinement_cost(layout: MatrixLayout) -> Cost:
    """Cost of one refinement of the estimate."""
    spread = Cost(rotations=count_rotations(layout.spread_columns))
    return row_product_cost(layout) + spread + estimate_cost(layout)


def _newton(layout: MatrixLayout, *, steps: int) -> Cost:
    """Steps from X and M to X."""
    if steps == 1:
        return layout.single.cost
    between = layout.advancing.cost.times(steps - 2)
    return layout.opening.cost + between + layout.closing.cost
