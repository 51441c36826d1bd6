"""An update, step by step, as far as it is public: Newton's factors, scales, noise, and moves.

Server and opener each derive it from the plan and the same few counts (`UpdateTerms`). The steps:

    design     sums        -> more of V by rows, more of g as a column
    product    V X         -> M by rows and by columns, scaled
    newton i   [X; M](2-M) -> the same again, X symmetrised; before the last step M by columns only
    inverse    the last    -> X by rows and by columns, for tests, and for the model, on the grid
    estimate   X g, g      -> w as a column, and where it is added up; g again, with less noise
    residual   V w, V X    -> g - V w as a column and mirrored, I - V X twice
    model      w refined   -> w for the model, on the grid; its square; the refinement

Everything is in units of lambda: X is lambda A, V is V/lambda, and w stands for w lambda/(r_max L).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from helba.errors import InvalidInput, RunFailed
from helba.learning.exchange import Exchange, Target
from helba.learning.layout import Arrangement, BlockMove, moves_between, symmetrising_moves
from helba.learning.plan import (
    INVERSE_ERROR,
    LOG2_INVERSE_SCALE,
    LOG2_REOPENED,
    LOG2_TEST_SCALE,
    MOST_LOG2_RESIDUE_SCALE,
    NOISE_FACTOR,
    Batch,
    SharesPlan,
    Weights,
    feature_sizes,
    model_bound,
)
from helba.numerics.inverse import InverseNoise, WarmStart, plan_warm_start
from helba.ring import DEVIATIONS, Bound
from helba.ring.noise import Operand, encryption_noise, product_noise, rounding_noise

MOST_RESIDUAL = 0.1
COARSER = 10.0**0.25
LOG2_ESTIMATE_SCALE = 52.0
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


class UpdatePlan:
    """The steps of one update; `after` is the batch that it makes."""

    def __init__(self, plan: SharesPlan, terms: UpdateTerms) -> None:
        if terms.unseen > plan.most_unseen:
            raise InvalidInput("samples", terms.samples, f"at most {plan.most_unseen} new ones")
        self.plan = plan
        self.terms = terms
        self.dim = plan.settings.dim
        self.layout = plan.matrix
        self._prime = float(plan.parameters.moduli[2])
        self._fresh = DEVIATIONS * encryption_noise(plan.parameters)
        self._exchanges: dict[str, tuple[Exchange, ...]] = {}

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
        return min(most, plan.threshold + band + terms.untested * step)

    @cached_property
    def warm(self) -> WarmStart:
        """The fewest scaled steps that bring the residual to the aim, or near it."""
        return self._choose_start()[0]

    def _choose_start(self) -> tuple[WarmStart, float]:
        """The start, and the aim: a residual of 5e-3, or as little more as noise allows."""
        start = self.plan.first_batch if self.terms.cold else self.terms.before
        residual = start.residual + self.plan.design_error(self.terms.samples)
        low, high, error = 1.0 - residual, 1.0 + residual + self.trace, INVERSE_ERROR
        while error <= MOST_RESIDUAL:
            with suppress(InvalidInput):  # noise does not allow it
                noise = self._newton_noise
                return plan_warm_start(low=low, high=high, error=error, noise=noise), error
            error *= COARSER
        raise RunFailed("noise outgrows the inverse: take a larger ridge, or update more often")

    @property
    def steps(self) -> int:
        """The number of Newton steps."""
        return max(1, self.warm.steps)

    @property
    def _scales(self) -> tuple[float, ...]:
        return self.warm.scales or (1.0,)

    @cached_property
    def _newton_noise(self) -> InverseNoise:
        """What encryption adds to V^(1/2) X V^(1/2) and to V^(-1/2) M V^(1/2), in spectral norm.

        A matrix E of entries up to eps has norm d eps; the factors V^(1/2) add cond V for X and its
        root for M. Fresh errors come with every reopening, roundings with every product.
        """
        condition = self.plan.condition(self.terms.samples)
        inner = self.layout.grid[1]
        rounded = DEVIATIONS * 2.0 * rounding_noise(self.plan.parameters) * inner + 2.0
        entry = max(
            condition * self._fresh / self.inverse_scale,
            math.sqrt(condition) * self._fresh / self.residue_scale,
        )
        product = max(
            condition * rounded / (self.inverse_scale * self.residue_scale / self._prime),
            math.sqrt(condition) * rounded / (self.residue_scale**2 / self._prime),
        )
        return InverseNoise(
            product=self.dim * product, renewal=self.dim * entry, piece=1, ending=self.dim * entry
        )

    @cached_property
    def reach(self) -> float:
        """A bound of the entries of M, which is scaled before it is reopened.

        Its eigenvalues are then below 2, however many reports are new: sqrt(cond V) times that.
        """
        eigenvalue = min(2.0, 1.0 + INVERSE_ERROR + self.trace)
        return ROOM * math.sqrt(self.plan.condition(self.terms.samples)) * eigenvalue

    @property
    def inverse_scale(self) -> float:
        """The scale of X."""
        return float(2.0**LOG2_INVERSE_SCALE)

    @cached_property
    def residue_scale(self) -> float:
        """The scale of M: its product with itself must be reopened."""
        bits = (LOG2_REOPENED + math.log2(self._prime) - math.log2(self.reach)) / 2.0
        return math.ldexp(1.0, math.floor(min(MOST_LOG2_RESIDUE_SCALE, bits)))

    @property
    def product_scale(self) -> float:
        """The scale of X (2 - M)."""
        return self.inverse_scale * self.residue_scale / self._prime

    # -- the new batch

    @cached_property
    def residual(self) -> float:
        """A bound of ||V^(1/2) A V^(1/2) - I|| for the V of the reports themselves."""
        drift = self.plan.design_error(self.terms.samples)
        return self.warm.error + drift * (1.0 + self.warm.error)

    @cached_property
    def estimate_error(self) -> float:
        """A bound of ||w - V^-1 g||_V, noise included.

        The first estimate is off by e |V^-1/2 g|, the refined one by e times that; |V^-1/2 g| is
        at most r_max sqrt(n). Sums are off by what folds added; the estimate is opened with noise.
        """
        plan, d = self.plan, self.dim
        condition, e = plan.condition(self.terms.samples), self.residual
        size = math.sqrt(self.terms.samples / plan.ratio)  # of V^(-1/2) g
        fresh = math.sqrt(condition * d) * self._fresh
        first = (
            e * size
            + fresh / 2.0**LOG2_ESTIMATE_SCALE
            + condition * d * size * (self._fresh / self.inverse_scale)
        )
        updates = plan.most_updates(self.terms.samples)
        response = DEVIATIONS * plan.sum_noise(self.terms.samples) / plan.sum_scale
        response += (self._fresh * math.sqrt(updates) + 2.0 * updates) / plan.response_scale
        rounded = 4.0 * self._fresh / plan.response_scale
        copies = fresh * (1.0 / 2.0**LOG2_ESTIMATE_SCALE + 1.0 / self.estimate_scale)
        # CKKS's own error, whatever it depends on, and the opener's noise, which is independent:
        # its V-norm is past |V^(1/2)|_F + 9 |V^(1/2)| with probability e^-40 at most.
        unit = self.estimate_noise / self.estimate_scale
        spread = math.sqrt(d + plan.ratio * self.terms.samples) + DEVIATIONS * math.sqrt(condition)
        noisy = (DEVIATIONS * math.sqrt(condition * d) + NOISE_FACTOR * spread) * unit
        drift = plan.design_error(self.terms.samples) * size
        total = e * first + copies + noisy + math.sqrt(d) * (response + rounded) + drift
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
        return self.inverse_scale * self.plan.response_scale / self._prime

    # -- errors of what is opened with noise

    @cached_property
    def inverse_noise(self) -> float:
        """The noise of X (2 - M), which the model's noise must cover."""
        inverse = self._bound(2.0, scale=self.inverse_scale)
        return self._opened(inverse, self._bound(2.0 + self.last_reach, scale=self.residue_scale))

    @property
    def last_reach(self) -> float:
        """A bound of the entries of M before the last step, whose residual squared is left."""
        if self.steps == 1:
            return self.reach
        return 1.0 + math.sqrt(self.plan.condition(self.terms.samples) * self.warm.error)

    @cached_property
    def estimate_noise(self) -> float:
        """The noise of the refined estimate."""
        rest = Bound.of(peak=self.residual_peak * self.plan.response_scale, count=self.dim)
        inverse = self._bound(1.0 + self.residual, scale=self.inverse_scale)
        found = self._opened(inverse, rest, encryptions=2)
        return math.hypot(found, encryption_noise(self.plan.parameters))

    @property
    def residual_peak(self) -> float:
        """A bound of the entries of g - V w: sqrt(cond V) e |V^(-1/2) g|, with room for noise."""
        size = math.sqrt(self.plan.condition(self.terms.samples) * self.terms.samples)
        return 2.0 * self.residual * size / math.sqrt(self.plan.ratio) + 2.0**-16

    def _bound(self, spectral: float, *, scale: float) -> Bound:
        """The bound of a d x d matrix with entries up to that, and such a spectral norm."""
        d, size = self.dim, ROOM * spectral * scale
        return Bound(peak=size, norm=size * math.sqrt(d), count=2 * d * d)

    def _opened(self, first: Bound, second: Bound, *, encryptions: int = 1) -> float:
        """The noise of an opened product of ciphertexts, summed over blocks.

        The first is one fresh encryption or the sum of two, the second that of `encryptions`.
        """
        parameters, fresh = self.plan.parameters, encryption_noise(self.plan.parameters)
        one = Operand(bound=first, noise=math.sqrt(2.0) * fresh)
        other = Operand(bound=second, noise=math.sqrt(encryptions) * fresh)
        product = product_noise(one, other, parameters=parameters, primes=3)
        return math.hypot(product * self.layout.grid[1], fresh, self.plan.switch_noise(2))

    @property
    def resolution(self) -> float:
        """How near two scores may be for the grid to decide between them, over the score's range.

        One unit in every entry of the model, and the opener's noise, whose effect on a score has
        the deviation of its norm: 9 of these.
        """
        plan, peak = self.plan, float(self.plan.rounding.peak)
        units = peak * feature_sizes(self.dim)
        spread = math.hypot(
            self._estimate_factor * self.estimate_noise,
            math.sqrt(2.0) * self._inverse_factor * self.inverse_noise,
        )
        noise = DEVIATIONS * math.hypot(1.0, NOISE_FACTOR) * peak * spread
        return 2.0 * (units + noise) / 2.0**plan.score_bits

    # -- exchanges

    def exchanges(self, step: str) -> tuple[Exchange, ...]:
        """Return what is opened and reopened in a step, one exchange for each stack."""
        if step not in self._exchanges:
            self._exchanges[step] = self._make_exchanges(step)
        return self._exchanges[step]

    def _make_exchanges(self, step: str) -> tuple[Exchange, ...]:
        name, _, number = step.partition(" ")
        makers: dict[str, Callable[[], tuple[tuple[Target, ...], ...]]] = {
            "design": self._design,
            "product": self._product,
            "newton": lambda: self._newton(int(number)),
            "inverse": self._inverse,
            "estimate": self._estimate,
            "residual": self._residual_step,
            "model": self._model,
        }
        if name not in makers or (name == "newton") != number.isdigit():
            raise InvalidInput("step", repr(step), "a step of an update")
        noises = {"inverse": (self.inverse_noise,), "model": (self.estimate_noise, math.inf)}
        found = makers[name]()
        limits = noises.get(name, (math.inf,) * len(found))
        degree = self.plan.parameters.ring_dim
        return tuple(
            Exchange(ring_dim=degree, targets=targets, peak=peak, noise=noise)
            for targets, peak, noise in zip(found, self._opened_peaks(name), limits, strict=True)
        )

    def _opened_peaks(self, name: str) -> tuple[float, ...]:
        """Bounds of what a step opens, in the ring's integers, one for each stack.

        V X for the new V: eigenvalues of V^(1/2) X V^(1/2) are up to 1 + e and the trace of what
        is new, entries up to the root of cond V times that. After the update they are near 1.

        Newton's steps: with X = V^(-1/2) Y V^(-1/2) and eigenvalues of Y in [0, 2] those of
        Y (2 - Y) are at most 1: entries of X (2 - M) are at most 1, and those of M (2 - M) the root
        of cond V. In the first step X lacks its scale, and 2 - M is at most 2.

        Estimates: |V^(-1/2) g| is at most the root of n over the ratio, V w is near g.
        """
        plan, terms = self.plan, self.terms
        inverse, residue, response = self.inverse_scale, self.residue_scale, plan.response_scale
        root = math.sqrt(plan.condition(terms.samples))
        product = root * (1.0 + INVERSE_ERROR + self.trace) * plan.design_scale * inverse
        newton = max(2.0 * inverse, self.reach * residue) * residue
        estimate = (1.0 + self.residual) * math.sqrt(terms.samples / plan.ratio)
        estimate *= inverse * response
        column = (terms.samples + self.residual_peak) * plan.design_scale
        rest = (1.0 + root * self.residual) * plan.design_scale * inverse
        peaks = {
            "design": (terms.unseen * plan.sum_scale * self._prime,),
            "product": (product,),
            "newton": (newton,),
            "inverse": (newton,),
            "estimate": (estimate, terms.samples * response * self._prime),
            "residual": (column * 2.0**LOG2_ESTIMATE_SCALE, rest),
            "model": (estimate, estimate),
        }
        return tuple(ROOM * peak / self._prime for peak in peaks[name])

    def _design(self) -> tuple[tuple[Target, ...], ...]:
        plan, statistic = self.plan, self.plan.statistic
        rows = symmetrising_moves(
            statistic.context_places,
            target=self.layout.row_places[: self.dim],
            factor=plan.design_scale / plan.context_scale,
        )
        column = moves_between(
            statistic.reward_places,
            target=self.column,
            factor=plan.response_scale / plan.sum_scale,
        )
        return (
            (
                Target(name="design", moves=rows, scale=plan.design_scale),
                Target(name="response", moves=column, scale=plan.response_scale),
            ),
        )

    def _product(self) -> tuple[tuple[Target, ...], ...]:
        scale = self.residue_scale
        opened = self.plan.design_scale * self.inverse_scale / self._prime
        source, factor = self.top, self._scales[0] * scale / opened
        columns = moves_between(source, target=self.layout.column_places, factor=factor)
        if self.steps == 1:
            return ((self._residue("columns", columns),),)
        below = moves_between(source, target=self.layout.row_places[self.dim :], factor=factor)
        return ((self._residue("columns", columns), self._residue("below", below)),)

    def _newton(self, number: int) -> tuple[tuple[Target, ...], ...]:
        """After step `number` of 1 to `steps` - 1."""
        if not 1 <= number < self.steps:
            raise InvalidInput("step", f"newton {number}", f"1 to {self.steps - 1}")
        d, rows = self.dim, self.layout.row_places
        scale = self._scales[number] * self._prime / self.residue_scale
        first = self._scales[0] if number == 1 else 1.0  # of X, whose scale is still to be applied
        bottom = self.layout.result_places[d:]
        columns = moves_between(bottom, target=self.layout.column_places, factor=scale)
        stack = symmetrising_moves(self.top, target=rows[:d], factor=first * scale)
        bound = self._bound(2.0, scale=self.inverse_scale)
        peak, norm = bound.peak, bound.norm
        last = number == self.steps - 1  # the last step needs M by columns only
        if not last:
            stack += moves_between(bottom, target=rows[d:], factor=scale)
            below = self._bound(self.reach, scale=self.residue_scale)
            peak, norm = max(peak, below.peak), math.hypot(norm, below.norm)
        reach = self.last_reach if last else self.reach
        return (
            (
                self._residue("columns", columns, reach=reach),
                Target(name="stack", moves=stack, scale=1.0, peak=peak, norm=norm),
            ),
        )

    def _inverse(self) -> tuple[tuple[Target, ...], ...]:
        plan, layout = self.plan, self.layout
        scale = self._unscaled * self._prime / self.residue_scale
        whole = self._bound(1.0 + self.residual, scale=self.inverse_scale)
        kept = [
            Target(
                name=name,
                moves=symmetrising_moves(self.top, target=target, factor=scale * factor),
                scale=self.inverse_scale * factor,
                peak=whole.peak * factor,
                norm=whole.norm * factor,
            )
            for name, target, factor in (
                ("rows", layout.row_places[: self.dim], 1.0),
                ("columns", layout.column_places, 1.0),
                ("test", plan.trace.right_places, 2.0 ** (LOG2_TEST_SCALE - LOG2_INVERSE_SCALE)),
            )
        ]
        first, second = np.triu_indices(self.dim)
        upper, places = self.top[first, second], plan.inner(1).model_places[self.dim :]
        multiple = plan.grid.model_multiple
        diagonal = first == second
        moves = [
            block
            for mask, twice in ((diagonal, 1.0), (~diagonal, 2.0))
            if mask.any()
            for block in moves_between(
                upper[mask],
                target=places[mask],
                factor=twice * self._inverse_factor,
                multiple=multiple,
            )
        ]
        model = Target(
            name="model",
            moves=tuple(moves),
            scale=float(multiple),
            peak=self.model_bound.peak,
            norm=self.model_bound.norm,
            deviation=NOISE_FACTOR * self.inverse_noise,
        )
        return ((*kept, model),)

    def _estimate(self) -> tuple[tuple[Target, ...], ...]:
        source, opened = self.first_results, self.estimate_scale  # X g has the scale of X r
        scale, response = 2.0**LOG2_ESTIMATE_SCALE, self.plan.response_scale
        column = moves_between(source, target=self.column, factor=scale / opened)
        again = moves_between(source, target=source)
        renewed = moves_between(self.column, target=self.column)
        across = moves_between(
            self.column, target=self.mirrored_column, factor=self.rest_scale / response
        )
        return (
            (
                Target(name="column", moves=column, scale=scale),
                Target(name="again", moves=again, scale=opened),
            ),
            (
                Target(name="response", moves=renewed, scale=response),
                Target(name="across", moves=across, scale=self.rest_scale),
            ),
        )

    def _residual_step(self) -> tuple[tuple[Target, ...], ...]:
        plan, trace = self.plan, self.plan.trace
        opened = plan.design_scale * 2.0**LOG2_ESTIMATE_SCALE / self._prime
        vectors = [
            Target(
                name=name,
                moves=moves_between(self.first_results, target=target, factor=-scale / opened),
                scale=scale,
            )
            for name, target, scale in (
                ("column", self.column, plan.response_scale),
                ("across", self.mirrored_column, self.rest_scale),
            )
        ]
        opened = plan.design_scale * self.inverse_scale / self._prime
        factor = -self.check_scale / opened
        rest = [
            Target(
                name=name,
                moves=moves_between(self.top, target=target, factor=factor),
                scale=self.check_scale,
            )
            for name, target in (("left", trace.left_places), ("right", trace.right_places))
        ]
        return tuple(vectors), tuple(rest)

    def _model(self) -> tuple[tuple[Target, ...], ...]:
        plan, source, degree = self.plan, self.first_results, self.plan.parameters.ring_dim
        multiple = plan.grid.model_multiple
        places = plan.inner(1).model_places[: self.dim]
        model = Target(
            name="model",
            moves=moves_between(
                source, target=places, factor=self._estimate_factor, multiple=multiple
            ),
            scale=float(multiple),
            peak=self.model_bound.peak,
            norm=self.model_bound.norm,
            deviation=NOISE_FACTOR * self.estimate_noise,
        )
        line = Arrangement(np.arange(self.dim), ring_dim=degree)
        mirrored = Arrangement(degree - 1 - np.arange(self.dim), ring_dim=degree)
        factor = self.norm_scale / self.estimate_scale
        norms = [
            Target(
                name=name,
                moves=moves_between(source, target=target, factor=factor),
                scale=self.norm_scale,
                peak=2.0 * self.estimate_bound * self.norm_scale,
                norm=2.0 * self.estimate_bound * self.norm_scale,
            )
            for name, target in (("norm", line), ("norm mirrored", mirrored))
        ]
        refinement = Target(
            name="refinement",
            moves=moves_between(
                source, target=self.column, factor=self.refinement_scale / self.estimate_scale
            ),
            scale=self.refinement_scale,
            peak=2.0 * math.sqrt(self.refinement_limit) * self.refinement_scale,
        )
        return ((model, *norms), (refinement,))

    def _residue(
        self, name: str, moves: tuple[BlockMove, ...], *, reach: float | None = None
    ) -> Target:
        peak = ROOM * (self.reach if reach is None else reach) * self.residue_scale
        return Target(
            name=name,
            moves=moves,
            scale=self.residue_scale,
            peak=peak,
            norm=peak * math.sqrt(self.dim),
        )

    # -- places

    @property
    def top(self) -> Arrangement:
        """Where a product of two d x d matrices stands."""
        return self.layout.result_places[: self.dim]

    @property
    def column(self) -> Arrangement:
        """Where a vector stands that is multiplied by a matrix."""
        return self.layout.column_places[:, 0]

    @property
    def mirrored_column(self) -> Arrangement:
        """Where a vector stands for its inner product with one that stands as a column."""
        column = self.column
        number, place = np.divmod(column.places, column.ring_dim)
        places = number * column.ring_dim + column.ring_dim - 1 - place
        return Arrangement(places, ring_dim=column.ring_dim, polynomials=column.polynomials)

    @property
    def first_results(self) -> Arrangement:
        """Where the product of a matrix and a vector stands."""
        return self.layout.result_places[: self.dim, 0]

    # -- factors and scales of the model and its check

    @property
    def _unscaled(self) -> float:
        """What X still lacks after the last step: the first scale, if that was the first step."""
        return self._scales[0] if self.steps == 1 else 1.0

    @property
    def _inverse_factor(self) -> float:
        """Units of the model over integers of X (2 - M), on the diagonal: (gamma/2) A x_i x_i."""
        per_entry = self.model_inverse_scale / self.plan.grid.model_multiple
        return self._unscaled * per_entry / self.product_scale

    @property
    def model_inverse_scale(self) -> float:
        """The scale of X in the model, on the diagonal: integers of the ring over lambda A."""
        weights, plan = self.weights, self.plan
        ratio = plan.settings.length**2 / plan.settings.ridge
        per_entry = weights.gamma / 2.0 * ratio / plan.rounding.peak * weights.unit
        return per_entry * plan.grid.model_multiple

    @property
    def _estimate_factor(self) -> float:
        """Units of the model over integers of the refined estimate: w_i x_i."""
        settings, weights = self.plan.settings, self.weights
        ratio = settings.length**2 / settings.ridge
        per_entry = settings.reward_max * ratio / self.plan.rounding.peak * weights.unit
        return per_entry / self.estimate_scale

    @property
    def model_bound(self) -> Bound:
        """The bound of the model's integers in the ring, as the grid was chosen for."""
        plan = self.plan
        bound = model_bound(plan.rounding, score_bits=plan.score_bits)
        return bound.scaled(plan.grid.model_multiple)

    @property
    def estimate_bound(self) -> float:
        """The bound of |w| that the check holds a model to, in units of the ring's numbers."""
        settings = self.plan.settings
        unit = settings.reward_max * settings.length / settings.ridge
        return self.weights.estimate_bound / unit

    @cached_property
    def check_scale(self) -> float:
        """The scale of I - V X: the trace of its square, up to 4, fits one prime."""
        return math.ldexp(1.0, math.floor((50.0 + math.log2(self.plan.parameters.moduli[1])) / 2.0))

    @cached_property
    def norm_scale(self) -> float:
        """The scale of w where its square is taken: up to four times the bound fits one prime."""
        room = 50.0 + math.log2(self.plan.parameters.moduli[1])
        return math.ldexp(1.0, math.floor(room / 2.0 - math.log2(2.0 * self.estimate_bound)))

    @cached_property
    def refinement_limit(self) -> float:
        """The bound of r^T A r that the check holds a model to, in the ring's numbers.

        |V^(-1/2) r| is at most e |V^(-1/2) g|; twice that allows for noise.
        """
        size = 2.0 * self.residual * math.sqrt(self.terms.samples / self.plan.ratio)
        return (size + 2.0**-12) ** 2

    @cached_property
    def rest_scale(self) -> float:
        """The scale of g - V w where it is multiplied by the refinement: integers up to 2^48."""
        return math.ldexp(1.0, math.floor(48.0 - math.log2(max(2.0**-6, self.residual_peak))))

    @cached_property
    def refinement_scale(self) -> float:
        """The scale of the refinement there: four times what is allowed fits one prime."""
        room = 2.0**50 * self.plan.parameters.moduli[1] / self.rest_scale
        return math.ldexp(1.0, math.floor(min(54.0, math.log2(room / self.refinement_limit))))
