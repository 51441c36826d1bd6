"""The `fast` profile of HELBA's twin: warm inverse, one composite sign, no square root.

Per batch (design matrix V, response g): A from the last batch's A by scaled Newton, with the
eigenvalue interval that public counts allow; w = A g, refined once by w + A (g - V w), which
squares its error. Per round: the index <w, x> + (gamma/2) x^T A x, or with `bonus="sqrt"` the root
of x^T A x by the certified iteration; then all pairs of arms through one sign polynomial, scaled
by a range that uses the user's own norms.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np

from helba.bandits.bounds import (
    batch_regret_bound,
    quadratic_regret_bound,
    trace_growth_bound,
)
from helba.bandits.helba import Choice, HelbaTwin, Model
from helba.bandits.policy import Array
from helba.bandits.radius import confidence_radius, quadratic_range, quadratic_weight, root_range
from helba.bandits.ridge import quadratic_forms
from helba.bandits.settings import Settings
from helba.errors import InvalidInput, RunFailed
from helba.numerics.argmax import argmax_tolerance, choose_method, comparison_vector
from helba.numerics.inverse import UNIT_ROUNDOFF, invert_warm
from helba.numerics.root import root_iterations, square_root
from helba.numerics.sign import CompositeSign, cheapest_composition

__all__ = ["FastTwin", "default_sign"]

INVERSE_ERROR = 1e-5
LEAST_RATIO = 1e-13  # of the eigenvalues between which the warm start works
RESOLUTION = 2.0**-6
SIGN_ERROR = 0.02
# Depth costs more than products: the shallowest of these that reaches the error.
SIGN_DEPTHS = (9, 12, 15, 18)
# What CKKS may add to an entry of b: decides between product and sum, as on ciphertexts.
CKKS_NOISE = 1e-6
# What double precision may add to an entry of b here; this twin's certificate allows for it.
PLAIN_NOISE = 1e-10
# The root is taken of z + floor: fewer steps for a little more optimism. The floor is the range
# of z over max(ROOT_ROUNDS, t), so that what it costs over T rounds stays of order sqrt(T); the
# root's error is ROOT_SHARE of the floor's root.
ROOT_ROUNDS = 1024
ROOT_SHARE = 1.0 / 8.0


def default_sign(arms: int) -> CompositeSign:
    """Return the sign polynomial for `arms` arms: ripples small enough for their number."""
    error = min(SIGN_ERROR, 0.25 / (arms - 1))
    for depth in SIGN_DEPTHS[:-1]:
        with suppress(InvalidInput):  # not reachable at this depth
            return cheapest_composition(resolution=RESOLUTION, error=error, depth=depth)
    return cheapest_composition(resolution=RESOLUTION, error=error, depth=SIGN_DEPTHS[-1])


class FastTwin(HelbaTwin):
    """HELBA's twin with the numerics of the fast profile; the update bit comes one round late."""

    lag = 1

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.worst_residual = INVERSE_ERROR
        # Ranges hold for the radius of the theory, however a tuned one explores.
        self.told = replace(settings, radius_scale=max(1.0, settings.radius_scale))
        self.sign = default_sign(settings.arms)
        self.method = choose_method(sign=self.sign, arms=settings.arms, noise=CKKS_NOISE)

    def _decide(self, contexts: Array) -> Choice:
        model, beta = self.model, self._radius()
        reach = confidence_radius(
            self.told, samples=model.samples, estimate_error=model.estimate_error
        )
        if self.settings.bonus == "quadratic":
            gamma = self._gamma(beta)
            index, exact, error = self._quadratic_index(contexts, gamma=gamma)
            scale = quadratic_range(
                self.settings, contexts, radius=reach, gamma=gamma, residual=model.residual
            )
        else:
            index, exact, error, width = self._root_index(contexts, beta)
            scale = root_range(
                self.settings, contexts, radius=reach, width=width, residual=model.residual
            )
        spread = float(index.max() - index.min())
        if spread > scale:  # with probability delta at most
            self.overflows += 1
            scale = spread
        scale = scale or 1.0  # 0 if all contexts are
        vector = comparison_vector(
            index, sign=self.sign, scale=scale, method=self.method, noise=PLAIN_NOISE
        )
        return Choice(
            arm=int(np.argmax(vector.value)),
            exact_index=exact,
            tolerance=vector.certificate.error + 2.0 * error,
        )

    def _root_index(self, contexts: Array, beta: float) -> tuple[Array, Array, float, float]:
        """Index, exact index, how far they may differ, and the largest bonus."""
        model = self.model
        weight = beta / math.sqrt(1.0 - model.residual)
        longest = float(np.einsum("ij,ij->i", contexts, contexts).max())
        top = (1.0 + model.residual) * longest / self.settings.ridge
        if top == 0.0:
            flat: Array = np.zeros(len(contexts))
            return flat, flat, 0.0, 0.0
        floor = top / max(ROOT_ROUNDS, self.schedule.last_round)
        high = top + floor
        steps = root_iterations(low=floor, high=high, error=ROOT_SHARE * math.sqrt(floor))
        z = quadratic_forms(contexts, matrix=model.inverse)
        root = square_root(z + floor, low=floor, high=high, iterations=steps)
        index = contexts @ model.estimate + weight * root.value
        true = quadratic_forms(contexts, matrix=model.exact_inverse)
        exact = contexts @ model.exact_estimate + weight * np.sqrt(true + floor)
        # sqrt is Lipschitz with constant 1/(2 sqrt(floor)) above the floor.
        drift = model.residual * true.max() / (2.0 * math.sqrt(floor))
        error = weight * (root.certificate.error + drift)
        error += model.estimate_error * math.sqrt(float(true.max()))
        return index, exact, error, weight * math.sqrt(high)

    def _trace_passed(self) -> bool:
        # The sign polynomial never gets the sign wrong, so the bit is that of the trace itself.
        return self.trace >= self.settings.trace_threshold

    def _recompute(self) -> Model:
        residual = self.model.residual
        reach = self.schedule.trace_bound(residual=residual)
        if 1.0 - residual < LEAST_RATIO * (1.0 + residual + reach):
            raise RunFailed("the inverse is out of reach of double precision: raise the ridge")
        inverse = invert_warm(
            self.design,
            self.model.inverse,
            low=1.0 - residual,
            high=1.0 + residual + reach,
            error=INVERSE_ERROR,
        )
        A, e = inverse.value, inverse.certificate.error
        w = A @ self.response
        w = w + A @ (self.response - self.design @ w)
        # ||V^-1/2 g|| <= sqrt(sum r^2), so ||w - V^-1 g||_V <= e^2 r_max sqrt(n), and rounding.
        rounding = 4.0 * (len(w) + 1) * UNIT_ROUNDOFF * float(np.linalg.norm(self.design))
        drift = e**2 * self.settings.reward_max * math.sqrt(self.samples)
        drift += rounding * float(np.linalg.norm(w)) / math.sqrt(self.settings.ridge)
        return self._adopt(inverse=A, estimate=w, residual=e, drift=drift)

    def regret_bound(self) -> float | None:
        """The proven bound for the bonus in use; None for the public schedule or a tuned radius.

        It uses the largest residual and error of the estimate certified so far.
        """
        settings = self.settings
        if settings.schedule == "public" or settings.radius_scale < 1.0:
            return None
        e, drift = self.worst_residual, self.worst_estimate_error
        growth = trace_growth_bound(settings, residual=e, lag=self.lag)
        beta = confidence_radius(settings, samples=settings.horizon, estimate_error=drift)
        reach = np.array([[settings.length] + [0.0] * (settings.dim - 1)])
        reach = np.vstack([reach, -reach])
        if settings.bonus == "quadratic":
            # In gamma it grows up to a kink and is convex from there: largest at an end or there.
            first, last = (
                quadratic_weight(settings, radius=beta, last_round=t) for t in (1, settings.horizon)
            )
            kink = beta * math.sqrt(settings.ridge) / (2.0 * settings.length * (1.0 - e))
            scale = max(
                quadratic_range(settings, reach, radius=beta, gamma=gamma, residual=e)
                for gamma in (first, min(max(kink, first), last), last)
            )
            bound, extra = quadratic_regret_bound, 0.0
        else:
            weight = beta / math.sqrt(1.0 - e)
            top = (1.0 + e) * settings.length**2 / settings.ridge
            width = weight * math.sqrt(top * (1.0 + 1.0 / ROOT_ROUNDS))
            scale = root_range(settings, reach, radius=beta, width=width, residual=e)
            # sum over t of (1 + ROOT_SHARE) sqrt(floor_t), floor_t = top/max(ROOT_ROUNDS, t)
            rounds = settings.horizon
            shares = min(rounds / math.sqrt(ROOT_ROUNDS), 2.0 * math.sqrt(rounds))
            bound, extra = batch_regret_bound, weight * math.sqrt(top) * (1.0 + ROOT_SHARE) * shares
        tolerance = argmax_tolerance(
            sign=self.sign,
            arms=settings.arms,
            scale=scale,
            method=self.method,
            noise=PLAIN_NOISE,
        )
        return bound(
            settings,
            trace_growth=growth,
            residual=e,
            tolerance_sum=settings.horizon * tolerance + extra,
            estimate_error=drift,
        )
