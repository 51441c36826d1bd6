"""Reports as integers, and their sums: where they stand, scales and noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from helba.learning.layout import Arrangement, MatrixProduct, OuterProduct
from helba.learning.score import ScorePlan
from helba.ring import DEVIATIONS, Bound
from helba.ring.noise import (
    Operand,
    encryption_noise,
    product_noise,
    reencryption_noise,
    switching_noise,
)
from helba.ring.sharing.integer import Places

LOG2_REPORT = 50
LEADING_BITS = 12
MOST_GROUP = 1024  # reports that one circuit checks, see `helba.garbling.circuits.check`
# Scales are made so that integers of about 2^66 are opened, of 2^104: one wraps with probability
# 2^-37. Over long horizons, or extended ones, they are larger; each plan counts its own.
LOG2_REOPENED = 66.0


@dataclass(frozen=True, kw_only=True)
class ReportPlan(ScorePlan):
    """The part of a plan that says how reports are summed."""

    # -- layouts

    @cached_property
    def outer(self) -> OuterProduct:
        """The product that makes a statistic of one report, where users encrypt their own."""
        return OuterProduct(ring_dim=self.parameters.ring_dim, dim=self.settings.dim)

    @cached_property
    def gram(self) -> MatrixProduct:
        """The product that sums a group of reports which came as shares."""
        degree = self.parameters.ring_dim
        return MatrixProduct.gram(self.settings.dim, reports=self.group, ring_dim=degree)

    def report_places(self, reports: int) -> list[Places]:
        """Return the coefficients of so many reports, d + 1 numbers each, in both its operands."""
        operands = self.gram.row_places.transposed, self.gram.column_places
        return [operand.places[:reports].reshape(-1) for operand in operands]

    @property
    def sum_places(self) -> Arrangement:
        """The places of sums of p p^T for reports p = (x, r): shape (d + 1, d + 1)."""
        return self.outer.sum_places if self.opener == "users" else self.gram.result_places

    @property
    def automorphism(self) -> int | None:
        """The exponent that the evaluation key must allow, if any."""
        return self.outer.step if self.opener == "users" else None

    @cached_property
    def group(self) -> int:
        """The most reports that one product sums."""
        if self.opener == "users":
            return 1
        return min(self.parameters.ring_dim // (self.settings.dim + 1) ** 2, MOST_GROUP)

    # -- bounds and scales

    @property
    def ratio(self) -> float:
        """L^2/lambda for rounded contexts: what one report adds to V/lambda at most.

        The check of a report's length sees its leading bits only and lets a little more pass.
        """
        slack = self.rounding.slack
        if self.opener == "authority":
            slack += 2.0 * math.sqrt(self.settings.dim) / (1 << self.leading_bits)
        return (self.settings.length * (1.0 + slack)) ** 2 / self.settings.ridge

    @property
    def leading_bits(self) -> int:
        """Leading bits of a context's numbers that the check of its length sees."""
        return min(LEADING_BITS, self.rounding.peak.bit_length())

    def report_bound(self, reports: int = 1) -> Bound:
        """Return the bound of so many reports in a polynomial, in the ring's integers."""
        peak = 2.0**LOG2_REPORT
        norm = peak * math.sqrt(2.0 * reports) * (1.0 + self.rounding.slack)
        return Bound.of(peak=peak, norm=norm, count=reports * (self.settings.dim + 1))

    @property
    def report_multiple(self) -> int:
        """A report's integers are multiplied by this before they are encrypted."""
        return 1 << (LOG2_REPORT - self.rounding.bits)

    @property
    def sum_scale(self) -> float:
        """Integers of a sum of reports over x x^T/L^2 and r x/(r_max L)."""
        return 4.0**LOG2_REPORT / self.parameters.moduli[2]

    @property
    def context_scale(self) -> float:
        """Integers of a sum of reports over x x^T/lambda."""
        return self.sum_scale * self.settings.ridge / self.settings.length**2

    @property
    def most_summed(self) -> int:
        """Reports that a sum can hold."""
        return int(2.0 ** (LOG2_REOPENED - 2.0) / self.sum_scale)

    # -- noise

    @property
    def fresh_noise(self) -> float:
        """The noise of an encryption."""
        return encryption_noise(self.parameters)

    def encrypted(self, bound: Bound, *, encryptions: int = 1) -> Operand:
        """Return the public side of a sum of so many fresh encryptions."""
        return Operand(bound=bound, noise=math.sqrt(encryptions) * self.fresh_noise)

    def opened_noise(self, first: Operand, second: Operand, *, primes: int, blocks: int) -> float:
        """Return the noise of an opened product of blocks; users get it under their own keys."""
        product = product_noise(first, second, parameters=self.parameters, primes=primes)
        switched = 0.0
        if self.opener == "users":
            switched = reencryption_noise(self.parameters, primes=primes - 1)
        return math.hypot(product * blocks, self.fresh_noise, switched)

    def sum_noise(self, reports: int) -> float:
        """Return the noise of a sum of so many reports, however they are grouped.

        Errors of fresh encryptions and roundings are independent from fold to fold, given the key,
        whatever the messages depend on: they add up like squares. The automorphism leaves a
        multiple of the key in every report (`helba.ring.noise`), which adds up as it is.
        """
        groups = {1, max(1, min(self.group, reports))}
        independent = max(math.sqrt(reports / size) * self._fold_noise(size) for size in groups)
        return independent + reports * self._common_error / DEVIATIONS

    def _fold_noise(self, reports: int) -> float:
        """The noise of one product of so many reports, without what all products share."""
        operand = self.encrypted(self.report_bound(reports))
        return product_noise(operand, operand, parameters=self.parameters, primes=3)

    @cached_property
    def _common_error(self) -> float:
        """A bound of the error that every report has alike, where an automorphism is taken."""
        if self.opener != "users":
            return 0.0
        sizes = 2.0**LOG2_REPORT * (1.0 + self.rounding.slack)
        sizes *= math.sqrt(self.settings.dim) + 1.0
        switched = DEVIATIONS * switching_noise(self.parameters, primes=3)
        return sizes * switched / self.parameters.moduli[2]
