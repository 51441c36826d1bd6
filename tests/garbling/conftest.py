"""Two parties that are set up once: base transfers take a tenth of a second."""

import pytest

from helba.garbling import (
    ClearEvaluatorSession,
    ClearGarblerSession,
    EvaluatorSession,
    GarblerSession,
)
from tests.garbling.parties import set_up


@pytest.fixture(scope="session")
def parties():
    garbler, evaluator = GarblerSession(), EvaluatorSession()
    set_up(garbler, evaluator)
    return garbler, evaluator


@pytest.fixture(scope="session")
def clear_parties():
    garbler, evaluator = ClearGarblerSession(), ClearEvaluatorSession()
    set_up(garbler, evaluator)
    return garbler, evaluator


@pytest.fixture(params=["garbled", "clear"])
def any_parties(request, parties, clear_parties):
    return parties if request.param == "garbled" else clear_parties
