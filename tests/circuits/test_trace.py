"""The update test on its own: the flipped bit of the trace, at the predicted cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.circuits.argmax import Rider
from helba.circuits.trace import scaled_trace, trace_test
from helba.errors import WrongVector
from helba.numerics.sign import best_composition
from helba.planning.compare_cost import matrix_slots, trace_cost, trace_rotations
from helba.planning.parameters import insecure_parameters
from tests.circuits.circuit_checks import assert_close, measure
from tests.engines import BOTH, open_desk

SIGN = best_composition(resolution=2.0**-3, degrees=(5, 3))


def by_rows(matrix: np.ndarray) -> np.ndarray:
    size = int(np.sqrt(matrix_slots(len(matrix))))
    padded = np.zeros((size, size))
    padded[: len(matrix), : len(matrix)] = matrix
    return padded.ravel()


def matrices(dim: int, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    first, second = rng.uniform(-1, 1, (2, dim, dim))
    return first @ first.T / dim, second @ second.T / dim


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("dim", [1, 2, 3, 5])
@pytest.mark.parametrize(("reach", "growth_level"), [(1.0, 0), (20.0, 0), (20.0, 2)])
def test_trace_test_costs_what_is_predicted(
    scheme: str, dim: int, reach: float, growth_level: int
) -> None:
    desk = open_desk(
        scheme, parameters=insecure_parameters(depth=9), rotations=trace_rotations(dim)
    )
    inverse, growth = matrices(dim, seed=dim)
    if reach == 1.0:
        growth = growth / 20.0
    threshold = 0.5 * reach / 20.0
    A = desk.engine.encrypt(by_rows(inverse))
    D = desk.engine.encrypt(by_rows(growth), level=growth_level)
    with measure(desk) as measured:
        result = trace_test(
            desk.engine,
            A,
            growth=D,
            dim=dim,
            threshold=threshold,
            reach=reach,
            sign=SIGN,
            rider=Rider(flip=-1, noise=0.125),
        )
        desk.open(result)
    predicted = trace_cost(dim, sign=SIGN, scaled=reach != 1.0, idle=growth_level > 0)
    assert measured.at(growth_level, result) == predicted
    value = -SIGN((np.trace(inverse @ growth) - threshold) / reach) + 0.125
    assert_close(desk, result, expected=np.full(result.slots, value), noise=1e-6)


@settings(max_examples=40)
@given(dim=st.integers(1, 8), seed=st.integers(0, 2**32 - 1), flip=st.sampled_from([-1, 1]))
def test_bit_is_right_outside_the_band(dim: int, seed: int, flip: int) -> None:
    desk = open_desk(
        "simulate", parameters=insecure_parameters(depth=9), rotations=trace_rotations(dim)
    )
    inverse, growth = matrices(dim, seed=seed)
    trace, reach = float(np.trace(inverse @ growth)), 4.0 * dim
    threshold = trace - np.random.default_rng(seed).choice([-1, 1]) * reach * SIGN.resolution
    result = trace_test(
        desk.engine,
        desk.engine.encrypt(by_rows(inverse)),
        growth=desk.engine.encrypt(by_rows(growth)),
        dim=dim,
        threshold=threshold,
        reach=reach,
        sign=SIGN,
        rider=Rider(flip=flip),
    )
    bit = np.sign(trace - threshold)
    expected = np.full(result.slots, flip * bit)
    assert_close(desk, result, expected=expected, error=SIGN.error, noise=1e-6)


def test_matrices_of_other_sizes_are_refused() -> None:
    desk = open_desk(
        "simulate", parameters=insecure_parameters(depth=9), rotations=trace_rotations(2)
    )
    small = desk.engine.encrypt(np.zeros(4))
    with pytest.raises(WrongVector, match="a matrix of 3 rows fills 16 slots, not 4"):
        scaled_trace(desk.engine, small, growth=small, dim=3, threshold=1.0, reach=2.0)
