"""The profile `ciphertext` of HELBA's twin: warm inverse, one composite sign, no square root.

Per batch (design matrix V, response g): A from the last batch's A by scaled Newton, with the
eigenvalue interval that public counts allow; w = A g, refined once by w + A (g - V w), which
squares its error. Per round: the index <w, x> + (gamma/2) x^T A x, or with `bonus="sqrt"` the root
of x^T A x by the certified iteration; then all pairs of arms through one sign polynomial, scaled
by a range that uses the user's own norms.
"""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np

from helba.bandits.helba import Choice, Model
from helba.bandits.policy import Array
from helba.bandits.ridge import quadratic_forms
from helba.bandits.settings import Settings
from helba.errors import InvalidInput, RunFailed
from helba.numerics.inverse import UNIT_ROUNDOFF, invert_warm
from helba.reference.numerics.argmax import choose_method, comparison_vector
from helba.reference.numerics.composite import CompositeSign
from helba.reference.numerics.root import root_iterations, square_root
from helba.reference.numerics.sign import cheapest_composition
from helba.reference.twin.ciphertext_bound import (
    ROOT_ROUNDS,
    ROOT_SHARE,
    Comparison,
    fast_regret_bound,
)
from helba.reference.twin.follow import FollowingTwin
from helba.reference.twin.radius import quadratic_range, root_range
from helba.reference.twin.terms import Accuracy, BatchTerms, BatchWeights

INVERSE_ERROR = 1e-5
PLAIN = Accuracy(inverse_error=INVERSE_ERROR)
LEAST_RATIO = 1e-13  # of the eigenvalues between which the warm start works
RESOLUTION = 2.0**-6
SIGN_ERROR = 0.02
# Depth costs more than products: the shallowest of these that reaches the error.
SIGN_DEPTHS = (9, 12, 15, 18)
# What CKKS may add to an entry of b: decides between product and sum, as on ciphertexts.
CKKS_NOISE = 1e-6
# What double precision may add to an entry of b here; this twin's certificate allows for it.
PLAIN_NOISE = 1e-10


def default_sign(arms: int) -> CompositeSign:
    """Return the sign polynomial for `arms` arms: ripples small enough for their number."""
    error = min(SIGN_ERROR, 0.25 / (arms - 1))
    for depth in SIGN_DEPTHS[:-1]:
        with suppress(InvalidInput):  # not reachable at this depth
            return cheapest_composition(resolution=RESOLUTION, error=error, depth=depth)
    return cheapest_composition(resolution=RESOLUTION, error=error, depth=SIGN_DEPTHS[-1])


class CiphertextTwin(FollowingTwin):
    """HELBA's twin in the profile `ciphertext`; the update bit comes one round late."""

    lag = 1

    def __init__(self, settings: Settings, *, accuracy: Accuracy = PLAIN) -> None:
        super().__init__(settings)
        self.accuracy = accuracy
        self._weighed: tuple[Model, BatchWeights] | None = None
        self.worst_residual = accuracy.inverse_error
        self.sign = default_sign(settings.arms)
        self.method = choose_method(sign=self.sign, arms=settings.arms, noise=CKKS_NOISE)

    @property
    def terms(self) -> BatchTerms:
        """What is public about the batch in play."""
        model = self.model
        return BatchTerms(
            number=self.updates,
            start=model.start,
            samples=model.samples,
            last_round=self.schedule.last_round,
            residual=model.residual,
            estimate_error=model.estimate_error,
        )

    def _weights(self) -> BatchWeights:
        """Radius and gamma, worked out once a batch."""
        if self._weighed is None or self._weighed[0] is not self.model:
            self._weighed = (self.model, self.terms.weights(self.settings))
        return self._weighed[1]

    def _decide(self, contexts: Array) -> Choice:
        model, weights = self.model, self._weights()
        beta, reach = weights.radius, weights.certain_radius
        if self.settings.bonus == "quadratic":
            gamma = weights.gamma
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
        # |z' - z| <= e z, and the sum of the two roots is at least 2 sqrt((1 - e) z).
        drift = model.residual * math.sqrt(true.max() / (1.0 - model.residual)) / 2.0
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
        plan = self.accuracy.plan_inverse(residual=residual, reach=reach)
        A, certified = invert_warm(
            self.design, self.model.inverse, low=plan.low, high=plan.high, error=plan.error
        )
        e = max(plan.error, certified)
        w = A @ self.response
        w = w + A @ (self.response - self.design @ w)
        rounding = 4.0 * (len(w) + 1) * UNIT_ROUNDOFF * float(np.linalg.norm(self.design))
        drift = self.accuracy.estimate_error(self.settings, residual=e, samples=self.samples)
        drift += rounding * float(np.linalg.norm(w)) / math.sqrt(self.settings.ridge)
        return self._adopt(inverse=A, estimate=w, residual=e, drift=drift)

    def regret_bound(self) -> float | None:
        """The proven bound for the bonus in use; None for the public schedule or a tuned radius.

        It uses the largest residual and error of the estimate certified so far.
        """
        return fast_regret_bound(
            self.settings,
            residual=self.worst_residual,
            estimate_error=self.worst_estimate_error,
            lag=self.lag,
            band=self.band,
            comparison=Comparison(sign=self.sign, method=self.method, noise=PLAIN_NOISE),
        )
