"""A new store for each test, in a SQLite file or in PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from helba.service.protocol import vault
from helba.service.store import Store
from helba.service.store.archive import default_url
from tests.reference.protocol.folders import CHEAP, insecure_authority
from tests.service.databases import fresh_database, fresh_file
from tests.service.store.contents import FINGERPRINT, fill_tenant


@pytest.fixture
def store_url() -> Iterator[str]:
    with fresh_database() as url:
        yield url


@pytest.fixture
def file_url() -> Iterator[str]:
    """Always a SQLite file."""
    with fresh_file() as url:
        yield url


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """With a tenant "main"."""
    with Store(store_url) as opened:
        opened.open_tenant("main", fingerprint=FINGERPRINT)
        yield opened


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server's folder, of the simulator."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vault, "COST", CHEAP)
        home = tmp_path_factory.mktemp("made") / "authority"
        insecure_authority(home, users=("ann",))
    return home / "server"


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A server's folder with its store, and a tenant in it."""
    place = tmp_path / "server"
    shutil.copytree(made, place)
    fill_tenant(place, default_url(place))
    return place
