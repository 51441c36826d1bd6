"""The paper's round and update on ciphertexts: the server multiplies what users send as vectors.

`planning.layout.paper_packing` says where arms stand in the slots, and which numbers are public.
Sums over the slots of an arm leave partial sums of two arms beside the one that is wanted; a mask
clears them and the sum is spread over the arm's slots, so that every slot holds a number in its
range before it enters a root or a comparison, and nothing but b leaves.
"""

from __future__ import annotations

import numpy as np

from helba.reference.circuits.algebra.estimate import compute_estimate
from helba.reference.circuits.algebra.inverse import invert_cold_steps
from helba.reference.circuits.algebra.packing import add_rotations
from helba.reference.circuits.comparison.compare import acomp_steps, iterate_steps
from helba.reference.circuits.comparison.root import square_root_steps
from helba.reference.circuits.levels import Renewal, Steps
from helba.reference.circuits.scores.trace import scaled_trace
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.numerics.compare import compare_iterations
from helba.reference.planning.cost.compare_cost import acomp_cost
from helba.reference.planning.cost.polynomial import Affine
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.paper_packing import PaperIndex, PaperLayout
from helba.reference.planning.layout.stages import Stages
from helba.reference.twin.paper import UPDATE_THRESHOLD


def paper_answer_steps(
    engine: Engine,
    *,
    rows: EncryptedVector,
    columns: EncryptedVector,
    inverse: EncryptedVector,
    estimate: EncryptedVector,
    layout: PaperLayout,
    index: PaperIndex,
) -> Steps[EncryptedVector]:
    """Return b in the slots of every arm, from the arms by row and by column.

    `inverse` by rows and `estimate` by column have p^2 slots. 3 levels for the index, with a root
    `root_levels` more; then amax and NewComp (`acomp_cost`), which the index enters refreshed
    unless all its levels are there: it is used from beginning to end.
    """
    values = yield from _index_steps(
        engine,
        rows=rows,
        columns=columns,
        inverse=inverse,
        estimate=estimate,
        layout=layout,
        index=index,
    )
    if values.levels_left < acomp_cost(error=index.precision, arms=layout.arms).levels:
        values = yield Renewal(vector=values)
    return (
        yield from acomp_steps(
            engine,
            values,
            arms=layout.arms,
            error=index.precision,
            stride=layout.stride,
            levels_after=0,
        )
    )


def _index_steps(
    engine: Engine,
    *,
    rows: EncryptedVector,
    columns: EncryptedVector,
    inverse: EncryptedVector,
    estimate: EncryptedVector,
    layout: PaperLayout,
    index: PaperIndex,
) -> Steps[EncryptedVector]:
    """The index over its range, in [0, 1], in all slots of an arm."""
    A, w = (engine.repeat(vector, layout.slots) for vector in (inverse, estimate))
    form = engine.multiply(engine.multiply(rows, columns), A)
    mean = engine.multiply(columns, w)
    span, root = index.span, index.root
    if root is None:
        # p rows hold the same products of the mean; its factor uses the level that it has in hand
        weight = 2.0 / (index.gamma * layout.matrix.side)
        both = engine.combine([(form, 1.0), (mean, weight)])
        factor = index.gamma / (2.0 * span)
        total = _collect(engine, both, stages=layout.sum_entries, factor=factor, layout=layout)
        return engine.add_plain(total, -index.least / span)
    z = _collect(engine, form, stages=layout.sum_entries, factor=1.0, layout=layout)
    offset = _collect(engine, mean, stages=layout.sum_columns, factor=1.0 / span, layout=layout)
    width = yield from square_root_steps(
        engine,
        engine.add_plain(z, root.low),
        high=root.high,
        iterations=root.iterations,
        factor=root.weight / span,
    )
    constant = (root.weight * root.margin - index.least) / span
    return engine.combine([(offset, 1.0), (width, 1.0)], constant=constant)


def _collect(
    engine: Engine,
    products: EncryptedVector,
    *,
    stages: Stages,
    factor: float,
    layout: PaperLayout,
) -> EncryptedVector:
    """Factor times the sum over an arm's slots, in all of them. 1 level: the mask."""
    sums = add_rotations(engine, products, stages=stages)
    mask = np.zeros(layout.slots)
    mask[:: layout.stride] = factor
    return add_rotations(engine, engine.multiply_plain(sums, mask), stages=layout.spread)


def paper_statistics(
    engine: Engine, *, rows: EncryptedVector, columns: EncryptedVector, reward: EncryptedVector
) -> tuple[EncryptedVector, EncryptedVector]:
    """Return x x^T by rows and r x by row, from the played x and its reward. 1 level."""
    return engine.multiply(rows, columns), engine.multiply(reward, rows)


def paper_update_steps(
    engine: Engine,
    *,
    design: EncryptedVector,
    response: EncryptedVector,
    matrices: MatrixLayout,
    ridge: float,
    trace_bound: float,
    error: float,
    estimate_bound: float = 1.0,
) -> Steps[tuple[EncryptedVector, EncryptedVector, EncryptedVector]]:
    """Return A with ||A - V^-1|| <= error by rows, and w = A g by column, twice.

    A is refreshed; w stands there as it was sent to be refreshed, and as it came back.

    V = `design` by rows, g = `response` by row. `invert_cold_steps` with the paper's number of
    steps, then 1 level. No entry of w exceeds `estimate_bound`.
    """
    bound = max(1.0, 1.0 / ridge)
    inverse = yield from invert_cold_steps(
        engine,
        matrix=design,
        layout=matrices,
        ridge=ridge,
        trace_bound=trace_bound,
        error=error,
        bound=bound,
    )
    A = yield Renewal(vector=inverse.value, bound=bound)
    w = compute_estimate(engine, inverse=A, response=response, layout=matrices)
    return A, w, (yield Renewal(vector=w, bound=estimate_bound))


def paper_test_steps(
    engine: Engine,
    *,
    inverse: EncryptedVector,
    growth: EncryptedVector,
    layout: MatrixLayout,
    threshold: float,
    reach: float,
    gap: float,
) -> Steps[EncryptedVector]:
    """Return in every slot a number above `UPDATE_THRESHOLD` if Tr(A D) has passed the threshold.

    D = `growth`, the statistics since the last update. NewComp of the trace and the threshold, both
    over `reach`, which the trace must not exceed: below the threshold by `gap` or more (over the
    reach) the result is at most `UPDATE_THRESHOLD`, above by as much at least 1 minus that. 1 level
    (2 if A and D have used the same levels), and 2 for each iteration; those that an opening needs
    are left.
    """
    difference = scaled_trace(
        engine, inverse, growth=growth, layout=layout, threshold=threshold, reach=reach
    )
    count = max(1, compare_iterations(gap=gap, error=UPDATE_THRESHOLD))
    half = Affine(alpha=0.5, beta=0.5)
    return (yield from iterate_steps(engine, difference, n=1, iterations=count, output=half))
