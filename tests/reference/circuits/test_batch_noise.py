"""What a user finds in the slots of the others: noise, its own and independent."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from helba.errors import EngineError
from helba.reference.circuits import batch as module
from helba.reference.circuits.batch import Clearing
from helba.reference.engine.chance import draw_uniform
from helba.reference.planning.clearing import clearing_noise
from helba.reference.planning.score import ScoreLayout
from tests.engines import BOTH
from tests.reference.circuits.batches import (
    FLOOD,
    KEYS,
    desk_of,
    leave,
    read,
)
from tests.significance import PLAUSIBLE_ANEW


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("keys", KEYS)
def test_slots_of_others_hold_noise_whatever_they_compare(scheme: str, keys: str) -> None:
    """Two batches that differ in everybody else: the same distribution.

    The sum of three uniform numbers; with own keys one of the same width, and a little beside it.
    """
    layout = ScoreLayout(dim=1, arms=2, users=64)
    desk = desk_of(scheme, layout, depth=1)
    grid = np.zeros(layout.compare_slots)
    grid[layout.slots_of(3, among=len(grid))] = 0.7
    others = ~layout.slots_of(3, among=len(grid))
    seen = []
    for value in (0.0, 1.0):
        grid[others] = value
        batch = desk.engine.encrypt(grid)
        (answer,) = leave(desk, batch, layout=layout, users=[3], keys=keys)
        opened = read(desk, answer, layout=layout)
        assert np.abs(opened[~others] - 0.7).max() <= FLOOD + 1e-8
        seen.append(opened[others])
    most = FLOOD if keys == "own" else FLOOD / 2
    assert np.abs(np.concatenate(seen)).max() <= most + 1e-8
    assert stats.ks_2samp(*seen).pvalue > PLAUSIBLE_ANEW
    if keys == "own":
        promised = draw_uniform(100_000, bound=FLOOD / 2)
    else:
        promised = draw_uniform(300_000, bound=FLOOD / 6).reshape(3, -1).sum(axis=0)
    for noise in seen:
        assert stats.ks_2samp(noise, promised).pvalue > PLAUSIBLE_ANEW


@pytest.mark.ckks
@pytest.mark.parametrize("keys", KEYS)
def test_what_others_leave_behind_is_far_below_the_flood(keys: str) -> None:
    """With hardly any flood the encoding error of the mask shows, and the bound holds for it."""
    layout = ScoreLayout(dim=1, arms=2, users=64)
    desk = desk_of("ckks", layout, depth=1)
    others = ~layout.slots_of(3, among=layout.compare_slots)
    batch = desk.engine.encrypt(np.where(others, 1.0, 0.0))
    (answer,) = leave(desk, batch, layout=layout, users=[3], keys=keys, flood=2.0**-30)
    left = np.abs(read(desk, answer, layout=layout)).max()
    bound = clearing_noise(layout, parameters=desk.engine.parameters)
    assert left <= 2.0**-30 + bound
    assert bound < FLOOD / 2**12


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("users", [1, 4])
@pytest.mark.parametrize("keys", KEYS)
def test_answers_have_noise_of_their_own(scheme: str, users: int, keys: str) -> None:
    layout = ScoreLayout(dim=1, arms=2, users=users)
    desk = desk_of(scheme, layout, depth=2)
    batch = desk.engine.encrypt(np.zeros(layout.compare_slots))
    first, again = (
        read(desk, leave(desk, batch, layout=layout, users=[0], keys=keys)[0], layout=layout)
        for _ in range(2)
    )
    assert np.abs(first - again).min() > 0.0


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("users", [2, 4, 8, 16])
@pytest.mark.parametrize("most", [3, 4, 6])
@pytest.mark.parametrize("keys", KEYS)
def test_answers_have_independent_noise(scheme: str, users: int, keys: str, most: int) -> None:
    """That of several spans as many dimensions, in slots of strangers: nothing cancels.

    Those at the corners of a rectangle of the table for a shared key included.
    """
    layout = ScoreLayout(dim=4, arms=2, users=users)
    desk = desk_of(scheme, layout, depth=1)
    batch = desk.engine.encrypt(np.zeros(layout.compare_slots))
    answers = leave(desk, batch, layout=layout, keys=keys)
    opened = np.array([read(desk, answer, layout=layout) for answer in answers])
    for some in combinations(range(users), min(most, users)):
        own = [layout.slots_of(user, among=layout.compare_slots) for user in some]
        strangers = ~np.any(own, axis=0)
        if strangers.any():
            seen = opened[list(some)][:, strangers]
            least = np.linalg.svd(seen, compute_uv=False)[-1] / np.sqrt(strangers.sum())
            # of a shared key three parts have a third of the width each, two of them in common
            assert least > FLOOD / (50 if keys == "own" else 500)


def corners_left(layout: ScoreLayout) -> float:
    """What is left of the shared noise when the corners of a rectangle of users cancel."""
    desk = desk_of("simulate", layout, depth=1)
    batch = desk.engine.encrypt(np.zeros(layout.compare_slots))
    width = math.isqrt(layout.users)
    corners = [0, 1, width, width + 1]
    answers = leave(desk, batch, layout=layout, users=corners)
    a, b, c, d = (read(desk, answer, layout=layout) for answer in answers)
    strangers = ~np.any(
        [layout.slots_of(user, among=layout.compare_slots) for user in corners], axis=0
    )
    return float(np.abs(a - b - c + d)[strangers].max())


def test_shared_noise_does_not_cancel_at_the_corners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and columns do: the noise of each answer is what remains."""
    layout = ScoreLayout(dim=1, arms=2, users=64)
    assert corners_left(layout) > FLOOD / 6

    def shared_only(count: int, *, bound: float) -> NDArray[np.float64]:
        alone = count == layout.grid
        return np.zeros(count) if alone else draw_uniform(count, bound=bound)

    monkeypatch.setattr(module, "draw_uniform", shared_only)
    assert corners_left(layout) < FLOOD / 100


@pytest.mark.ckks
@pytest.mark.parametrize("users", [1, 4])
@pytest.mark.parametrize("keys", KEYS)
def test_answers_are_randomised_anew(users: int, keys: str) -> None:
    """A difference without second polynomial hides nothing, and cannot be written."""
    layout = ScoreLayout(dim=1, arms=2, users=users)
    desk = desk_of("ckks", layout, depth=1)
    engine = desk.engine
    level = 0 if users > 1 else 1
    known = engine.encrypt(np.ones(layout.compare_slots), level=level)
    (answer,) = leave(desk, known, layout=layout, users=[0], keys=keys)
    # what anybody could compute from the comparison vector
    (known,) = Clearing(engine, layout=layout, flood=None).answers(
        known, users=[0], finish=lambda _, cleared: cleared
    )
    assert engine.vector_to_bytes(engine.subtract(answer, known))
    noisy = engine.add_plain(known, draw_uniform(layout.compare_slots, bound=FLOOD))
    with pytest.raises(EngineError, match="holds no encryption"):
        engine.vector_to_bytes(engine.subtract(noisy, known))


def test_noise_is_uniform_and_hardly_repeats() -> None:
    noise = draw_uniform(1 << 14, bound=0.5)
    assert np.abs(noise).max() <= 0.5
    assert len(np.unique(noise)) > len(noise) - 16
    assert stats.kstest(noise, stats.uniform(-0.5, 1.0).cdf).pvalue > PLAUSIBLE_ANEW
    assert abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 0.05
