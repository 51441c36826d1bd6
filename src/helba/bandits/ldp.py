"""A linear bandit under local differential privacy, the baseline of the paper's introduction.

After Zheng et al. 2020 (arXiv 2006.00701): every user adds Gaussian noise to what it sends, x x^T
and r x, so that the report itself is (epsilon, delta)-private; the server runs optimism on the
noisy sums, shifted to stay positive definite. Regret grows like T^(3/4).

The noise is that of the analytic Gaussian mechanism (Balle and Wang 2018), exact for every epsilon.
The radius is derived here. Let N and n be the summed noises, P >= ||N|| and p >= ||n|| with high
probability, V = sum x x^T + N + (2 P + lambda) I and H = N + (2 P + lambda) I, whose eigenvalues
lie in [P + lambda, 3 P + lambda]. Then ||V^-1 (sum r x + n) - theta||_V is at most
||sum eta x||_{V^-1} + p/sqrt(P + lambda) + S sqrt(3 P + lambda).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from helba.bandits.oful import optimistic_arm
from helba.bandits.policy import Array, Policy
from helba.bandits.ridge import solve_ridge
from helba.bandits.settings import Settings


@lru_cache(maxsize=64)
def gaussian_deviation(*, epsilon: float, delta: float) -> float:
    """Return the least deviation that makes a query of sensitivity 1 (epsilon, delta)-private.

    The root of ndtr(1/(2s) - eps s) - e^eps ndtr(-1/(2s) - eps s) = delta (Balle and Wang,
    Theorem 8), which decreases in s.
    """

    def excess(log_s: float) -> float:
        s = math.exp(log_s)
        tail = math.exp(epsilon + float(log_ndtr(-1.0 / (2.0 * s) - epsilon * s)))
        return float(ndtr(1.0 / (2.0 * s) - epsilon * s)) - tail - delta

    return math.exp(float(brentq(excess, -12.0, 25.0, xtol=1e-12)))


class LdpOful(Policy):
    """OFUL on reports that are (privacy_epsilon, privacy_delta)-private each."""

    def __init__(self, settings: Settings, *, seed: int) -> None:
        super().__init__(settings)
        d, length = settings.dim, settings.length
        self.rng = np.random.default_rng(seed)
        self.samples = 0
        self.design: Array = np.zeros((d, d))
        self.response: Array = np.zeros(d)
        # Two parts, each scaled to sensitivity 1, leave as one query of sensitivity sqrt(2):
        # ||x x^T - y y^T||_F <= sqrt(2) L^2 and ||r x - q y|| <= 2 r_max L.
        deviation = math.sqrt(2.0) * gaussian_deviation(
            epsilon=settings.privacy_epsilon, delta=settings.privacy_delta
        )
        self.matrix_noise = deviation * math.sqrt(2.0) * length**2
        self.vector_noise = deviation * 2.0 * settings.reward_max * length
        self.inverse: Array = np.eye(d) / settings.ridge
        self.estimate: Array = np.zeros(d)
        self.radius = settings.radius_scale * settings.parameter_bound * math.sqrt(settings.ridge)

    def _choose(self, contexts: Array) -> int:
        return optimistic_arm(
            contexts, estimate=self.estimate, inverse=self.inverse, radius=self.radius
        )

    def _learn(self, context: Array, reward: float) -> None:
        matrix, vector = self.report(context, reward)
        self.samples += 1
        self.updates += 1
        self.design += matrix
        self.response += vector
        self._refit()

    def report(self, context: Array, reward: float) -> tuple[Array, Array]:
        """Return what the user sends: x x^T and r x, each with its own noise."""
        d = len(context)
        upper = np.triu(self.rng.normal(0.0, self.matrix_noise, (d, d)))
        noise = upper + np.triu(upper, 1).T
        vector = reward * context + self.rng.normal(0.0, self.vector_noise, d)
        return context[:, None] * context + noise, vector

    def _refit(self) -> None:
        settings, n, d = self.settings, self.samples, self.settings.dim
        share = settings.delta * 2.0 / (math.pi**2 * n**2)  # three events, all rounds: delta in sum
        spread = math.sqrt(math.log(2.0 / share))
        # E lambda_max(N) <= 2 s sqrt(n d) for symmetric noise, of which it is a sqrt(2)-Lipschitz
        # function; the same for -N.
        P = self.matrix_noise * math.sqrt(n) * (2.0 * math.sqrt(d) + 2.0 * spread)
        p = self.vector_noise * math.sqrt(n) * (math.sqrt(d) + math.sqrt(2.0) * spread)
        floor = P + settings.ridge
        V = self.design + (2.0 * P + settings.ridge) * np.eye(d)
        volume = d * math.log1p(n * settings.length**2 / (d * floor))
        width = settings.noise * math.sqrt(2.0 * math.log(1.0 / share) + volume)
        bias = settings.parameter_bound * math.sqrt(3.0 * P + settings.ridge)
        self.inverse, self.estimate = solve_ridge(V, response=self.response)
        self.radius = settings.radius_scale * (width + p / math.sqrt(floor) + bias)
