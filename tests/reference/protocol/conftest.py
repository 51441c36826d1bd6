"""Folders of authorities and users, and passphrases that cost little."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from helba.service.protocol import vault
from tests.reference.protocol.folders import CHEAP


@pytest.fixture(scope="module")
def cheap_vault() -> Iterator[None]:
    """Files encrypted by passphrase open at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vault, "COST", CHEAP)
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where an authority may be; its users are beside it."""
    return tmp_path / "authority"
