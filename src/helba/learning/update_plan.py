"""An update, step by step, as far as it is public: what is opened, and what becomes of it.

Server and opener each derive it from the plan and the same few counts (`UpdateTerms`). The steps:

    design     sums        -> more of V by rows, more of g as a column
    product    V X         -> M by rows and by columns, scaled
    newton i   [X; M](2-M) -> the same again, X symmetrised; before the last step M by columns only
    inverse    the last    -> X by rows and by columns, for tests, and for the model, on the grid
    estimate   X g, g      -> w as a column, and where it is added up; g again, with less noise
    residual   V w, V X    -> g - V w as a column and mirrored, I - V X twice
    model      w refined   -> w for the model, on the grid; its square; the refinement
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial

import numpy as np

from helba.errors import InvalidInput
from helba.learning.exchange import Exchange, Target
from helba.learning.layout import Arrangement, symmetrising_moves
from helba.learning.plan import INVERSE_ERROR, INVERSE_SCALE, NOISE_FACTOR, TEST_SCALE, SharesPlan
from helba.learning.update_certificate import ESTIMATE_SCALE, ROOM, UpdateCertificate, UpdateTerms
from helba.ring import Move

Exchanges = tuple[Exchange, ...]


class UpdatePlan(UpdateCertificate):
    """The steps of one update, and the scales of what its check opens."""

    def __init__(self, plan: SharesPlan, terms: UpdateTerms) -> None:
        super().__init__(plan, terms)
        self._exchanges: dict[str, Exchanges] = {}

    def exchanges(self, step: str) -> Exchanges:
        """Return what is opened and reopened in a step, one exchange for each stack."""
        if step not in self._exchanges:
            self._exchanges[step] = self._make_exchanges(step)
        return self._exchanges[step]

    def _make_exchanges(self, step: str) -> Exchanges:
        makers: dict[str, Callable[[], Exchanges]] = {
            f"newton {number}": partial(self._newton, number) for number in range(1, self.steps)
        }
        makers |= {
            "design": self._design,
            "product": self._product,
            "inverse": self._inverse,
            "estimate": self._estimate,
            "residual": self._residual,
            "model": self._model,
        }
        if step not in makers:
            raise InvalidInput("step", repr(step), "a step of an update")
        return makers[step]()

    def _exchange(self, *targets: Target, product: float, noise: float = math.inf) -> Exchange:
        """One stack: `product` bounds its integers before they were divided by the last prime."""
        degree, peak = self.plan.parameters.ring_dim, ROOM * product / self.prime
        return Exchange(ring_dim=degree, targets=targets, peak=peak, noise=noise)

    # -- steps

    def _design(self) -> Exchanges:
        plan, sums, d = self.plan, self.plan.sum_places, self.dim
        rows = symmetrising_moves(
            sums[:d, :d],
            target=self.layout.row_places[:d],
            factor=plan.design_scale / plan.context_scale,
        )
        return (
            self._exchange(
                Target(name="design", moves=rows, scale=plan.design_scale),
                _rescaled(
                    "response",
                    sums[:d, d],
                    self.column,
                    scale=plan.response_scale,
                    opened=plan.sum_scale,
                ),
                product=self.terms.unseen * plan.sum_scale * self.prime,
            ),
        )

    def _product(self) -> Exchanges:
        """V X for the new V, by columns and, unless there is one step, by rows.

        Eigenvalues of V^(1/2) X V^(1/2) are up to 1 + e and the trace of what is new, entries up to
        the root of cond V times that.
        """
        peak = self.root * (1.0 + INVERSE_ERROR + self.trace) * self.plan.design_scale
        opened = self.plan.design_scale * INVERSE_SCALE / self.prime
        factor = self.scales[0] * self.residue_scale / opened
        places = {"columns": self.layout.column_places}
        if self.steps > 1:
            places["below"] = self.layout.row_places[self.dim :]
        targets = [
            self._residue(name, self.top, target, factor=factor, reach=self.reach)
            for name, target in places.items()
        ]
        return (self._exchange(*targets, product=peak * INVERSE_SCALE),)

    @property
    def _newton_product(self) -> float:
        """The largest entry that a Newton step opens.

        With X = V^(-1/2) Y V^(-1/2) and eigenvalues of Y in [0, 2] those of Y (2 - Y) are at most
        1: entries of X (2 - M) are at most 1, and those of M (2 - M) the root of cond V. In the
        first step X lacks its scale, and 2 - M is at most 2.
        """
        return max(2.0 * INVERSE_SCALE, self.reach * self.residue_scale) * self.residue_scale

    def _newton(self, number: int) -> Exchanges:
        """After step `number` of 1 to `steps` - 1."""
        d, rows = self.dim, self.layout.row_places
        scale = self.scales[number] * self.prime / self.residue_scale
        first = self.scales[0] if number == 1 else 1.0  # of X, whose scale is still to be applied
        bottom = self.layout.result_places[d:]
        stack: list[Move] = [*symmetrising_moves(self.top, target=rows[:d], factor=first * scale)]
        bound = self.bound(2.0, scale=INVERSE_SCALE)
        peak, norm = bound.peak, bound.norm
        last = number == self.steps - 1  # the last step needs M by columns only
        if not last:
            stack.append(Move(bottom.places, rows[d:].places, factor=scale))
            below = self.bound(self.reach, scale=self.residue_scale)
            peak, norm = max(peak, below.peak), math.hypot(norm, below.norm)
        reach = self.last_reach if last else self.reach
        columns = self.layout.column_places
        return (
            self._exchange(
                self._residue("columns", bottom, columns, factor=scale, reach=reach),
                Target(name="stack", moves=tuple(stack), scale=1.0, peak=peak, norm=norm),
                product=self._newton_product,
            ),
        )

    def _inverse(self) -> Exchanges:
        plan, layout = self.plan, self.layout
        scale = self.unscaled * self.prime / self.residue_scale
        whole = self.bound(1.0 + self.residual, scale=INVERSE_SCALE)
        copies = [
            Target(
                name=name,
                moves=symmetrising_moves(self.top, target=target, factor=scale * factor),
                scale=INVERSE_SCALE * factor,
                peak=whole.peak * factor,
                norm=whole.norm * factor,
            )
            for name, target, factor in (
                ("rows", layout.row_places[: self.dim], 1.0),
                ("columns", layout.column_places, 1.0),
                ("test", plan.trace_right, TEST_SCALE / INVERSE_SCALE),
            )
        ]
        first, second = np.triu_indices(self.dim)
        upper = self.top.places[first, second]
        places = plan.inner(1).model_places.places[self.dim :]
        moves = [
            Move(
                upper[mask],
                places[mask],
                factor=twice * self.inverse_factor,
                multiple=plan.grid.model_multiple,
            )
            for mask, twice in ((first == second, 1.0), (first != second, 2.0))
            if mask.any()
        ]
        model = self._model_part(tuple(moves), noise=self.inverse_noise)
        product = self._newton_product
        return (self._exchange(*copies, model, product=product, noise=self.inverse_noise),)

    @property
    def _estimate_product(self) -> float:
        """Integers of X g, whose entries are at most |V^(-1/2) g|."""
        estimate = (1.0 + self.residual) * self.response_size
        return estimate * (INVERSE_SCALE * self.plan.response_scale)

    def _estimate(self) -> Exchanges:
        column, source, plan = self.column, self.first_results, self.plan
        opened, response = self.estimate_scale, plan.response_scale  # X g has the scale of X r
        return (
            self._exchange(
                _rescaled("column", source, column, scale=ESTIMATE_SCALE, opened=opened),
                _rescaled("again", source, source, scale=opened, opened=opened),
                product=self._estimate_product,
            ),
            self._exchange(
                _rescaled("response", column, column, scale=response, opened=response),
                _rescaled(
                    "across", column, column.mirrored, scale=self.rest_scale, opened=response
                ),
                product=self.terms.samples * response * self.prime,
            ),
        )

    def _residual(self) -> Exchanges:
        """V w, which is near g, and V X, which is near I; both with the opposite sign."""
        plan, column, source = self.plan, self.column, self.first_results
        opened = -plan.design_scale * ESTIMATE_SCALE / self.prime
        vector = (self.terms.samples + self.residual_peak) * plan.design_scale * ESTIMATE_SCALE
        square = (1.0 + self.root * self.residual) * plan.design_scale * INVERSE_SCALE
        minus = -plan.design_scale * INVERSE_SCALE / self.prime
        return (
            self._exchange(
                _rescaled("column", source, column, scale=plan.response_scale, opened=opened),
                _rescaled("across", source, column.mirrored, scale=self.rest_scale, opened=opened),
                product=vector,
            ),
            self._exchange(
                _rescaled("left", self.top, plan.trace_left, scale=self.check_scale, opened=minus),
                _rescaled(
                    "right", self.top, plan.trace_right, scale=self.check_scale, opened=minus
                ),
                product=square,
            ),
        )

    def _model(self) -> Exchanges:
        plan, source, opened = self.plan, self.first_results, self.estimate_scale
        move = Move(
            source.places,
            plan.inner(1).model_places.places[: self.dim],
            factor=self.estimate_factor,
            multiple=plan.grid.model_multiple,
        )
        model = self._model_part((move,), noise=self.estimate_noise)
        line = Arrangement(np.arange(self.dim), ring_dim=plan.parameters.ring_dim)
        size = 2.0 * self.estimate_bound * self.norm_scale
        norms = [
            _rescaled(
                name, source, target, scale=self.norm_scale, opened=opened, peak=size, norm=size
            )
            for name, target in (("norm", line), ("norm mirrored", line.mirrored))
        ]
        refinement = _rescaled(
            "refinement",
            source,
            self.column,
            scale=self.refinement_scale,
            opened=opened,
            peak=2.0 * math.sqrt(self.refinement_limit) * self.refinement_scale,
        )
        product = self._estimate_product
        return (
            self._exchange(model, *norms, product=product, noise=self.estimate_noise),
            self._exchange(refinement, product=product),
        )

    def _model_part(self, moves: tuple[Move, ...], *, noise: float) -> Target:
        """A part of the model, on the grid, with the opener's noise over that of what is opened."""
        bound = self.plan.model_bound
        return Target(
            name="model",
            moves=moves,
            scale=float(self.plan.grid.model_multiple),
            peak=bound.peak,
            norm=bound.norm,
            deviation=NOISE_FACTOR * noise,
        )

    def _residue(
        self, name: str, source: Arrangement, target: Arrangement, *, factor: float, reach: float
    ) -> Target:
        bound = self.bound(reach, scale=self.residue_scale)
        return Target(
            name=name,
            moves=(Move(source.places, target.places, factor=factor),),
            scale=self.residue_scale,
            peak=bound.peak,
            norm=bound.norm,
        )

    # -- places

    @cached_property
    def top(self) -> Arrangement:
        """The places of a product of two d x d matrices."""
        return self.layout.result_places[: self.dim]

    @cached_property
    def first_results(self) -> Arrangement:
        """The places of the product of a matrix and a vector."""
        return self.layout.result_places[: self.dim, 0]

    @cached_property
    def column(self) -> Arrangement:
        """The places of a vector that is multiplied by a matrix."""
        return self.layout.column_places[:, 0]

    # -- scales of the check

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
        return (2.0 * self.residual * self.response_size + 2.0**-12) ** 2

    @cached_property
    def rest_scale(self) -> float:
        """The scale of g - V w where it is multiplied by the refinement: integers up to 2^48."""
        return math.ldexp(1.0, math.floor(48.0 - math.log2(max(2.0**-6, self.residual_peak))))

    @cached_property
    def refinement_scale(self) -> float:
        """The scale of the refinement there: four times what is allowed fits one prime."""
        room = 2.0**50 * self.plan.parameters.moduli[1] / self.rest_scale
        return math.ldexp(1.0, math.floor(min(54.0, math.log2(room / self.refinement_limit))))


def _rescaled(
    name: str,
    source: Arrangement,
    target: Arrangement,
    *,
    scale: float,
    opened: float,
    peak: float | None = None,
    norm: float | None = None,
) -> Target:
    """Numbers of scale `opened`, moved and brought to `scale`; a negative one turns the sign."""
    move = Move(source.places, target.places, factor=scale / opened)
    return Target(name=name, moves=(move,), scale=scale, peak=peak, norm=norm)
