"""What a user finds in the slots of the others: noise, its own and independent."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from helba.engine.chance import draw_uniform
from helba.errors import EngineError
from helba.planning.clearing import clearing_noise
from helba.planning.score import ScoreLayout
from tests.circuits.batches import (
    FLOOD,
    KEYS,
    desk_of,
    leave,
)
from tests.engines import BOTH
from tests.significance import PLAUSIBLE_ANEW


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("keys", KEYS)
def test_slots_of_others_hold_noise_whatever_they_compare(scheme: str, keys: str) -> None:
    """Two batches that differ in everybody else: the same distribution.

    The sum of two uniform numbers; with own keys one of twice the width, and a little beside it.
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
        opened = desk.open(answer)
        assert np.abs(opened[~others] - 0.7).max() <= FLOOD + 1e-8
        seen.append(opened[others])
    most = FLOOD if keys == "own" else FLOOD / 2
    assert np.abs(np.concatenate(seen)).max() <= most + 1e-8
    assert stats.ks_2samp(*seen).pvalue > PLAUSIBLE_ANEW
    uniform, triangle = stats.uniform(-FLOOD / 2, FLOOD), stats.triang(0.5, -FLOOD / 2, FLOOD)
    for noise in seen:
        law = uniform if keys == "own" else triangle
        assert stats.kstest(noise, law.cdf).pvalue > PLAUSIBLE_ANEW


@pytest.mark.ckks
@pytest.mark.parametrize("keys", KEYS)
def test_what_others_leave_behind_is_far_below_the_flood(keys: str) -> None:
    """With hardly any flood the encoding error of the mask shows, and the bound holds for it."""
    layout = ScoreLayout(dim=1, arms=2, users=64)
    desk = desk_of("ckks", layout, depth=1)
    others = ~layout.slots_of(3, among=layout.compare_slots)
    batch = desk.engine.encrypt(np.where(others, 1.0, 0.0))
    (answer,) = leave(desk, batch, layout=layout, users=[3], keys=keys, flood=2.0**-30)
    left = np.abs(desk.open(answer)).max()
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
        desk.open(leave(desk, batch, layout=layout, users=[0], keys=keys)[0]) for _ in range(2)
    )
    assert np.abs(first - again).min() > 0.0


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("users", [2, 4, 8, 16])
@pytest.mark.parametrize(("keys", "most"), [("shared", 3), ("own", 3), ("own", 4), ("own", 6)])
def test_answers_have_independent_noise(scheme: str, users: int, keys: str, most: int) -> None:
    """That of any three spans three dimensions, in slots of strangers: nothing cancels.

    With own keys that of any number, those at the corners of a rectangle of the table included.
    """
    layout = ScoreLayout(dim=4, arms=2, users=users)
    desk = desk_of(scheme, layout, depth=1)
    batch = desk.engine.encrypt(np.zeros(layout.compare_slots))
    answers = leave(desk, batch, layout=layout, keys=keys)
    opened = np.array([desk.open(answer) for answer in answers])
    for some in combinations(range(users), min(most, users)):
        own = [layout.slots_of(user, among=layout.compare_slots) for user in some]
        strangers = ~np.any(own, axis=0)
        if strangers.any():
            seen = opened[list(some)][:, strangers]
            least = np.linalg.svd(seen, compute_uv=False)[-1] / np.sqrt(strangers.sum())
            assert least > FLOOD / 50


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
    if users > 1:
        mask = layout.slots_of(0, among=layout.compare_slots).astype(np.float64)
        known = engine.multiply_encoded(known, engine.encode(mask, level=level))
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
