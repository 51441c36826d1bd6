"""One candidate of the planner: given parameters, what a round and an update are and promise.

`Drafter` holds what depends on the ring alone; `draft` adds parameters and returns the limit they
hit where they do not carry the request.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from helba.bandits.radius import confidence_radius
from helba.bandits.settings import Settings
from helba.numerics.inverse import InverseNoise, WarmStart
from helba.reference.numerics.argmax import Disclosure, argmax_tolerance, disclosure
from helba.reference.numerics.composite import CompositeSign
from helba.reference.planning.bounds.bootstrap import BOOTSTRAP_LEVELS
from helba.reference.planning.bounds.extent import count_updates, score_extent
from helba.reference.planning.bounds.flooding import answer_flood
from helba.reference.planning.bounds.noise import TAILS, NoiseModel
from helba.reference.planning.bounds.precision import (
    answer_noise,
    cold_noise,
    comparison_noise,
    estimate_error,
    inverse_noise,
    plan_inverse,
    renewal_error,
    root_noise,
    score_noise,
)
from helba.reference.planning.cost.calibration import Calibration
from helba.reference.planning.cost.chain import (
    REFRESH_LEVELS,
    Chain,
    Step,
    chain_seconds,
    cut_chain,
    levels_of,
)
from helba.reference.planning.cost.paper_workload import (
    paper_inverse_steps,
    paper_round_steps,
    paper_tie_noise,
)
from helba.reference.planning.cost.workload import inverse_steps, model_steps, round_steps
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.score import ScoreLayout
from helba.reference.planning.parameters import Parameters
from helba.reference.planning.request import PlanRequest
from helba.reference.twin.ciphertext import CKKS_NOISE
from helba.reference.twin.paper import argmax_precision, inverse_floor
from helba.reference.twin.radius import paper_index_range, paper_radius

# `choose_method` decides between product and sum with this margin over `CKKS_NOISE`.
METHOD_MARGIN = 16.0
# The error of the estimate enlarges the confidence radius, so it may be a tenth of it at most.
MOST_ESTIMATE_ERROR = 0.1
# The flood of an answer is at least so many times the error of CKKS that it covers in a slot, and
# in each coefficient, where it is 1/(4 s) of that for s slots, the deviation of its own encryption.
LEAST_COVER = 32.0
# Past this, comparisons of the paper's profile diverge where two arms tie.
MOST_TIE_NOISE = 1e-2
# The refinement of an estimate, uncut, and the refresh after it.
LEAST_LEVELS = 5
# What an exchange with a user costs beside its computation: reading and writing messages, and a
# short way over a network.
EXCHANGE_SECONDS = 0.03


class Limit(Enum):
    """What stands in the way of a request."""

    SLOTS = "slots"
    LEVELS = "levels"
    PRECISION = "precision"
    KEYS = "keys"


@dataclass(frozen=True, kw_only=True)
class Draft:
    """Parameters that carry the request, with everything that a plan says about them.

    `tolerance` is that of the argmax and `bonus_error` that of the bonus, in units of the score;
    `comparison_error` is what CKKS adds to an entry of the comparison vector, `inverse_noise` what
    it adds to the inverse on its way.
    """

    parameters: Parameters
    round: Chain
    inverse: Chain
    model: Chain
    warm: WarmStart | None
    inverse_error: float
    estimate_error: float
    bonus_error: float
    tolerance: float
    score_range: float
    comparison_error: float
    inverse_noise: InverseNoise
    seconds_per_round: float
    seconds_per_update: float
    updates: int
    renewals: int
    horizon: int

    @property
    def refreshes_per_update(self) -> int:
        """Cuts, and the inverse and the model that an update ends with, if they are refreshed."""
        return self.inverse.refreshes + self.model.refreshes + self.renewals

    @property
    def seconds(self) -> float:
        """What the planner minimises: a round, and its share of the updates."""
        return self.seconds_per_round + self.updates * self.seconds_per_update / self.horizon


@dataclass(frozen=True, kw_only=True)
class Drafter:
    """Drafts from parameters; request, ring, sign polynomial and argmax method are fixed.

    `layout` and `sign` are None in the paper's profile.
    """

    request: PlanRequest
    settings: Settings
    calibration: Calibration
    matrices: MatrixLayout
    layout: ScoreLayout | None
    sign: CompositeSign | None
    method: str | None

    @property
    def start(self) -> int:
        """Levels that a refreshed ciphertext has used."""
        return BOOTSTRAP_LEVELS if self.request.refresh == "bootstrap" else 0

    @property
    def reserved(self) -> int:
        """Levels that must be left for a refresh.

        Bootstrapping needs as many: it scales its input to [-1, 1], and adjusts the scale.
        """
        return 0 if self.request.refresh == "none" else REFRESH_LEVELS

    @property
    def renewal_slots(self) -> int:
        """Slots of the largest vector that an update renews: [M; X], or the score model."""
        return max(self.matrices.slots, 0 if self.layout is None else self.layout.slots)

    def disclosure(self, scale: float) -> Disclosure | None:
        """What an answer reveals of scores in a range of `scale`; None in the paper's profile."""
        if self.layout is None or self.sign is None or self.method is None:
            return None
        return disclosure(
            sign=self.sign,
            arms=self.settings.arms,
            scale=scale,
            method=self.method,
            slots=self.layout.compare_slots,
        )

    def round_steps(self) -> tuple[Step, ...]:
        """Return the steps of a round."""
        if self.layout is None or self.sign is None or self.method is None:
            return paper_round_steps(self.settings, matrices=self.matrices)
        return round_steps(self.settings, layout=self.layout, sign=self.sign, method=self.method)

    def draft(self, parameters: Parameters, *, cut_round: bool) -> Draft | Limit:
        """Return what `parameters` give, or which limit they hit."""
        settings, levels = self.settings, parameters.depth - self.start
        steps = self.round_steps()
        if levels < LEAST_LEVELS or (not cut_round and levels_of(steps) > levels):
            return Limit.LEVELS
        warm: WarmStart | None = None
        noise = inverse_noise(
            settings,
            parameters=parameters,
            slots=self.matrices.slots,
            refresh=self.request.refresh,
            levels=levels - self.reserved,
            renewal_slots=self.renewal_slots,
            keys=self.request.keys,
        )
        if self.sign is None:
            newton = paper_inverse_steps(settings, matrices=self.matrices)
            floor = inverse_floor(settings, batch_start=settings.horizon)
            inverse_error = settings.ridge * floor / settings.length**2
            inverse_error += cold_noise(noise, steps=len(newton))
        else:
            warm = plan_inverse(settings, noise=noise)
            if warm is None:
                return Limit.PRECISION
            inverse_error = warm.error
            newton = inverse_steps(self.matrices, newton_steps=max(1, warm.steps))
        chains = [
            cut_chain(steps, levels=levels, reserved=self.reserved),
            cut_chain(newton, levels=levels, reserved=self.reserved, ends_fresh=True),
            cut_chain(
                model_steps(self.matrices, layout=self.layout),
                levels=levels,
                reserved=self.reserved,
                ends_fresh=True,
            ),
        ]
        found = [chain for chain in chains if chain is not None]
        if len(found) < len(chains):
            return Limit.LEVELS
        round_chain, inverse_chain, model_chain = found
        if self.request.refresh == "none":
            used = levels_of(newton) * count_updates(settings)
            if used + levels_of(model_chain.pieces[0]) + levels_of(steps) > levels:
                return Limit.LEVELS
        return self._promise(
            parameters,
            chains=(round_chain, inverse_chain, model_chain),
            warm=warm,
            inverse_error=inverse_error,
            inverse_noise=noise,
        )

    def _promise(
        self,
        parameters: Parameters,
        *,
        chains: tuple[Chain, Chain, Chain],
        warm: WarmStart | None,
        inverse_error: float,
        inverse_noise: InverseNoise,
    ) -> Draft | Limit:
        settings = self.settings
        if self.layout is None or self.sign is None or self.method is None:
            if paper_tie_noise(settings, parameters=parameters) > MOST_TIE_NOISE:
                return Limit.PRECISION
            drift = inverse_error * settings.reward_max * math.sqrt(settings.horizon)
            beta = paper_radius(
                settings, round=settings.horizon, batch_start=settings.horizon, estimate_error=drift
            )
            floor = inverse_floor(settings, batch_start=settings.horizon)
            least, most = paper_index_range(
                settings, radius=beta, round=settings.horizon, floor=floor
            )
            extent, noise = most - least, CKKS_NOISE
            tolerance = extent * 2.0 * argmax_precision(settings.horizon)
            bonus = beta / settings.horizon
        else:
            drift = estimate_error(
                settings,
                residual=inverse_error,
                parameters=parameters,
                slots=self.matrices.slots,
                refresh=self.request.refresh,
                renewal_slots=self.renewal_slots,
                renewals=1 + chains[2].refreshes,
            )
            radius = confidence_radius(settings, samples=settings.horizon)
            if drift > MOST_ESTIMATE_ERROR * radius:
                return Limit.PRECISION
            extent, bonus = score_extent(settings, residual=inverse_error, drift=drift)
            if settings.bonus == "sqrt":
                bonus += extent * root_noise(
                    settings, slots=self.layout.slots, parameters=parameters
                )
            compared = self.layout.compare_slots
            renewed = renewal_error(
                refresh=self.request.refresh if chains[0].refreshes else "none",
                parameters=parameters,
                slots=compared,
                bound=1.0,
            )
            noise = comparison_noise(
                self.sign, slots=compared, parameters=parameters, renewed=renewed
            )
            # Entries are (1 + P)/2; a product of them adds up their errors, and entries and
            # products may be renewed.
            tree = self.method == "product" and settings.arms > 2
            noise /= 2.0
            if tree:
                noise = self.layout.padded_arms * (noise + 2.0 * renewed)
            noise += answer_noise(compared, parameters=parameters)
            flood = answer_flood(arms=settings.arms, method=self.method)
            relative = argmax_tolerance(
                sign=self.sign,
                arms=settings.arms,
                scale=1.0,
                method=self.method,
                noise=noise + flood,
            ) + 2.0 * score_noise(
                settings,
                layout=self.layout,
                parameters=parameters,
                scale=extent,
                keys=self.request.keys,
            )
            if relative > self.sign.resolution or noise > METHOD_MARGIN * CKKS_NOISE:
                return Limit.PRECISION
            own = NoiseModel(parameters).encryption(compared) / (TAILS * math.sqrt(2.0 * compared))
            if LEAST_COVER * max(noise, 4.0 * compared * own) > flood:
                return Limit.PRECISION
            tolerance = relative * extent
        return self._priced(
            Draft(
                parameters=parameters,
                round=chains[0],
                inverse=chains[1],
                model=chains[2],
                warm=warm,
                inverse_error=inverse_error,
                estimate_error=drift,
                bonus_error=bonus,
                tolerance=tolerance,
                score_range=extent,
                comparison_error=noise,
                inverse_noise=inverse_noise,
                seconds_per_round=0.0,
                seconds_per_update=0.0,
                updates=count_updates(settings),
                renewals=0 if self.request.refresh == "none" else 2,
                horizon=settings.horizon,
            )
        )

    def _priced(self, draft: Draft) -> Draft:
        parameters, calibration = draft.parameters, self.calibration
        kind = "bootstrap" if self.request.refresh == "bootstrap" else "refresh"

        def seconds(chain: Chain, *, reserved: int = 0) -> float:
            return chain_seconds(
                chain,
                parameters=parameters,
                calibration=calibration,
                refresh=kind,
                start=self.start,
                reserved=reserved,
            )

        renewal = draft.renewals * calibration.seconds(kind, parameters=parameters)
        last = parameters.depth
        users = 3.0 * calibration.seconds("encrypt", parameters=parameters)
        users += calibration.seconds("decrypt", parameters=parameters, level=last)
        users += calibration.seconds("relinearise", parameters=parameters, level=last)
        exchange = EXCHANGE_SECONDS if self.request.refresh == "client" else 0.0
        users += exchange * draft.round.refreshes
        renewal += exchange * draft.refreshes_per_update
        return replace(
            draft,
            seconds_per_round=seconds(draft.round) + users,
            seconds_per_update=seconds(draft.inverse, reserved=self.reserved)
            + seconds(draft.model, reserved=self.reserved)
            + renewal,
        )
