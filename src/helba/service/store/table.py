"""The tables of a store. All rows belong to a tenant, by its name.

    helba_tenant        whose state this is, and the fingerprint of its deployment
    helba_checkpoint    the last checkpoint: its head, and the digests of its parts in order
    helba_part          the parts, by digest
    helba_round         rounds that were answered; open until reported_at or dropped_at is there
    helba_ledger        the bits that came back under the collective key
    helba_ledger_user   and by user
    helba_update        the models that were adopted

Moments are whole microseconds since 1970, in UTC. A change here needs a step in `migrations`.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    String,
    Table,
    TypeDecorator,
    and_,
)
from sqlalchemy.engine import Dialect

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)


class Instant(TypeDecorator[datetime]):
    """A moment, kept as microseconds since 1970."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:  # noqa: ARG002
        """Return what is kept."""
        return None if value is None else (value - EPOCH) // MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return the moment, in UTC."""
        return None if value is None else EPOCH + value * MICROSECOND


metadata = MetaData(
    naming_convention={"pk": "%(table_name)s_key", "fk": "%(table_name)s_%(column_0_name)s"}
)

tenant = Table(
    "helba_tenant",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("fingerprint", String(128), nullable=False),
)


def _of_tenant() -> Column[str]:
    key = ForeignKey("helba_tenant.name", ondelete="CASCADE")
    return Column("tenant", String(64), key, primary_key=True)


checkpoint = Table(
    "helba_checkpoint",
    metadata,
    _of_tenant(),
    Column("number", BigInteger, nullable=False),
    Column("key", LargeBinary, nullable=False),
    Column("head", LargeBinary, nullable=False),
    Column("digests", LargeBinary, nullable=False),
    Column("at", Instant, nullable=False),
)
part = Table(
    "helba_part",
    metadata,
    _of_tenant(),
    Column("digest", LargeBinary, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
round_ = Table(
    "helba_round",
    metadata,
    _of_tenant(),
    Column("round", LargeBinary, primary_key=True),
    Column("user", LargeBinary, nullable=False),
    Column("batch", BigInteger, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("answered_at", Instant, nullable=False),
    Column("reported_at", Instant),
    Column("dropped_at", Instant),
)
_is_open = and_(round_.c.reported_at.is_(None), round_.c.dropped_at.is_(None))
Index(
    "helba_round_open",
    round_.c.tenant,
    round_.c.user,
    sqlite_where=_is_open,
    postgresql_where=_is_open,
)
Index("helba_round_answered", round_.c.tenant, round_.c.answered_at, round_.c.seconds)
Index("helba_round_reported", round_.c.tenant, round_.c.reported_at)
ledger = Table(
    "helba_ledger",
    metadata,
    _of_tenant(),
    Column("key", LargeBinary, nullable=False),
    Column("total", BigInteger, nullable=False),
    Column("budget", BigInteger, nullable=False),
)
ledger_user = Table(
    "helba_ledger_user",
    metadata,
    _of_tenant(),
    Column("user", LargeBinary, primary_key=True),
    Column("bits", BigInteger, nullable=False),
)
update = Table(
    "helba_update",
    metadata,
    _of_tenant(),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Instant, nullable=False),
    Column("samples", BigInteger, nullable=False),
)
