"""A database of its own for each test: SQLite, or PostgreSQL where one is named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service.databases import fresh_database


@pytest.fixture
def store_url() -> Iterator[str]:
    """The URL of a database that is empty, and gone after the test."""
    with fresh_database() as url:
        yield url
