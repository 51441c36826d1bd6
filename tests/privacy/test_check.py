"""The check of a new model shows its helper fair coins: in every slot a sign, and uniform noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from helba.planning.request import PlanRequest
from helba.protocol import profile
from tests.engines import BOTH
from tests.privacy.views import Array, plausible
from tests.protocol.parties import MILD
from tests.protocol.talking import CUT_MILD, open_table
from tests.significance import SHOWN

both = pytest.mark.parametrize("scheme", BOTH)


def seen_by_the_helper(scheme: str, *, request: PlanRequest = MILD) -> Array:
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
    return np.concatenate(found)


def likeliness(values: Array) -> float:
    """p of fair signs, and of sizes that are uniform around 1."""
    fair = stats.binomtest(int((values > 0).sum()), len(values)).pvalue
    return float(min(fair, stats.kstest(np.abs(values), "uniform", args=(0.5, 1.0)).pvalue))


@both
@pytest.mark.parametrize("request_", [MILD, CUT_MILD], ids=["whole", "cut"])
def test_helper_sees_fair_coins(scheme: str, request_: PlanRequest) -> None:
    values = seen_by_the_helper(scheme, request=request_)
    assert len(values) >= 128
    assert likeliness(values) > plausible(scheme)


@both
def test_helper_would_see_the_error_without_the_noise(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(count: int, *, bound: float) -> Array:
        return np.zeros(count) * bound

    monkeypatch.setattr(profile, "draw_uniform", silent)
    assert likeliness(seen_by_the_helper(scheme)) < SHOWN


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
    assert likeliness(seen_by_the_helper(scheme)) < SHOWN


class AllOnes:
    """Draws nothing."""

    def token_bytes(self, count: int) -> bytes:
        return b"\x01" * count
