"""Rows of a tenant as lines of JSON, and back: bytes in hexadecimal, moments in microseconds.

A row has all columns of its table but the tenant, and nothing else; whatever does not fit is
`DamagedData`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Column, Connection, Float, LargeBinary, Table, select

from helba.errors import DamagedData
from helba.service.store import table as tables
from helba.service.store.table import EPOCH, Instant

# All but the tenant itself, and the parts, which travel as they are.
TABLES = {
    each.name: each
    for each in (
        tables.checkpoint,
        tables.round_,
        tables.ledger,
        tables.ledger_user,
        tables.update,
    )
}
MICROSECOND = timedelta(microseconds=1)
MOST_ROWS = 5000
MOST_MOMENT = 1 << 57  # in microseconds, some four thousand years
MOST_COUNT = 1 << 63


def pack_rows(connection: Connection, table: Table, *, tenant: str) -> Iterator[bytes]:
    """Yield all rows of a tenant in a table, some thousand at a time."""
    columns = _columns(table)
    chosen = select(*columns).where(table.c.tenant == tenant)
    rows = connection.execute(chosen, execution_options={"yield_per": MOST_ROWS})
    for some in rows.partitions():
        lines = []
        for row in some:
            values = {column.name: _pack(getattr(row, column.name)) for column in columns}
            lines.append(json.dumps(values, separators=(",", ":")))
        yield ("\n".join(lines) + "\n").encode("ascii")


def unpack_rows(data: bytes, *, table: Table, tenant: str) -> list[dict[str, Any]]:
    """Return the rows, ready to be inserted for that tenant."""
    columns = _columns(table)
    try:
        found = [json.loads(line) for line in data.decode("ascii").splitlines()]
        if any(row.keys() != {column.name for column in columns} for row in found):
            raise ValueError("other columns")
        return [
            {"tenant": tenant}
            | {each.name: _unpack(row[each.name], column=each) for each in columns}
            for row in found
        ]
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise DamagedData(f"the archive has rows that are none of {table.name}") from None


def _columns(table: Table) -> list[Column[Any]]:
    return [column for column in table.columns if column.name != "tenant"]


def _pack(value: Any) -> Any:
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    return (value - EPOCH) // MICROSECOND if isinstance(value, datetime) else value


def _unpack(value: Any, *, column: Column[Any]) -> Any:
    if value is None:
        if not column.nullable:
            raise ValueError("nothing where something must be")
        return None
    if isinstance(column.type, LargeBinary):
        return bytes.fromhex(value)
    if isinstance(column.type, Float):
        if type(value) not in (int, float) or not math.isfinite(value):
            raise ValueError("not a number")
        return float(value)
    most = MOST_MOMENT if isinstance(column.type, Instant) else MOST_COUNT
    if type(value) is not int or not -most < value < most:
        raise ValueError("not a whole number")
    return EPOCH + value * MICROSECOND if isinstance(column.type, Instant) else value
