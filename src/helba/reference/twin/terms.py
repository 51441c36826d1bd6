"""What is public about a batch, and how exact its model is promised to be.

Whoever encrypts contexts, whoever scores them and the plaintext twin derive radius, weight and
range from the same `BatchTerms`, so that none of them can go stale between encryption and scoring.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace

from helba.bandits.radius import confidence_radius, quadratic_weight
from helba.bandits.settings import MOST_ROUNDS, Settings
from helba.errors import InvalidInput, RunFailed, require_at_least, require_whole
from helba.numerics.inverse import InverseNoise, WarmStart, plan_warm_start

# Past this residual the regret bound's constant grows and nothing is gained.
MOST_RESIDUAL = 0.1
COARSER = 10.0**0.25


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """How exact an update is: the residual it aims at, and what noise adds on the way.

    `product_noise`, `renewal_noise`, `ending_noise` and `piece` are those of
    `numerics.inverse.InverseNoise`, and `estimate_noise` bounds, in the norm of V, what is added to
    the estimate beside e^2 r_max sqrt(n). On plain data all are 0.
    """

    inverse_error: float = 1e-5
    product_noise: float = 0.0
    renewal_noise: float = 0.0
    ending_noise: float = 0.0
    piece: int = 0
    estimate_noise: float = 0.0

    def __post_init__(self) -> None:
        for name in ("inverse_error", "estimate_noise"):
            require_at_least(name, getattr(self, name), 0.0)
        _ = self.inverse_noise  # checks the others

    @property
    def inverse_noise(self) -> InverseNoise:
        """What is added to an inverse on its way."""
        return InverseNoise(
            product=self.product_noise,
            renewal=self.renewal_noise,
            piece=self.piece,
            ending=self.ending_noise,
        )

    def plan_inverse(self, *, residual: float, reach: float) -> WarmStart:
        """Return the Newton steps from an inverse with `residual`, for a trace of up to `reach`.

        The aim is `inverse_error`, or what noise allows where the trace has grown further than a
        plan foresees; `RunFailed` past `MOST_RESIDUAL`.
        """
        low, high, error = 1.0 - residual, 1.0 + residual + reach, self.inverse_error
        if self.inverse_noise.none:
            return plan_warm_start(low=low, high=high, error=error)
        while error <= MOST_RESIDUAL:
            with suppress(InvalidInput):  # noise does not allow it
                return plan_warm_start(low=low, high=high, error=error, noise=self.inverse_noise)
            error *= COARSER
        raise RunFailed("noise outgrows the inverse: plan with more scale bits, or a larger ridge")

    def most_bridged(self, settings: Settings, *, most: int) -> int:
        """Return how many rewards, of `most`, an update takes in whatever they are.

        From any model that is served, each reward as large as it may be. None of them counts as
        one: a batch takes at least that.
        """
        step = (1.0 + MOST_RESIDUAL) * settings.length**2 / settings.ridge

        def fits(count: int) -> bool:
            try:
                self.plan_inverse(residual=MOST_RESIDUAL, reach=count * step)
            except RunFailed:
                return False
            return True

        low, high = 1, max(1, most)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        return low

    def estimate_error(self, settings: Settings, *, residual: float, samples: int) -> float:
        """Return a bound on ||w - V^-1 g||_V: ||V^-1/2 g|| <= r_max sqrt(n), refined once."""
        return residual**2 * settings.reward_max * math.sqrt(samples) + self.estimate_noise


@dataclass(frozen=True, kw_only=True)
class BatchWeights:
    """What a batch's index is made of: beta, gamma, and the radius that ranges rely on.

    The last is that of the theory, however a tuned one explores.
    """

    radius: float
    certain_radius: float
    gamma: float


@dataclass(frozen=True, kw_only=True)
class BatchTerms:
    """The public side of a batch; fixed until the next update.

    `start` is t_j, `samples` the rewards that the model knows, `last_round` the last round that
    the batch can serve. `residual` bounds ||V^(1/2) A V^(1/2) - I||, `estimate_error` bounds
    ||w - V^-1 g||_V; in the paper's profile, where noise is not certified, without it.
    """

    number: int
    start: int
    samples: int
    last_round: int
    residual: float
    estimate_error: float

    def __post_init__(self) -> None:
        require_whole("number", self.number, least=0, most=MOST_ROUNDS)
        require_whole("start", self.start, least=1, most=MOST_ROUNDS)
        require_whole("samples", self.samples, least=0, most=MOST_ROUNDS)
        require_whole("last_round", self.last_round, least=1, most=MOST_ROUNDS)
        require_at_least("residual", self.residual, 0.0)
        require_at_least("estimate_error", self.estimate_error, 0.0)

    def weights(self, settings: Settings) -> BatchWeights:
        """Return radius and gamma, and the radius that ranges rely on."""
        told = replace(settings, radius_scale=max(1.0, settings.radius_scale))
        radius, certain = (
            confidence_radius(each, samples=self.samples, estimate_error=self.estimate_error)
            for each in (settings, told)
        )
        gamma = quadratic_weight(settings, radius=radius, last_round=self.last_round)
        return BatchWeights(radius=radius, certain_radius=certain, gamma=gamma)
