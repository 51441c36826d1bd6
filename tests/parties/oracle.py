"""What the parties should have computed, in Python's integers, and what they did, decrypted.

Nothing of it is shared with what it checks.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from helba.learning.plan import SharesPlan
from helba.ring.secret import Opener
from helba.server.state import ServerState


def round_number(plan: SharesPlan, value: float, bound: float) -> int:
    """A number on the grid of contexts or rewards, half to even."""
    peak = 1 << plan.rounding.bits
    return max(-peak, min(peak, round(float(value) * (peak / bound))))


def round_report(plan: SharesPlan, context: Any, reward: float) -> list[int]:
    """The integers of a report."""
    settings = plan.settings
    row = [round_number(plan, x, settings.length) for x in context]
    return [*row, round_number(plan, reward, settings.reward_max)]


def features_of(plan: SharesPlan, context: Any) -> list[int]:
    """The features of an arm: x_i, then x_i x_j / 2^b for i <= j, rounded half to even."""
    peak = 1 << plan.rounding.bits
    x = [round_number(plan, each, plan.settings.length) for each in context]
    products = [round(Fraction(x[i] * x[j], peak)) for i in range(len(x)) for j in range(i, len(x))]
    return x + products


def expected_sums(reports: Iterable[list[int]], *, dim: int) -> np.ndarray:
    """The sums of p_i p_j and r p_i over reports."""
    total = np.zeros((dim, dim + 1), dtype=np.int64)
    for report in reports:
        p = np.array(report, dtype=np.int64)
        total += p[:dim, None] * p[None, :]
    return total


def read_sums(reader: Opener, plan: SharesPlan, state: ServerState) -> np.ndarray:
    """The same sums over all reports that the server has summed.

    They are the model's own, those beyond it, and those of an update that is under way. Each comes
    out as whole numbers, up to errors that are checked to be small.
    """
    d, learned = plan.settings.dim, state.learned
    unit = 4.0**-plan.rounding.bits  # of p_i p_j in x_i x_j/L^2 and r x_i/(r_max L)
    ratio = plan.settings.length**2 / plan.settings.ridge
    total = np.zeros((d, d + 1))
    rows = _read(reader, learned.design, plan.matrix.row_places[:d], scale=plan.design_scale)
    total[:, :d] += (rows - np.eye(d)) / (unit * ratio)
    if learned.response is not None:
        column = plan.matrix.column_places[:, 0]
        found = _read(reader, learned.response, column, scale=plan.response_scale)
        total[:, d] += found / unit
    for growth in (state.growth, state.taken):
        if growth is not None:
            places = plan.sum_places
            found = _read(reader, {0: growth.total}, places, scale=plan.sum_scale)
            total += found[:d] / unit
    whole = np.rint(total)
    assert np.abs(total - whole).max() < 0.4, np.abs(total - whole).max()
    return whole.astype(np.int64)


def _read(reader: Opener, stack: Any, arrangement: Any, *, scale: float) -> np.ndarray:
    parts = stack if isinstance(stack, dict) else stack.parts
    places = np.ravel(arrangement.places)
    number, place = np.divmod(places, arrangement.ring_dim)
    found = np.zeros(len(places))
    for k in np.unique(number):
        integers = reader.decrypt(parts[int(k)], places=place[number == k])
        found[number == k] = [float(each) / scale for each in integers]
    return found.reshape(np.shape(arrangement.places))


def read_model(reader: Opener, plan: SharesPlan, model: Any) -> list[int]:
    """The integers of an encrypted model: whole multiples of the grid's unit, up to noise."""
    places, multiple = plan.inner(1).model_places.places, plan.grid.model_multiple
    found = [Fraction(int(each), multiple) for each in reader.decrypt(model, places=places)]
    whole = [round(each) for each in found]
    assert max(abs(a - b) for a, b in zip(found, whole, strict=True)) < Fraction(2, 5)
    return whole
