"""Writes what one commit brings, inside a transaction of the caller.

Whatever is written twice counts once: rows that are there stay, and counts never go down. So a
commit may be repeated, as a whole, when nobody knows whether it arrived.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, bindparam, delete, select
from sqlalchemy import update as change
from sqlalchemy.dialects import postgresql, sqlite

from helba.errors import DamagedData, RunFailed
from helba.service.checkpoint import Checkpoint
from helba.service.store.record import AnsweredRound, LedgerCounts, UpdateRecord
from helba.service.store.table import checkpoint as checkpoints
from helba.service.store.table import ledger as ledgers
from helba.service.store.table import ledger_user, part, round_, tenant
from helba.service.store.table import update as updates_

DIGEST_BYTES = 32
MOST_IN_LIST = 1000  # values of one IN (...); databases take some ten thousand


def lock_tenant(connection: Connection, name: str) -> None:
    """Keep other writers from a tenant until the transaction ends."""
    row = select(tenant.c.name).where(tenant.c.name == name).with_for_update()
    if connection.scalar(row) is None:
        raise RunFailed(f"the store has no tenant {name!r}")


def add_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows; one that is there already, by its primary key, stays as it is."""
    if rows:
        dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
        connection.execute(dialect.insert(table).on_conflict_do_nothing(), list(rows))


def cut(values: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the values in lists that a statement can hold."""
    whole = list(values)
    for start in range(0, len(whole), MOST_IN_LIST):
        yield whole[start : start + MOST_IN_LIST]


# -- rounds


def write_answered(connection: Connection, name: str, rounds: Sequence[AnsweredRound]) -> None:
    """Insert answered rounds; `RunFailed` if one has the id of another user's."""
    rows = [
        {
            "tenant": name,
            "round": each.round,
            "user": each.user,
            "batch": each.batch,
            "seconds": each.seconds,
            "answered_at": each.at,
        }
        for each in rounds
    ]
    add_rows(connection, round_, rows)
    users = _users_of(connection, name, [each.round for each in rounds])
    if any(users[each.round] != each.user for each in rounds):
        raise RunFailed("a round has the id of another user's round")


def mark_reported(
    connection: Connection, name: str, rounds: Sequence[bytes], *, at: datetime
) -> None:
    """Mark rounds whose reward was counted; `RunFailed` if one was never answered."""
    if len(_users_of(connection, name, rounds)) != len(set(rounds)):
        raise RunFailed("a reward was counted for a round that the store does not have")
    _mark(connection, name, rounds, column="reported_at", at=at)


def drop_rounds(
    connection: Connection, name: str, rounds: Sequence[bytes], *, at: datetime
) -> None:
    """Mark rounds whose reward will not come; those that have one, or are unknown, stay."""
    _mark(connection, name, rounds, column="dropped_at", at=at)


def _mark(
    connection: Connection, name: str, rounds: Sequence[bytes], *, column: str, at: datetime
) -> None:
    if rounds:
        statement = (
            change(round_)
            .where(round_.c.tenant == name, round_.c.round == bindparam("id"))
            .where(round_.c[column].is_(None), round_.c.reported_at.is_(None))
            .values({column: bindparam("moment")})
        )
        connection.execute(statement, [{"id": each, "moment": at} for each in rounds])


def _users_of(connection: Connection, name: str, rounds: Sequence[bytes]) -> dict[bytes, bytes]:
    users: dict[bytes, bytes] = {}
    for some in cut(rounds):
        rows = select(round_.c.round, round_.c.user).where(
            round_.c.tenant == name, round_.c.round.in_(some)
        )
        users |= {row.round: row.user for row in connection.execute(rows)}
    return users


# -- the state


def write_checkpoint(
    connection: Connection, name: str, checkpoint: Checkpoint, *, at: datetime
) -> None:
    """Replace the checkpoint of a tenant by a later one; the same one again changes nothing.

    `RunFailed` for one that does not follow the one that is stored, and for one that refers to a
    part that is neither stored nor among the new ones: the store has then been written by another
    server. `DamagedData` for a part that is not what its digest says.
    """
    row = {
        "number": checkpoint.number,
        "key": checkpoint.key,
        "head": checkpoint.head,
        "digests": b"".join(checkpoint.digests),
    }
    columns = [checkpoints.c[column] for column in row]
    found = connection.execute(select(*columns).where(checkpoints.c.tenant == name)).one_or_none()
    if found is not None and found._asdict() == row:
        return
    stored = 0 if found is None else found.number
    if checkpoint.number <= stored or checkpoint.follows != stored:
        raise RunFailed(
            f"the store has checkpoint {stored} of tenant {name!r}, from another server: "
            f"{checkpoint.number}, which follows {checkpoint.follows}, does not follow it"
        )
    _write_parts(connection, name, checkpoint)
    if found is None:
        connection.execute(checkpoints.insert().values(tenant=name, at=at, **row))
    else:
        mine = checkpoints.c.tenant == name
        connection.execute(change(checkpoints).where(mine).values(at=at, **row))


def _write_parts(connection: Connection, name: str, checkpoint: Checkpoint) -> None:
    wanted = set(checkpoint.digests)
    stored = set(connection.scalars(select(part.c.digest).where(part.c.tenant == name)))
    missing = wanted - stored
    if missing - checkpoint.parts.keys():
        raise RunFailed(f"checkpoint {checkpoint.number} of tenant {name!r} lacks a part")
    # Deleted first: what is inserted then takes their place in the file.
    for some in cut(stored - wanted):
        mine = (part.c.tenant == name) & part.c.digest.in_(some)
        connection.execute(delete(part).where(mine))
    for digest in missing:
        data = checkpoint.parts[digest]
        if hashlib.sha256(data).digest() != digest:
            raise DamagedData(f"checkpoint {checkpoint.number} has a part of another digest")
        connection.execute(part.insert().values(tenant=name, digest=digest, data=data))


# -- counts


def write_ledger(connection: Connection, name: str, counts: LedgerCounts) -> None:
    """Count at least as much as `counts`; the total starts again with another collective key."""
    mine = ledgers.c.tenant == name
    found = connection.execute(select(ledgers).where(mine)).one_or_none()
    row = {"key": counts.key, "total": counts.total, "budget": counts.budget}
    if found is None:
        connection.execute(ledgers.insert().values(tenant=name, **row))
    else:
        if found.key == counts.key:
            row["total"] = max(counts.total, found.total)
        connection.execute(change(ledgers).where(mine).values(**row))
    rows = select(ledger_user.c.user, ledger_user.c.bits).where(ledger_user.c.tenant == name)
    before = {row.user: row.bits for row in connection.execute(rows)}
    new = [user for user in counts.bits if user not in before]
    more = [user for user, bits in counts.bits.items() if bits > before.get(user, bits)]
    add_rows(
        connection,
        ledger_user,
        [{"tenant": name, "user": user, "bits": counts.bits[user]} for user in new],
    )
    if more:
        statement = (
            change(ledger_user)
            .where(ledger_user.c.tenant == name, ledger_user.c.user == bindparam("id"))
            .values(bits=bindparam("count"))
        )
        connection.execute(statement, [{"id": user, "count": counts.bits[user]} for user in more])


def write_updates(connection: Connection, name: str, updates: Sequence[UpdateRecord]) -> None:
    """Insert models that were adopted."""
    rows = [
        {"tenant": name, "number": each.number, "at": each.at, "samples": each.samples}
        for each in updates
    ]
    add_rows(connection, updates_, rows)
