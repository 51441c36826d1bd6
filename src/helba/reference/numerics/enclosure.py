"""Proven ranges of polynomials: every number here is exact, so there is no rounding to argue about.

`enclose` returns floats lower <= p(x) <= upper for every x of an interval, both within `tolerance`
of the true extrema, relative to the largest |p| of the interval. `is_nonnegative` proves p >= 0.
Float64 coefficients and ends are dyadic rationals, so they are taken at their exact values.

How: in Bernstein form on [a, b] a polynomial lies between its least and its greatest coefficient,
and takes the first and the last as its end values. Cells are halved (de Casteljau), best bound
first, until bound and value meet. Integers scaled by powers of two carry everything.

Source: Garloff, "Convergent bounds for the range of multivariate polynomials" (1986).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise

from helba.errors import InvalidInput

Interval = tuple[float, float]

_TOLERANCE = Fraction(1, 10**6)
_MAX_DEPTH = 200  # halvings of one cell before a proof is given up
_MAX_CELLS = 20_000


@dataclass(frozen=True)
class ExactPolynomial:
    """numerators[k] * 2^-log2_denominator are the exact coefficients of x^k."""

    numerators: tuple[int, ...]
    log2_denominator: int = 0

    @classmethod
    def from_power(cls, coefficients: Iterable[float]) -> ExactPolynomial:
        """The polynomial with the given float64 coefficients of 1, x, x^2, ..., taken as exact."""
        return cls(*_on_common_denominator(coefficients))

    @classmethod
    def from_chebyshev(cls, coefficients: Iterable[float]) -> ExactPolynomial:
        """The polynomial with the given float64 coefficients of T_0, T_1, ..., taken as exact."""
        scaled, log2_denominator = _on_common_denominator(coefficients)
        numerators = [0] * len(scaled)
        for k, c in enumerate(scaled):
            for power, t in enumerate(_chebyshev_in_powers(k)):
                numerators[power] += c * t
        return cls(tuple(numerators), log2_denominator)

    @classmethod
    def from_odd_chebyshev(cls, coefficients: Sequence[float]) -> ExactPolynomial:
        """The polynomial c_1 T_1 + c_3 T_3 + ... with the given (c_1, c_3, ...), taken as exact."""
        full = [0.0] * (2 * len(coefficients))
        full[1::2] = coefficients
        return cls.from_chebyshev(full)

    @property
    def degree(self) -> int:
        """Formal degree."""
        return len(self.numerators) - 1

    def at(self, x: float) -> Fraction:
        """Exact value at x."""
        total, point = Fraction(0), Fraction(x)
        for numerator in reversed(self.numerators):
            total = total * point + numerator
        return total / (1 << self.log2_denominator)

    def minus(self, constant: float) -> ExactPolynomial:
        """This polynomial less a constant."""
        top, bottom = float(constant).as_integer_ratio()
        extra = max(0, bottom.bit_length() - 1 - self.log2_denominator)
        numerators = [n << extra for n in self.numerators]
        log2_denominator = self.log2_denominator + extra
        numerators[0] -= (top << log2_denominator) // bottom
        return ExactPolynomial(tuple(numerators), log2_denominator)

    def derivative(self) -> ExactPolynomial:
        """Its derivative."""
        lower = tuple(k * n for k, n in enumerate(self.numerators))[1:]
        return ExactPolynomial(lower or (0,), self.log2_denominator)

    def in_square(self) -> ExactPolynomial:
        """r with p(x) = r(x^2) for an even p, or p(x) = x r(x^2) for an odd p: half the degree."""
        even, odd = self.numerators[0::2], self.numerators[1::2]
        if any(even) and any(odd):
            raise InvalidInput("polynomial", "neither", "even or odd")
        return ExactPolynomial((odd if any(odd) else even) or (0,), self.log2_denominator)


def enclose(
    polynomial: ExactPolynomial, interval: Interval, *, tolerance: float | Fraction = _TOLERANCE
) -> Interval:
    """Floats (lower, upper), rounded outward, with lower <= p <= upper on the interval."""
    cell = _Cell.of(polynomial, interval)
    upper = _greatest(cell, tolerance=Fraction(tolerance))
    lower = -_greatest(cell.negative(), tolerance=Fraction(tolerance))
    return round_down(lower), round_up(upper)


def is_nonnegative(polynomial: ExactPolynomial, interval: Interval) -> bool:
    """Whether p >= 0 is proven on the interval. Of an interior double root nothing is proven."""
    cells = [_Cell.of(polynomial, interval)]
    for _ in range(_MAX_CELLS):
        if not cells:
            return True
        cell = cells.pop()
        if cell.values[0] < 0 or cell.values[-1] < 0:
            return False
        if min(cell.values) < 0:
            if cell.depth >= _MAX_DEPTH:
                return False
            cells.extend(cell.halves())
    return False


def round_down(value: Fraction) -> float:
    """The largest float that is at most `value`."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def round_up(value: Fraction) -> float:
    """The least float that is at least `value`."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


@dataclass(frozen=True)
class _Cell:
    """Bernstein coefficients values[i] / scale * 2^(-degree * depth) on a cell of the interval."""

    values: tuple[int, ...]
    scale: int
    depth: int

    @classmethod
    def of(cls, polynomial: ExactPolynomial, interval: Interval) -> _Cell:
        low, high = interval
        if not low < high or not math.isfinite(high - low):
            raise InvalidInput("interval", interval, "finite, with its lower end first")
        (a, b), ends_log2 = _on_common_denominator(interval)
        degree, width = polynomial.degree, b - a
        shifted = [0] * (degree + 1)  # coefficients in t, with x = (a + width t) / 2^ends_log2
        for k, numerator in enumerate(reversed(polynomial.numerators)):
            step = [n * a for n in shifted]
            for j in range(degree):
                step[j + 1] += shifted[j] * width
            step[0] += numerator << (ends_log2 * k)
            shifted = step
        common = math.lcm(*(math.comb(degree, j) for j in range(degree + 1)))
        weights = [n * (common // math.comb(degree, j)) for j, n in enumerate(shifted)]
        values = tuple(
            sum(math.comb(i, j) * weights[j] for j in range(i + 1)) for i in range(degree + 1)
        )
        return cls(values, common << (polynomial.log2_denominator + degree * ends_log2), 0)

    def negative(self) -> _Cell:
        return _Cell(tuple(-v for v in self.values), self.scale, self.depth)

    def halves(self) -> tuple[_Cell, _Cell]:
        degree = len(self.values) - 1
        row, left, right = list(self.values), [], []
        for i in range(degree + 1):
            left.append(row[0] << (degree - i))
            right.append(row[-1] << (degree - i))
            row = [u + v for u, v in pairwise(row)]
        depth = self.depth + 1
        return _Cell(tuple(left), self.scale, depth), _Cell(tuple(right[::-1]), self.scale, depth)

    def fraction(self, value: int) -> Fraction:
        return Fraction(value, self.scale << ((len(self.values) - 1) * self.depth))


def _greatest(root: _Cell, *, tolerance: Fraction) -> Fraction:
    """Upper bound of the polynomial on the cell, at most tolerance * max |p| above its maximum."""
    seen = root.fraction(max(root.values[0], root.values[-1]))
    largest = max(abs(root.fraction(root.values[0])), abs(root.fraction(root.values[-1])))
    queue = [(-root.fraction(max(root.values)), 0, root)]
    for made in range(1, _MAX_CELLS):
        bound, _, cell = queue[0]
        if -bound <= seen + tolerance * largest or cell.depth >= _MAX_DEPTH:
            break
        heapq.heappop(queue)
        for order, half in enumerate(cell.halves()):
            ends = half.fraction(half.values[0]), half.fraction(half.values[-1])
            seen = max(seen, *ends)
            largest = max(largest, abs(ends[0]), abs(ends[1]))
            heapq.heappush(queue, (-half.fraction(max(half.values)), 2 * made + order, half))
    return -queue[0][0]


def _on_common_denominator(values: Iterable[float]) -> tuple[tuple[int, ...], int]:
    """Integers and the power of two that divides them all: exactly the given floats."""
    ratios = []
    for value in values:
        if not math.isfinite(value):
            raise InvalidInput("coefficient", value, "finite")
        ratios.append(float(value).as_integer_ratio())
    log2 = max((bottom.bit_length() - 1 for _, bottom in ratios), default=0)
    return tuple((top << log2) // bottom for top, bottom in ratios), log2


@cache
def _chebyshev_in_powers(k: int) -> tuple[int, ...]:
    """Integer coefficients of T_k in 1, x, x^2, ..."""
    if k < 2:
        return (0,) * k + (1,)
    doubled = (0, *(2 * c for c in _chebyshev_in_powers(k - 1)))
    before = (*_chebyshev_in_powers(k - 2), 0, 0)
    return tuple(u - v for u, v in zip(doubled, before, strict=True))
