from __future__ import annotations

import numpy as np
import pytest

from helba.errors import InvalidInput
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.cost.matrix_cost import cold_cost, refinement_cost, warm_cost
from helba.reference.planning.layout.jiang import JiangLayout
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.model import ModelAssembly
from helba.reference.planning.layout.score import ScoreLayout, choose_score_layout
from helba.reference.planning.layout.stages import (
    count_rotations,
    distinct_steps,
    power_stages,
    steps_of,
)

N15 = 1 << 14  # slots at N = 2^15
KEY_BYTES = 30 << 20  # of a rotation key at N = 2^15


@pytest.mark.parametrize(
    ("dim", "single", "stacked"), [(2, 2, 2), (8, 8, 8), (16, 16, 16), (17, 16, 8), (32, 16, 8)]
)
def test_slices_fill_the_ring_without_leaving_it(dim: int, single: int, stacked: int) -> None:
    layout = MatrixLayout(dim=dim, max_slots=N15)
    assert layout.single.slices == single
    assert layout.opening.slices == layout.advancing.slices == layout.closing.slices == stacked
    assert layout.slots <= N15
    assert layout.single.chunks == -(-dim // single)


@pytest.mark.parametrize(("dim", "gigabytes"), [(2, 1), (8, 2), (16, 2), (32, 4)])
@pytest.mark.parametrize("arms", [2, 4, 8, 16])
@pytest.mark.parametrize("levels", [1, 2])
def test_keys_of_all_circuits_fit_their_memory(
    dim: int, gigabytes: int, arms: int, levels: int
) -> None:
    matrix = MatrixLayout(dim=dim, max_slots=N15)
    score = choose_score_layout(dim=dim, arms=arms, max_slots=N15)
    assembly = ModelAssembly(matrix=matrix, score=score, levels=levels)
    steps = (*matrix.rotations, *assembly.rotations, *score.rotations)
    keys = {step % N15 for step in steps} - {0}
    assert len(keys) * KEY_BYTES <= gigabytes << 30


@pytest.mark.parametrize(("dim", "rotations"), [(2, 5), (8, 20), (16, 29), (32, 53)])
def test_product_takes_few_rotations(dim: int, rotations: int) -> None:
    cost = MatrixLayout(dim=dim, max_slots=N15).single.cost
    assert cost == Cost(
        levels=2, products=1 if dim < 32 else 2, plain_products=2 * dim, rotations=rotations
    )
    assert cost.rotations <= JiangLayout(dim=dim).cost.rotations


@pytest.mark.parametrize(("dim", "arms"), [(8, 4), (16, 8), (32, 16)])
def test_model_in_two_levels_takes_fewer_masks_and_rotations(dim: int, arms: int) -> None:
    matrix = MatrixLayout(dim=dim, max_slots=N15)
    score = choose_score_layout(dim=dim, arms=arms, max_slots=N15)
    one, two = (ModelAssembly(matrix=matrix, score=score, levels=n).cost for n in (1, 2))
    assert (one.levels, two.levels) == (1, 2)
    assert two.plain_products == 2 * dim + 1
    assert two.plain_products < one.plain_products
    assert two.rotations < one.rotations


def test_model_takes_columns_that_need_not_move_as_they_are() -> None:
    """P = p, here 8: a row takes one mask for all its columns, and Horner's rule no rotation."""
    matrix = MatrixLayout(dim=8, max_slots=N15)
    still, moving = (
        ModelAssembly(matrix=matrix, score=ScoreLayout(dim=8, arms=arms, form="arms"))
        for arms in (8, 16)
    )
    assert (still.transposed, moving.transposed) == (True, False)
    assert (still.column_step, moving.column_step) == (0, -15)
    assert still.cost == Cost(levels=1, plain_products=16, rotations=15)
    assert moving.cost == Cost(levels=1, plain_products=28, rotations=19)


def test_steps_that_agree_modulo_the_slots_share_a_key() -> None:
    assert distinct_steps([-8, 248, 3, 0, 256], slots=256) == (3, 248)
    assert distinct_steps([-1, -257, 4], slots=256) == (-1, 4)
    assert MatrixLayout(dim=1, max_slots=4).rotations == (1,)


def test_stacked_step_costs_hardly_more_than_one_product() -> None:
    layout = MatrixLayout(dim=16, max_slots=N15)
    assert layout.advancing.cost.rotations <= layout.single.cost.rotations + 2
    assert layout.advancing.cost.products == layout.single.cost.products


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 8, 16, 32])
def test_sums_over_rows_and_columns_need_no_key_of_their_own(dim: int) -> None:
    layout = MatrixLayout(dim=dim, max_slots=N15)
    full = MatrixLayout(dim=layout.side, max_slots=N15)
    assert steps_of(layout.sum_rows, layout.sum_columns) <= set(full.single.rotations)


def test_levels_are_two_for_each_newton_step() -> None:
    layout = MatrixLayout(dim=4, max_slots=1024)
    assert [warm_cost(layout, steps=k).levels for k in range(5)] == [0, 4, 6, 8, 10]
    assert [cold_cost(layout, steps=k).levels for k in range(5)] == [0, 1, 4, 6, 8]
    assert refinement_cost(layout).levels == 3


@pytest.mark.parametrize("count", [1, 2, 4, 8, 32])
def test_stages_reach_every_slot_once(count: int) -> None:
    stages = power_stages(unit=3, count=count)
    reached = [0]
    for stage in stages:
        reached = [start + step for start in reached for step in (0, *stage)]
    assert sorted(reached) == [3 * i for i in range(count)]
    assert count_rotations(stages) == len(steps_of(stages))


@pytest.mark.parametrize("dim", [1, 3, 4])
def test_packing_a_matrix_and_unpacking_it_changes_nothing(dim: int) -> None:
    matrix = np.arange(dim * dim, dtype=np.float64).reshape(dim, dim)
    layout, jiang = MatrixLayout(dim=dim, max_slots=1024), JiangLayout(dim=dim)
    assert np.array_equal(layout.unpack(layout.pack(matrix)), matrix)
    assert np.array_equal(jiang.unpack(jiang.pack(matrix)), matrix)


def test_vectors_stand_by_row_or_by_column() -> None:
    layout = MatrixLayout(dim=3, max_slots=1024)
    by_row = layout.pack_by_row([1.0, 2.0, 3.0]).reshape(4, 4)
    assert np.array_equal(by_row[:, 0], [1.0, 2.0, 3.0, 0.0])
    assert np.array_equal(by_row, layout.pack_by_column([1.0, 2.0, 3.0]).reshape(4, 4).T)


@pytest.mark.parametrize(
    ("dim", "max_slots", "message"),
    [
        (0, 1024, "dim must be at least 1"),
        (8, 64, "max_slots must be a power of two of at least 128"),
        (2, 24, "max_slots must be a power of two"),
    ],
)
def test_layouts_that_cannot_be_are_refused(dim: int, max_slots: int, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        MatrixLayout(dim=dim, max_slots=max_slots)


def test_matrices_and_vectors_of_another_shape_are_refused() -> None:
    layout = MatrixLayout(dim=3, max_slots=1024)
    with pytest.raises(InvalidInput, match="3 x 3"):
        layout.pack(np.eye(2))
    with pytest.raises(InvalidInput, match="3 numbers"):
        layout.pack_by_row([1.0])
    with pytest.raises(InvalidInput, match="3 x 3"):
        JiangLayout(dim=3).pack(np.eye(4))
