"""The check of a new model before it is adopted: four values, each held to a range, one bit.

1. Tr((I - V X)^2), which for symmetric X is ||V^(1/2) X V^(1/2) - I||_F^2.
2. r^T X r for r = g - V w, which is |V^(1/2)(w' - w)|^2 for the refined w'.
3. |w'|^2, so that no score leaves its range.
4. Sums of all entries of X with random signs, one for each of its four copies (rows, columns,
   test, model), added up with alternating signs: 0 if the copies are equal.

It finds reopenings that went around the modulus, and faults; a party that cheats can pass it. The
opener adds noise of `NOISE_FACTOR` times the error to every value, which is what limits its
resolution: 1 to 3 see ten times what an update aims at, 4 sees what is wrong by the modulus.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from helba.garbling import Circuit, build_ranges_check
from helba.learning.layout import Arrangement
from helba.learning.plan import INVERSE_SCALE, NOISE_FACTOR, TEST_SCALE
from helba.learning.update_plan import UpdatePlan
from helba.ring import DEVIATIONS, Bound

CHECK_BITS = 52
INVERSE_LIMIT = 0.05  # of ||V^(1/2) X V^(1/2) - I||_F, beyond what is certified
COPY_LIMIT = 0.25


@dataclass(frozen=True, kw_only=True)
class CheckedValue:
    """A value at the last coefficient: its scale, its noise, and the range it must lie in."""

    scale: float
    noise: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Copy:
    """One copy of X: where it stands, at which scale, and the multiple of the signs for it.

    `upper` is True for the model, which has the upper triangle, doubled off the diagonal.
    """

    arrangement: Arrangement
    scale: float
    multiple: int
    sign: int
    upper: bool = False

    def mirrored_signs(self, signs: NDArray[np.int64]) -> dict[int, tuple[NDArray[np.int64], ...]]:
        """Return places and integers of the signs, by polynomial: products meet in the last one."""
        if self.upper:
            signs = signs[np.triu_indices(len(signs))]
        integers = self.sign * self.multiple * np.ravel(signs)
        mirrored = self.arrangement.mirrored
        return {k: (places, integers[index]) for k, (places, index) in mirrored.parts.items()}


class ModelCheck:
    """Ranges, noise and circuit of the check after an update."""

    def __init__(self, update: UpdatePlan) -> None:
        self.update = update
        self._plan = update.plan
        self._prime = float(update.plan.parameters.moduli[1])

    @cached_property
    def copies(self) -> tuple[Copy, ...]:
        """The copies of X that are compared."""
        update, plan = self.update, self._plan
        per_entry = update.model_inverse_scale
        found = (
            (update.layout.row_places[: update.dim], INVERSE_SCALE, 1, False),
            (update.layout.column_places, INVERSE_SCALE, -1, False),
            (plan.trace_right.transposed, TEST_SCALE, 1, False),
            (plan.inner(1).model_places[update.dim :], per_entry, -1, True),
        )
        return tuple(
            Copy(
                arrangement=arrangement,
                scale=scale,
                multiple=max(1, round(self.copy_scale * self._prime / scale)),
                sign=sign,
                upper=upper,
            )
            for arrangement, scale, sign, upper in found
        )

    @property
    def copy_scale(self) -> float:
        """The scale of the sums over copies: each is at most d^(3/2)."""
        return 2.0 ** math.floor(50.0 - 1.5 * math.log2(self.update.dim))

    @cached_property
    def values(self) -> tuple[CheckedValue, ...]:
        """The four values, in order."""
        update, d = self.update, self.update.dim
        size = update.reach * max(update.residual, 2.0**-10)
        rest = Bound.of(peak=size * update.check_scale, count=d * d)
        inverse = math.sqrt(d) * update.residual
        residual = Bound.of(peak=update.residual_peak * update.rest_scale, count=d)
        refined = math.sqrt(update.refinement_limit * 4.0) * update.refinement_scale
        refinement = Bound.of(peak=refined, count=d)
        bound = update.estimate_bound
        length = 2.0 * bound * update.norm_scale
        norm = Bound(peak=length, norm=length, count=d)
        copied = math.fsum(
            self._product(self._copy_bound(c), Bound.of(peak=float(c.multiple), count=d * d))
            * len(c.arrangement.parts)
            for c in self.copies
        )
        units = d * d / update.model_inverse_scale * self._plan.grid.model_multiple
        apart = COPY_LIMIT + 2.0 * units
        return (
            self._value(
                update.check_scale**2,
                limit=max(INVERSE_LIMIT, 2.0 * inverse) ** 2,
                noise=self._product(rest, rest),
            ),
            self._value(
                update.rest_scale * update.refinement_scale,
                limit=2.0 * update.refinement_limit,
                noise=self._product(residual, refinement, encryptions=2),
            ),
            self._value(
                update.norm_scale**2, limit=bound**2 * 1.01, noise=self._product(norm, norm)
            ),
            self._value(self.copy_scale * self._prime, limit=apart, noise=copied, low=-apart),
        )

    def _copy_bound(self, copy: Copy) -> Bound:
        d = self.update.dim
        if copy.upper:
            return self._plan.model_bound
        return Bound.of(peak=1.2 * copy.scale, norm=1.2 * math.sqrt(d) * copy.scale, count=d * d)

    def _value(
        self, product: float, *, limit: float, noise: float, low: float = 0.0
    ) -> CheckedValue:
        scale = product / self._prime
        allowance = DEVIATIONS * math.hypot(1.0, NOISE_FACTOR) * noise / scale
        return CheckedValue(
            scale=scale, noise=noise, low=low - 2.0 * allowance, high=limit + 2.0 * allowance
        )

    def _product(self, first: Bound, second: Bound, *, encryptions: int = 1) -> float:
        """The noise of an opened product of two ciphertexts at two primes, over blocks.

        The first is the sum of so many fresh encryptions, the second is one.
        """
        plan = self._plan
        factors = plan.encrypted(first, encryptions=encryptions), plan.encrypted(second)
        return plan.opened_noise(*factors, primes=2, blocks=self.update.layout.grid[1])

    @property
    def deviations(self) -> tuple[float, ...]:
        """The opener's noise on each value."""
        return tuple(NOISE_FACTOR * value.noise for value in self.values)

    @cached_property
    def circuit(self) -> Circuit:
        """One bit: all values in their ranges."""
        unit = 2.0**CHECK_BITS / self._plan.parameters.moduli[0]
        most = (1 << (CHECK_BITS - 1)) - 1
        ranges = []
        for value in self.values:
            low, high = (math.floor(each * value.scale * unit) for each in (value.low, value.high))
            ranges.append((max(-most, low), min(most, high + 1)))
        return build_ranges_check(tuple(ranges), bits=CHECK_BITS)
