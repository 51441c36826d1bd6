"""Circuits that pause for a refresh: what they yield, and what they make of what comes back."""

from __future__ import annotations

import numpy as np
import pytest

from helba.errors import LevelsExhausted
from helba.reference.circuits.algebra.inverse import (
    invert_cold_steps,
    invert_warm,
    invert_warm_steps,
)
from helba.reference.circuits.comparison.root import square_root_steps
from helba.reference.circuits.levels import Renewal, Steps, run_steps, with_levels
from helba.reference.engine import EncryptedVector
from helba.reference.planning.cost.chain import REFRESH_LEVELS
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, Keyed, open_keyed
from tests.reference.circuits.circuit_checks import Refresher, measure

LAYOUT = MatrixLayout(dim=3, max_slots=128)
TURN, _ = np.linalg.qr(np.array([[2.0, 1.0, 0.0], [-1.0, 1.0, 1.0], [0.5, 0.0, 1.0]]))
MATRIX = TURN @ np.diag([0.5, 1.5, 4.0]) @ TURN.T


def keyed_of(scheme: str, *, depth: int) -> Keyed:
    parameters = insecure_parameters(depth=depth, scale_bits=50)
    return open_keyed(scheme, parameters=parameters, rotations=LAYOUT.rotations)


def drive(steps: Steps[EncryptedVector], keyed: Keyed) -> list[Renewal]:
    """What the steps yield when everything comes back refreshed."""
    seen = []
    renewal = next(steps)
    while True:
        seen.append(renewal)
        fresh = keyed.engine.refresh(renewal.vector, secret_key=keyed.keys.secret)
        try:
            renewal = steps.send(fresh)
        except StopIteration:
            return seen


@pytest.mark.parametrize(
    ("level", "needed", "rest", "asked"),
    [
        (4, 2, None, None),
        (5, 2, None, (2, False)),
        (6, 2, 2, None),
        (5, 2, 4, (4, True)),  # once renewed, the levels suffice for all that is left
        (5, 2, 5, (2, False)),
        (3, 2, 9, None),
    ],
)
def test_with_levels_yields_only_what_cannot_be_refreshed_later(
    level: int, needed: int, rest: int | None, asked: tuple[int, bool] | None
) -> None:
    engine = keyed_of("simulate", depth=8).engine
    vector = engine.encrypt([0.5, 0.25], level=level)
    steps = with_levels(vector, needed=needed, bound=3.0, rest=rest)
    if asked is None:
        assert run_steps(steps, refresh=None) is vector
        return
    renewal = next(steps)
    assert (renewal.vector, renewal.bound) == (vector, 3.0)
    assert (renewal.needed, renewal.last) == asked
    assert renewal.reserve == 4
    fresh = engine.encrypt([0.5, 0.25])
    with pytest.raises(StopIteration) as end:
        steps.send(fresh)
    assert end.value.value is fresh


def test_renewal_says_when_no_refresh_can_suffice() -> None:
    vector = keyed_of("simulate", depth=8).engine.encrypt([0.5, 0.25])
    Renewal(vector=vector, needed=6).require_possible()
    with pytest.raises(LevelsExhausted, match="7 levels and a refresh after it need depth 9, not"):
        Renewal(vector=vector, needed=7).require_possible()
    Renewal(vector=vector, needed=8, last=True).require_possible()  # none comes after the last
    with pytest.raises(LevelsExhausted, match="9 levels that are left need depth 9, not 8"):
        Renewal(vector=vector, needed=9, last=True).require_possible()


@pytest.mark.parametrize("rest", [None, 4])
def test_vector_that_comes_back_with_too_few_levels_is_refused(rest: int | None) -> None:
    engine = keyed_of("simulate", depth=8).engine
    steps = with_levels(engine.encrypt([0.5, 0.25], level=6), needed=2, rest=rest)
    next(steps)
    with pytest.raises(LevelsExhausted, match="need 4 levels, a refresh left 3"):
        steps.send(engine.encrypt([0.5, 0.25], level=5))


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("piece", [2, 4])
def test_inverse_in_pieces_gives_the_same_numbers_deeper_down(scheme: str, piece: int) -> None:
    keyed, V = keyed_of(scheme, depth=9), MATRIX
    engine, found = keyed.engine, []
    for levels in (None, piece):
        refresh = Refresher(keyed)
        with measure(keyed) as measured:
            result = invert_warm(
                engine,
                matrix=engine.encrypt(LAYOUT.pack(V)),
                start=engine.encrypt(LAYOUT.pack(np.eye(3))),
                layout=LAYOUT,
                low=0.5,
                high=4.0,
                error=1e-4,
                piece_levels=levels,
                refresh=refresh,
            )
            found.append(keyed.open(result.value))
        assert refresh.count >= 1
        highest = min(measured.levels_of("multiply"))
        # the masks of a product come first, a level above
        assert highest == (1 if levels is None else 9 - REFRESH_LEVELS - piece + 1)
    # all pieces of the second run leave exactly a refresh
    assert refresh.left == [REFRESH_LEVELS] * refresh.count
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    np.testing.assert_allclose(LAYOUT.unpack(found[0]), np.linalg.inv(V), atol=1e-3)


def test_inverse_in_pieces_starts_no_higher_than_its_operands() -> None:
    """An operand that is deeper than a piece allows is refreshed, not raised."""
    keyed, V = keyed_of("simulate", depth=9), MATRIX
    steps = invert_cold_steps(
        keyed.engine,
        matrix=keyed.engine.encrypt(LAYOUT.pack(V), level=7),
        layout=LAYOUT,
        ridge=0.5,
        trace_bound=float(np.trace(V)),
        error=1e-2,
        bound=2.0,
        piece_levels=4,
    )
    first, *others = drive(steps, keyed)
    assert first.vector.levels_left == 2
    assert first.bound == pytest.approx(np.trace(V))
    assert {renewal.bound for renewal in others} == {2.0}
    assert others
    assert all(renewal.vector.levels_left == REFRESH_LEVELS for renewal in others)


def test_renewals_tell_how_large_the_values_are() -> None:
    keyed, V = keyed_of("simulate", depth=5), MATRIX
    engine = keyed.engine
    warm = invert_warm_steps(
        engine,
        matrix=engine.encrypt(LAYOUT.pack(V)),
        start=engine.encrypt(LAYOUT.pack(np.eye(3))),
        layout=LAYOUT,
        low=0.5,
        high=4.0,
        error=1e-4,
        bound=4.0,
    )
    root = square_root_steps(
        engine, engine.encrypt(np.linspace(0.5, 9.0, 4)), high=9.0, iterations=5, factor=2.0
    )
    bounds = set()
    for steps in (warm, root):
        for renewal in drive(steps, keyed):
            assert np.abs(keyed.open(renewal.vector)).max() <= renewal.bound
            bounds.add(renewal.bound)
    assert bounds == {4.0, 1.0, 6.0}


@pytest.mark.parametrize("factor", [1.0, -0.3, 2.5])
def test_root_takes_a_factor_at_no_level(factor: float) -> None:
    keyed = keyed_of("simulate", depth=8)
    z = np.linspace(0.3, 2.0, 8)
    plain, scaled = (
        run_steps(
            square_root_steps(
                keyed.engine, keyed.engine.encrypt(z), high=2.0, iterations=4, factor=each
            ),
            refresh=None,
        )
        for each in (1.0, factor)
    )
    assert plain.level == scaled.level == 8
    np.testing.assert_allclose(keyed.open(scaled), factor * keyed.open(plain), atol=1e-9)
