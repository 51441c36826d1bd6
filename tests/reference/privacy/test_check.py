"""The check of a new model shows its helper fair coins, all of one size, which is uniform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from helba.reference.engine.chance import draw_uniform
from helba.reference.planning.parameters import insecure_parameters
from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.profiles import profile
from tests.engines import BOTH, open_keyed
from tests.reference.privacy.views import Array, plausible
from tests.reference.protocol.parties import MILD
from tests.reference.protocol.talking import CUT_MILD, open_table
from tests.significance import PLAUSIBLE_ANEW, SHOWN

both = pytest.mark.parametrize("scheme", BOTH)
SLOTS_OF_MILD = 128


def seen_by_the_helper(scheme: str, *, request: PlanRequest = MILD) -> list[Array]:
    """The slots of the checks of two updates of different data."""
    found = []
    for x in ([0.9, -0.4], [0.1, 0.2]):
        table = open_table(scheme, request=request)
        while not table.tasks():
            played = table.play([x])
            table.report(played.round, context=x, reward=0.7)
        while table.decode(table.tasks()[0]).work != "check":
            table.server.receive(table.user.help(table.tasks()[0]))
        user: Any = table.user
        vector = user._own.vector_from_bytes(table.decode(table.tasks()[0]).parts[0])
        found.append(user._own.decrypt(vector, secret_key=user._secret_key))
        table.help()
        assert table.server.updates == 1
    return found


def fairness(checks: list[Array]) -> float:
    """p of fair signs."""
    values = np.concatenate(checks)
    return float(stats.binomtest(int((values > 0).sum()), len(values)).pvalue)


def spread(checks: list[Array]) -> float:
    """How far apart sizes are within a check: what many slots tell beyond one."""
    return float(max(np.ptp(np.abs(values)) for values in checks))


@both
@pytest.mark.parametrize("request_", [MILD, CUT_MILD], ids=["whole", "cut"])
def test_helper_sees_fair_coins_of_one_size(scheme: str, request_: PlanRequest) -> None:
    checks = seen_by_the_helper(scheme, request=request_)
    assert min(map(len, checks)) >= 64
    assert fairness(checks) > plausible(scheme)
    assert spread(checks) < 0.01  # flood and errors of CKKS
    assert all(np.abs(values).min() > 0.49 and np.abs(values).max() < 1.51 for values in checks)


def sizes_of_many(count: int) -> Array:
    """Of checks of a model without errors, one number each."""
    keyed = open_keyed("simulate", parameters=insecure_parameters(depth=4))
    nothing = keyed.engine.encrypt(np.zeros(64), level=3)
    checks = (
        profile.request_check(keyed.engine, residual=nothing, changes=[nothing], slots=64)
        for _ in range(count)
    )
    return np.array([abs(keyed.open(check.vector)[0]) for check in checks])


def test_size_is_uniform_around_one() -> None:
    found = sizes_of_many(400)
    assert stats.kstest(found, "uniform", args=(0.5, 1.0)).pvalue > PLAUSIBLE_ANEW


@both
def test_helper_would_see_the_error_without_the_noise(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(count: int, *, bound: float) -> Array:
        return np.zeros(count) * bound

    monkeypatch.setattr(profile, "draw_uniform", silent)
    for values in seen_by_the_helper(scheme):
        assert np.abs(np.abs(values) - 1.0).max() < 0.01


@both
def test_helper_would_see_the_error_with_noise_in_every_slot(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest of many is 3/2 - r, the least 1/2 - r."""

    def independent(count: int, *, bound: float) -> Array:  # noqa: ARG001
        return draw_uniform(SLOTS_OF_MILD, bound=bound)

    table = open_table(scheme, request=MILD)
    assert table.server.profile.check_slots == SLOTS_OF_MILD
    monkeypatch.setattr(profile, "draw_uniform", independent)
    assert spread(seen_by_the_helper(scheme)) > 0.5


@both
def test_helper_would_see_the_outcome_without_the_signs(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = profile.signed_check

    def unsigned(*arguments: Any, signs: Any, **options: Any) -> Any:
        return signed(*arguments, signs=[1] * len(signs), **options)

    monkeypatch.setattr(profile, "signed_check", unsigned)
    with pytest.raises(AssertionError):  # the server, who expects others, refuses the model
        seen_by_the_helper(scheme)
    monkeypatch.setattr(profile, "secrets", AllOnes())
    assert fairness(seen_by_the_helper(scheme)) < SHOWN


class AllOnes:
    """Draws nothing."""

    def token_bytes(self, count: int) -> bytes:
        return b"\x01" * count
