"""What a horizon brings with it: how far scores spread, and how many updates there are."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from helba.bandits.radius import confidence_radius, quadratic_weight
from helba.bandits.settings import Settings
from helba.reference.planning.cost.workload import root_range
from helba.reference.twin.ciphertext_bound import ROOT_SHARE
from helba.reference.twin.radius import quadratic_range
from helba.reference.twin.radius import root_range as index_range


def score_extent(settings: Settings, *, residual: float, drift: float) -> tuple[float, float]:
    """Return the range of a round's scores, and how wrong a bonus may be, at the longest contexts.

    As in `reference.twin.ciphertext`: in gamma the range is largest at an end or at a kink between.
    """
    beta = confidence_radius(settings, samples=settings.horizon, estimate_error=drift)
    reach = np.zeros((2, settings.dim))
    reach[:, 0] = settings.length, -settings.length
    top = settings.length**2 / settings.ridge
    if settings.bonus == "quadratic":
        first, last = (
            quadratic_weight(settings, radius=beta, last_round=t) for t in (1, settings.horizon)
        )
        kink = beta * math.sqrt(settings.ridge) / (2.0 * settings.length * (1.0 - residual))
        extent = max(
            quadratic_range(settings, reach, radius=beta, gamma=gamma, residual=residual)
            for gamma in (first, min(max(kink, first), last), last)
        )
        return extent, last / 2.0 * residual * top
    weight = beta / math.sqrt(1.0 - residual)
    low, high = root_range(settings)
    # z is off by e z at most, and its root then by e sqrt(z)/(2 sqrt(1 - e)).
    error = ROOT_SHARE * math.sqrt(low)
    error += residual * math.sqrt(top) / (2.0 * math.sqrt(1.0 - residual))
    width = weight * math.sqrt((1.0 + residual) * high)
    extent = index_range(settings, reach, radius=beta, width=width, residual=residual)
    return extent, weight * error


def count_updates(settings: Settings) -> int:
    """Return how often the rule t >= (1 + eta) t_j updates within the horizon."""
    growth, now, count = 1 + Fraction(str(settings.growth)), 1, 0
    while True:
        now = max(now + 1, math.ceil(growth * now))
        if now > settings.horizon:
            return count
        count += 1
