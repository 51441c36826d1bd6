"""Scales, noise and certified errors of an update, derived from the plan and its public counts.

Everything is in units of lambda: X is lambda A, V is V/lambda, and w stands for w lambda/(r_max L).
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from helba.errors import InvalidInput, RunFailed
from helba.learning.plan import (
    INVERSE_ERROR,
    INVERSE_SCALE,
    MOST_LOG2_RESIDUE_SCALE,
    NOISE_FACTOR,
    Batch,
    SharesPlan,
    Weights,
)
from helba.learning.report import LOG2_REOPENED
from helba.learning.score import feature_sizes
from helba.numerics.inverse import InverseNoise, WarmStart, plan_warm_start
from helba.ring import DEVIATIONS, Bound
from helba.ring.noise import rounding_noise

MOST_RESIDUAL = 0.1
COARSER = 10.0**0.25
ESTIMATE_SCALE = 2.0**52
ROOM = 1.1  # of bounds over what they are worked out for


@dataclass(frozen=True, kw_only=True)
class UpdateTerms:
    """The public counts of an update: from which model, with how many reports in all.

    `untested` of the reports since that model came after the last test that said no, or all of
    them if none did. A `cold` start begins with X = I in place of the old model.
    """

    before: Batch
    samples: int
    untested: int
    cold: bool = False

    def __post_init__(self) -> None:
        if not self.unseen > 0:
            raise InvalidInput("samples", self.samples, f"more than {self.before.samples}")
        if not 0 <= self.untested <= self.unseen:
            raise InvalidInput("untested", self.untested, f"from 0 to {self.unseen}")

    @property
    def unseen(self) -> int:
        """Reports that the old model does not know."""
        return self.samples - self.before.samples


class UpdateCertificate:
    """Bounds of an update, known before it runs; `after` is the batch that it makes."""

    def __init__(self, plan: SharesPlan, terms: UpdateTerms) -> None:
        if terms.unseen > plan.most_summed:
            raise InvalidInput("samples", terms.samples, f"at most {plan.most_summed} new ones")
        self.plan = plan
        self.terms = terms
        self.dim = plan.settings.dim
        self.layout = plan.matrix
        self.prime = float(plan.parameters.moduli[2])
        self.condition = plan.condition(terms.samples)
        self.root = math.sqrt(self.condition)
        self._fresh = DEVIATIONS * plan.fresh_noise

    # -- Newton

    @cached_property
    def trace(self) -> float:
        """A public bound of the trace of A (V - V_j)."""
        plan, terms = self.plan, self.terms
        if terms.cold:
            return terms.samples * plan.ratio
        step = (1.0 + terms.before.residual) * plan.ratio
        most = terms.unseen * step
        if terms.untested == terms.unseen:
            return most
        tested = terms.unseen - terms.untested
        band = plan.test_resolution(unseen=tested, untested=tested)
        return min(most, plan.settings.trace_threshold + band + terms.untested * step)

    @cached_property
    def warm(self) -> WarmStart:
        """The fewest scaled steps to a residual of 5e-3, or to as little more as noise allows."""
        return self._choose_start()[0]

    def _choose_start(self) -> tuple[WarmStart, float]:
        """The start, and the residual that it aims at."""
        start = self.plan.first_batch if self.terms.cold else self.terms.before
        residual = start.residual + self._drift
        low, high, error = 1.0 - residual, 1.0 + residual + self.trace, INVERSE_ERROR
        while error <= MOST_RESIDUAL:
            with suppress(InvalidInput):  # noise does not allow it
                noise = self._newton_noise
                return plan_warm_start(low=low, high=high, error=error, noise=noise), error
            error *= COARSER
        raise RunFailed("noise outgrows the inverse: take a larger ridge, or update more often")

    @property
    def scales(self) -> tuple[float, ...]:
        """The scale before each Newton step, of which there is one at least."""
        return self.warm.scales or (1.0,)

    @property
    def steps(self) -> int:
        """The number of Newton steps."""
        return len(self.scales)

    @cached_property
    def _newton_noise(self) -> InverseNoise:
        """Errors of V^(1/2) X V^(1/2) and of V^(-1/2) M V^(1/2) by encryption, in spectral norm.

        A matrix E of entries up to eps has norm d eps; the factors V^(1/2) add cond V for X and its
        root for M. Fresh errors come with every reopening, roundings with every product.
        """
        inner = self.layout.grid[1]
        rounded = DEVIATIONS * 2.0 * rounding_noise(self.plan.parameters) * inner + 2.0
        entry = max(
            self.condition * self._fresh / INVERSE_SCALE,
            self.root * self._fresh / self.residue_scale,
        )
        product = max(
            self.condition * rounded / self.product_scale,
            self.root * rounded / (self.residue_scale**2 / self.prime),
        )
        return InverseNoise(
            product=self.dim * product, renewal=self.dim * entry, piece=1, ending=self.dim * entry
        )

    @cached_property
    def reach(self) -> float:
        """A bound of the entries of M, which is scaled before it is reopened.

        Its eigenvalues are then below 2, however many reports are new: sqrt(cond V) times that.
        """
        return ROOM * self.root * min(2.0, 1.0 + INVERSE_ERROR + self.trace)

    @cached_property
    def residue_scale(self) -> float:
        """The scale of M: its product with itself must be reopened."""
        bits = (LOG2_REOPENED + math.log2(self.prime) - math.log2(self.reach)) / 2.0
        return math.ldexp(1.0, math.floor(min(MOST_LOG2_RESIDUE_SCALE, bits)))

    @property
    def product_scale(self) -> float:
        """The scale of X (2 - M)."""
        return INVERSE_SCALE * self.residue_scale / self.prime

    # -- the new batch

    @cached_property
    def _drift(self) -> float:
        """The error of the V that is encrypted."""
        return self.plan.design_error(self.terms.samples)

    @cached_property
    def residual(self) -> float:
        """A bound of ||V^(1/2) A V^(1/2) - I|| for the V of the reports themselves."""
        return self.warm.error + self._drift * (1.0 + self.warm.error)

    @property
    def response_size(self) -> float:
        """A bound of |V^(-1/2) g|, which is at most r_max sqrt(n)."""
        return math.sqrt(self.terms.samples / self.plan.ratio)

    @cached_property
    def estimate_error(self) -> float:
        """A bound of ||w - V^-1 g||_V, noise included.

        The first estimate is off by e |V^-1/2 g|, the refined one by e times that. Sums are off by
        what folds added; the estimate is opened with noise.
        """
        plan, d, samples = self.plan, self.dim, self.terms.samples
        e, size = self.residual, self.response_size
        fresh = math.sqrt(self.condition * d) * self._fresh
        first = (
            e * size
            + fresh / ESTIMATE_SCALE
            + self.condition * d * size * (self._fresh / INVERSE_SCALE)
        )
        updates = plan.most_updates(samples)
        response = DEVIATIONS * plan.sum_noise(samples) / plan.sum_scale
        response += (self._fresh * math.sqrt(updates) + 2.0 * updates) / plan.response_scale
        rounded = 4.0 * self._fresh / plan.response_scale
        copies = fresh * (1.0 / ESTIMATE_SCALE + 1.0 / self.estimate_scale)
        # CKKS's own error, whatever it depends on, and the opener's noise, which is independent:
        # its V-norm is past |V^(1/2)|_F + 9 |V^(1/2)| with probability e^-40 at most.
        unit = self.estimate_noise / self.estimate_scale
        spread = math.sqrt(d + plan.ratio * samples) + DEVIATIONS * self.root
        noisy = (DEVIATIONS * math.sqrt(self.condition * d) + NOISE_FACTOR * spread) * unit
        total = e * first + copies + noisy + math.sqrt(d) * (response + rounded)
        total += self._drift * size
        return float(plan.settings.reward_max * math.sqrt(plan.ratio) * total)

    @cached_property
    def after(self) -> Batch:
        """The batch that this update begins, if its model passes the check."""
        return Batch(
            number=self.terms.before.number + 1,
            samples=self.terms.samples,
            residual=self.residual,
            estimate_error=self.estimate_error,
        )

    @cached_property
    def weights(self) -> Weights:
        """Gamma, range and unit of the new model."""
        return self.plan.weigh(self.after)

    @property
    def estimate_scale(self) -> float:
        """The scale of w where it is refined: that of X r."""
        return INVERSE_SCALE * self.plan.response_scale / self.prime

    # -- errors of what is opened with noise

    @cached_property
    def inverse_noise(self) -> float:
        """The noise of X (2 - M), which the model's noise must cover."""
        inverse = self.bound(2.0, scale=INVERSE_SCALE)
        return self._opened(inverse, self.bound(2.0 + self.last_reach, scale=self.residue_scale))

    @property
    def last_reach(self) -> float:
        """A bound of the entries of M before the last step, whose residual squared is left."""
        if self.steps == 1:
            return self.reach
        return 1.0 + math.sqrt(self.condition * self.warm.error)

    @cached_property
    def estimate_noise(self) -> float:
        """The noise of the refined estimate."""
        rest = Bound.of(peak=self.residual_peak * self.plan.response_scale, count=self.dim)
        inverse = self.bound(1.0 + self.residual, scale=INVERSE_SCALE)
        found = self._opened(inverse, rest, encryptions=2)
        return math.hypot(found, self.plan.fresh_noise)

    @property
    def residual_peak(self) -> float:
        """A bound of the entries of g - V w: sqrt(cond V) e |V^(-1/2) g|, with room for noise."""
        size = math.sqrt(self.condition * self.terms.samples)
        return 2.0 * self.residual * size / math.sqrt(self.plan.ratio) + 2.0**-16

    def bound(self, spectral: float, *, scale: float) -> Bound:
        """Return the bound of a d x d matrix whose entries and spectral norm are up to that."""
        d, size = self.dim, ROOM * spectral * scale
        return Bound(peak=size, norm=size * math.sqrt(d), count=2 * d * d)

    def _opened(self, first: Bound, second: Bound, *, encryptions: int = 1) -> float:
        """The noise of an opened product of ciphertexts, summed over blocks.

        The first is one fresh encryption or the sum of two, the second that of `encryptions`.
        """
        one = self.plan.encrypted(first, encryptions=2)
        other = self.plan.encrypted(second, encryptions=encryptions)
        return self.plan.opened_noise(one, other, primes=3, blocks=self.layout.grid[1])

    @property
    def resolution(self) -> float:
        """The least distance of two scores that the grid tells apart, over the score's range.

        One unit in every entry of the model, and the opener's noise, whose effect on a score has
        the deviation of its norm: 9 of these.
        """
        plan, peak = self.plan, float(self.plan.rounding.peak)
        units = peak * feature_sizes(self.dim)
        spread = math.hypot(
            self.estimate_factor * self.estimate_noise,
            math.sqrt(2.0) * self.inverse_factor * self.inverse_noise,
        )
        noise = DEVIATIONS * math.hypot(1.0, NOISE_FACTOR) * peak * spread
        return 2.0 * (units + noise) / 2.0**plan.score_bits

    # -- the model

    @property
    def unscaled(self) -> float:
        """The factor that X lacks after the last step: the first scale, if that was the first."""
        return self.scales[0] if self.steps == 1 else 1.0

    @property
    def inverse_factor(self) -> float:
        """Units of the model over integers of X (2 - M), on the diagonal: (gamma/2) A x_i x_i."""
        per_entry = self.model_inverse_scale / self.plan.grid.model_multiple
        return self.unscaled * per_entry / self.product_scale

    @property
    def model_inverse_scale(self) -> float:
        """The scale of X in the model, on the diagonal: integers of the ring over lambda A."""
        return self.plan.inverse_units(self.weights) * self.plan.grid.model_multiple

    @property
    def estimate_factor(self) -> float:
        """Units of the model over integers of the refined estimate: w_i x_i."""
        settings, weights = self.plan.settings, self.weights
        ratio = settings.length**2 / settings.ridge
        per_entry = settings.reward_max * ratio / self.plan.rounding.peak * weights.unit
        return per_entry / self.estimate_scale
