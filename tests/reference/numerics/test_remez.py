"""Minimax odd polynomials: alternation, and a linear programme as an independent judge."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial import chebyshev
from scipy.optimize import linprog

from helba.errors import InvalidInput
from helba.reference.numerics.remez import Minimax, minimax_odd


def deviation(best: Minimax, x: np.ndarray) -> np.ndarray:
    full = np.zeros(best.degree + 1)
    full[1::2] = best.coefficients
    return chebyshev.chebval(x / best.high, full) - 1


def fine_grid(low: float, high: float) -> np.ndarray:
    cosine = 0.5 - 0.5 * np.cos(np.linspace(0, np.pi, 40_001))
    return np.concatenate([low + (high - low) * cosine, np.geomspace(low, high, 2001)[1:-1]])


@pytest.mark.parametrize("degree", [1, 3, 5, 7, 9, 13, 15, 21, 27, 31])
@pytest.mark.parametrize("low", [2.0**-20, 2.0**-12, 2.0**-6, 0.1, 0.5, 0.9])
def test_error_alternates_at_one_more_point_than_coefficients(degree: int, low: float) -> None:
    best = minimax_odd(degree, low=low)
    error = deviation(best, np.sort(fine_grid(low, 1.0)))
    runs = np.split(error, np.flatnonzero(np.diff(np.signbit(error))) + 1)
    heights = [float(np.max(np.abs(run))) for run in runs]
    if best.error > 2e-14:
        assert len(heights) == (degree + 1) // 2 + 1
        slack = 1e-6 + 2e-14 / best.error
        assert min(heights) >= best.error * (1 - slack)
    assert max(heights) <= best.error * (1 + 1e-6) + 2e-14


@pytest.mark.parametrize(
    ("degree", "low", "high"), [(3, 0.1, 1.0), (7, 2.0**-6, 1.0), (9, 0.3, 1.7), (15, 0.05, 1.2)]
)
def test_error_equals_that_of_a_linear_programme(degree: int, low: float, high: float) -> None:
    x = low + (high - low) * (0.5 - 0.5 * np.cos(np.linspace(0, np.pi, 1500)))
    basis = chebyshev.chebvander(x / high, degree)[:, 1::2]
    ones = np.ones((x.size, 1))
    result = linprog(
        np.r_[np.zeros(basis.shape[1]), 1.0],
        A_ub=np.vstack([np.hstack([basis, -ones]), np.hstack([-basis, -ones])]),
        b_ub=np.r_[np.ones(x.size), -np.ones(x.size)],
        bounds=(None, None),
        method="highs",
    )
    assert minimax_odd(degree, low=low, high=high).error == pytest.approx(result.fun, rel=1e-4)


def test_error_falls_with_the_degree_and_rises_with_the_width() -> None:
    errors = [minimax_odd(d, low=0.05).error for d in range(1, 32, 2)]
    assert errors == sorted(errors, reverse=True)
    errors = [minimax_odd(9, low=low).error for low in (0.5, 0.2, 0.1, 0.01, 1e-4, 1e-6)]
    assert errors == sorted(errors)


def test_an_error_below_rounding_keeps_small_coefficients() -> None:
    best = minimax_odd(31, low=0.9999)
    assert best.error < 3e-14
    assert sum(map(abs, best.coefficients)) < 4


def test_unusable_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="odd number"):
        minimax_odd(4, low=0.1)
    for low, high in ((0.0, 1.0), (-0.1, 1.0), (1.0, 1.0), (0.1, float("inf"))):
        with pytest.raises(InvalidInput, match="interval"):
            minimax_odd(3, low=low, high=high)
