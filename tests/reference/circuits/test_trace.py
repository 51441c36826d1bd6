"""The update test on its own: the flipped bit of the trace, at the predicted cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import WrongVector
from helba.reference.circuits.comparison.argmax import Rider
from helba.reference.circuits.scores.trace import scaled_trace, trace_test
from helba.reference.numerics.sign import best_composition
from helba.reference.planning.cost.compare_cost import trace_cost, trace_rotations
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, Keyed, open_keyed
from tests.reference.circuits.circuit_checks import assert_close, assert_uses_every_key, measure

SIGN = best_composition(resolution=2.0**-3, degrees=(5, 3))


def layout_of(dim: int) -> MatrixLayout:
    return MatrixLayout(dim=dim, max_slots=1024)


def open_trace_desk(scheme: str, layout: MatrixLayout) -> Keyed:
    parameters = insecure_parameters(depth=9)
    return open_keyed(scheme, parameters=parameters, rotations=trace_rotations(layout))


def matrices(dim: int, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    first, second = rng.uniform(-1, 1, (2, dim, dim))
    return first @ first.T / dim, second @ second.T / dim


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("dim", [1, 2, 3, 5])
@pytest.mark.parametrize("reach", [0.5, 1.0, 20.0])
@pytest.mark.parametrize("levels", [(0, 0), (0, 2), (2, 0)])
def test_trace_test_costs_what_is_predicted(
    scheme: str, dim: int, reach: float, levels: tuple[int, int]
) -> None:
    layout = layout_of(dim)
    keyed = open_trace_desk(scheme, layout)
    inverse, growth = matrices(dim, seed=dim)
    growth, threshold = growth * reach / 20.0, 0.5 * reach / 20.0
    A = keyed.engine.encrypt(layout.pack(inverse), level=levels[0])
    D = keyed.engine.encrypt(layout.pack(growth), level=levels[1])
    with measure(keyed) as measured, assert_uses_every_key(keyed):
        result = trace_test(
            keyed.engine,
            A,
            growth=D,
            layout=layout,
            threshold=threshold,
            reach=reach,
            sign=SIGN,
            rider=Rider(flip=-1, noise=0.125),
        )
        keyed.open(result)
    idle = levels[0] != levels[1]
    predicted = trace_cost(layout, sign=SIGN, reach=reach, idle=idle)
    assert measured.at(max(levels), result) == predicted
    if idle and reach == 20.0:  # the product with 1/reach also brings the shallower one down
        assert max(levels) - 1 not in measured.levels_of("adjust")
    value = -SIGN((np.trace(inverse @ growth) - threshold) / reach) + 0.125
    assert_close(keyed, result, expected=np.full(layout.size, value), noise=1e-6)


@settings(max_examples=40)
@given(dim=st.integers(1, 8), seed=st.integers(0, 2**32 - 1), flip=st.sampled_from([-1, 1]))
def test_bit_is_right_outside_the_band(dim: int, seed: int, flip: int) -> None:
    layout = layout_of(dim)
    keyed = open_trace_desk("simulate", layout)
    inverse, growth = matrices(dim, seed=seed)
    trace, reach = float(np.trace(inverse @ growth)), 4.0 * dim
    threshold = trace - np.random.default_rng(seed).choice([-1, 1]) * reach * SIGN.resolution
    result = trace_test(
        keyed.engine,
        keyed.engine.encrypt(layout.pack(inverse)),
        growth=keyed.engine.encrypt(layout.pack(growth)),
        layout=layout,
        threshold=threshold,
        reach=reach,
        sign=SIGN,
        rider=Rider(flip=flip),
    )
    bit = np.sign(trace - threshold)
    expected = np.full(result.slots, flip * bit)
    assert_close(keyed, result, expected=expected, error=SIGN.error, noise=1e-6)


@pytest.mark.parametrize("scheme", BOTH)
def test_trace_of_matrices_that_repeat_is_theirs(scheme: str) -> None:
    layout = layout_of(3)
    keyed = open_trace_desk(scheme, layout)
    inverse, growth = matrices(3)
    wide = keyed.engine.repeat(keyed.engine.encrypt(layout.pack(growth)), 4 * layout.size)
    A = keyed.engine.encrypt(layout.pack(inverse))
    found = scaled_trace(keyed.engine, A, growth=wide, layout=layout, threshold=0.5, reach=4.0)
    value = (np.trace(inverse @ growth) - 0.5) / 4.0
    assert_close(keyed, found, expected=np.full(layout.size, value), noise=1e-6)


def test_matrices_of_other_sizes_are_refused() -> None:
    layout = layout_of(3)
    keyed = open_trace_desk("simulate", layout)
    small = keyed.engine.encrypt(np.zeros(4))
    with pytest.raises(WrongVector, match="a vector of 4 slots does not repeat 16"):
        scaled_trace(keyed.engine, small, growth=small, layout=layout, threshold=1.0, reach=2.0)
