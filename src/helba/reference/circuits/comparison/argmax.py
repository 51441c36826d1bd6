"""The comparison vector of K arms from all pairs at once, on an encrypted grid.

With P the sign polynomial, x the differences and u = (1 + P(x))/2 on pairs that compare,

    sum:      b_a = sum over c of u/(K - 1), u = 0 elsewhere     no more levels
    product:  b_a = product over c of u, u = 1 elsewhere         log2(Kp) more levels, 0 for K = 2

by rotations over the major index c of the grid. The factors and the values elsewhere are slot
coefficients of the last stage of P. b_a fills all slots of arm a, in every copy of the grid; arms
that only pad K have b = 0. By pairs of two arms there is nothing to add up: b_0 fills the slots
with c = 1, and the others hold 0.

The update test rides in slot q = 0 (arm 0 against itself) of the first copy: there alpha = flip and
beta = noise, so that the value is t = flip P(trace) + noise. It meets b only in windows over slot
0, which are slot 0 and slots of the last copy. By the sum, slot 0 then holds b_0 + t; by the
product b_0 t, to which t itself is added, one plaintext product at a level that the tree of
products leaves idle: (1 + b_0) t. The first row of the second copy is clean, so that
`planning.layout.score_packing.read_answer` finds b and t. By pairs of two arms slot 0 holds t
alone. All slots are functions of b and t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from helba.errors import InvalidInput, require_choice
from helba.reference.circuits.algebra.packing import cyclic_sum
from helba.reference.circuits.comparison.polynomial import evaluate_affine
from helba.reference.circuits.levels import Steps, run_steps, with_levels
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.numerics.argmax import METHODS
from helba.reference.numerics.composite import CompositeSign
from helba.reference.planning.cost.polynomial import PLAIN, Affine
from helba.reference.planning.layout.score import ScoreLayout


@dataclass(frozen=True, kw_only=True)
class Rider:
    """The server's secrets of one update test: a random sign, and noise that blurs the value."""

    flip: int
    noise: float = 0.0

    def __post_init__(self) -> None:
        if self.flip not in (-1, 1):
            raise InvalidInput("flip", "another number", "1 or -1")
        if not math.isfinite(self.noise):
            raise InvalidInput("noise", "a number that is not finite", "finite")

    def __repr__(self) -> str:
        return "<Rider>"


def comparison_vector(
    engine: Engine,
    differences: EncryptedVector,
    *,
    layout: ScoreLayout,
    sign: CompositeSign,
    method: str,
    rider: Rider | None = None,
) -> EncryptedVector:
    """Return b in all slots; see the module. `numerics.argmax` certifies it.

    `argmax_levels` levels, with or without the update test.
    """
    steps = comparison_steps(
        engine, differences, layout=layout, sign=sign, method=method, rider=rider
    )
    return run_steps(steps, refresh=None)


def comparison_steps(
    engine: Engine,
    differences: EncryptedVector,
    *,
    layout: ScoreLayout,
    sign: CompositeSign,
    method: str,
    rider: Rider | None = None,
) -> Steps[EncryptedVector]:
    """Return what `comparison_vector` does, with a cut wherever levels run out.

    Before every stage of the sign and every product of the tree; none where the levels suffice for
    all that is left.
    """
    require_choice("method", method, METHODS)
    summing = method == "sum" or layout.arms == 2
    count, stride = layout.padded_arms, layout.columns
    tree = 0 if summing else count.bit_length() - 1
    output = _coefficients(layout, summing=summing, rider=rider)
    bound = 1.0 if rider is None else 1.0 + abs(rider.noise)
    rest, wins = sign.levels + tree, differences
    for index, order in enumerate(sign.orders, start=1):
        wins = yield from _ready(engine, wins, needed=order.levels, rest=rest)
        outputs = (output if index == len(sign.orders) else PLAIN,)
        (wins,) = evaluate_affine(engine, wins, order=order, outputs=outputs)
        rest -= order.levels
    if layout.columns == 1:
        return wins
    if summing:
        return cyclic_sum(engine, wins, stride=stride, count=count, radix=layout.radix)
    wins = yield from _ready(engine, wins, needed=1, bound=bound, rest=tree)
    product = wins
    for t in range(tree):
        product = yield from _ready(engine, product, needed=1, bound=bound, rest=tree - t)
        product = engine.multiply(product, engine.rotate(product, stride << t))
    if rider is None:
        return product
    corner = np.zeros(layout.compare_slots)
    corner[0] = 1.0
    # as late as the product allows: a plaintext product is cheapest there
    low = engine.lower(wins, max(wins.level, product.level - 1))
    return engine.add(product, engine.multiply_plain(low, corner))


def _ready(
    engine: Engine, vector: EncryptedVector, *, needed: int, rest: int, bound: float = 1.0
) -> Steps[EncryptedVector]:
    """The vector with the levels that it needs; renewed, no more of them than are used."""
    fresh = yield from with_levels(vector, needed=needed, bound=bound, rest=rest)
    if fresh is vector:
        return vector
    return engine.lower(fresh, max(fresh.level, fresh.parameters.depth - rest))


def _coefficients(layout: ScoreLayout, *, summing: bool, rider: Rider | None) -> Affine:
    copies = layout.compare_slots // layout.grid
    compared = layout.compared_pairs()
    weight = 1.0 / (layout.arms - 1) if summing else 1.0
    alpha = np.tile(np.where(compared, weight / 2.0, 0.0), copies)
    arm, _ = layout.compared_arms()
    elsewhere = np.where(arm < layout.arms, 0.0 if summing else 1.0, 0.0)
    beta = np.tile(np.where(compared, weight / 2.0, elsewhere), copies)
    if rider is not None:
        alpha[0], beta[0] = rider.flip, rider.noise
    return Affine(alpha=alpha, beta=beta)
