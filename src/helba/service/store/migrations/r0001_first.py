"""The first tables of a store."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _of_tenant() -> sa.Column[str]:
    return sa.Column("tenant", sa.String(64), nullable=False)


def _keys(table: str, *columns: str) -> tuple[sa.Constraint, ...]:
    owner = sa.ForeignKeyConstraint(
        ["tenant"], ["helba_tenant.name"], name=f"{table}_tenant", ondelete="CASCADE"
    )
    return owner, sa.PrimaryKeyConstraint("tenant", *columns, name=f"{table}_key")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "helba_tenant",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("fingerprint", sa.String(128), nullable=False),
        sa.PrimaryKeyConstraint("name", name="helba_tenant_key"),
    )
    op.create_table(
        "helba_checkpoint",
        _of_tenant(),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("head", sa.LargeBinary, nullable=False),
        sa.Column("digests", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        *_keys("helba_checkpoint"),
    )
    op.create_table(
        "helba_part",
        _of_tenant(),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        *_keys("helba_part", "digest"),
    )
    op.create_table(
        "helba_round",
        _of_tenant(),
        sa.Column("round", sa.LargeBinary, nullable=False),
        sa.Column("user", sa.LargeBinary, nullable=False),
        sa.Column("batch", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("answered_at", sa.BigInteger, nullable=False),
        sa.Column("reported_at", sa.BigInteger),
        sa.Column("dropped_at", sa.BigInteger),
        *_keys("helba_round", "round"),
    )
    is_open = sa.text("reported_at IS NULL AND dropped_at IS NULL")
    op.create_index(
        "helba_round_open",
        "helba_round",
        ["tenant", "user"],
        sqlite_where=is_open,
        postgresql_where=is_open,
    )
    op.create_index("helba_round_answered", "helba_round", ["tenant", "answered_at", "seconds"])
    op.create_index("helba_round_reported", "helba_round", ["tenant", "reported_at"])
    op.create_table(
        "helba_ledger",
        _of_tenant(),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("budget", sa.BigInteger, nullable=False),
        *_keys("helba_ledger"),
    )
    op.create_table(
        "helba_ledger_user",
        _of_tenant(),
        sa.Column("user", sa.LargeBinary, nullable=False),
        sa.Column("bits", sa.BigInteger, nullable=False),
        *_keys("helba_ledger_user", "user"),
    )
    op.create_table(
        "helba_update",
        _of_tenant(),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("samples", sa.BigInteger, nullable=False),
        *_keys("helba_update", "number"),
    )
