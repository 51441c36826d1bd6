"""The score model from a fresh inverse, in as many pieces as its levels ask for."""

from __future__ import annotations

import numpy as np
import pytest

from helba.reference.circuits.algebra.check import squared_change
from helba.reference.circuits.levels import run_steps
from helba.reference.circuits.scores.scoring import Scoring, scoring_steps
from helba.reference.engine import EncryptedVector
from helba.reference.planning.cost.chain import REFRESH_LEVELS, Chain, cut_chain
from helba.reference.planning.cost.workload import model_steps
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.model import ModelAssembly
from helba.reference.planning.layout.score import ScoreLayout
from helba.reference.planning.layout.score_packing import pack_model
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, Keyed, open_keyed
from tests.reference.circuits.circuit_checks import Refresher
from tests.reference.circuits.matrices import open_matrix_desk, random_design

DIM = 3
RESPONSE = np.linspace(-2.0, 1.0, DIM)
SLOTS = insecure_parameters(ring_dim=1 << 11).max_slots
LAYOUT = ScoreLayout(dim=DIM, arms=3)
ASSEMBLY = ModelAssembly(matrix=MatrixLayout(dim=DIM, max_slots=SLOTS), score=LAYOUT)


def keyed_of(scheme: str, *, depth: int) -> Keyed:
    keyed, matrices = open_matrix_desk(scheme, dim=DIM, depth=depth, more=ASSEMBLY.rotations)
    assert matrices == ASSEMBLY.matrix
    return keyed


def chain_of(depth: int) -> Chain:
    chain = cut_chain(model_steps(ASSEMBLY.matrix, layout=LAYOUT), levels=depth, ends_fresh=True)
    assert chain is not None
    return chain


def score(keyed: Keyed, *, chain: Chain, refresh: Refresher) -> Scoring:
    engine, matrices = keyed.engine, ASSEMBLY.matrix
    V, A = random_design(DIM)
    steps = scoring_steps(
        engine,
        inverse=engine.encrypt(matrices.pack(A)),
        design=engine.encrypt(matrices.pack(V)),
        response=engine.encrypt(matrices.pack_by_row(RESPONSE)),
        assembly=ASSEMBLY,
        chain=chain,
        bound=4.0,
        lowered=True,
    )
    return run_steps(steps, refresh=refresh)


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize(
    ("depth", "points"), [(9, ()), (6, ("model",)), (5, ("refinement", "model"))], ids=str
)
def test_model_in_pieces_is_the_model(scheme: str, depth: int, points: tuple[str, ...]) -> None:
    keyed, chain = keyed_of(scheme, depth=depth), chain_of(depth)
    refresh = Refresher(keyed)
    scoring = score(keyed, chain=chain, refresh=refresh)
    assert chain.points == points
    assert refresh.left == [REFRESH_LEVELS] * len(points)  # as deep as a refresh allows
    assert scoring.model.levels_left == REFRESH_LEVELS
    V, A = random_design(DIM)
    w = A @ RESPONSE
    expected = pack_model(LAYOUT, inverse=A, estimate=w + A @ (RESPONSE - V @ w))
    np.testing.assert_allclose(keyed.open(scoring.model)[: len(expected)], expected, atol=1e-4)


@pytest.mark.parametrize("scheme", BOTH)
def test_every_renewal_of_the_estimate_is_returned(scheme: str) -> None:
    keyed, seen = keyed_of(scheme, depth=5), list[tuple[EncryptedVector, EncryptedVector]]()
    honest = Refresher(keyed)

    class Watcher(Refresher):
        def __call__(self, vector: EncryptedVector) -> EncryptedVector:
            seen.append((vector, honest(vector)))
            return seen[-1][1]

    scoring = score(keyed, chain=chain_of(5), refresh=Watcher(keyed))
    assert len(seen) == 2
    for (before, after), (sent, back) in zip(scoring.renewed, seen, strict=True):
        assert (before, after) == (sent, back)
        np.testing.assert_allclose(keyed.open(after), keyed.open(before), atol=1e-5)


@pytest.mark.parametrize("scheme", BOTH)
def test_squared_change_adds_up_over_slots_and_pairs(scheme: str) -> None:
    matrices = ASSEMBLY.matrix
    keyed = open_keyed(
        scheme,
        parameters=insecure_parameters(ring_dim=1 << 11, depth=5),
        rotations=matrices.rotations,
    )
    generator, engine = np.random.default_rng(3), keyed.engine
    values = generator.uniform(-1, 1, (3, 2, matrices.size))
    values[2, 1] = values[2, 0]  # one that came back as it was
    pairs = [(engine.encrypt(before, level=3), engine.encrypt(after)) for before, after in values]
    found = keyed.open(squared_change(engine, pairs, stages=matrices.sum_all))
    wanted = float(((values[:, 0] - values[:, 1]) ** 2).sum())
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    alone = keyed.open(squared_change(engine, pairs[2:], stages=matrices.sum_all))
    np.testing.assert_allclose(alone, 0.0, atol=1e-5)
