from __future__ import annotations

import math

import numpy as np
import pytest

from helba.errors import InvalidInput
from helba.numerics.inverse import plan_warm_start
from helba.reference.circuits.algebra.estimate import compute_estimate, refine_estimate
from helba.reference.circuits.algebra.inverse import invert_warm
from helba.reference.circuits.comparison.argmax import Rider, comparison_steps
from helba.reference.circuits.levels import run_steps
from helba.reference.circuits.renewal import bootstrap_renewal
from helba.reference.circuits.scores.model import assemble_model
from helba.reference.circuits.scores.scores import score_differences
from helba.reference.circuits.scores.scoring import scoring_steps
from helba.reference.engine import get_scheme
from helba.reference.planning.bounds.bootstrap import BOOTSTRAP_LEVELS
from helba.reference.planning.bounds.extent import count_updates
from helba.reference.planning.bounds.precision import (
    GOOD_INVERSE_ERROR,
    plan_inverse,
    renewal_bounds,
    trace_reach,
)
from helba.reference.planning.cost.chain import Step, cut_chain, levels_of
from helba.reference.planning.cost.compare_cost import argmax_cost, root_cost
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.cost.matrix_cost import estimate_cost, refinement_cost, warm_cost
from helba.reference.planning.cost.workload import (
    inverse_steps,
    model_steps,
    root_steps,
    round_steps,
)
from helba.reference.planning.draft import EXCHANGE_SECONDS
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.model import ModelAssembly
from helba.reference.planning.layout.score import ScoreLayout, score_cost
from helba.reference.planning.layout.score_packing import pack_contexts, pack_model, read_answer
from helba.reference.planning.parameters import insecure_parameters
from helba.reference.planning.planner import make_plan
from helba.reference.planning.request import PlanRequest
from helba.reference.planning.sizes import message_bytes, switching_key_bytes
from helba.reference.twin.ciphertext import CiphertextTwin, default_sign
from helba.ring.security import max_log2_qp
from tests.engines import open_keyed
from tests.reference.circuits.circuit_checks import Refresher
from tests.sweep import in_soak, sweep

TOY = {"dim": 2, "arms": 2, "horizon": 130, "length": 5.5}
REQUESTS = [
    TOY,
    {**TOY, "keys": "shared"},
    {**TOY, "keys": "switched"},
    in_soak({"dim": 2, "arms": 2, "horizon": 130, "security": 192}),
    {"dim": 2, "arms": 2, "horizon": 130, "security": 256},
    in_soak({"dim": 8, "arms": 8, "horizon": 1000}),
    {"dim": 8, "arms": 16, "horizon": 10_000},
    {"dim": 8, "arms": 64, "horizon": 1000},
    {"dim": 32, "arms": 4, "horizon": 1000, "schedule": "public"},
    {"dim": 2, "arms": 3, "horizon": 100, "bonus": "sqrt"},
    {"dim": 2, "arms": 2, "horizon": 130, "profile": "paper", "bonus": "sqrt"},
    {"dim": 2, "arms": 2, "horizon": 130, "refresh": "bootstrap"},
    {"dim": 2, "arms": 2, "horizon": 5, "refresh": "none"},
]


def total(steps) -> Cost:
    return sum((step.cost for step in steps), Cost())


@pytest.mark.parametrize("fields", REQUESTS, ids=str)
def test_plan_keeps_every_limit(fields):
    plan = make_plan(PlanRequest(**fields))
    request, parameters = plan.request, plan.parameters
    limit = max_log2_qp(parameters.ring_dim, security=request.security)
    assert parameters.security == request.security
    assert parameters.log2_qp <= limit == plan.max_log2_qp
    assert plan.slots <= parameters.max_slots
    if plan.refreshes_per_round == 0:
        assert plan.round_levels <= parameters.depth
    if request.refresh == "client":
        # what a masked refresh needs to fail with a probability of 2^-40 at most
        assert parameters.first_bits + parameters.scale_bits >= 95
        assert plan.refreshes_per_update >= 2
    assert (parameters.secret == "sparse") == (request.refresh == "bootstrap")
    assert set(plan.certificates) == {"inverse", "argmax", "bonus"}
    if request.profile == "ciphertext":
        assert plan.certificates["inverse"].error <= 0.1
        assert plan.certificates["argmax"].error <= plan.sign.resolution * plan.score_range
        assert plan.disclosure.revealed_below == plan.sign.resolution * plan.score_range
    assert all(0 < step < parameters.max_slots for step in plan.rotations)
    assert {choice.name for choice in plan.reasons} >= {"ring", "depth", "scale", "refresh"}


def test_steps_of_a_round_cost_what_their_circuits_do():
    for arms, form in ((2, "pairs"), (5, "pairs"), (8, "arms")):
        for schedule in ("trace", "public"):
            request = PlanRequest(dim=3, arms=arms, horizon=50, schedule=schedule)
            layout, sign = ScoreLayout(dim=3, arms=arms, form=form), default_sign(arms)
            riding = schedule == "trace"
            for method in ("product", "sum"):
                steps = round_steps(request.settings(), layout=layout, sign=sign, method=method)
                wanted = score_cost(layout, riding=riding)
                wanted += argmax_cost(layout, sign=sign, method=method, riding=riding)
                assert total(steps) == wanted


def test_steps_of_an_update_cost_what_their_circuits_do():
    matrices = MatrixLayout(dim=3, max_slots=1 << 12)
    layout = ScoreLayout(dim=3, arms=4)
    for count in (1, 2, 5):
        steps = inverse_steps(matrices, newton_steps=count)
        assert total(steps) == warm_cost(matrices, steps=count)
    assembly = ModelAssembly(matrix=matrices, score=layout)
    wanted = estimate_cost(matrices) + refinement_cost(matrices) + assembly.cost
    assert total(model_steps(matrices, layout=layout)) == wanted


@pytest.mark.parametrize("count", [0, 1, 4])
def test_steps_of_a_root_cost_what_its_circuit_does(count):
    assert total(root_steps(high=3.0, iterations=count)) == root_cost(high=3.0, iterations=count)


def test_chain_is_cut_as_late_as_possible():
    steps = [Step(name=str(i), cost=Cost(levels=2), state=i) for i in range(5)]
    whole = cut_chain(steps, levels=10)
    assert whole.refreshes == 0
    ending = cut_chain(steps, levels=10, ends_fresh=True)
    assert ending.points == ("4",)
    assert ending.refreshes == 4
    short = cut_chain(steps, levels=4)
    assert [levels_of(piece) for piece in short.pieces] == [2, 2, 2, 4]
    assert short.levels == 4
    assert cut_chain(steps, levels=3) is None


REAL = (pytest.mark.ckks, pytest.mark.slow)


@pytest.mark.parametrize(
    ("scheme", "fields"),
    [
        ("simulate", TOY),
        ("simulate", {"dim": 3, "arms": 5, "horizon": 200}),
        ("simulate", {"dim": 16, "arms": 16, "horizon": 200}),
        *(
            case("ckks", {**TOY, "security": bits}, marks=REAL, id=f"ckks-{bits}")
            for bits, case in ((128, pytest.param), (192, in_soak), (256, in_soak))
        ),
    ],
)
def test_round_uses_the_planned_levels_refreshes_and_keys(scheme, fields):
    # OpenFHE itself checks the security level when the keys are made
    plan = make_plan(PlanRequest(**fields))
    settings = plan.request.settings()
    keyed = open_keyed(scheme, parameters=plan.parameters, rotations=plan.rotations)
    layout = ScoreLayout(dim=settings.dim, arms=settings.arms, form=plan.layout)
    rng = np.random.default_rng(1)
    contexts = rng.uniform(-1, 1, (settings.arms, settings.dim)) / math.sqrt(settings.dim)
    w, inverse = rng.uniform(-1, 1, settings.dim), np.eye(settings.dim)
    riding = layout.form == "pairs"  # by arms the test would need a vector of its own
    start = max(0, plan.parameters.depth - plan.round_levels)
    packed = pack_contexts(layout, contexts=contexts, gamma=0.5, scale=10.0)
    engine, refresh = keyed.engine, Refresher(keyed)
    with engine.count() as tally:
        differences = score_differences(
            engine,
            engine.encrypt(packed, level=start),
            model=engine.encrypt(pack_model(layout, inverse=inverse, estimate=w)),
            layout=layout,
        )
        steps = comparison_steps(
            engine,
            differences,
            layout=layout,
            sign=plan.sign,
            method=plan.method,
            rider=Rider(flip=1) if riding else None,
        )
        answer = run_steps(steps, refresh=refresh)
        values = keyed.open(answer)
    found = read_answer(layout, values=values, method=plan.method, riding=riding)
    assert answer.level == plan.parameters.depth
    assert refresh.count == plan.refreshes_per_round == 0
    wanted = score_cost(layout, riding=riding)
    wanted += argmax_cost(layout, sign=plan.sign, method=plan.method, riding=riding)
    assert (tally.products, tally.rotations) == (wanted.products, wanted.rotations)
    scores = contexts @ w + 0.25 * np.einsum("ij,ij->i", contexts, contexts)
    assert np.argmax(found.comparison) == np.argmax(scores)


@pytest.mark.parametrize("scheme", ["simulate", pytest.param("ckks", marks=REAL)])
def test_update_refreshes_as_often_as_planned(scheme):
    plan = make_plan(PlanRequest(**TOY))
    keyed = open_keyed(scheme, parameters=plan.parameters, rotations=plan.rotations)
    engine, matrices = keyed.engine, MatrixLayout(dim=2, max_slots=plan.parameters.max_slots)
    certificate, refreshed = plan.certificates["inverse"], []

    def renew(vector):
        refreshed.append(vector.level)
        return engine.refresh(vector, secret_key=keyed.keys.secret)

    V, g = np.array([[31.0, 4.0], [4.0, 9.0]]), np.array([3.0, -2.0])
    matrix = engine.encrypt(matrices.pack(V))
    low, high = certificate.interval
    inverse = invert_warm(
        engine,
        matrix=matrix,
        start=engine.encrypt(matrices.pack(np.linalg.inv(V - np.diag([20.0, 0.0])))),
        layout=matrices,
        low=low,
        high=high,
        error=certificate.error,
        refresh=renew,
    ).value
    assembly = ModelAssembly(matrix=matrices, score=ScoreLayout(dim=2, arms=2, form=plan.layout))
    steps = model_steps(matrices, layout=assembly.score)
    chain = cut_chain(steps, levels=plan.parameters.depth, ends_fresh=True)
    scoring = run_steps(
        scoring_steps(
            engine,
            inverse=renew(inverse),
            design=matrix,
            response=engine.encrypt(matrices.pack_by_row(g)),
            assembly=assembly,
            chain=chain,
            bound=renewal_bounds(plan.request.settings(), piece=1).model,
            lowered=True,
        ),
        refresh=renew,
    )
    model = renew(scoring.model)
    assert len(refreshed) == plan.refreshes_per_update
    assert len(scoring.renewed) == chain.refreshes
    exact = pack_model(assembly.score, inverse=np.linalg.inv(V), estimate=np.linalg.solve(V, g))
    opened = keyed.open(model)[: len(exact)]
    assert np.allclose(opened, exact, atol=certificate.error)


SMALL_TOY = {
    "dim": 2,
    "arms": 2,
    "length": 5.5,
    "parameter_bound": 1.0,
    "noise": 0.5,
    "reward_max": 2**0.5 + 3,
    "refresh": "bootstrap",
}


@pytest.mark.parametrize(
    ("scheme", "fields"),
    [
        ("simulate", {"horizon": 12}),
        ("simulate", {"horizon": 6, "depth": 22}),
        in_soak("ckks", {"horizon": 12}, marks=REAL),
        pytest.param("ckks", {"horizon": 6, "depth": 22}, marks=REAL),
    ],
    ids=str,
)
def test_bootstrapped_update_keeps_its_certificates(scheme, fields):
    plan = make_plan(PlanRequest(**SMALL_TOY, **fields))
    settings, accuracy = plan.request.settings(), plan.accuracy
    # the plan's depth, scale and digits, in a ring that is quick and protects nothing
    parameters = insecure_parameters(
        ring_dim=1 << 11,
        depth=plan.parameters.depth,
        scale_bits=plan.parameters.scale_bits,
        digits=plan.parameters.digits,
        secret="sparse",
    )
    keys = get_scheme(scheme).generate_keys(
        parameters, rotations=plan.rotations, bootstrap_slots=plan.bootstrap_slots
    )
    engine = get_scheme(scheme).engine(keys.public, evaluation_key=keys.evaluation)
    matrices = MatrixLayout(dim=2, max_slots=parameters.max_slots)
    layout = ScoreLayout(dim=2, arms=2, form=plan.layout)
    assert plan.bootstrap_slots >= max(matrices.slots, layout.slots)
    bounds, renewed = renewal_bounds(settings, piece=accuracy.piece), []

    def renew(vector, *, bound=bounds.newton):
        renewed.append(vector.level)
        return bootstrap_renewal(engine, vector, bound=bound)

    def encrypt(values):
        return engine.encrypt(values, level=BOOTSTRAP_LEVELS)

    past = np.array([[5.5, 0.2], [5.4, -0.3]])
    last = np.array([[2.0, 3.0], [0.5, -5.0], [-4.0, 1.0]])
    V0 = settings.ridge * np.eye(2) + past.T @ past
    V = V0 + last.T @ last
    g = V @ np.array([0.6, -0.5])
    certificate = plan.certificates["inverse"]
    low, high = certificate.interval
    matrix, response = encrypt(matrices.pack(V)), encrypt(matrices.pack_by_row(g))
    warm = plan_warm_start(
        low=low, high=high, error=certificate.error, noise=accuracy.inverse_noise
    )
    assert warm.steps == plan.newton_steps
    inverse = invert_warm(
        engine,
        matrix=matrix,
        start=encrypt(matrices.pack(np.linalg.inv(V0))),
        layout=matrices,
        low=low,
        high=high,
        error=certificate.error,
        noise=accuracy.inverse_noise,
        piece_levels=2 * warm.piece,
        bound=bounds.newton,
        refresh=renew,
    )
    assert inverse.certificate.error <= certificate.error
    A = renew(inverse.value, bound=bounds.inverse)
    w = compute_estimate(engine, inverse=A, response=response, layout=matrices)
    w = refine_estimate(
        engine, estimate=w, inverse=A, matrix=matrix, response=response, layout=matrices
    )
    assembly = ModelAssembly(matrix=matrices, score=layout)
    assembled = assemble_model(engine, inverse=A, estimate=w, assembly=assembly)
    model = renew(assembled, bound=bounds.model)
    assert len(renewed) == plan.refreshes_per_update
    assert model.levels_left >= plan.round_levels
    opened = engine.decrypt(model, secret_key=keys.secret)[: layout.slots]
    features = opened.reshape(layout.features, -1)[:, 0]
    upper = np.array([[features[2], features[3]], [features[3], features[4]]])
    root = np.linalg.cholesky(V).T
    assert np.linalg.norm(root @ (features[:2] - [0.6, -0.5])) <= plan.estimate_error
    for copy in (matrices.unpack(engine.decrypt(A, secret_key=keys.secret)), upper):
        residual = np.linalg.norm(root @ copy @ root.T - np.eye(2), 2)
        assert residual <= certificate.error


def test_bootstrapping_carries_the_toy_problem_as_far_as_its_precision():
    plan = make_plan(PlanRequest(**SMALL_TOY, horizon=12))
    assert plan.certificates["inverse"].error < 0.1
    assert plan.accuracy.ending_noise < plan.certificates["inverse"].error
    with pytest.raises(InvalidInput, match="noise outgrows") as caught:
        make_plan(PlanRequest(**SMALL_TOY, horizon=sweep(1000, long=10_000)))
    assert caught.value.name == "horizon"


def test_reach_of_the_plan_covers_every_update_of_the_twin():
    for schedule in ("trace", "public"):
        request = PlanRequest(dim=2, arms=2, horizon=200, schedule=schedule)
        twin = CiphertextTwin(request.settings())
        rng, seen, updates = np.random.default_rng(0), [], 0
        for _ in range(200):
            contexts = rng.uniform(-1, 1, (2, 2)) / math.sqrt(2)
            arm = twin.select(contexts)
            before = twin.schedule.plays
            bound = twin.schedule.trace_bound(residual=twin.model.residual)
            twin.update(contexts[arm], 0.5)
            if twin.updates > updates:
                updates = twin.updates
                seen.append((before, bound))
        reach = trace_reach(request.settings())
        # the bound before the last round of a batch, and that round
        assert max(bound for _, bound in seen) <= reach * (1 + 1e-3)
        assert updates >= count_updates(request.settings())


def test_inverse_error_grows_with_the_noise_until_it_is_refused():
    settings = PlanRequest(**TOY).settings()
    errors = [plan_inverse(settings, noise=noise).error for noise in (0.0, 1e-7, 1e-5, 1e-4)]
    assert errors == sorted(errors)
    assert errors[0] <= GOOD_INVERSE_ERROR
    assert plan_inverse(settings, noise=0.1) is None


def test_more_scale_bits_promise_more():
    coarse, fine = (make_plan(PlanRequest(**TOY, scale_bits=bits)) for bits in (46, 50))
    for name in ("inverse", "argmax"):
        assert fine.certificates[name].error < coarse.certificates[name].error


@pytest.mark.parametrize("bonus", ["quadratic", "sqrt"])
def test_a_machine_twice_as_slow_takes_twice_as_long(bonus):
    """But for the exchanges with users, which take as long as the way to them."""
    from helba.reference.planning.cost.calibration import Calibration, shipped_calibration

    shipped = shipped_calibration()
    slow = Calibration(
        coefficients={kind: 2.0 * value for kind, value in shipped.coefficients.items()}, note=""
    )
    request = PlanRequest(**TOY, bonus=bonus)
    one, two = (make_plan(request, calibration=each) for each in (shipped, slow))
    assert one.parameters == two.parameters
    ways = EXCHANGE_SECONDS * one.refreshes_per_round, EXCHANGE_SECONDS * one.refreshes_per_update
    assert (ways[0] > 0.0) == (bonus == "sqrt")
    assert two.seconds_per_round == pytest.approx(2.0 * one.seconds_per_round - ways[0])
    assert two.seconds_per_update == pytest.approx(2.0 * one.seconds_per_update - ways[1])


def test_sizes_are_those_of_the_polynomials():
    parameters = insecure_parameters(ring_dim=1 << 14, depth=6, scale_bits=40, digits=4)
    assert switching_key_bytes(parameters) == pytest.approx(9.4e6, rel=0.01)  # measured
    bits = 60 + 6 * 40
    assert message_bytes(parameters) == pytest.approx(2 * (1 << 14) * bits / 8, rel=0.03)
    assert message_bytes(parameters, level=6) < message_bytes(parameters, level=5)
