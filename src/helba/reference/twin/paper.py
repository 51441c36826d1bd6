"""The `paper` profile of HELBA's twin: cold inverse, iterated root, amax and acomp.

It follows the paper's low-switching algorithm with its precisions eps_j, 1/t and 1/(4.1 t), and
with iteration counts that reach them (errata 1 to 4 and 14). It is the reference for the numbers
and the baseline for speed; prefer the profile `ciphertext` for use.
"""

from __future__ import annotations

import math

import numpy as np

from helba.bandits.helba import Choice, Model
from helba.bandits.policy import Array
from helba.bandits.radius import quadratic_weight
from helba.bandits.ridge import quadratic_forms
from helba.bandits.settings import Settings
from helba.errors import RunFailed
from helba.numerics.inverse import residual_norm
from helba.reference.numerics.compare import acomp, acomp_tolerance, new_comp
from helba.reference.numerics.inverse import invert_cold
from helba.reference.numerics.root import LEAST_RATIO, root_error_at, root_iterations, square_root
from helba.reference.twin.bounds import paper_profile_bound
from helba.reference.twin.follow import FollowingTwin
from helba.reference.twin.radius import paper_index_range, paper_radius

PLAIN_NOISE = 1e-14
UPDATE_THRESHOLD = 0.45


def inverse_floor(settings: Settings, *, batch_start: int) -> float:
    """Return eps_j = L/(t_j^(3/2) sqrt(lambda + L^2 t_j)); the inverse is good to eps_j/L^2."""
    start, length = max(1, batch_start), settings.length
    return length / (start * math.sqrt(start * (settings.ridge + length**2 * start)))


def root_interval(settings: Settings, *, batch_start: int) -> tuple[float, float]:
    """Return [c1, c2] for the argument of the root: the floor eps_j, and the largest norm added."""
    floor = inverse_floor(settings, batch_start=batch_start)
    ridge = settings.ridge
    return floor, floor + settings.length**2 * (1.0 / math.sqrt(ridge) + 1.0 / ridge)


def argmax_precision(round: int) -> float:
    """Return eps'_t = 1/(4.1 t), the precision of acomp in round t."""
    return 1.0 / (4.1 * round)


def quadratic_interval(
    settings: Settings, *, radius: float, gamma: float, residual: float
) -> tuple[float, float]:
    """Return the least and greatest quadratic index of contexts no longer than L."""
    mean = min(settings.parameter_bound * settings.length, settings.reward_max)
    width = settings.length**2 / settings.ridge
    most = mean + radius * math.sqrt(width) + gamma * (1.0 + residual) * width / 2.0
    return -mean - radius**2 / (2.0 * gamma * (1.0 - residual)), most


class PaperTwin(FollowingTwin):
    """HELBA's twin with the numerics of the paper."""

    band = 0.25  # the test's 1/(4t)
    within_floor = True  # whether every inverse so far is certified to eps_j/L^2

    def _radius(self) -> float:
        model = self.model
        return paper_radius(
            self.settings,
            round=self.now,
            batch_start=model.start,
            estimate_error=model.estimate_error,
        )

    def _decide(self, contexts: Array) -> Choice:
        if self.settings.bonus == "sqrt":
            index, exact, error, interval = self._root_index(contexts)
        else:
            beta = self._radius()
            gamma = quadratic_weight(
                self.settings, radius=beta, last_round=self.schedule.last_round
            )
            index, exact, error = self._quadratic_index(contexts, gamma=gamma)
            interval = quadratic_interval(
                self.settings, radius=beta, gamma=gamma, residual=self.model.residual
            )
        least = min(interval[0], float(index.min()))
        span = max(interval[1], float(index.max())) - least
        if span > interval[1] - interval[0]:  # with probability delta at most
            self.overflows += 1
        precision = argmax_precision(self.now)
        vector = acomp((index - least) / span, error=precision)
        tolerance = span * acomp_tolerance(error=precision, noise=PLAIN_NOISE)
        return Choice(
            arm=int(np.argmax(vector.value)),
            exact_index=exact,
            tolerance=tolerance + 2.0 * error,
        )

    def _root_index(self, contexts: Array) -> tuple[Array, Array, float, tuple[float, float]]:
        """Index, exact index, how far they may differ, and the range of the index."""
        model, t = self.model, self.now
        beta = self._radius()
        low, high = root_interval(self.settings, batch_start=model.start)
        if low < LEAST_RATIO * high:
            raise RunFailed(
                "the paper's root is lost in rounding: raise the ridge, or take another profile"
            )
        steps = root_iterations(low=low, high=high, error=1.0 / t)
        z = np.minimum(quadratic_forms(contexts, matrix=model.inverse) + low, high)
        root = square_root(z, low=low, high=high, iterations=steps)
        index = contexts @ model.estimate + beta * (root.value + 1.0 / t)
        true = quadratic_forms(contexts, matrix=model.exact_inverse)
        exact = contexts @ model.exact_estimate + beta * (np.sqrt(true + low) + 1.0 / t)
        lost = root_error_at(z, high=high, iterations=steps)
        drift = model.residual * true / (2.0 * np.sqrt((1.0 - model.residual) * true + low))
        errors = beta * (lost + drift) + model.estimate_error * np.sqrt(true)
        interval = paper_index_range(self.settings, radius=beta, round=t, floor=low)
        return index, exact, float(errors.max()), interval

    def _trace_passed(self) -> bool:
        settings, plays = self.settings, self.schedule.plays + 1
        ridge = settings.ridge
        reach = settings.length**2 * (1.0 / ridge + 1.0 / math.sqrt(ridge)) * plays
        if reach <= settings.trace_threshold + 1.0 / (4.0 * self.now):
            return False  # it cannot have passed by more than the band
        compared = new_comp(
            np.array(min(1.0, self.trace / reach)),
            np.array(settings.trace_threshold / reach),
            gap=1.0 / (4.0 * self.now * reach),
            error=UPDATE_THRESHOLD,
        )
        return float(compared.value) > UPDATE_THRESHOLD

    def _recompute(self) -> Model:
        settings = self.settings
        floor = inverse_floor(settings, batch_start=self.now)
        inverse = invert_cold(
            self.design,
            ridge=settings.ridge,
            trace_bound=settings.ridge * settings.dim + settings.length**2 * self.samples,
            error=floor / settings.length**2,
        )
        reached = inverse.certificate.error * settings.length**2 <= floor * 1.001
        self.within_floor = self.within_floor and reached
        # A = V^-1 (I - (I - V/c)^(2^k)), so lambda times the spectral error bounds the residual.
        # What rounding adds is measured.
        measured = residual_norm(inverse.value, matrix=self.design)
        residual = max(settings.ridge * inverse.certificate.error, measured)
        drift = residual * settings.reward_max * math.sqrt(self.samples)
        return self._adopt(
            inverse=inverse.value,
            estimate=inverse.value @ self.response,
            residual=residual,
            drift=drift,
        )

    def _excess(self) -> float:
        """A cold start approaches V^-1 from below."""
        return 0.0

    def regret_bound(self) -> float | None:
        """Theorem 2's corollary for the sqrt bonus, the trace schedule and an untuned radius."""
        settings = self.settings
        if settings.schedule == "public" or settings.radius_scale < 1.0 or settings.bonus != "sqrt":
            return None
        if not self.within_floor:
            return None
        T = settings.horizon
        beta = paper_radius(settings, round=T, batch_start=T) + max(1.0, self.worst_estimate_error)
        floor = inverse_floor(settings, batch_start=1)
        least, most = paper_index_range(settings, radius=beta, round=1, floor=floor)
        return paper_profile_bound(
            settings,
            band=self.band,
            estimate_error=self.worst_estimate_error,
            # acomp is within 2/(4.1 t) of the range in round t
            tolerance_sum=(most - least) * (1.0 + math.log(T)) / 2.05,
        )
