"""Many users in one ciphertext: each gets its own comparison, and nothing of the others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput, LevelsExhausted, WrongVector
from helba.reference.circuits.argmax import Rider, comparison_vector
from helba.reference.circuits.batch import Clearing
from helba.reference.circuits.model import assemble_model
from helba.reference.circuits.scores import score_differences
from helba.reference.engine import EncryptedVector
from helba.reference.numerics.argmax import comparison_vector as plain_comparison
from helba.reference.planning.clearing import clearing_cost
from helba.reference.planning.matrix import MatrixLayout
from helba.reference.planning.model import ModelAssembly
from helba.reference.planning.parameters import insecure_parameters
from helba.reference.planning.score import ScoreLayout
from helba.reference.planning.score_packing import pack_model, read_answer
from tests.engines import BOTH, open_desk
from tests.reference.circuits.batches import (
    FLOOD,
    KEYS,
    METHODS,
    QUICK,
    REACH,
    SCALE,
    Problem,
    compare,
    depth_of,
    desk_of,
    expected_of,
    leave,
    read,
)
from tests.reference.circuits.circuit_checks import assert_uses_every_key, measure


def test_oracle_of_these_tests_is_the_numeric_one() -> None:
    scores = np.array([0.3, -1.2, 2.0])
    for method in METHODS:
        found = expected_of(ScoreLayout(dim=1, arms=3), scores, method=method)
        known = plain_comparison(scores, sign=QUICK, scale=SCALE, method=method).value
        np.testing.assert_allclose(found, known, atol=1e-12)


@settings(max_examples=30)
@given(
    log_users=st.integers(0, 5),
    dim=st.integers(1, 4),
    arms=st.integers(2, 6),
    method=st.sampled_from(METHODS),
    riding=st.booleans(),
    flood=st.sampled_from([FLOOD, None]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_user_of_a_batch_gets_its_own_comparison(
    log_users: int,
    dim: int,
    arms: int,
    method: str,
    riding: bool,
    flood: float | None,
    seed: int,
) -> None:
    layout = ScoreLayout(dim=dim, arms=arms, users=1 << log_users)
    desk = desk_of("simulate", layout, depth=12, method=method)
    problem = Problem.of(layout, seed=seed)
    growth = problem.contexts[0].T @ problem.contexts[0] if riding else None
    rider = Rider(flip=-1, noise=0.25) if riding else None
    result = compare(desk, layout, problem, method=method, growth=growth, rider=rider)
    slots = desk.open(result)
    answers = Clearing(desk.engine, layout=layout, flood=flood).answers(
        result, users=range(layout.users), finish=lambda user, answer: (user, answer)
    )
    assert [user for user, _ in answers] == list(range(layout.users))
    noise = (flood or 0.0) + 1e-9
    for user, answer in answers:
        expected = expected_of(layout, problem.scores(user), method=method)
        rides = riding and user == 0
        found = read_answer(layout, values=slots, method=method, user=user, riding=rides)
        np.testing.assert_allclose(found.comparison, expected, atol=1e-9)
        opened = read(desk, answer, layout=layout)
        own = read_answer(layout, values=opened, method=method, user=user, riding=rides)
        assert np.abs(own.comparison - expected).max() <= noise
        others = ~layout.slots_of(user, among=layout.compare_slots)
        assert np.abs(opened[others]).max(initial=0.0) <= noise
        if riding and user == 0:
            assert growth is not None
            trace = (np.trace(problem.inverse @ growth) - 1.0) / REACH
            assert found.test == pytest.approx(0.25 - float(QUICK(np.array(trace))), abs=1e-9)


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("users", "arms"), [(1, 3), (2, 2), (8, 3)])
@pytest.mark.parametrize("keys", KEYS)
def test_answers_are_cleared_and_flooded_at_the_predicted_cost(
    scheme: str, method: str, users: int, arms: int, keys: str
) -> None:
    layout = ScoreLayout(dim=2, arms=arms, users=users)
    depth = depth_of(layout, method=method)
    desk = desk_of(scheme, layout, depth=depth, method=method)
    problem = Problem.of(layout, seed=users)
    result = compare(desk, layout, problem, method=method)
    assert result.level == depth - clearing_cost(layout).levels
    desk.open(result)  # settles what is pending
    with measure(desk) as measured:
        answers = leave(desk, result, layout=layout, keys=keys)
    slack = 1e-6
    for user, answer in enumerate(answers):
        assert measured.at(result.level, answer) == clearing_cost(layout)
        assert answer.level == depth
        opened = read(desk, answer, layout=layout)
        b = read_answer(layout, values=opened, method=method, user=user).comparison
        expected = expected_of(layout, problem.scores(user), method=method)
        assert np.abs(b - expected).max() <= FLOOD + slack
        own = layout.slots_of(user, among=layout.compare_slots)
        assert np.abs(opened[~own]).max(initial=0.0) <= FLOOD + slack


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("dim", "arms", "users"), [(1, 2, 4), (2, 3, 8), (2, 16, 2)])
def test_a_round_of_many_uses_every_key_of_its_layout(
    dim: int, arms: int, users: int, method: str
) -> None:
    layout = ScoreLayout(dim=dim, arms=arms, users=users)
    desk = desk_of("simulate", layout, depth=12, method=method)
    vector = desk.engine.encrypt(np.zeros(layout.slots))
    with assert_uses_every_key(desk):
        differences = score_differences(desk.engine, vector, model=vector, layout=layout)
        comparison_vector(desk.engine, differences, layout=layout, sign=QUICK, method=method)


@pytest.mark.parametrize("method", METHODS)
def test_update_test_reaches_the_first_user_only(method: str) -> None:
    layout = ScoreLayout(dim=2, arms=3, users=4)
    desk = desk_of("simulate", layout, depth=12, method=method)
    problem = Problem.of(layout, seed=5)
    opened = [
        desk.open(
            compare(
                desk,
                layout,
                problem,
                method=method,
                growth=np.eye(2),
                rider=Rider(flip=1, noise=noise),
            )
        )
        for noise in (0.0, 0.5)
    ]
    moved = np.abs(opened[0] - opened[1]) > 1e-9
    assert moved[0]
    assert not moved[~layout.slots_of(0, among=layout.compare_slots)].any()


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("one_by_one", [False, True])
def test_every_user_gets_the_right_answer(scheme: str, one_by_one: bool) -> None:
    """From two threads, or one after the other as they are asked for."""
    layout = ScoreLayout(dim=1, arms=2, users=16)
    desk = desk_of(scheme, layout, depth=1)
    grid = np.zeros(layout.compare_slots)
    for user in range(16):
        grid[layout.slots_of(user, among=len(grid))] = user / 16
    clearing = Clearing(desk.engine, layout=layout, flood=FLOOD)
    for _ in range(2):  # the second time with masks that were kept
        batch = desk.engine.encrypt(grid)
        answers: Iterable[EncryptedVector] = (
            clearing.each(batch)
            if one_by_one
            else clearing.answers(
                batch, users=range(16), finish=lambda _, answer: answer, threads=2
            )
        )
        for user, answer in zip(range(16), answers, strict=True):
            own, opened = layout.slots_of(user, among=len(grid)), read(desk, answer, layout=layout)
            assert np.abs(opened[own] - user / 16).max() <= FLOOD + 1e-8
            assert 0.0 < np.abs(opened[~own]).max() <= FLOOD + 1e-8


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("levels", [1, 2])
def test_model_is_assembled_for_many_users(scheme: str, levels: int) -> None:
    layout, matrices = ScoreLayout(dim=3, arms=2, users=8), MatrixLayout(dim=3, max_slots=1 << 10)
    assembly = ModelAssembly(matrix=matrices, score=layout, levels=levels)
    parameters = insecure_parameters(ring_dim=1 << 11, depth=levels)
    desk = open_desk(scheme, parameters=parameters, rotations=assembly.rotations)
    problem = Problem.of(layout, seed=1)
    inverse = desk.engine.encrypt(matrices.pack(problem.inverse))
    columns = np.zeros((matrices.side, matrices.side))
    columns[:, :3] = problem.estimate
    estimate = desk.engine.encrypt(columns.ravel())
    with measure(desk) as measured:
        model = assemble_model(desk.engine, inverse=inverse, estimate=estimate, assembly=assembly)
        opened = desk.open(model)
    assert measured.at(0, model) == assembly.cost
    expected = pack_model(layout, inverse=problem.inverse, estimate=problem.estimate)
    np.testing.assert_allclose(opened, expected, atol=1e-6)


@pytest.mark.parametrize("keys", KEYS)
def test_what_cannot_be_cleared_is_refused(keys: str) -> None:
    layout = ScoreLayout(dim=1, arms=2, users=4)
    desk = desk_of("simulate", layout, depth=1)
    batch = desk.engine.encrypt(np.zeros(layout.compare_slots))
    with pytest.raises(InvalidInput, match="user must be at most 3"):
        leave(desk, batch, layout=layout, users=[4], keys=keys)
    with pytest.raises(InvalidInput, match="flood" if keys == "shared" else "amount"):
        leave(desk, batch, layout=layout, users=[0], keys=keys, flood=0.0)
    with pytest.raises(WrongVector, match="8 slots meets"):
        leave(desk, desk.engine.encrypt(np.zeros(8)), layout=layout, users=[0], keys=keys)
    spent = desk.engine.encrypt(np.zeros(layout.compare_slots), level=1)
    with pytest.raises(LevelsExhausted, match="needs a level"):
        leave(desk, spent, layout=layout, users=[0], keys=keys)
