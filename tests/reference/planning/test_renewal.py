"""How many Newton steps an inverse takes, and what renewals of cut computations add."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from numpy.typing import NDArray

from helba.bandits.settings import Settings
from helba.errors import InvalidInput
from helba.numerics.inverse import WarmStart, plan_warm_start
from helba.reference.numerics.composite import CompositeSign
from helba.reference.planning.bounds.precision import (
    COMFORTABLE_INVERSE,
    GOOD_INVERSE_ERROR,
    comparison_noise,
    estimate_error,
    good_inverse_error,
    plan_inverse,
    renewal_error,
    trace_reach,
)
from helba.reference.planning.parameters import insecure_parameters
from helba.reference.planning.request import PlanRequest
from helba.reference.twin.ciphertext import default_sign

Array = NDArray[np.float64]

TOY = PlanRequest(dim=2, arms=2, horizon=130, length=5.5)
PARAMETERS = insecure_parameters(ring_dim=1 << 14, depth=5, scale_bits=49)


# -- how many Newton steps


SETTINGS = [
    TOY.settings(),
    PlanRequest(dim=8, arms=8, horizon=1000).settings(),
    PlanRequest(dim=2, arms=3, horizon=200, trace_threshold=0.3, growth=1.0).settings(),
]


def feasible(settings: Settings, *, noise: float) -> list[WarmStart]:
    """Warm starts whose error reproduces itself, for aims in fine steps up to the most."""
    found, reach = [], trace_reach(settings)
    for error in 1e-5 * 10.0 ** (np.arange(17) / 4.0):
        with suppress(InvalidInput):  # noise does not allow it
            found.append(
                plan_warm_start(
                    low=1.0 - error,
                    high=1.0 + error + (1.0 + error) * reach,
                    error=float(error),
                    noise=noise,
                )
            )
    return found


@pytest.mark.parametrize("settings", SETTINGS, ids=["toy", "large", "mild"])
@pytest.mark.parametrize("noise", [1e-9, 1e-7, 1e-5, 1e-4, 1e-3])
def test_inverse_takes_the_fewest_steps_that_are_good_enough(
    settings: Settings, noise: float
) -> None:
    chosen, possible = plan_inverse(settings, noise=noise), feasible(settings, noise=noise)
    if chosen is None:
        assert not possible
        return
    least = min(possible, key=lambda plan: plan.error)
    most = good_inverse_error(settings)
    assert COMFORTABLE_INVERSE <= most <= GOOD_INVERSE_ERROR
    good = [plan for plan in possible if plan.error <= most]
    assert chosen.steps <= least.steps
    assert chosen.error <= max(most, least.error)
    if good:
        assert chosen.steps == min(plan.steps for plan in good)


def test_inverse_of_fewest_steps_saves_some() -> None:
    """Not vacuous: the least error would take more."""
    saved = 0
    for settings in SETTINGS:
        chosen, possible = plan_inverse(settings, noise=1e-7), feasible(settings, noise=1e-7)
        assert chosen is not None
        saved += min(possible, key=lambda plan: plan.error).steps - chosen.steps
    assert saved > 0


# -- what renewals add


@pytest.mark.parametrize("arms", [2, 4, 16])
def test_renewals_of_a_round_add_to_the_noise_of_its_comparison(arms: int) -> None:
    sign = default_sign(arms)
    found = [
        comparison_noise(sign, slots=64, parameters=PARAMETERS, renewed=renewed)
        for renewed in (0.0, 1e-9, 1e-8, 1e-7)
    ]
    assert found == sorted(found)
    assert found[0] == comparison_noise(sign, slots=64, parameters=PARAMETERS)
    assert found[3] - found[0] >= 1e-7 * sign.slope / len(sign.stages)


def cut_sign(
    sign: CompositeSign, x: Array, *, draw: Callable[[int], Array], amount: float
) -> Array:
    """P(x), with something added before every stage and after the last."""
    value = x
    for stage in sign.stages:
        odd = np.zeros(2 * len(stage))
        odd[1::2] = stage
        value = np.polynomial.chebyshev.chebval(value + amount * draw(len(x)), odd)
    return value + amount * draw(len(x))


@pytest.mark.parametrize("arms", [2, 4, 16])
@pytest.mark.parametrize("kind", ["signs", "uniform"])
def test_errors_before_every_stage_stay_within_the_noise_that_is_planned_for(
    arms: int, kind: str
) -> None:
    sign, generator = default_sign(arms), np.random.default_rng(arms)
    renewed = renewal_error(refresh="client", parameters=PARAMETERS, slots=64, bound=1.0)
    planned = comparison_noise(sign, slots=64, parameters=PARAMETERS, renewed=renewed)
    without = comparison_noise(sign, slots=64, parameters=PARAMETERS)

    def draw(count: int) -> Array:
        return (
            generator.choice([-1.0, 1.0], count)
            if kind == "signs"
            else generator.uniform(-1.0, 1.0, count)
        )

    near = np.linspace(-2.0 * sign.resolution, 2.0 * sign.resolution, 4001)
    x = np.concatenate([near, np.linspace(-0.999, 0.999, 4001)])
    exact = cut_sign(sign, x, draw=draw, amount=0.0)
    np.testing.assert_allclose(exact, sign(x), atol=1e-9)
    worst = max(
        float(np.abs(cut_sign(sign, x, draw=draw, amount=renewed) - exact).max()) for _ in range(20)
    )
    assert worst <= planned - without
    assert worst >= (planned - without) / 20.0  # the bound is not beyond all measure


def test_each_renewal_of_the_estimate_adds_to_its_error() -> None:
    settings = TOY.settings()
    errors = [
        estimate_error(
            settings,
            residual=0.0,
            parameters=PARAMETERS,
            slots=64,
            refresh="client",
            renewal_slots=64,
            renewals=renewals,
        )
        for renewals in (1, 2, 3)
    ]
    assert errors[1] - errors[0] == pytest.approx(errors[2] - errors[1])
    assert errors[0] < errors[1]
