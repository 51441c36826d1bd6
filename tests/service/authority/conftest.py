"""Folders of authorities whose passphrase costs little."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from helba.service.protocol import vault
from tests.reference.protocol.folders import CHEAP


@pytest.fixture(autouse=True, scope="package")
def _cheap_vault() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vault, "COST", CHEAP)
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where an authority may be."""
    return tmp_path / "authority"
