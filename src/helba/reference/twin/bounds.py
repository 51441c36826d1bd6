"""Bounds of the paper, as docs/theory.md has them. See `helba.bandits.bounds`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from helba.bandits.bounds import growth_bound, root_index_bound
from helba.bandits.radius import potential
from helba.bandits.settings import Settings
from helba.reference.twin.radius import paper_radius


def paper_batch_bound(settings: Settings) -> float:
    """Return Prop. nb_batches without its factor 2 (erratum 7); inf where its condition fails."""
    length, ridge = settings.length, settings.ridge
    base = settings.trace_threshold - length * settings.growth / math.sqrt(ridge + length**2)
    if base <= 0.25:
        return math.inf
    by_trace = potential(settings, settings.horizon) / 2.0 / math.log(0.75 + base)
    return 1.0 + by_trace + growth_bound(settings)


def paper_profile_bound(
    settings: Settings, *, band: float, estimate_error: float, tolerance_sum: float = 0.0
) -> float:
    """Bound the regret of the paper's profile (theory, corollary of Theorem 2).

    The cold inverse never exceeds V^-1 and eps_j makes up for what it lacks, so c = 2; the floor
    under the root and its error 1/t cost beta ((2 + eta)(1 + ln T) + 2) in all.
    """
    L, ridge, T = settings.length, settings.ridge, settings.horizon
    lacking = (1.0 + settings.growth) * L / math.sqrt(ridge + L**2)
    beta = paper_radius(settings, round=T, batch_start=T) + max(1.0, estimate_error)
    floors = beta * ((2.0 + settings.growth) * (1.0 + math.log(T)) + 2.0)
    return root_index_bound(
        settings,
        beta=beta,
        factor=2.0,
        trace_growth=settings.trace_threshold + band + lacking,
        tolerance_sum=floors + tolerance_sum,
    )


@dataclass(frozen=True, kw_only=True)
class PaperRegretBound:
    """The paper's Theorem regret as printed, and whether the premises it needs hold."""

    value: float
    applies: bool


def paper_regret_bound(settings: Settings) -> PaperRegretBound:
    """Return the last display of the proof of Thm. regret as printed, to plot beside what happens.

    It needs lambda >= L^2 (erratum 12), rewards in [-1, 1], L >= 1, T >= d and C large enough for
    M_T of `paper_batch_bound`: on the toy problem it does not apply. Its constants do not follow
    from its lemmas (erratum 17), so no policy here claims it; see `paper_profile_bound`.
    """
    L, ridge, T, eta = settings.length, settings.ridge, settings.horizon, settings.growth
    batches = paper_batch_bound(settings)
    volume = potential(settings, T)
    union = math.log(math.pi**2 * T**2 / (6.0 * settings.delta))
    width = math.sqrt(volume / 2.0 + settings.dim * union)
    beta = 1.0 + math.sqrt(ridge) * settings.parameter_bound + settings.noise * width
    spread = 1.0 / ridge + 1.0 / math.sqrt(ridge)
    per_round = 6.0 + L * math.sqrt(spread) + math.sqrt(L / math.sqrt(ridge))
    first = (1.0 + math.log(T)) * (1.0 + beta * per_round)
    main = math.sqrt(1.25 + settings.trace_threshold + L**2 * spread) * math.sqrt(T)
    inverse = (eta**2 + L / (ridge + L**2) ** 1.5) * batches
    second = beta * math.sqrt(volume) * (main + inverse)
    third = 2.0 * math.sqrt(2.0 * L) * batches * beta * (1.0 + eta / math.sqrt(L))
    premises = ridge >= L**2 >= 1.0 and settings.reward_max <= 1.0 and settings.dim <= T
    return PaperRegretBound(
        value=first + second + third, applies=premises and math.isfinite(batches)
    )
