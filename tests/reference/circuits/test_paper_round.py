"""The paper's round, statistics, update and update test on ciphertexts, refreshed on the way."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from helba.bandits.settings import Settings
from helba.errors import InvalidInput
from helba.reference.circuits.levels import Renewal, run_steps
from helba.reference.circuits.paper_round import (
    paper_answer_steps,
    paper_statistics,
    paper_test_steps,
    paper_update_steps,
)
from helba.reference.numerics.compare import acomp, iterate, new_comp
from helba.reference.numerics.inverse import cold_iterations
from helba.reference.numerics.root import square_root
from helba.reference.planning.cost.chain import REFRESH_LEVELS, cut_chain
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.cost.paper_workload import (
    paper_inverse_steps,
    paper_round_steps,
    paper_test_gap,
)
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.paper_packing import (
    PaperIndex,
    PaperLayout,
    PaperRoot,
    paper_index,
)
from helba.reference.planning.parameters import insecure_parameters
from helba.reference.planning.planner import make_plan
from helba.reference.planning.request import PlanRequest
from helba.reference.twin.paper import UPDATE_THRESHOLD, PaperTwin, inverse_floor
from helba.reference.twin.terms import BatchTerms
from tests.engines import BOTH, Keyed, open_keyed
from tests.reference.circuits.circuit_checks import Refresher, assert_uses_every_key, measure

Array = NDArray[np.float64]

TOY = PlanRequest(
    dim=2, arms=2, horizon=3, profile="paper", bonus="sqrt", length=5.5, noise=0.5,
    reward_max=math.sqrt(2) + 3,
)  # fmt: skip
BONUSES = ["quadratic", "sqrt"]


def index_of(bonus: str, *, precision: float = 0.1) -> PaperIndex:
    """An index whose range every arm of length 1 keeps to, for A <= I and ||w|| <= 1."""
    root = PaperRoot(weight=0.6, margin=0.25, low=0.05, high=1.05, iterations=4)
    return PaperIndex(
        least=-1.0,
        greatest=2.0,
        precision=precision,
        gamma=0.8,
        root=root if bonus == "sqrt" else None,
    )


def expected_index(contexts: Array, *, inverse: Array, w: Array, index: PaperIndex) -> Array:
    z = np.einsum("ij,jk,ik->i", contexts, inverse, contexts)
    bonus: Array = index.gamma / 2.0 * z
    if index.root is not None:
        low, high = index.root.low, index.root.high
        taken = square_root(z + low, low=low, high=high, iterations=index.root.iterations)
        bonus = index.root.weight * (taken.value + index.root.margin)
    return contexts @ w + bonus


def answer_of(
    keyed: Keyed,
    layout: PaperLayout,
    *,
    contexts: Array,
    inverse: Array,
    w: Array,
    index: PaperIndex,
):
    engine, matrix = keyed.engine, layout.matrix
    rows, columns = layout.pack_arms(contexts)
    return paper_answer_steps(
        engine,
        rows=engine.encrypt(rows),
        columns=engine.encrypt(columns),
        inverse=engine.encrypt(matrix.pack(inverse)),
        estimate=engine.encrypt(matrix.pack_by_column(w)),
        layout=layout,
        index=index,
    )


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("bonus", BONUSES)
@pytest.mark.parametrize(("dim", "arms", "real"), [(2, 2, 2), (3, 3, 3), (2, 3, 2)])
def test_paper_answer_is_acomp_of_the_index_and_nothing_else(
    scheme: str, bonus: str, dim: int, arms: int, real: int
) -> None:
    layout = PaperLayout(dim=dim, arms=arms)
    parameters = insecure_parameters(depth=8, scale_bits=50)
    keyed = open_keyed(scheme, parameters=parameters, rotations=layout.rotations)
    rng = np.random.default_rng(dim + arms)
    contexts = rng.normal(size=(real, dim))
    contexts /= np.linalg.norm(contexts, axis=1)[:, None]
    inverse = np.linalg.inv(np.eye(dim) + np.outer(contexts[0], contexts[0]))
    w, index = rng.uniform(-1, 1, dim) / dim, index_of(bonus)
    refresh = Refresher(keyed)
    with assert_uses_every_key(keyed):
        steps = answer_of(keyed, layout, contexts=contexts, inverse=inverse, w=w, index=index)
        answer = run_steps(steps, refresh=refresh)
    opened = keyed.open(answer)
    assert refresh.count > 2
    assert min(refresh.left) >= REFRESH_LEVELS
    values = expected_index(contexts, inverse=inverse, w=w, index=index)
    unit = (values - index.least) / index.span
    full = np.concatenate([unit, np.full(arms - real, unit[0])])
    b = acomp(full, error=index.precision).value
    np.testing.assert_allclose(layout.read_answer(opened), b, atol=1e-4)
    # padding repeats the first arm: nothing but b is in any slot
    padded = np.concatenate([b, np.full(layout.slots // layout.stride - arms, b[0])])
    np.testing.assert_allclose(opened, np.repeat(padded, layout.stride), atol=1e-4)


@pytest.mark.parametrize("bonus", BONUSES)
def test_paper_index_is_that_of_the_twin(bonus: str) -> None:
    settings = replace(TOY.settings(), bonus=bonus, horizon=20, length=2.0)
    twin = PaperTwin(settings)
    rng = np.random.default_rng(0)
    for _ in range(6):
        contexts = rng.normal(size=(2, 2)) / 2.0
        twin.update(contexts[twin.select(contexts)], float(rng.normal()))
    assert twin.updates > 0
    twin.select(contexts)
    model = twin.model
    terms = BatchTerms(
        number=twin.updates,
        start=model.start,
        samples=model.samples,
        last_round=twin.schedule.last_round,
        residual=model.residual,
        estimate_error=model.estimate_error,
    )
    index = paper_index(settings, terms=terms, round=twin.now)
    values = expected_index(contexts, inverse=model.inverse, w=model.estimate, index=index)
    assert index.least < values.min() < values.max() < index.greatest
    b = acomp((values - index.least) / index.span, error=index.precision).value
    choice = twin._decide(contexts)
    assert choice.arm == int(np.argmax(b))
    if bonus == "sqrt":
        theirs, _, _, interval = twin._root_index(contexts)
        np.testing.assert_allclose(values, theirs, rtol=1e-12)
        assert interval == (index.least, index.greatest)
    else:
        theirs, *_ = twin._quadratic_index(contexts, gamma=index.gamma)
        np.testing.assert_allclose(values, theirs, rtol=1e-12)


@pytest.mark.parametrize("scheme", BOTH)
def test_paper_update_from_multiplied_statistics_gives_inverse_and_estimate(scheme: str) -> None:
    layout = PaperLayout(dim=3, arms=2)
    matrices = MatrixLayout(dim=3, max_slots=128)
    parameters = insecure_parameters(depth=8, scale_bits=50)
    keyed = open_keyed(scheme, parameters=parameters, rotations=matrices.rotations)
    engine, rng = keyed.engine, np.random.default_rng(7)
    played, rewards = rng.uniform(-1, 1, (5, 3)), rng.uniform(-1, 1, 5)
    design, response = engine.encrypt(matrices.pack(np.eye(3))), engine.encrypt(np.zeros(16))
    for x, r in zip(played, rewards, strict=True):
        rows, columns, reward = map(engine.encrypt, layout.pack_play(x, reward=float(r)))
        square, scaled = paper_statistics(engine, rows=rows, columns=columns, reward=reward)
        assert (square.level, scaled.level) == (1, 1)
        design, response = engine.add(design, square), engine.add(response, scaled)
    V, g = np.eye(3) + played.T @ played, played.T @ rewards
    trace, refresh = float(np.trace(V)), Refresher(keyed)
    steps = paper_update_steps(
        engine,
        design=design,
        response=response,
        matrices=matrices,
        ridge=1.0,
        trace_bound=trace,
        error=1e-3,
    )
    A, _, w = run_steps(steps, refresh=refresh)
    assert (A.level, w.level) == (0, 0)
    # cuts, and the two results
    assert refresh.count > 2
    assert min(refresh.left) >= REFRESH_LEVELS
    found = matrices.unpack(keyed.open(A))
    assert np.linalg.norm(found - np.linalg.inv(V), 2) <= 1e-3 + 1e-6
    by_column = matrices.pack_by_column(found @ g)
    np.testing.assert_allclose(keyed.open(w), by_column, atol=1e-5)


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("excess", [-0.3, 0.3])
def test_paper_test_tells_on_which_side_of_the_threshold_the_trace_is(
    scheme: str, excess: float
) -> None:
    matrices = MatrixLayout(dim=2, max_slots=64)
    parameters = insecure_parameters(depth=7, scale_bits=50)
    keyed = open_keyed(scheme, parameters=parameters, rotations=matrices.rotations)
    engine, A = keyed.engine, np.array([[0.5, 0.1], [0.1, 0.3]])
    D = np.array([[1.0, 0.4], [0.4, 2.0]])
    threshold, reach, gap = float(np.trace(A @ D)) - excess, 8.0, 0.003
    refresh = Refresher(keyed)
    steps = paper_test_steps(
        engine,
        inverse=engine.encrypt(matrices.pack(A)),
        growth=engine.encrypt(matrices.pack(D), level=1),
        layout=matrices,
        threshold=threshold,
        reach=reach,
        gap=gap,
    )
    result = run_steps(steps, refresh=refresh)
    assert refresh.count >= 2
    assert result.levels_left >= REFRESH_LEVELS
    opened = keyed.open(result)
    unit = np.array(threshold / reach)
    trace = np.array((threshold + excess) / reach)
    expected = new_comp(trace, unit, gap=gap, error=UPDATE_THRESHOLD).value
    np.testing.assert_allclose(opened, np.full(matrices.size, expected), atol=1e-5)
    assert (opened > UPDATE_THRESHOLD).all() == (excess > 0)


def terms_at(settings: Settings, *, start: int) -> BatchTerms:
    return BatchTerms(
        number=1, start=start, samples=start - 1, last_round=settings.horizon, residual=0.0,
        estimate_error=0.0,
    )  # fmt: skip


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("bonus", BONUSES)
def test_paper_profile_runs_under_its_plan(scheme: str, bonus: str) -> None:
    """The last round of the toy problem, its test and its update: depth, keys and refreshes."""
    plan = make_plan(replace(TOY, bonus=bonus))
    settings = plan.request.settings()
    small = insecure_parameters(depth=plan.parameters.depth, scale_bits=50)
    keys = {step - plan.parameters.max_slots if step > 1024 else step for step in plan.rotations}
    keyed = open_keyed(scheme, parameters=small, rotations=[key % small.max_slots for key in keys])
    engine, layout = keyed.engine, PaperLayout(dim=2, arms=2)
    matrices = MatrixLayout(dim=2, max_slots=small.max_slots)
    played = np.array([[3.0, 1.0], [-1.0, 2.0]])
    contexts = np.array([[5.0, 1.0], [2.0, -3.0]])
    w, A = np.array([0.3, 0.2]), np.linalg.inv(np.eye(2) + played.T @ played)
    index = paper_index(settings, terms=terms_at(settings, start=3), round=3)
    refresh = Refresher(keyed)
    with measure(keyed) as measured:
        steps = answer_of(keyed, layout, contexts=contexts, inverse=A, w=w, index=index)
        opened = keyed.open(run_steps(steps, refresh=refresh))
    planned = paper_round_steps(settings, matrices=matrices)
    answered = [step for step in planned if step.name in ("index", "root", "amax", "NewComp")]
    cost = sum((step.cost for step in answered), Cost())
    assert measured.cost == replace(cost, levels=0)
    values = expected_index(contexts, inverse=A, w=w, index=index)
    b = acomp((values - index.least) / index.span, error=index.precision).value
    np.testing.assert_allclose(layout.read_answer(opened), b, atol=1e-3)

    rows, columns, reward = map(engine.encrypt, layout.pack_play(contexts[0], reward=0.5))
    square, scaled = paper_statistics(engine, rows=rows, columns=columns, reward=reward)
    reach, gap = paper_test_gap(settings, round=3, plays=3)
    test = run_steps(
        paper_test_steps(
            engine,
            inverse=engine.encrypt(matrices.pack(A)),
            growth=square,
            layout=matrices,
            threshold=settings.trace_threshold,
            reach=reach,
            gap=gap,
        ),
        refresh=refresh,
    )
    trace = float(contexts[0] @ A @ contexts[0])
    assert (keyed.open(test) > UPDATE_THRESHOLD).all() == (trace > settings.trace_threshold)
    assert 5 < refresh.count <= plan.refreshes_per_round

    refresh = Refresher(keyed)
    V = np.eye(2) + played.T @ played + np.outer(contexts[0], contexts[0])
    design = engine.add(
        engine.encrypt(matrices.pack(V - np.outer(contexts[0], contexts[0]))), square
    )
    error = inverse_floor(settings, batch_start=3) / settings.length**2
    bound = 2.0 + 3.0 * settings.length**2
    update = paper_update_steps(
        engine,
        design=design,
        response=scaled,
        matrices=matrices,
        ridge=1.0,
        trace_bound=bound,
        error=error,
    )
    inverse, _, estimate = run_steps(update, refresh=refresh)
    # planned as if M and X were both renewed after the first step
    assert plan.refreshes_per_update - 1 <= refresh.count <= plan.refreshes_per_update
    assert len(paper_inverse_steps(settings, matrices=matrices)) == plan.newton_steps
    assert plan.newton_steps == cold_iterations(ridge=1.0, trace_bound=bound, error=error)
    exact = np.linalg.inv(V)
    assert np.linalg.norm(matrices.unpack(keyed.open(inverse)) - exact, 2) <= error + 1e-5
    expected = matrices.pack_by_column(exact @ (0.5 * contexts[0]))
    np.testing.assert_allclose(keyed.open(estimate), expected, atol=6.0 * error)


@pytest.mark.parametrize("bonus", BONUSES)
@pytest.mark.parametrize("arms", [2, 3, 5])
@pytest.mark.parametrize("depth", [6, 7, 8, 9, 11, 14])
def test_paper_round_refreshes_no_more_than_planned(bonus: str, arms: int, depth: int) -> None:
    settings = replace(TOY.settings(), bonus=bonus, arms=arms, horizon=4, schedule="public")
    layout, matrices = PaperLayout(dim=2, arms=arms), MatrixLayout(dim=2, max_slots=64)
    chain = cut_chain(paper_round_steps(settings, matrices=matrices), levels=depth)
    assert chain is not None
    parameters = insecure_parameters(depth=depth, scale_bits=50)
    keyed = open_keyed("simulate", parameters=parameters, rotations=layout.rotations)
    contexts = np.random.default_rng(arms).normal(size=(arms, 2))
    index = paper_index(settings, terms=terms_at(settings, start=4), round=4)
    refresh = Refresher(keyed)
    steps = answer_of(
        keyed,
        layout,
        contexts=contexts,
        inverse=np.eye(2) / 9.0,
        w=np.array([0.3, 0.2]),
        index=index,
    )
    run_steps(steps, refresh=refresh)
    assert 0.6 * chain.refreshes <= refresh.count <= chain.refreshes


def test_paper_round_without_refresh_yields_what_it_needs_first() -> None:
    """A server may pause there: the generator goes on with what is sent in."""
    layout = PaperLayout(dim=2, arms=2)
    parameters = insecure_parameters(depth=6, scale_bits=50)
    keyed = open_keyed("simulate", parameters=parameters, rotations=layout.rotations)
    steps = answer_of(
        keyed, layout, contexts=np.eye(2), inverse=np.eye(2), w=np.ones(2) / 2.0,
        index=index_of("quadratic"),
    )  # fmt: skip
    renewal = next(steps)
    assert isinstance(renewal, Renewal)
    assert renewal.bound == 1.0
    value = keyed.open(renewal.vector)
    np.testing.assert_allclose(value, (0.5 + 0.4 + 1.0) / 3.0, atol=1e-6)
    following = steps.send(keyed.engine.encrypt(value))
    tie = iterate(np.zeros(layout.slots), n=1, iterations=1)
    np.testing.assert_allclose(keyed.open(following.vector), tie, atol=1e-6)


def test_paper_packing_refuses_what_does_not_fit() -> None:
    layout = PaperLayout(dim=2, arms=2)
    with pytest.raises(InvalidInput, match="1 to 2 rows of 2 numbers"):
        layout.pack_arms(np.ones((3, 2)))
    with pytest.raises(InvalidInput, match="finite"):
        layout.pack_arms([[1.0, math.nan]])
    with pytest.raises(InvalidInput, match="8 numbers"):
        layout.read_answer(np.zeros(4))
