"""A composite polynomial sign and what is proven about it.

`certify` takes stages p_1, ..., p_k (odd, in the Chebyshev basis, each on [-1, 1]) and proves for
their composition P = p_k(...p_1(x)):

- every stage maps [0, 1] into [0, 1], the last one into [0, maximum]: P never has the wrong sign;
- |P(x) - 1| <= error on [resolution, 1], and as P is odd, the same for -1 on the other side;
- small_slope * x <= P(x) on [0, resolution], and P is Lipschitz with constant slope on [-1, 1];
- whether P is *rising*: increasing on [0, r] and within `error` of 1 on [r, 1], for some r up to
  the resolution. It is if every stage increases on [0, low], where low begins the interval that
  the stage was fitted to: once the input of one stage has passed its low, so have all later ones;
- whether P is *monotone*: increasing everywhere.

All ranges come from `enclosure`, so they hold for the float64 coefficients exactly as stored.
`error` also covers evaluation in float64: the interval of a stage is the proven range of the
one before, widened by `stage.rounding_of`, a few 1e-14.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike, NDArray

from helba.errors import InvalidInput, RunFailed, require_between
from helba.reference.numerics.certificate import Certificate
from helba.reference.numerics.enclosure import round_down, round_up
from helba.reference.numerics.evaluation import EvaluationOrder, evaluation_order
from helba.reference.numerics.stage import (
    Stage,
    error_on,
    greatest_on,
    is_increasing,
    keeps_sign,
    least_on,
    least_ratio,
    next_low,
    rises_to,
    stays_below_one,
    steepest,
    value_below,
)

MIN_RESOLUTION = 2.0**-40  # below, float64 leaves too little of the first stages
_OVERSHOOT = 1e-9  # how far past 1 an input may be and still count as 1
_GAP_TIGHTNESS = 2.0**-20


@dataclass(frozen=True, kw_only=True)
class CompositeSign:
    """Composition of odd polynomials that approximates the sign on [-1, 1]; see the module.

    `stages` holds (c_1, c_3, ...) of T_1, T_3, ... for each stage, first stage first. What rescales
    one stage's range to [-1, 1] is folded into its coefficients and costs no level.
    """

    resolution: float
    stages: tuple[Stage, ...]
    error: float
    maximum: float
    slope: float
    small_slope: float
    rising: bool
    monotone: bool

    @property
    def degrees(self) -> tuple[int, ...]:
        """Degree of every stage."""
        return tuple(2 * len(stage) - 1 for stage in self.stages)

    @property
    def orders(self) -> tuple[EvaluationOrder, ...]:
        """For every stage the steps that a circuit follows."""
        return tuple(_order(stage) for stage in self.stages)

    @property
    def levels(self) -> int:
        """Multiplicative depth."""
        return sum(order.levels for order in self.orders)

    @property
    def products(self) -> int:
        """Number of products of two encrypted values."""
        return sum(order.products for order in self.orders)

    @property
    def certificate(self) -> Certificate:
        """The error on [resolution, 1]; by oddness it also holds on [-1, -resolution]."""
        return Certificate(
            quantity="|P(x) - sign(x)|",
            interval=(self.resolution, 1.0),
            error=self.error,
            levels=self.levels,
        )

    def __call__(self, x: ArrayLike) -> NDArray[np.float64]:
        """P(x) in float64, for |x| <= 1."""
        value = np.asarray(x, dtype=np.float64)
        if not np.all(np.abs(value) <= 1 + _OVERSHOOT):
            raise InvalidInput("x", "a value outside", "within [-1, 1]")
        for stage in self.stages:
            full = np.zeros(2 * len(stage))
            full[1::2] = stage
            # stages map [-1, 1] into itself: clipping only removes rounding
            value = np.asarray(chebyshev.chebval(np.clip(value, -1, 1), full), dtype=np.float64)
        return value

    def least(self, gap: float) -> float:
        """Proven lower bound of P (in exact arithmetic) on [gap, 1], 0 < gap <= 1."""
        if not 0 < gap <= 1:
            raise InvalidInput("gap", gap, "greater than 0 and at most 1")
        low = float(gap)
        if self.rising and low <= self.resolution:
            for stage in self.stages:
                low = value_below(stage, low)
            return max(0.0, min(low, 1.0 - self.error))
        for stage in self.stages:
            low = least_on(stage, min(low, 1.0))
            if low <= 0:
                return 0.0
        return low

    def gap_for(self, value: float) -> float:
        """Smallest gap, up to one part in a million, with P >= value proven on [gap, 1]."""
        largest = self.least(1.0)
        if not 0 < value <= largest:
            raise InvalidInput("value", value, f"greater than 0 and at most {largest:.6g}")
        low, high = 0.5 * value / self.slope, 1.0  # P(x) <= slope * x
        if self.least(self.resolution) >= value:
            high = self.resolution
        while high > low * (1 + _GAP_TIGHTNESS):
            middle = math.sqrt(low * high)
            if self.least(middle) >= value:
                high = middle
            else:
                low = middle
        return high

    def to_record(self) -> dict[str, object]:
        """Plain numbers and lists, for the store."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, object]) -> CompositeSign:
        """What `to_record` wrote; `ValueError` or `TypeError` when it is something else."""
        fields = dict(record)
        stages = fields.pop("stages")
        rising, monotone = fields.pop("rising"), fields.pop("monotone")
        if not (
            isinstance(stages, list) and isinstance(rising, bool) and isinstance(monotone, bool)
        ):
            raise TypeError("not a record of a composite sign")
        numbers = {name: _finite(value) for name, value in fields.items()}
        exact = tuple(tuple(_finite(c) for c in stage) for stage in stages)
        return cls(stages=exact, rising=rising, monotone=monotone, **numbers)


def require_resolution(resolution: float) -> None:
    """Raise `InvalidInput` unless the resolution is in (0, 1), and not below 2^-40."""
    require_between("resolution", resolution, 0.0, 1.0)
    if resolution < MIN_RESOLUTION:
        raise InvalidInput("resolution", resolution, f"at least {MIN_RESOLUTION:.3g}")


def certify(stages: tuple[Stage, ...], *, resolution: float) -> CompositeSign:
    """The composition of `stages` with everything the module promises, or `RunFailed`."""
    require_resolution(resolution)
    if not stages:
        raise InvalidInput("stages", "none", "at least one polynomial")
    low, error, small, small_slope = float(resolution), 0.0, float(resolution), Fraction(1)
    slope, rising = Fraction(1), True
    for number, stage in enumerate(stages):
        last = number == len(stages) - 1
        if not keeps_sign(stage):
            raise RunFailed(f"stage {number + 1} could not be proven to keep the sign")
        if not last and not stays_below_one(stage):
            raise RunFailed(f"stage {number + 1} could not be proven to stay below 1")
        rising = rising and rises_to(stage, low)
        if last:
            error = error_on(stage, low)
        else:
            low = next_low(stage, low=low)
        slope *= Fraction(steepest(stage))
        small_slope *= Fraction(least_ratio(stage, small))
        small = min(1.0, greatest_on(stage, small))
    return CompositeSign(
        resolution=float(resolution),
        stages=stages,
        error=error,
        maximum=greatest_on(stages[-1], 1.0, tightness=min(1.0, error)),
        slope=round_up(slope),
        small_slope=max(0.0, round_down(small_slope)),
        rising=rising,
        monotone=all(is_increasing(stage) for stage in stages),
    )


@lru_cache(maxsize=4096)
def _order(stage: Stage) -> EvaluationOrder:
    return evaluation_order(stage)


def _finite(value: object) -> float:
    if not isinstance(value, float) or not math.isfinite(value):
        raise TypeError("not a finite number")
    return value
