"""The regret bound of the profile `ciphertext`, plain and encrypted (theory, Theorems 1, 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from helba.bandits.bounds import batch_regret_bound, quadratic_regret_bound, trace_growth_bound
from helba.bandits.radius import confidence_radius, quadratic_weight
from helba.bandits.settings import Settings
from helba.reference.numerics.argmax import argmax_tolerance
from helba.reference.numerics.composite import CompositeSign
from helba.reference.twin.radius import quadratic_range, root_range

# The root is taken of z + floor: fewer steps for a little more optimism. The floor is the range
# of z over max(ROOT_ROUNDS, t), so that what it costs over T rounds stays of order sqrt(T); the
# root's error is ROOT_SHARE of the floor's root.
ROOT_ROUNDS = 1024
ROOT_SHARE = 1.0 / 8.0


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How arms are compared: sign polynomial, method, and the noise on an entry."""

    sign: CompositeSign
    method: str
    noise: float


def fast_regret_bound(
    settings: Settings,
    *,
    residual: float,
    estimate_error: float,
    lag: int,
    band: float,
    comparison: Comparison,
) -> float | None:
    """Return the bound for the bonus in use; None for the public schedule or a tuned radius.

    `residual` and `estimate_error` are the largest of all batches. Rewards up to `lag` rounds old
    may be unseen by the update test, which may be wrong within `band` of C.
    """
    if settings.schedule == "public" or settings.radius_scale < 1.0:
        return None
    e = residual
    growth = trace_growth_bound(settings, residual=e, band=band, lag=lag)
    beta = confidence_radius(settings, samples=settings.horizon, estimate_error=estimate_error)
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
        sign=comparison.sign,
        arms=settings.arms,
        scale=scale,
        method=comparison.method,
        noise=comparison.noise,
    )
    return bound(
        settings,
        trace_growth=growth,
        residual=e,
        tolerance_sum=settings.horizon * tolerance + extra,
        estimate_error=estimate_error,
    )
