import pytest

from tests.ring.parties import make_parties


@pytest.fixture(
    scope="session", params=[pytest.param("openfhe", marks=pytest.mark.ckks), "simulate"]
)
def backend(request):
    return request.param


@pytest.fixture
def parties(backend):
    return make_parties(backend)
