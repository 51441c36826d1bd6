"""Plans are made once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.plans import plans_made_once


@pytest.fixture(autouse=True, scope="package")
def _plans() -> Iterator[None]:
    with plans_made_once():
        yield
