"""Comparison and maximum by iterating f_n: NewComp, NewMax, amax and acomp of the paper, encrypted.

Same names, counts and certificates as `numerics.compare`, which also says what is corrected: NewMax
adds (a - b)/2 * x (erratum 1), the counts are those that reach the error (errata 2 and 4). Errors
are the certificate's plus the noise of CKKS. Every circuit iterates at least once.

The noise of CKKS is complex. Where two values tie, every iteration multiplies its imaginary part by
c_n = f_n'(0), 1.5 for n = 1, and nothing holds it back: `planning.cost.compare_cost.tie_growth`
times the noise of an iteration must stay below about 1e-2, or the result diverges. At 45 bits 50
iterations of f_1 survive a tie and 55 do not; at 50 bits all that the paper's precision asks for.

Halves cost no level: they ride in the coefficients of the last iteration. Every circuit exists as
steps that yield a vector when the next one would leave too few levels for a refresh
(`circuits.levels`), and as a call that runs them with a `refresh`; without one, depth must suffice.
Source: Cheon, Kim and Kim, ePrint 2019/1234; Lemma comp_lemma of the paper.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from helba.errors import InvalidInput, require_between, require_whole
from helba.reference.circuits.algebra.packing import cyclic_sum
from helba.reference.circuits.comparison.polynomial import evaluate_affine
from helba.reference.circuits.levels import Refresh, Steps, run_steps, with_levels
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.numerics.compare import (
    compare_iterations,
    levels_per_iteration,
    maximum_iterations,
)
from helba.reference.planning.cost.compare_cost import comparison_order
from helba.reference.planning.cost.polynomial import PLAIN, Affine
from helba.reference.planning.layout.packing import next_power_of_two


def iterate(
    engine: Engine,
    x: EncryptedVector,
    *,
    n: int,
    iterations: int,
    output: Affine = PLAIN,
    refresh: Refresh | None = None,
) -> EncryptedVector:
    """Run `iterate_steps`."""
    steps = iterate_steps(engine, x, n=n, iterations=iterations, output=output)
    return run_steps(steps, refresh=refresh)


def iterate_steps(
    engine: Engine,
    x: EncryptedVector,
    *,
    n: int,
    iterations: int,
    output: Affine = PLAIN,
    levels_after: int | None = None,
) -> Steps[EncryptedVector]:
    """Return alpha * f_n^(k)(x) + beta for x in [-1, 1], k = `iterations` >= 1.

    k ceil(log2(2n + 2)) levels. Near 0 the noise grows by `tie_growth`: see the module.
    `levels_after` are those that follow up to an end that no refresh follows (`with_levels`).
    """
    require_whole("iterations", iterations, least=1, most=1000)
    order, needed = comparison_order(n), levels_per_iteration(n)
    for count in range(iterations):
        rest = None if levels_after is None else (iterations - count) * needed + levels_after
        x = yield from with_levels(x, needed=needed, rest=rest)
        last = output if count == iterations - 1 else PLAIN
        (x,) = evaluate_affine(engine, x, order=order, outputs=(last,))
    return x


def new_comp(
    engine: Engine,
    a: EncryptedVector,
    *,
    b: EncryptedVector,
    gap: float,
    error: float,
    n: int = 1,
    refresh: Refresh | None = None,
) -> EncryptedVector:
    """Run `new_comp_steps`."""
    return run_steps(new_comp_steps(engine, a, b=b, gap=gap, error=error, n=n), refresh=refresh)


def new_comp_steps(
    engine: Engine,
    a: EncryptedVector,
    *,
    b: EncryptedVector,
    gap: float,
    error: float,
    n: int = 1,
    levels_after: int | None = None,
) -> Steps[EncryptedVector]:
    """Return (a > b), slot by slot, for a, b in [0, 1]: within `error` where |a - b| >= gap.

    `levels_after` is that of `iterate_steps`.
    """
    count = max(1, compare_iterations(gap=gap, error=error, n=n))
    half = Affine(alpha=0.5, beta=0.5)
    difference = engine.subtract(a, b)
    return (
        yield from iterate_steps(
            engine, difference, n=n, iterations=count, output=half, levels_after=levels_after
        )
    )


def amax(
    engine: Engine,
    values: Sequence[EncryptedVector],
    *,
    error: float,
    n: int = 1,
    refresh: Refresh | None = None,
) -> EncryptedVector:
    """Run `amax_steps`."""
    return run_steps(amax_steps(engine, values, error=error, n=n), refresh=refresh)


def amax_steps(
    engine: Engine, values: Sequence[EncryptedVector], *, error: float, n: int = 1
) -> Steps[EncryptedVector]:
    """Return the maximum of the vectors, slot by slot, one after the other.

    Values in [0, 1]; the result is at most `error` below the maximum and never above.
    K - 1 times the levels of the iterations and 1 more.
    """
    if len(values) < 2:
        raise InvalidInput("values", f"{len(values)} of them", "at least 2")
    count = max(1, maximum_iterations(error=error, arms=len(values), n=n))
    half = Affine(alpha=0.5)
    best = values[0]
    for value in values[1:]:
        best = yield from with_levels(best, needed=1)
        other = yield from with_levels(value, needed=1)
        difference = engine.subtract(best, other)
        steps = iterate_steps(engine, difference, n=n, iterations=count, output=half)
        half_sign = yield from with_levels((yield from steps), needed=1)
        product = engine.multiply(difference, half_sign)
        best = engine.combine([(best, 0.5), (other, 0.5), (product, 1.0)])
    return best


def acomp(
    engine: Engine,
    values: EncryptedVector,
    *,
    arms: int,
    error: float,
    n: int = 1,
    stride: int = 1,
    refresh: Refresh | None = None,
) -> EncryptedVector:
    """Run `acomp_steps`."""
    steps = acomp_steps(engine, values, arms=arms, error=error, n=n, stride=stride)
    return run_steps(steps, refresh=refresh)


def acomp_steps(
    engine: Engine,
    values: EncryptedVector,
    *,
    arms: int,
    error: float,
    n: int = 1,
    stride: int = 1,
    levels_after: int | None = None,
) -> Steps[EncryptedVector]:
    """Return b: slot i compares value i with the amax of all, values in [0, 1].

    `values` has each arm in `stride` slots that follow one another, padded to Kp arms by numbers in
    [0, 1], with period Kp stride; all slots of an arm are equal, and so are those of b. Each slot
    takes the maximum over its arm and the arms that follow. Past two arms those maxima differ by
    their errors, and only arm 0 is sure to have met all arms and no padding: its maximum is spread
    to the others, for 1 level, so that entries of b are compared with the same number and keep
    their order. Rotations by stride times 1..K-1. `levels_after` is that of `iterate_steps`.
    """
    require_whole("stride", stride, least=1, most=values.slots)
    require_whole("arms", arms, least=2, most=values.slots // stride)
    require_between("error", error, 0.0, 0.25)
    padded = next_power_of_two(arms)
    values = yield from with_levels(values, needed=1)  # once, before it is rotated
    rotated = engine.rotate_many(values, range(0, stride * arms, stride))
    top = yield from amax_steps(engine, rotated, error=error, n=n)
    if arms > 2:
        first = np.arange(values.slots) % (padded * stride) < stride
        top = yield from with_levels(top, needed=1)
        top = engine.multiply_plain(top, first.astype(np.float64))
        top = cyclic_sum(engine, top, stride=stride, count=padded, radix=2)
    return (
        yield from new_comp_steps(
            engine, values, b=top, gap=error, error=error, n=n, levels_after=levels_after
        )
    )
