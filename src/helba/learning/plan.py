"""The plan of a bandit on shares: sizes, bits and scales, all public, all from bounds.

A page of choices. The ring is the smallest that carries its three primes at the security level.
Then, in this order:

1. *Context and score bits*: model and features are integers, so the score is one too. A model
   entry is off by one unit at most, which moves a score by the sum of the sizes of its features: a
   score has as many bits as bring that below `RESOLUTION` of its range, twice, since two scores are
   compared. Contexts have as many bits as leave room for that.
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
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

from helba.bandits.radius import confidence_radius, quadratic_weight
from helba.bandits.settings import Settings
from helba.errors import InvalidInput, require_choice
from helba.garbling.circuits.argmax import MAX_ARMS
from helba.learning.layout import (
    Gram,
    InnerProducts,
    MatrixProduct,
    OuterProduct,
    Statistic,
    Trace,
)
from helba.learning.number import Rounding
from helba.ring import DEVIATIONS, Bound, RingParameters, choose_parameters
from helba.ring.grid import Grid, choose_grid
from helba.ring.noise import (
    Operand,
    encryption_noise,
    product_noise,
    reencryption_noise,
    switching_noise,
)

OPENERS = ("users", "authority")
RESOLUTION = 0.7e-4  # of a score's range; noise in the model takes the rest of 1e-4
SHARE_BITS_MOST = 54  # one prime has 55
NOISE_FACTOR = 2.0**20  # of the opener's noise over the certified error
HEADROOM = 1.02  # of scores over their promised range, for errors of the model
# The largest integer that is opened is about 2^66 of 2^104: it wraps with probability 2^-37.
LOG2_REOPENED = 66.0
LOG2_INVERSE_SCALE = 57.0
MOST_LOG2_RESIDUE_SCALE = 54.0
MOST_LOG2_DESIGN_SCALE = 50.0
LOG2_REPORT = 50
CONTEXT_BITS = range(16, 9, -1)
INVERSE_ERROR = 5e-3  # ||V^(1/2) A V^(1/2) - I|| that an update aims at
LOG2_TEST_SCALE = 52.0
COARSEST_TEST = 0.25  # of C
MOST_DIM = 64
MOST_RATIO = 1e9  # L^2/lambda: past it, or its inverse, doubles leave nothing of one of the two
LEADING_BITS = 12
MOST_GROUP = 1024  # reports that one circuit checks, see `helba.garbling.circuits.check`
COMBINATIONS = 128  # random sums of an ask that are checked where it has more numbers


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The public facts of a model: its number, and the reports it was made of.

    `residual` bounds ||V^(1/2) A V^(1/2) - I||, `estimate_error` bounds ||w - V^-1 g||_V.
    """

    number: int
    samples: int
    residual: float
    estimate_error: float

    @property
    def start(self) -> int:
        """t_j: as in the paper the first batch counts as begun after one report."""
        return max(1, self.samples)


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Radius beta, weight gamma of the bonus, the bound W of |w|, the score's range, its unit."""

    radius: float
    gamma: float
    estimate_bound: float
    span: float
    unit: float


@dataclass(frozen=True, kw_only=True)
class SharesPlan:
    """Everything public that server, opener and users agree on; made by `make_shares_plan`.

    `lanes` is the number of users whose scores one product makes.
    """

    settings: Settings
    opener: str
    parameters: RingParameters
    rounding: Rounding
    lanes: int
    score_bits: int
    grid: Grid

    def extended(self, horizon: int) -> SharesPlan:
        """Return the plan with a longer horizon, if sums and models keep their scales with it."""
        longer = self._reaching(horizon)
        if not self._keeps_scales(longer):
            low, high = self.settings.horizon, horizon
            while high - low > 1:
                middle = (low + high) // 2
                keeps = self._keeps_scales(self._reaching(middle))
                low, high = (middle, high) if keeps else (low, middle)
            allowed = f"at most {low}: beyond it this plan's sums have no room, begin anew"
            raise InvalidInput("horizon", horizon, allowed)
        return longer

    def _reaching(self, horizon: int) -> SharesPlan:
        return replace(self, settings=replace(self.settings, horizon=horizon))

    def _keeps_scales(self, other: SharesPlan) -> bool:
        found, wanted = ((each.design_scale, each.response_scale) for each in (other, self))
        return found == wanted

    # -- layouts

    @cached_property
    def matrix(self) -> MatrixProduct:
        """The product of an update: (2d x d)(d x d), in blocks from d = 17 on at N = 2^13."""
        d = self.settings.dim
        return MatrixProduct.fitting((2 * d, d, d), ring_dim=self.parameters.ring_dim)

    @cached_property
    def statistic(self) -> Statistic:
        """Where sums of reports stand."""
        d, degree = self.settings.dim, self.parameters.ring_dim
        if self.opener == "users":
            return OuterProduct(ring_dim=degree, dim=d)
        return Gram(ring_dim=degree, dim=d, reports=self.group)

    @cached_property
    def trace(self) -> Trace:
        """Where two matrices stand whose product's trace is wanted."""
        return Trace.dense(self.settings.dim, ring_dim=self.parameters.ring_dim)

    def inner(self, lanes: int) -> InnerProducts:
        """Where features and scores of that many users stand."""
        return _inner_products(
            self.parameters.ring_dim, self.rounding.features, self.settings.arms, lanes
        )

    @property
    def automorphism(self) -> int | None:
        """The exponent that the evaluation key must allow, if any."""
        statistic = self.statistic
        return statistic.step if isinstance(statistic, OuterProduct) else None

    @cached_property
    def group(self) -> int:
        """The most reports that one product sums."""
        if self.opener == "users":
            return 1
        capacity = Gram.capacity(self.settings.dim, ring_dim=self.parameters.ring_dim)
        return min(capacity, MOST_GROUP)

    # -- public numbers of the problem

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

    def condition(self, samples: int) -> float:
        """Return a bound of the largest eigenvalue of V/lambda after so many reports."""
        return 1.0 + samples * self.ratio

    @property
    def threshold(self) -> float:
        """C of the trace rule."""
        return self.settings.trace_threshold

    # -- scales

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

    @cached_property
    def design_scale(self) -> float:
        """The scale of V/lambda: M = V X of the horizon must be reopened."""
        reach = self.reach(self.settings.horizon, trace=self.threshold + self.ratio)
        bits = LOG2_REOPENED + math.log2(self.parameters.moduli[2]) - LOG2_INVERSE_SCALE
        return math.ldexp(1.0, math.floor(min(MOST_LOG2_DESIGN_SCALE, bits - math.log2(reach))))

    @cached_property
    def response_scale(self) -> float:
        """The scale of g/(r_max L): all of it is reopened with every update."""
        bits = LOG2_REOPENED + 6.0 - math.log2(self.settings.horizon)
        return math.ldexp(1.0, math.floor(min(MOST_LOG2_RESIDUE_SCALE, bits)))

    def reach(self, samples: int, *, trace: float) -> float:
        """Return a bound of the entries of M = V X: sqrt(cond V) times its largest eigenvalue."""
        return math.sqrt(self.condition(samples)) * (1.0 + INVERSE_ERROR + trace)

    # -- sums of reports

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
        parameters, peak = self.parameters, 2.0**LOG2_REPORT
        bound = Bound.of(
            peak=peak,
            norm=peak * math.sqrt(2.0 * reports) * (1.0 + self.rounding.slack),
            count=reports * (self.settings.dim + 1),
        )
        operand = Operand(bound=bound, noise=encryption_noise(parameters))
        return product_noise(operand, operand, parameters=parameters, primes=3)

    @cached_property
    def _common_error(self) -> float:
        """A bound of the error that every report has alike, where an automorphism is taken."""
        if self.opener != "users":
            return 0.0
        sizes = 2.0**LOG2_REPORT * (1.0 + self.rounding.slack)
        sizes *= math.sqrt(self.settings.dim) + 1.0
        switched = DEVIATIONS * switching_noise(self.parameters, primes=3)
        return sizes * switched / self.parameters.moduli[2]

    def design_error(self, samples: int) -> float:
        """Return a bound of ||V^(-1/2) (V' - V) V^(-1/2)|| for the V' that is encrypted.

        What sums add, and a fresh encryption with every update, in all d^2 entries.
        """
        updates = self.most_updates(samples)
        fresh = DEVIATIONS * encryption_noise(self.parameters) * math.sqrt(updates) + 2.0 * updates
        entry = DEVIATIONS * self.sum_noise(max(1, samples)) / self.context_scale
        return self.settings.dim * (entry + fresh / self.design_scale)

    def most_updates(self, samples: int) -> int:
        """Return how many updates there can be: by growth, by the trace, and by size."""
        growth = math.log(max(samples, 1)) / math.log1p(self.settings.growth)
        if self.settings.schedule == "trace":
            volume = self.settings.dim * math.log1p(samples * self.ratio / self.settings.dim)
            growth += volume / math.log1p(0.75 * self.threshold)
        return math.ceil(growth + samples / min(self.most_unseen, self.most_untested)) + 1

    @cached_property
    def most_unseen(self) -> int:
        """Reports beyond the model with which an update is due: a sum holds no more, or no update.

        Those that a test has cleared do not count against `most_untested`.
        """
        return min(self._most_summed, self.most_tested + self.most_untested)

    @cached_property
    def _most_summed(self) -> int:
        """Reports that a sum can hold."""
        return int(2.0 ** (LOG2_REOPENED - 2.0) / self.sum_scale)

    @cached_property
    def most_untested(self) -> int:
        """Reports that no test has seen, up to which an update near the horizon meets its aim.

        They may all lie where the model has seen nothing. Newton's steps then multiply the error of
        X, which is d cond(V) times that of an entry, by what the reports can add to the trace.
        """
        entry = DEVIATIONS * encryption_noise(self.parameters) / 2.0**LOG2_INVERSE_SCALE
        error = self.settings.dim * self.condition(self.settings.horizon) * entry
        return max(1, int(INVERSE_ERROR / (error * self.ratio)))

    # -- the update test

    def test_scale(self, untested: int) -> float:
        """Return the scale of the growth of V in a test that so many reports are new to.

        The last test said that the trace was below C, so what it can be now fits one prime.
        """
        largest = 1.5 * self.threshold + 1.1 * untested * self.ratio
        room = 2.0**52 * self.parameters.moduli[1] / 2.0**LOG2_TEST_SCALE / largest
        return math.ldexp(1.0, math.floor(math.log2(room)))

    def test_noise(self, *, unseen: int, untested: int) -> float:
        """Return the noise of the opened trace: of the sums, and of their product."""
        d, parameters = self.settings.dim, self.parameters
        fresh, scale = encryption_noise(parameters), self.test_scale(untested)
        inverse = Bound.of(
            peak=1.1 * 2.0**LOG2_TEST_SCALE,
            norm=1.1 * 2.0**LOG2_TEST_SCALE * math.sqrt(d),
            count=d * d,
        )
        inherited = scale * self.sum_noise(unseen) / self.context_scale
        growth = Operand(
            bound=Bound.of(peak=unseen * self.ratio * scale, count=d * d),
            noise=math.hypot(fresh, inherited),
            computed=inherited,
        )
        found = product_noise(
            growth, Operand(bound=inverse, noise=fresh), parameters=parameters, primes=2
        )
        return math.hypot(found, fresh, self.switch_noise(1))

    def test_resolution(self, *, unseen: int, untested: int) -> float:
        """Return how near C a trace may be for the test to go either way, opener's noise in it."""
        noise = math.hypot(1.0, NOISE_FACTOR) * DEVIATIONS
        noise *= self.test_noise(unseen=unseen, untested=untested)
        scale = self.test_scale(untested) * 2.0**LOG2_TEST_SCALE / self.parameters.moduli[1]
        return float(noise / scale)

    @cached_property
    def most_tested(self) -> int:
        """Reports beyond the model up to which a test resolves C well enough; 0 without tests."""
        if self.settings.schedule != "trace":
            return 0
        low, high = 0, self._most_summed
        while low < high:
            middle = (low + high + 1) // 2
            fine = self.test_resolution(unseen=middle, untested=1) <= COARSEST_TEST * self.threshold
            low, high = (middle, high) if fine else (low, middle - 1)
        return low

    def switch_noise(self, primes: int) -> float:
        """Return what handing a ciphertext on to a user's own key adds."""
        return reencryption_noise(self.parameters, primes=primes) if self.opener == "users" else 0.0

    # -- batches

    def growth_due(self, batch: Batch, *, samples: int) -> bool:
        """Return True if the growth rule, or the size of sums, makes an update due.

        n >= (1 + eta) n_j, counting reports, with eta read as the decimal it was written as.
        """
        if samples <= batch.samples:
            return False
        growth = 1 + Fraction(str(self.settings.growth))
        return samples >= growth * batch.start or samples - batch.samples >= self.most_unseen

    def last_report(self, batch: Batch) -> int:
        """Return the report with which the batch ends at the latest, or the horizon."""
        growth = 1 + Fraction(str(self.settings.growth))
        return min(self.settings.horizon, max(1, math.ceil(growth * batch.start)))

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
        fresh = DEVIATIONS * encryption_noise(self.parameters) / 2.0**LOG2_INVERSE_SCALE
        residual = self.settings.dim * fresh * (1.0 + 2.0**-10)
        return Batch(number=0, samples=0, residual=residual, estimate_error=0.0)


@lru_cache(maxsize=16)
def _inner_products(ring_dim: int, features: int, arms: int, lanes: int) -> InnerProducts:
    return InnerProducts(ring_dim=ring_dim, features=features, arms=arms, lanes=lanes)


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
    for bits in CONTEXT_BITS:
        rounding = Rounding.of(settings, bits=bits)
        lanes = _count_lanes(settings, ring=ring, rounding=rounding) if opener == "authority" else 1
        score_bits = _choose_score_bits(rounding)
        grid = _choose_grid(
            settings,
            ring=ring,
            rounding=rounding,
            lanes=lanes,
            opener=opener,
            score_bits=score_bits,
        )
        if grid is not None:
            return SharesPlan(
                settings=settings,
                opener=opener,
                parameters=ring,
                rounding=rounding,
                lanes=lanes,
                score_bits=score_bits,
                grid=grid,
            )
    raise InvalidInput(
        "arms and dim",
        f"{settings.arms} and {settings.dim}",
        f"fewer: {SHARE_BITS_MOST} bits of a share do not carry their scores",
    )


def _count_lanes(settings: Settings, *, ring: RingParameters, rounding: Rounding) -> int:
    inner = InnerProducts(
        ring_dim=ring.ring_dim, features=rounding.features, arms=settings.arms, lanes=1
    )
    return max(1, inner.capacity)


def feature_sizes(dim: int) -> float:
    """Return the largest sum of the sizes of an arm's features, over 2^b."""
    return math.sqrt(dim) + (dim + 1) / 2.0


def _choose_score_bits(rounding: Rounding) -> int:
    """One unit in every entry of the model, in two scores, must be below the resolution."""
    units = 2.0 * rounding.peak * feature_sizes(rounding.dim) / RESOLUTION
    return math.ceil(math.log2(units))


def ask_norm(settings: Settings, *, rounding: Rounding, opener: str) -> float:
    """Return a bound of the norm of one ask's integers, over 2^b.

    Users who encrypt themselves follow the protocol. Of shares only the checks of the circuit hold:
    each number alone, or `COMBINATIONS` random sums Z, modulo 2^96, against the limit B of
    `checked_bits`. Coefficients are 0 with probability 1/2, else 1 or -1.

    If some number is 2 B or more in size, then, whatever the others make, a sum is within the limit
    for its coefficient 0 or for one of 1 and -1, and not for both: each sum passes with probability
    1/2 at most. Else nothing goes around 2^96, and E Z^2 = |v|^2/2, E Z^4 <= 3 (E Z^2)^2: a sum is
    past |v|/sqrt(8) with probability 3/16 at least (Paley and Zygmund), so that all of them pass
    with probability 2^-38 at most unless |v| is at most sqrt(8) B.
    """
    if opener == "users":
        return _honest_norm(settings, rounding=rounding)
    numbers = settings.arms * rounding.features
    limit = 2.0 ** (checked_bits(settings, rounding=rounding) - 1 - rounding.bits)
    return limit * math.sqrt(numbers if numbers <= COMBINATIONS else 8.0)


def checked_bits(settings: Settings, *, rounding: Rounding) -> int:
    """Return m: what is checked of an ask lies in [-2^(m-1), 2^(m-1)).

    That is each number, or random sums of them. A coefficient is half the sum of two signs, so by
    Hoeffding's inequality a sum of honest numbers is within 9/sqrt(2) times their norm, but for
    2^-57, and never past the sum of their sizes.
    """
    if settings.arms * rounding.features <= COMBINATIONS:
        return rounding.bits + 2
    honest = DEVIATIONS / math.sqrt(2.0) * _honest_norm(settings, rounding=rounding)
    limit = min(honest, settings.arms * feature_sizes(settings.dim) * 1.01)
    return rounding.bits + 1 + math.ceil(math.log2(limit))


def _honest_norm(settings: Settings, *, rounding: Rounding) -> float:
    """|x|^2 <= 2^2b, and the squares of products x_i x_j with i <= j sum up to |x|^4 at most."""
    units = math.sqrt(rounding.features) / rounding.peak  # products are rounded
    return math.sqrt(2.0 * settings.arms) * ((1.0 + rounding.slack) ** 2 + units)


def model_bound(rounding: Rounding, *, score_bits: int) -> Bound:
    """Return the bound of a model's integers.

    |w| L and (gamma/2) |A| L^2 share the score's range; off the diagonal A counts twice. The check
    of a model holds w to its part.
    """
    size = 2.0**score_bits / rounding.peak
    norm = math.sqrt(2.0 * rounding.dim) * size * 1.05 + math.sqrt(rounding.features)
    return Bound.of(peak=2.0 * size, norm=norm, count=rounding.features)


def _choose_grid(
    settings: Settings,
    *,
    ring: RingParameters,
    rounding: Rounding,
    lanes: int,
    opener: str,
    score_bits: int,
) -> Grid | None:
    """The grid of the fewest share bits that carries the score, if there is one."""
    norm = ask_norm(settings, rounding=rounding, opener=opener) * rounding.peak * math.sqrt(lanes)
    count = min(ring.ring_dim, lanes * settings.arms * rounding.features)
    per_polynomial = ring.ring_dim // rounding.features * rounding.features
    features = Bound(peak=float(rounding.peak), norm=norm, count=min(count, per_polynomial))
    model = model_bound(rounding, score_bits=score_bits)
    for bits in range(score_bits + 4, SHARE_BITS_MOST + 1):
        with suppress(InvalidInput):  # not in so few bits
            return choose_grid(
                parameters=ring,
                features=features,
                model=model,
                score_peak=2.0**score_bits,
                bits=bits,
                encryptions=2,  # of w and of A
            )
    return None
