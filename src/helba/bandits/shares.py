"""The `shares` profile of HELBA's twin: warm inverse, quadratic bonus, exact argmax.

Growth counts reports, and the update test sees every report before the next one. Per batch: A from
the last batch's A by scaled Newton, w = A g refined once. Per round the best of the indices <w, x>
+ (gamma/2) x^T A x, ties to the lowest arm. `helba.lab.play.twin` puts all of it on the grid of an
encrypted run.
"""

from __future__ import annotations

import math

import numpy as np

from helba.bandits.bounds import quadratic_regret_bound, trace_growth_bound
from helba.bandits.helba import Choice, HelbaTwin, Model
from helba.bandits.policy import Array
from helba.bandits.radius import confidence_radius, quadratic_weight
from helba.bandits.settings import Settings
from helba.errors import InvalidInput, RunFailed
from helba.numerics.inverse import UNIT_ROUNDOFF, invert_warm, plan_warm_start

INVERSE_ERROR = 5e-3  # ||V^(1/2) A V^(1/2) - I|| that an update aims at


class SharesTwin(HelbaTwin):
    """HELBA's twin with the numerics of shares, in floating point."""

    def __init__(self, settings: Settings) -> None:
        if settings.bonus != "quadratic":
            raise InvalidInput("bonus", settings.bonus, "quadratic in the profile shares")
        super().__init__(settings)

    @property
    def now(self) -> int:
        """Reports so far: growth counts them, not rounds."""
        return max(1, self.samples)

    def _decide(self, contexts: Array) -> Choice:
        index, exact, error = self._quadratic_index(contexts, gamma=self._gamma())
        return Choice(arm=int(np.argmax(index)), exact_index=exact, tolerance=2.0 * error)

    def _gamma(self) -> float:
        model = self.model
        radius = confidence_radius(
            self.settings, samples=model.samples, estimate_error=model.estimate_error
        )
        return quadratic_weight(self.settings, radius=radius, last_round=self.schedule.last_round)

    def _trace_passed(self) -> bool:
        return self.trace >= self.settings.trace_threshold

    def _recompute(self) -> Model:
        residual = self.model.residual
        low, high = 1.0 - residual, 1.0 + residual + self.schedule.trace_bound(residual=residual)
        try:
            plan_warm_start(low=low, high=high, error=INVERSE_ERROR)
            A, e = invert_warm(
                self.design, self.model.inverse, low=low, high=high, error=INVERSE_ERROR
            )
        except InvalidInput:
            raise RunFailed(
                "the inverse is out of reach of double precision: raise the ridge"
            ) from None
        w = A @ self.response
        w = w + A @ (self.response - self.design @ w)
        rounding = 4.0 * (len(w) + 1) * UNIT_ROUNDOFF * float(np.linalg.norm(self.design))
        drift = e**2 * self.settings.reward_max * math.sqrt(self.samples)
        drift += rounding * float(np.linalg.norm(w)) / math.sqrt(self.settings.ridge)
        return self._adopt(inverse=A, estimate=w, residual=e, drift=drift)

    def regret_bound(self) -> float | None:
        """Return the proven bound; None for the public schedule or a tuned radius."""
        return shares_regret_bound(
            self.settings,
            residual=self.worst_residual,
            estimate_error=self.worst_estimate_error,
        )


def shares_regret_bound(
    settings: Settings,
    *,
    residual: float,
    estimate_error: float,
    tolerance: float = 0.0,
    band: float = 0.0,
) -> float | None:
    """Return the regret bound of the profile (theory, Theorem 1); None without update tests.

    `tolerance` is by how much a round's arm may miss the best index: the grid's resolution, and
    what rounded contexts change, in units of the score. `band` is the test's resolution.
    """
    if settings.schedule == "public" or settings.radius_scale < 1.0:
        return None
    growth = trace_growth_bound(settings, residual=residual, band=band, lag=0)
    return quadratic_regret_bound(
        settings,
        trace_growth=growth,
        residual=residual,
        tolerance_sum=settings.horizon * tolerance,
        estimate_error=estimate_error,
    )
