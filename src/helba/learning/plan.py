"""The plan of a bandit on shares: sizes, bits and scales, all public, all from bounds.

A page of choices. The ring is the smallest that carries its three primes at the security level.
Then, in this order:

1. *Context and score bits*: scores are integers with the bits that their resolution needs
   (`helba.learning.score`), contexts have as many as leave room for that.
2. *Grid*: the fewest share bits that carry such a score above CKKS's error (`helba.ring.grid`).
3. *Scales*: as large as reopenings allow, whose numbers must be small beside the modulus of shares.
   Past `most_unseen` reports a sum would outgrow that, or an update its noise, and one is due
   whatever the rules say.
4. *Tests*: the trace is compared with C up to errors of the sums, which the opener covers with
   noise of `NOISE_FACTOR` times their size. Past `most_tested` reports that is too coarse, and the
   growth rule goes on alone.

Lengths are in units of sqrt(lambda): V/lambda = I + sum x x^T/lambda has eigenvalues of at least 1.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from helba.bandits.radius import confidence_radius, quadratic_weight
from helba.bandits.settings import Settings
from helba.errors import InvalidInput, require_choice, require_whole
from helba.garbling.circuits.argmax import MAX_ARMS
from helba.learning.layout import Arrangement, MatrixProduct
from helba.learning.number import Rounding
from helba.learning.report import LOG2_REOPENED, ReportPlan
from helba.learning.score import SHARE_BITS_MOST, ScorePlan
from helba.ring import DEVIATIONS, Bound, RingParameters, choose_parameters
from helba.ring.grid import Grid
from helba.ring.noise import Operand

OPENERS = ("users", "authority")
NOISE_FACTOR = 2.0**20  # of the opener's noise over the certified error
HEADROOM = 1.02  # of scores over their promised range, for errors of the model
INVERSE_SCALE = 2.0**57
MOST_LOG2_RESIDUE_SCALE = 54.0
MOST_LOG2_DESIGN_SCALE = 50.0
CONTEXT_BITS = range(16, 9, -1)
INVERSE_ERROR = 5e-3  # ||V^(1/2) A V^(1/2) - I|| that an update aims at
TEST_SCALE = 2.0**52
COARSEST_TEST = 0.25  # of C
MOST_EXTENSION = 256  # times the horizon that scales are made for
MOST_DIM = 64
MOST_RATIO = 1e9  # L^2/lambda: past it, or its inverse, doubles leave nothing of one of the two


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The public facts of a model: its number, and the reports it was made of.

    `residual` bounds ||V^(1/2) A V^(1/2) - I||, `estimate_error` bounds ||w - V^-1 g||_V.
    """

    number: int
    samples: int
    residual: float
    estimate_error: float


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Radius beta, weight gamma of the bonus, the bound W of |w|, the score's range, its unit."""

    radius: float
    gamma: float
    estimate_bound: float
    span: float
    unit: float


@dataclass(frozen=True, kw_only=True)
class SharesPlan(ReportPlan):
    """Everything public that server, opener and users agree on; made by `make_shares_plan`."""

    grid: Grid
    scaled_for: int | None = None

    @property
    def scale_horizon(self) -> int:
        """The horizon that the scales of sums are made for: that of the plan's first version."""
        return self.settings.horizon if self.scaled_for is None else self.scaled_for

    def extended(self, horizon: int) -> SharesPlan:
        """Return the plan with a longer horizon; sums and models go on with their scales.

        What is reopened is larger then, by as much as the horizon is longer, and its shares go
        around the modulus with a probability that is larger by as much.
        """
        most = MOST_EXTENSION * self.scale_horizon
        require_whole("horizon", horizon, least=self.settings.horizon + 1, most=most)
        settings = replace(self.settings, horizon=horizon)
        return replace(self, settings=settings, scaled_for=self.scale_horizon)

    # -- layouts

    @cached_property
    def matrix(self) -> MatrixProduct:
        """The product of an update: (2d x d)(d x d), in blocks from d = 17 on at N = 2^13."""
        d = self.settings.dim
        return MatrixProduct.fitting((2 * d, d, d), ring_dim=self.parameters.ring_dim)

    @cached_property
    def trace_left(self) -> Arrangement:
        """The places of S for the trace of S A: without gaps, S_ij at i d + j."""
        d = self.settings.dim
        return Arrangement(np.arange(d * d).reshape(d, d), ring_dim=self.parameters.ring_dim)

    @cached_property
    def trace_right(self) -> Arrangement:
        """The places of A for it."""
        return self.trace_left.transposed.mirrored

    # -- bounds

    def condition(self, samples: int) -> float:
        """Return a bound of the largest eigenvalue of V/lambda after so many reports."""
        return 1.0 + samples * self.ratio

    @property
    def model_bound(self) -> Bound:
        """The bound of a model's integers in the ring."""
        return self.model_units.scaled(self.grid.model_multiple)

    # -- scales

    @cached_property
    def design_scale(self) -> float:
        """The scale of V/lambda: M = V X of the horizon must be reopened."""
        trace = self.settings.trace_threshold + self.ratio
        reach = math.sqrt(self.condition(self.scale_horizon)) * (1.0 + INVERSE_ERROR + trace)
        bits = LOG2_REOPENED + math.log2(self.parameters.moduli[2]) - math.log2(INVERSE_SCALE)
        return math.ldexp(1.0, math.floor(min(MOST_LOG2_DESIGN_SCALE, bits - math.log2(reach))))

    @cached_property
    def response_scale(self) -> float:
        """The scale of g/(r_max L): all of it is reopened with every update."""
        bits = LOG2_REOPENED + 6.0 - math.log2(self.scale_horizon)
        return math.ldexp(1.0, math.floor(min(MOST_LOG2_RESIDUE_SCALE, bits)))

    # -- updates

    def design_error(self, samples: int) -> float:
        """Return a bound of ||V^(-1/2) (V' - V) V^(-1/2)|| for the V' that is encrypted.

        What sums add, and a fresh encryption with every update, in all d^2 entries.
        """
        updates = self.most_updates(samples)
        fresh = DEVIATIONS * self.fresh_noise * math.sqrt(updates) + 2.0 * updates
        entry = DEVIATIONS * self.sum_noise(max(1, samples)) / self.context_scale
        return self.settings.dim * (entry + fresh / self.design_scale)

    def most_updates(self, samples: int) -> int:
        """Return how many updates there can be: by growth, by the trace, and by size."""
        growth = math.log(max(samples, 1)) / math.log1p(self.settings.growth)
        if self.settings.schedule == "trace":
            volume = self.settings.dim * math.log1p(samples * self.ratio / self.settings.dim)
            growth += volume / math.log1p(0.75 * self.settings.trace_threshold)
        return math.ceil(growth + samples / min(self.most_unseen, self.most_untested)) + 1

    @cached_property
    def most_unseen(self) -> int:
        """Reports beyond the model with which an update is due: a sum holds no more, or no update.

        Those that a test has cleared do not count against `most_untested`.
        """
        return min(self.most_summed, self.most_tested + self.most_untested)

    @cached_property
    def most_untested(self) -> int:
        """Reports that no test has seen, up to which an update near the horizon meets its aim.

        They may all lie where the model has seen nothing. Newton's steps then multiply the error of
        X, which is d cond(V) times that of an entry, by what the reports can add to the trace.
        """
        entry = DEVIATIONS * self.fresh_noise / INVERSE_SCALE
        error = self.settings.dim * self.condition(self.settings.horizon) * entry
        return max(1, int(INVERSE_ERROR / (error * self.ratio)))

    # -- the update test

    def test_scale(self, untested: int) -> float:
        """Return the scale of the growth of V in a test that so many reports are new to.

        The last test said that the trace was below C, so what it can be now fits one prime.
        """
        largest = 1.5 * self.settings.trace_threshold + 1.1 * untested * self.ratio
        room = 2.0**52 * self.parameters.moduli[1] / TEST_SCALE / largest
        return math.ldexp(1.0, math.floor(math.log2(room)))

    def test_noise(self, *, unseen: int, untested: int) -> float:
        """Return the noise of the opened trace: of the sums, and of their product."""
        d, scale = self.settings.dim, self.test_scale(untested)
        inherited = scale * self.sum_noise(unseen) / self.context_scale
        growth = Operand(
            bound=Bound.of(peak=unseen * self.ratio * scale, count=d * d),
            noise=math.hypot(self.fresh_noise, inherited),
            computed=inherited,
        )
        size = 1.1 * TEST_SCALE
        inverse = Bound.of(peak=size, norm=size * math.sqrt(d), count=d * d)
        return self.opened_noise(growth, self.encrypted(inverse), primes=2, blocks=1)

    def test_resolution(self, *, unseen: int, untested: int) -> float:
        """Return how near C a trace may be for the test to go either way, opener's noise in it."""
        noise = math.hypot(1.0, NOISE_FACTOR) * DEVIATIONS
        noise *= self.test_noise(unseen=unseen, untested=untested)
        scale = self.test_scale(untested) * TEST_SCALE / self.parameters.moduli[1]
        return float(noise / scale)

    @cached_property
    def most_tested(self) -> int:
        """Reports beyond the model up to which a test resolves C well enough; 0 without tests."""
        if self.settings.schedule != "trace":
            return 0
        coarsest = COARSEST_TEST * self.settings.trace_threshold

        def is_coarse(unseen: int) -> bool:
            return self.test_resolution(unseen=unseen, untested=1) > coarsest

        return bisect_left(range(self.most_summed + 1), True, lo=1, key=is_coarse) - 1

    # -- batches

    def growth_due(self, batch: Batch, *, samples: int) -> bool:
        """Return True if the growth rule, or the size of sums, makes an update due."""
        if samples <= batch.samples:
            return False
        return samples >= self._grown(batch) or samples - batch.samples >= self.most_unseen

    def last_report(self, batch: Batch) -> int:
        """Return the report with which the batch ends at the latest, or the horizon."""
        return min(self.settings.horizon, self._grown(batch))

    def _grown(self, batch: Batch) -> int:
        """The least n >= (1 + eta) n_j, with eta read as the decimal it was written as.

        As in the paper the first batch counts as begun after one report.
        """
        return math.ceil((1 + Fraction(str(self.settings.growth))) * max(1, batch.samples))

    def weigh(self, batch: Batch) -> Weights:
        """Return what a batch's index is made of.

        Scores are within |w| L + (gamma/2) (1 + e) L^2/lambda, where |w| <= S + beta/sqrt(lambda)
        whenever the radius holds; the check of a model sees to the rest. The unit brings that
        range to `score_bits`.
        """
        settings = self.settings
        error = batch.estimate_error + self.rounding_error(batch.samples)
        radius = confidence_radius(settings, samples=batch.samples, estimate_error=error)
        told = radius / min(1.0, settings.radius_scale)
        gamma = quadratic_weight(settings, radius=radius, last_round=self.last_report(batch))
        longest = settings.parameter_bound + told / math.sqrt(settings.ridge)
        linear = longest * settings.length * (1.0 + self.rounding.slack)
        span = HEADROOM * (linear + gamma / 2.0 * (1.0 + batch.residual) * self.ratio)
        return Weights(
            radius=radius,
            gamma=gamma,
            estimate_bound=longest,
            span=span,
            unit=2.0**self.score_bits / span,
        )

    def inverse_units(self, weights: Weights) -> float:
        """Return the units of a model over lambda A, on the diagonal: (gamma/2) A x_i x_i."""
        ratio = self.settings.length**2 / self.settings.ridge
        return weights.gamma / 2.0 * ratio / self.rounding.peak * weights.unit

    def rounding_error(self, samples: int) -> float:
        """Return by how much rounded contexts and rewards move the estimate, in V's norm.

        A reward is off by S |x - x'| and its own rounding from that of the rounded context:
        b_t in size, and |V^(-1/2) sum x'_t b_t| <= sqrt(n) max |b_t|.
        """
        settings = self.settings
        off = settings.parameter_bound * settings.length * math.sqrt(settings.dim)
        return math.sqrt(samples) * (off + settings.reward_max) / (2.0 * self.rounding.peak)

    def rounding_tolerance(self, batch: Batch) -> float:
        """Return by how much an arm may miss the best one because of rounded contexts.

        Contexts: S |x - x'| for two arms. Features: a product of two numbers is rounded, which
        moves x^T A x by the sum of |A_ij| L^2/2^(b+1), for two arms.
        """
        settings, peak = self.settings, float(self.rounding.peak)
        contexts = settings.parameter_bound * settings.length * math.sqrt(settings.dim) / peak
        entries = math.pow(settings.dim, 1.5) * (1.0 + batch.residual) / settings.ridge
        return contexts + self.weigh(batch).gamma / 2.0 * entries * settings.length**2 / peak

    @cached_property
    def first_batch(self) -> Batch:
        """The batch before any report: A = I/lambda, w = 0."""
        fresh = DEVIATIONS * self.fresh_noise / INVERSE_SCALE
        residual = self.settings.dim * fresh * (1.0 + 2.0**-10)
        return Batch(number=0, samples=0, residual=residual, estimate_error=0.0)


def make_shares_plan(
    settings: Settings,
    *,
    opener: str = "users",
    security: int = 128,
    parameters: RingParameters | None = None,
) -> SharesPlan:
    """Return the plan for these settings, or `InvalidInput` with what stands in the way.

    `parameters` put another ring in place of the smallest one: small insecure ones in tests.
    """
    require_choice("opener", opener, OPENERS)
    if settings.dim > MOST_DIM:
        raise InvalidInput("dim", settings.dim, f"at most {MOST_DIM} on shares")
    if settings.arms > MAX_ARMS:
        raise InvalidInput("arms", settings.arms, f"at most {MAX_ARMS} on shares")
    if settings.profile != "shares":
        raise InvalidInput("profile", repr(settings.profile), "'shares'")
    if settings.bonus != "quadratic":
        raise InvalidInput("bonus", settings.bonus, "quadratic on shares")
    ratio = settings.length * settings.length / settings.ridge
    if not 1.0 / MOST_RATIO <= ratio <= MOST_RATIO:
        raise InvalidInput("length^2/ridge", f"{ratio:g}", f"{1 / MOST_RATIO:g} to {MOST_RATIO:g}")
    ring = choose_parameters(security=security) if parameters is None else parameters
    if (settings.dim + 1) ** 2 > ring.ring_dim:
        raise InvalidInput("dim", settings.dim, f"less: (dim + 1)^2 is past {ring.ring_dim}")
    for bits in CONTEXT_BITS:
        rounding = Rounding(
            dim=settings.dim, length=settings.length, reward_max=settings.reward_max, bits=bits
        )
        scores = ScorePlan(settings=settings, opener=opener, parameters=ring, rounding=rounding)
        grid = scores.choose_grid()
        if grid is not None:
            return SharesPlan(
                settings=settings, opener=opener, parameters=ring, rounding=rounding, grid=grid
            )
    raise InvalidInput(
        "arms and dim",
        f"{settings.arms} and {settings.dim}",
        f"fewer: {SHARE_BITS_MOST} bits of a share do not carry their scores",
    )
