"""Confidence radii, the weight of the quadratic bonus, and the range of an index.

All of it is public arithmetic: nothing here depends on contexts or rewards, but for the norms of a
user's own contexts where that user calls.
"""

from __future__ import annotations

import math

from helba.bandits.settings import Settings


def potential(settings: Settings, rounds: float) -> float:
    """Return Gamma_t = 2 d ln(1 + t L^2/(lambda d)), twice the elliptical potential's bound."""
    d, ridge = settings.dim, settings.ridge
    return 2.0 * d * math.log1p(rounds * settings.length**2 / (ridge * d))


def confidence_radius(settings: Settings, *, samples: int, estimate_error: float = 0.0) -> float:
    """Return beta with ||w - theta||_V <= beta for all times at once, with probability 1 - delta.

    S sqrt(lambda) + sigma sqrt(2 ln(1/delta) + d ln(1 + n L^2/(lambda d))) after n samples
    (Abbasi-Yadkori et al. 2011, Theorem 2, with the determinant bounded by its trace), times the
    tuning factor, plus what the estimate itself may be off by.
    """
    log_volume = potential(settings, samples) / 2.0
    width = settings.noise * math.sqrt(2.0 * math.log(1.0 / settings.delta) + log_volume)
    exact = settings.parameter_bound * math.sqrt(settings.ridge) + width
    return settings.radius_scale * exact + estimate_error


def quadratic_weight(settings: Settings, *, radius: float, last_round: int) -> float:
    """Return gamma = beta sqrt(t/Gamma_t) for a batch whose last round can be t = `last_round`."""
    return radius * math.sqrt(last_round / potential(settings, last_round))
