"""What a round and an update of the profile `ciphertext` do, as steps with their costs.

A round: scores, sign, argmax. With the sqrt bonus the root comes between scores and comparison, and
scores are by arms. A refresh renews what the next step works on; sums that wait near the top (the
means beside the root, the trace of the update test) are not part of that. An update: Newton steps
from the last inverse (`inverse_steps`), then, from the refreshed inverse, the estimate with one
refinement and the model's layout (`model_steps`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from helba.bandits.settings import Settings
from helba.reference.numerics.composite import CompositeSign
from helba.reference.planning.cost.chain import Step
from helba.reference.planning.cost.compare_cost import argmax_cost, root_cost
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.cost.matrix_cost import estimate_cost, refinement_cost
from helba.reference.planning.cost.polynomial import SLOTWISE, polynomial_cost
from helba.reference.planning.layout.matrix import MatrixLayout, MatrixProduct
from helba.reference.planning.layout.model import ModelAssembly
from helba.reference.planning.layout.packing import cyclic_cost, cyclic_stages
from helba.reference.planning.layout.root_packing import normal_root
from helba.reference.planning.layout.score import ScoreLayout, score_cost
from helba.reference.twin.ciphertext_bound import ROOT_ROUNDS


def round_steps(
    settings: Settings, *, layout: ScoreLayout, sign: CompositeSign, method: str
) -> tuple[Step, ...]:
    """Return the steps from encrypted contexts and model to the comparison vector."""
    riding = settings.schedule == "trace"
    compare = _compare_steps(layout, sign=sign, method=method, riding=riding)
    sums = _groups(layout.features, radix=layout.radix)
    whole = score_cost(layout, riding=riding)
    if settings.bonus == "quadratic":
        scores = Step(name="scores", cost=whole, groups=sums * whole.products)
        return (scores, *compare)
    # <w, x> and x^T A x are summed apart; what scoring by arms costs above its sums is spreading.
    single = Cost(levels=1, products=1) + cyclic_cost(count=layout.features, radix=layout.radix)
    spread = Cost(
        levels=whole.levels - single.levels,
        plain_products=whole.plain_products,
        rotations=whole.rotations - whole.products * single.rotations,
    )
    sides = whole.products + 1
    summing = Cost(levels=1, products=sides * single.products, rotations=sides * single.rotations)
    high, count = normal_root(max(ROOT_ROUNDS, settings.horizon))
    return (
        Step(name="scores", cost=summing, groups=sums * sides),
        *root_steps(high=high, iterations=count),
        Step(name="spreading", cost=spread),
        *compare,
    )


def root_range(settings: Settings) -> tuple[float, float]:
    """Return [low, high] of the root's argument: what the twin adds keeps it from 0."""
    top = settings.length**2 / settings.ridge
    floor = top / max(ROOT_ROUNDS, settings.horizon)
    return floor, top + floor


def root_steps(*, high: float, iterations: int) -> tuple[Step, ...]:
    """Return the steps of the square root; two ciphertexts are on the way."""
    whole = root_cost(high=high, iterations=iterations)
    first = Cost(levels=1, plain_products=whole.plain_products)
    if iterations == 0:
        return (Step(name="root", cost=first),)
    middle = [
        Step(name="root", cost=Cost(levels=2, products=3), state=2) for _ in range(iterations - 1)
    ]
    # The first division and the last product share the levels that the steps leave.
    last = Step(name="root", cost=Cost(levels=1, products=1), state=2)
    return (Step(name="root", cost=first), *middle, last)


def _compare_steps(
    layout: ScoreLayout, *, sign: CompositeSign, method: str, riding: bool
) -> tuple[Step, ...]:
    """The sign stage by stage, then the argmax: a sum, or one product after the other."""
    *stages, last = sign.orders
    steps = [Step(name="sign", cost=polynomial_cost(order)) for order in stages]
    steps.append(Step(name="sign", cost=polynomial_cost(last, outputs=(SLOTWISE,))))
    whole = argmax_cost(layout, sign=sign, method=method, riding=riding)
    done = sum((step.cost for step in steps), Cost())
    rest = Cost(
        levels=whole.levels - done.levels,
        products=whole.products - done.products,
        plain_products=whole.plain_products - done.plain_products,
        rotations=whole.rotations - done.rotations,
    )
    if rest == Cost():
        return tuple(steps)
    if not rest.products:
        groups = _groups(layout.padded_arms, radix=layout.radix)
        return (*steps, Step(name="argmax", cost=rest, groups=groups))
    *tree, close = [Cost(levels=1, products=1, rotations=1)] * rest.products
    close |= Cost(plain_products=rest.plain_products)
    return (*steps, *(Step(name="argmax", cost=cost) for cost in (*tree, close)))


@lru_cache(maxsize=256)
def inverse_steps(matrices: MatrixLayout, *, newton_steps: int) -> tuple[Step, ...]:
    """Return the first product V A, and the Newton steps; M and X are stacked after the first.

    The last step makes X alone. A itself is fresh, so that a refresh always renews one ciphertext.
    """
    first = _matrix_step(matrices.single, name="V A")
    if newton_steps == 1:
        return (first, _matrix_step(matrices.single, name="Newton step"))
    between = [matrices.opening] + [matrices.advancing] * (newton_steps - 2)
    steps = [_matrix_step(product, name="Newton step") for product in between]
    return (first, *steps, _matrix_step(matrices.closing, name="Newton step"))


@lru_cache(maxsize=64)
def model_steps(matrices: MatrixLayout, *, layout: ScoreLayout | None) -> tuple[Step, ...]:
    """Return the estimate, its refinement, and the model's layout, from a fresh inverse.

    V, g and A are fresh, so that a refresh on the way renews the estimate alone.

    Without a layout, in the paper's profile, the estimate is all.
    """
    rows, columns, spread = (
        tuple(map(len, stages))
        for stages in (matrices.sum_rows, matrices.sum_columns, matrices.spread_columns)
    )
    estimate = Step(name="estimate", cost=estimate_cost(matrices), groups=rows)
    if layout is None:
        return (estimate,)
    refinement = Step(
        name="refinement",
        cost=refinement_cost(matrices),
        groups=columns + spread + rows,
    )
    assembly = ModelAssembly(matrix=matrices, score=layout)
    copies = tuple(len(stage) for stage in assembly.spread)
    return (estimate, refinement, Step(name="model", cost=assembly.cost, groups=copies))


def _matrix_step(product: MatrixProduct, *, name: str) -> Step:
    spread = [len(stage) for stage in (*product.spread_left, *product.spread_right)]
    groups = (*spread * product.chunks, *(len(stage) for stage in product.sum_slices))
    return Step(name=name, cost=product.cost, groups=groups)


def _groups(count: int, *, radix: int) -> tuple[int, ...]:
    stages: Sequence[tuple[int, ...]] = cyclic_stages(stride=1, count=count, radix=radix)
    return tuple(len(stage) for stage in stages)
