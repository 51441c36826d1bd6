"""The levels that each step of the paper's algorithm needs, as a table."""

from __future__ import annotations

from typing import Any

from helba.lab.runner import settings_for
from helba.problems import make_problem


def tabulate_depth(number: int, *, dim: int = 2, arms: int = 2) -> list[dict[str, Any]]:
    """Return a row (step, iterations, levels, note) for each step of round `number`.

    Everything but the sizes is as on the toy problem: L = 5.5, S = 1, sigma = 0.5, lambda = 1.
    """
    from helba.reference.twin.depth import paper_depths

    settings = settings_for(make_problem("toy"), horizon=1, dim=dim, arms=arms)
    rows = paper_depths(settings, round=number)
    names = ("step", "iterations", "levels", "note")
    return [{name: getattr(row, name) for name in names} for row in rows]
