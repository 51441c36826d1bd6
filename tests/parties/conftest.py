import pytest

from tests.parties.world import OPENERS


@pytest.fixture(params=["simulate", pytest.param("ckks", marks=pytest.mark.ckks)])
def engine(request):
    return request.param


@pytest.fixture(params=OPENERS)
def opener(request):
    return request.param
