from __future__ import annotations

import numpy as np
import pytest

from helba.errors import InvalidInput
from helba.reference.circuits.scores.model import assemble_model
from helba.reference.circuits.scores.scores import score_differences
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.model import ModelAssembly
from helba.reference.planning.layout.score import ScoreLayout, choose_score_layout
from helba.reference.planning.layout.score_packing import pack_contexts, pack_model
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, Keyed, open_keyed
from tests.reference.circuits.circuit_checks import assert_close, assert_uses_every_key, measure
from tests.reference.circuits.matrices import CASES, open_matrix_desk, random_design


def open_assembly(
    scheme: str, *, dim: int, arms: int, levels: int, form: str | None = None
) -> tuple[Keyed, ModelAssembly]:
    ring_dim = 1 << (15 if dim > 8 else 11)
    if form is None:
        score = choose_score_layout(dim=dim, arms=arms, max_slots=ring_dim // 2)
    else:
        score = ScoreLayout(dim=dim, arms=arms, form=form)
    matrix = MatrixLayout(dim=dim, max_slots=ring_dim // 2)
    assembly = ModelAssembly(matrix=matrix, score=score, levels=levels)
    more = {*assembly.rotations, *score.rotations}
    keyed, _ = open_matrix_desk(scheme, dim=dim, depth=6, more=more)
    return keyed, assembly


@pytest.mark.parametrize(("scheme", "dim"), CASES)
@pytest.mark.parametrize(("arms", "form"), [(2, "pairs"), (4, "arms"), (8, "arms")])
@pytest.mark.parametrize("levels", [1, 2])
def test_model_equals_the_plain_packing_at_the_predicted_cost(
    scheme: str, dim: int, arms: int, form: str, levels: int
) -> None:
    keyed, assembly = open_assembly(scheme, dim=dim, arms=arms, form=form, levels=levels)
    _check_model(keyed, assembly)


@pytest.mark.parametrize(("dim", "arms"), [(9, 2), (16, 2), (16, 8), (17, 2), (32, 16)])
@pytest.mark.parametrize("levels", [1, 2])
def test_model_of_large_dimensions_equals_the_plain_packing(
    dim: int, arms: int, levels: int
) -> None:
    keyed, assembly = open_assembly("simulate", dim=dim, arms=arms, levels=levels)
    _check_model(keyed, assembly)


def _check_model(keyed: Keyed, assembly: ModelAssembly) -> None:
    dim, matrix, score = assembly.matrix.dim, assembly.matrix, assembly.score
    _, A = random_design(dim)
    w = np.linspace(-1.0, 2.0, dim)
    expected = pack_model(score, inverse=A, estimate=w)
    for levels in ((2, 3), (3, 2)):
        inverse = keyed.engine.encrypt(matrix.pack(A), level=levels[0])
        estimate = keyed.engine.encrypt(matrix.pack_by_column(w), level=levels[1])
        with measure(keyed) as measured:
            model = assemble_model(
                keyed.engine, inverse=inverse, estimate=estimate, assembly=assembly
            )
        assert model.slots == score.slots
        assert_close(keyed, model, expected=expected, noise=1e-4)
        assert measured.at(3, model) == assembly.cost
        assert min(measured.levels_of("rotate", "hoist", "multiply_plain")) == 3


@pytest.mark.parametrize(
    ("dim", "arms", "form"),
    [(1, 2, "pairs"), (1, 9, "arms"), (3, 2, "pairs"), (4, 4, "arms"), (10, 2, "arms")],
)
@pytest.mark.parametrize("levels", [1, 2])
def test_model_uses_every_key_of_its_assembly(dim: int, arms: int, form: str, levels: int) -> None:
    matrix = MatrixLayout(dim=dim, max_slots=1024)
    score = ScoreLayout(dim=dim, arms=arms, form=form)
    assembly = ModelAssembly(matrix=matrix, score=score, levels=levels)
    parameters = insecure_parameters(ring_dim=1 << 13, depth=3)
    keyed = open_keyed("simulate", parameters=parameters, rotations=assembly.rotations)
    inverse = keyed.engine.encrypt(matrix.pack(np.eye(dim)))
    estimate = keyed.engine.encrypt(matrix.pack_by_column(np.zeros(dim)))
    with assert_uses_every_key(keyed):
        assemble_model(keyed.engine, inverse=inverse, estimate=estimate, assembly=assembly)


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("wide", ["inverse", "estimate"])
def test_model_of_wide_operands_has_the_slots_of_the_scores(
    scheme: str, levels: int, wide: str
) -> None:
    keyed, assembly = open_assembly(scheme, dim=5, arms=2, levels=levels)
    _, A = random_design(5)
    w = np.linspace(-1.0, 2.0, 5)
    engine, matrix, score = keyed.engine, assembly.matrix, assembly.score
    held = {
        "inverse": engine.encrypt(matrix.pack(A)),
        "estimate": engine.encrypt(matrix.pack_by_column(w)),
    }
    held[wide] = engine.repeat(held[wide], 1024)
    model = assemble_model(engine, assembly=assembly, **held)
    assert score.slots < 1024
    assert_close(keyed, model, expected=pack_model(score, inverse=A, estimate=w))


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("levels", [1, 2])
def test_assembled_model_scores_like_the_plain_one(scheme: str, levels: int) -> None:
    keyed, assembly = open_assembly(scheme, dim=3, arms=2, levels=levels)
    engine, matrix, score = keyed.engine, assembly.matrix, assembly.score
    _, A = random_design(3)
    w = np.array([0.3, -0.5, 0.1])
    contexts = np.array([[0.5, 0.2, -0.4], [-0.1, 0.6, 0.3]])
    model = assemble_model(
        engine,
        inverse=engine.encrypt(matrix.pack(A)),
        estimate=engine.encrypt(matrix.pack_by_column(w)),
        assembly=assembly,
    )
    sent = engine.encrypt(pack_contexts(score, contexts=contexts, gamma=0.8, scale=4.0))
    found = keyed.open(score_differences(engine, sent, model=model, layout=score))
    scores = contexts @ w + 0.4 * np.einsum("ai,ij,aj->a", contexts, A, contexts)
    a, b = score.compared_arms()
    expected = np.tile((scores[a] - scores[b]) / 4.0, len(found) // score.grid)
    assert np.abs(found - expected).max() <= 1e-6


def test_assembly_of_different_dimensions_is_refused() -> None:
    with pytest.raises(InvalidInput, match="dim must be 3"):
        ModelAssembly(matrix=MatrixLayout(dim=3, max_slots=1024), score=ScoreLayout(dim=4, arms=2))
