"""Whole runs at every security level: on the simulator, and a few rounds on ciphertexts."""

from __future__ import annotations

import pytest

from helba.lab.play.single import SingleRequest, SingleRun, run_single
from helba.ring.security import SECURITY_LEVELS, max_log2_qp


def require_agreement(found: SingleRun, *, security: int) -> None:
    outcome, report = found.outcome, found.as_json()
    assert outcome.decided == found.request.horizon
    assert outcome.disagreements_outside_ties == 0
    assert outcome.overflows == 0
    # A certificate that calls every round a tie says nothing.
    assert outcome.ties < found.request.horizon / 2
    assert report["updates"] > 0
    assert report["rejected"] == 0
    parameters = report["parameters"]
    assert report["security"] == parameters["security"] == security
    limit = max_log2_qp(parameters["ring_dim"], security=security)
    assert parameters["log2_qp"] <= limit


@pytest.mark.parametrize("security", SECURITY_LEVELS)
def test_simulated_run_agrees_with_its_twin_at_every_level(security):
    request = SingleRequest(problem="toy", horizon=40, engine="simulate", security=security)
    require_agreement(run_single(request), security=security)


@pytest.mark.ckks
@pytest.mark.slow
@pytest.mark.parametrize("security", [192, 256])
def test_encrypted_rounds_agree_with_the_twin_at_higher_levels(security):
    # N = 2^15 and 2^16: below 1 GiB
    request = SingleRequest(problem="toy", horizon=3, engine="ckks", security=security)
    require_agreement(run_single(request), security=security)
