"""The paper's confidence radius, and the range of an index by profile: public arithmetic."""

from __future__ import annotations

import math

import numpy as np

from helba.bandits.policy import Array
from helba.bandits.radius import potential
from helba.bandits.settings import Settings


def paper_radius(
    settings: Settings, *, round: int, batch_start: int, estimate_error: float = 0.0
) -> float:
    """Return the inflated radius of the paper's low-switching algorithm.

    sigma sqrt(d ln((1 + L^2 t_j/lambda) pi^2 t^2/(6 delta))) + t_j^(-1/2) + S sqrt(lambda). For
    d = 1 that is too small (erratum 14), and the exact radius takes its place under the root. The
    t_j^(-1/2) stands for the error of the estimate, for rewards in [-1, 1]; where the certified
    error is larger, that takes its place.
    """
    start = max(1, batch_start)
    union = (1.0 + settings.length**2 * start / settings.ridge) * (
        math.pi**2 * round**2 / (6.0 * settings.delta)
    )
    printed = settings.dim * math.log(union)
    valid = 2.0 * math.log(1.0 / settings.delta) + potential(settings, start) / 2.0
    width = settings.noise * math.sqrt(max(printed, valid))
    exact = settings.parameter_bound * math.sqrt(settings.ridge) + width
    return settings.radius_scale * exact + max(1.0 / math.sqrt(start), estimate_error)


def quadratic_range(
    settings: Settings, contexts: Array, *, radius: float, gamma: float, residual: float
) -> float:
    """Return R >= |rho_a - rho_b| for the quadratic index, whenever the radius holds.

    With h = max ||x||/sqrt(lambda), e the residual of the inverse and D the diameter of the
    contexts: R = S D + beta h + gamma (1 + e) h^2/2 + min(beta h, beta^2/(2 gamma (1 - e))). It
    uses the norms of these contexts, not L: whoever encrypts them knows them.
    """
    longest, diameter = _norms(contexts)
    h = longest / math.sqrt(settings.ridge)
    second = min(radius * h, radius**2 / (2.0 * gamma * (1.0 - residual)))
    bonus = radius * h + gamma * (1.0 + residual) * h**2 / 2.0 + second
    return settings.parameter_bound * diameter + bonus


def root_range(
    settings: Settings, contexts: Array, *, radius: float, width: float, residual: float
) -> float:
    """Return R >= |rho_a - rho_b| for an index whose bonus lies in [0, width].

    rho_a - rho_b <= <theta, x_a - x_b> + beta (h_a + h_b) + width.
    """
    longest, diameter = _norms(contexts)
    h = longest / math.sqrt(settings.ridge * (1.0 - residual))
    return settings.parameter_bound * diameter + 2.0 * radius * h + width


def paper_index_range(
    settings: Settings, *, radius: float, round: int, floor: float
) -> tuple[float, float]:
    """Return (least, greatest) index of the paper, Prop. bound_ucb, whenever the radius holds.

    Mean rewards are within m = min(S L, r_max), where the paper has 1. The algorithm's listing
    lacks the square roots of the proposition (erratum 14).
    """
    mean = min(settings.parameter_bound * settings.length, settings.reward_max)
    ridge = settings.ridge
    spread = settings.length * math.sqrt(1.0 / ridge + 1.0 / math.sqrt(ridge))
    return -mean, mean + 2.0 * radius * (2.0 / round + spread + math.sqrt(floor))


def _norms(contexts: Array) -> tuple[float, float]:
    """The longest context, and the largest distance of two."""
    products = contexts @ contexts.T
    squares = np.diagonal(products)
    distances = squares[:, None] + squares[None, :] - 2.0 * products
    return math.sqrt(float(squares.max())), math.sqrt(max(0.0, float(distances.max())))
