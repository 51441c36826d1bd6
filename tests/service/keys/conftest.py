"""An authority's folder and a user's, made once for a file and copied for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plans import plans_made_once
from tests.service.keys.keyhome import cheap_keys, copy_home, make_home


@pytest.fixture(autouse=True, scope="module")
def _cheap() -> Iterator[None]:
    with plans_made_once():
        yield from cheap_keys()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("made"))


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    return copy_home(made, tmp_path / "home")
