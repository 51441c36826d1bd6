"""Bounds on the number of updates and on regret. Each implements a statement of docs/theory.md.

Regret bounds hold with probability 1 - delta and never exceed 2 S L T, the most that T rounds can
cost. They hold for the untuned radius only (`radius_scale` of at least 1).
"""

from __future__ import annotations

import math

from helba.bandits.radius import confidence_radius, potential, quadratic_weight
from helba.bandits.settings import Settings
from helba.errors import require_at_least, require_between


def switch_bound(settings: Settings, *, band: float = 0.0, residual: float = 0.0) -> float:
    """Bound the number of updates by the determinant or trace rule (theory, Proposition 5).

    d ln(1 + L^2 T/(lambda d))/ln(1 + C') with C' = (C - band)/(1 + e): an update by the trace rule
    means Tr(V_j^-1 (V - V_j)) >= C', which multiplies the determinant by 1 + C'. There is no
    factor 2 in the denominator (erratum 7). The number of batches is one more.
    """
    require_at_least("band", band, 0.0)
    certain = (settings.trace_threshold - band) / (1.0 + residual)
    if certain <= 0.0:
        return float(settings.horizon)
    most = potential(settings, settings.horizon) / 2.0 / math.log1p(certain)
    return min(float(settings.horizon), most)


def growth_bound(settings: Settings) -> float:
    """Bound the number of updates by the rule t >= (1 + eta) t_j: ln T/ln(1 + eta)."""
    return math.log(settings.horizon) / math.log1p(settings.growth)


def trace_growth_bound(
    settings: Settings, *, residual: float = 0.0, band: float = 0.0, lag: int = 0
) -> float:
    """Return Cbar >= Tr(V_j^-1 (V_t - V_j)) before every round t (theory, Lemma 4).

    The rule tests Tr(A (V - V_j)) <= C + band on what arrived at least `lag` rounds ago; every
    round since adds at most L^2/lambda.
    """
    require_between("residual", residual, -1e-300, 1.0)
    tested = (settings.trace_threshold + band) / (1.0 - residual)
    return tested + lag * settings.length**2 / settings.ridge


def batch_regret_bound(
    settings: Settings,
    *,
    trace_growth: float,
    residual: float = 0.0,
    tolerance_sum: float = 0.0,
    estimate_error: float = 0.0,
) -> float:
    """Bound the regret of the square-root index on batches (theory, Theorem 2).

    sum tau + c beta sqrt(T (1 + Cbar) kappa Gamma_T/2), c = 1 + sqrt((1+e)/(1-e)), where an index
    error counts in `tolerance_sum`. With kappa/2 replaced by 1/(2 ln 2) and Delta_max Gamma_T/(2 ln
    2) added it needs no lambda >= L^2 (erratum 12); the smaller of the two is returned.
    """
    beta, _, _ = _common(settings, estimate_error)
    return root_index_bound(
        settings,
        beta=beta,
        factor=1.0 + math.sqrt((1.0 + residual) / (1.0 - residual)),
        trace_growth=trace_growth,
        tolerance_sum=tolerance_sum,
    )


def root_index_bound(
    settings: Settings, *, beta: float, factor: float, trace_growth: float, tolerance_sum: float
) -> float:
    """Theorem 2 for an index whose rounds cost tau + factor beta ||x||_{V_j^-1}."""
    _, gamma, worst = _common(settings, 0.0)
    grown = settings.horizon * (1.0 + trace_growth)
    classic = factor * beta * math.sqrt(grown * _kappa(settings) * gamma / 2.0)
    clipped = factor * beta * math.sqrt(grown * gamma / (2.0 * math.log(2.0)))
    clipped += worst * gamma / (2.0 * math.log(2.0))
    return min(tolerance_sum + min(classic, clipped), worst * settings.horizon)


def quadratic_regret_bound(
    settings: Settings,
    *,
    trace_growth: float,
    residual: float = 0.0,
    tolerance_sum: float = 0.0,
    estimate_error: float = 0.0,
) -> float:
    """Bound the regret of the square-root-free index (theory, Theorem 1).

    sum tau + beta sqrt(T Gamma_T) [(2 - e)/(1 - e) + (1 + e/2)(1 + Cbar) kappa/2], or without
    lambda >= L^2: sum tau + beta sqrt(T Gamma_T) (2 - e)/(1 - e) + Gamma_T/(2 ln 2)
    max(Delta_max, (1 + e/2)(1 + Cbar) gamma_T); the smaller of the two.
    """
    beta, gamma_T, worst = _common(settings, estimate_error)
    T, e = settings.horizon, residual
    rate = beta * math.sqrt(T * gamma_T)
    first = rate * (2.0 - e) / (1.0 - e)
    spread = (1.0 + e / 2.0) * (1.0 + trace_growth)
    classic = first + rate * spread * _kappa(settings) / 2.0
    weight = quadratic_weight(settings, radius=beta, last_round=T)
    clipped = first + gamma_T / (2.0 * math.log(2.0)) * max(worst, spread * weight)
    return min(tolerance_sum + min(classic, clipped), worst * T)


def _common(settings: Settings, estimate_error: float) -> tuple[float, float, float]:
    """The largest radius, Gamma_T, and the largest regret of one round."""
    require_at_least("radius_scale of a regret bound", settings.radius_scale, 1.0)
    beta = confidence_radius(settings, samples=settings.horizon, estimate_error=estimate_error)
    worst = 2.0 * settings.parameter_bound * settings.length
    return beta, potential(settings, settings.horizon), worst


def _kappa(settings: Settings) -> float:
    """kappa with y <= kappa ln(1 + y) for every y in [0, L^2/lambda]."""
    most = settings.length**2 / settings.ridge
    return most / math.log1p(most)
