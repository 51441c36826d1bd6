"""How many rounds, rewards and updates came in each step of a time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Table,
    func,
    literal,
    null,
    select,
    type_coerce,
)

from helba.errors import require_whole
from helba.service.store.record import HistoryPoint, require_instant
from helba.service.store.table import EPOCH, round_, update

MOST_POINTS = 1 << 16
MICROSECONDS = 1_000_000


def read_history(
    connection: Connection, tenant: str, *, seconds: int, step_seconds: int, now: datetime
) -> list[HistoryPoint]:
    """Return a point for each step that ends less than `seconds` before `now`, the last with it.

    Steps start at multiples of `step_seconds` since 1970: asked again later, they are the same.
    """
    require_instant("now", now)
    require_whole("step_seconds", step_seconds, least=1, most=86_400)
    require_whole("seconds", seconds, least=1, most=MOST_POINTS * step_seconds)
    last = (now - EPOCH) // timedelta(seconds=step_seconds)
    first = last - -(-seconds // step_seconds) + 1
    steps = {"first": first, "last": last, "step_seconds": step_seconds}
    rounds = _count(connection, round_, column=round_.c.answered_at, tenant=tenant, **steps)
    rewards = _count(connection, round_, column=round_.c.reported_at, tenant=tenant, **steps)
    updates = _count(connection, update, column=update.c.at, tenant=tenant, **steps)
    return [
        HistoryPoint(
            at=EPOCH + timedelta(seconds=step * step_seconds),
            rounds=rounds.get(step, (0, None))[0],
            rewards=rewards.get(step, (0, None))[0],
            updates=updates.get(step, (0, None))[0],
            seconds=rounds.get(step, (0, None))[1],
        )
        for step in range(first, last + 1)
    ]


def _count(
    connection: Connection,
    table: Table,
    *,
    column: Column[Any],
    tenant: str,
    first: int,
    last: int,
    step_seconds: int,
) -> dict[int, tuple[int, float | None]]:
    """Rows by step, and the mean of their seconds if they have any."""
    width = step_seconds * MICROSECONDS
    moment = type_coerce(column, BigInteger)
    # Written out: PostgreSQL takes two parameters of the same value for two expressions.
    step = (moment // literal(width, literal_execute=True)).label("step")
    mean = func.avg(table.c.seconds) if "seconds" in table.c else null()
    rows = (
        select(step, func.count(), mean)
        .where(table.c.tenant == tenant, moment >= first * width, moment < (last + 1) * width)
        .group_by(step)
    )
    return {number: (count, seconds) for number, count, seconds in connection.execute(rows)}
