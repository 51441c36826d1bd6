"""What tests of several files of the engine start from."""

from __future__ import annotations

import pytest

from tests.engines import BOTH
from tests.reference.engine.switching import Parties, meet


@pytest.fixture(params=BOTH)
def parties(request: pytest.FixtureRequest) -> Parties:
    """The collective and a user, of both schemes in turn."""
    return meet(request.param)
