"""Comparison and maximum by iterating f_n: NewComp, NewMax, amax and acomp of the paper, encrypted.

Same names, counts and certificates as `numerics.compare`, which also says what is corrected: NewMax
adds (a - b)/2 * x (erratum 1), the counts are those that reach the error (errata 2 and 4). Errors
are the certificate's plus the noise of CKKS. Every circuit iterates at least once.

The noise of CKKS is complex. Where two values tie, every iteration multiplies its imaginary part by
c_n = f_n'(0), 1.5 for n = 1, and nothing holds it back: `planning.compare_cost.tie_growth` times
the noise of an iteration must stay below about 1e-2, or the result diverges. At 45 bits 50
iterations of f_1 survive a tie and 55 do not; at 50 bits all that the paper's precision asks for.

Halves cost no level: they ride in the coefficients of the last iteration. With a `refresh`, levels
come back whenever a step would leave too few for a refresh; without, depth must suffice.
Source: Cheon, Kim and Kim, ePrint 2019/1234; Lemma comp_lemma of the paper.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from helba.circuits.levels import Refresh, with_levels
from helba.circuits.packing import cyclic_sum
from helba.circuits.polynomial import evaluate_affine
from helba.engine import EncryptedVector, Engine
from helba.errors import InvalidInput, require_between, require_whole
from helba.numerics.compare import compare_iterations, levels_per_iteration, maximum_iterations
from helba.planning.compare_cost import comparison_order
from helba.planning.packing import next_power_of_two
from helba.planning.polynomial import PLAIN, Affine

__all__ = ["acomp", "amax", "iterate", "new_comp", "new_max"]


def iterate(
    engine: Engine,
    x: EncryptedVector,
    *,
    n: int,
    iterations: int,
    output: Affine = PLAIN,
    refresh: Refresh | None = None,
) -> EncryptedVector:
    """Return alpha * f_n^(k)(x) + beta for x in [-1, 1], k = `iterations` >= 1.

    k ceil(log2(2n + 2)) levels. Near 0 the noise grows by `tie_growth`: see the module.
    """
    require_whole("iterations", iterations, least=1, most=1000)
    order = comparison_order(n)
    for count in range(iterations):
        x = with_levels(x, needed=levels_per_iteration(n), refresh=refresh)
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
    """Return (a > b), slot by slot, for a, b in [0, 1]: within `error` where |a - b| >= gap."""
    count = max(1, compare_iterations(gap=gap, error=error, n=n))
    half = Affine(alpha=0.5, beta=0.5)
    difference = engine.subtract(a, b)
    return iterate(engine, difference, n=n, iterations=count, output=half, refresh=refresh)


def new_max(
    engine: Engine,
    a: EncryptedVector,
    *,
    b: EncryptedVector,
    error: float,
    n: int = 1,
    refresh: Refresh | None = None,
) -> EncryptedVector:
    """Return max(a, b), slot by slot, for a, b in [0, 1]: at most `error` below, never above."""
    return amax(engine, [a, b], error=error, n=n, refresh=refresh)


def amax(
    engine: Engine,
    values: Sequence[EncryptedVector],
    *,
    error: float,
    n: int = 1,
    refresh: Refresh | None = None,
) -> EncryptedVector:
    """Return the maximum of the vectors, slot by slot, one after the other.

    Values in [0, 1]; the result is at most `error` below the maximum and never above.
    K - 1 times the levels of the iterations and 1 more.
    """
    if len(values) < 2:
        raise InvalidInput("values", f"{len(values)} of them", "at least 2")
    count = max(1, maximum_iterations(error=error, arms=len(values), n=n))
    best = values[0]
    for value in values[1:]:
        best = with_levels(best, needed=1, refresh=refresh)
        other = with_levels(value, needed=1, refresh=refresh)
        difference = engine.subtract(best, other)
        half_sign = iterate(
            engine, difference, n=n, iterations=count, output=Affine(alpha=0.5), refresh=refresh
        )
        half_sign = with_levels(half_sign, needed=1, refresh=refresh)
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
    refresh: Refresh | None = None,
) -> EncryptedVector:
    """Return b: slot i compares value i with the amax of all, values in [0, 1].

    `values` has the arms in its slots, padded to Kp by numbers in [0, 1], with period Kp. Each slot
    takes the maximum over itself and the arms that follow. Past two arms those maxima differ by
    their errors, and only slot 0 is sure to have met all arms and no padding: it is spread to the
    others, for 1 level, so that entries of b are compared with the same number and keep their
    order. Rotations 1..K-1.
    """
    require_whole("arms", arms, least=2, most=values.slots)
    require_between("error", error, 0.0, 0.25)
    padded = next_power_of_two(arms)
    values = with_levels(values, needed=1, refresh=refresh)  # once, before it is rotated
    top = amax(engine, engine.rotate_many(values, range(arms)), error=error, n=n, refresh=refresh)
    if arms > 2:
        first = np.zeros(values.slots)
        first[::padded] = 1.0
        top = engine.multiply_plain(with_levels(top, needed=1, refresh=refresh), first)
        top = cyclic_sum(engine, top, stride=1, count=padded, radix=2)
    return new_comp(engine, values, b=top, gap=error, error=error, n=n, refresh=refresh)
