"""A database of its own for each test: SQLite, or PostgreSQL where one is named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helba.service import loop
from tests.service.databases import fresh_database, fresh_file


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tenants that have nothing to do look soon whether they are to stop."""
    monkeypatch.setattr(loop, "IDLE_SECONDS", 0.05)


@pytest.fixture
def store_url() -> Iterator[str]:
    """The URL of a database that is empty, and gone after the test."""
    with fresh_database() as url:
        yield url


@pytest.fixture
def file_url() -> Iterator[str]:
    """The URL of a SQLite file, for tests to which the database makes no difference."""
    with fresh_file() as url:
        yield url
