"""Many users in one ciphertext: each gets its own comparison, and nothing of the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from helba.circuits.argmax import Rider, comparison_vector
from helba.circuits.batch import Clearing
from helba.circuits.model import assemble_model
from helba.circuits.scores import score_differences
from helba.engine import EncryptedVector
from helba.engine.chance import draw_uniform
from helba.errors import EngineError, InvalidInput, LevelsExhausted, WrongVector
from helba.numerics.argmax import comparison_vector as plain_comparison
from helba.numerics.sign import best_composition
from helba.planning.clearing import clearing_cost, clearing_noise
from helba.planning.compare_cost import argmax_cost
from helba.planning.matrix import MatrixLayout
from helba.planning.model import ModelAssembly
from helba.planning.parameters import insecure_parameters
from helba.planning.score import ScoreLayout, score_cost
from helba.planning.score_packing import pack_contexts, pack_model, pack_trace, read_answer
from tests.circuits.circuit_checks import assert_uses_every_key, measure
from tests.engines import BOTH, Desk, open_desk
from tests.significance import PLAUSIBLE_ANEW

QUICK = best_composition(resolution=2.0**-3, degrees=(5, 3))
METHODS = ["product", "sum"]
KEYS = ["shared", "own"]
GAMMA, SCALE, REACH = 1.0, 8.0, 40.0
FLOOD = 2.0**-10

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """A model, and for each user its contexts."""

    inverse: Array
    estimate: Array
    contexts: list[Array]

    @classmethod
    def of(cls, layout: ScoreLayout, *, seed: int) -> Problem:
        rng = np.random.default_rng(seed)
        root = rng.uniform(-1, 1, (layout.dim, layout.dim)) / layout.dim
        arms = rng.integers(1, layout.arms, size=layout.users, endpoint=True)
        contexts = [rng.uniform(-1, 1, (count, layout.dim)) / layout.dim**0.5 for count in arms]
        estimate = rng.uniform(-1, 1, layout.dim) / layout.dim**0.5
        return cls(root @ root.T, estimate, contexts)

    def scores(self, user: int) -> Array:
        x = self.contexts[user]
        bonus = np.einsum("ai,ij,aj->a", x, self.inverse, x)
        scores: Array = x @ self.estimate + GAMMA / 2 * bonus
        return scores


def desk_of(scheme: str, layout: ScoreLayout, *, depth: int, method: str = "sum") -> Desk:
    size = max(1 << 11, 2 * layout.compare_slots)
    parameters = insecure_parameters(ring_dim=size, depth=depth)
    return open_desk(scheme, parameters=parameters, rotations=layout.rotations_for(method))


def depth_of(layout: ScoreLayout, *, method: str) -> int:
    cost = score_cost(layout) + argmax_cost(layout, sign=QUICK, method=method)
    return (cost + clearing_cost(layout)).levels


def compare(
    desk: Desk,
    layout: ScoreLayout,
    problem: Problem,
    *,
    method: str,
    growth: Array | None = None,
    rider: Rider | None = None,
) -> EncryptedVector:
    """From every user's own ciphertext to the comparison vector of all."""
    engine = desk.engine
    sent = [
        engine.encrypt(
            pack_contexts(layout, contexts=contexts, gamma=GAMMA, scale=SCALE, user=user)
        )
        for user, contexts in enumerate(problem.contexts)
    ]
    if growth is not None:
        sent.append(engine.encrypt(pack_trace(layout, growth=growth, threshold=1.0, reach=REACH)))
    model = pack_model(layout, inverse=problem.inverse, estimate=problem.estimate)
    differences = score_differences(
        engine, engine.add_up(sent), model=engine.encrypt(model), layout=layout
    )
    return comparison_vector(
        engine, differences, layout=layout, sign=QUICK, method=method, rider=rider
    )


def leave(
    desk: Desk,
    batch: EncryptedVector,
    *,
    layout: ScoreLayout,
    users: Iterable[int] | None = None,
    keys: str = "shared",
    flood: float = FLOOD,
) -> list[EncryptedVector]:
    """The answers as they are sent: flooded together, or for users of "own" keys one by one."""
    engine, own = desk.engine, keys == "own"
    return Clearing(engine, layout=layout, flood=None if own else flood).answers(
        batch,
        users=range(layout.users) if users is None else users,
        finish=lambda _, answer: engine.flood(answer, amount=flood) if own else answer,
    )


def expected_of(layout: ScoreLayout, scores: Array, *, method: str) -> Array:
    """The comparison of a user by loops, dummies as `pack_contexts` lets them compete."""
    count, real = layout.arms, len(scores)

    def win(a: int, b: int) -> float:
        x = (
            (scores[a] - scores[b]) / SCALE
            if a < real and b < real
            else (a < real) * 1.0 - (b < real)
        )
        return float((1.0 + QUICK(np.array(x))) / 2.0)

    wins = [[win(a, b) for b in range(count) if b != a] for a in range(count)]
    if method == "sum" or count == 2:
        return np.array([sum(row) / (count - 1) for row in wins])
    return np.array([np.prod(row) for row in wins])


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
        opened = desk.open(answer)
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
        opened = desk.open(answer)
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
            own, opened = layout.slots_of(user, among=len(grid)), desk.open(answer)
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


def test_noise_is_uniform_and_hardly_repeats() -> None:
    noise = draw_uniform(1 << 14, bound=0.5)
    assert np.abs(noise).max() <= 0.5
    assert len(np.unique(noise)) > len(noise) - 16
    assert stats.kstest(noise, stats.uniform(-0.5, 1.0).cdf).pvalue > PLAUSIBLE_ANEW
    assert abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 0.05


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
