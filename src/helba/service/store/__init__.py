"""What a server must not lose, in a database: SQLite, or PostgreSQL.

    with Store("sqlite:///server/store.sqlite3") as store:
        store.open_tenant("main", fingerprint=deployment.fingerprint)
        saved = store.load("main")
        store.commit("main", checkpoint=checkpoint, reported=rounds, at=now)

A commit is one transaction: after a crash at any moment the store holds all of it or nothing. Its
outcome may stay unknown, when the connection is lost; it may then be repeated, and counts once.

    store       `Store`: opening, tenants, reading
    commit      writing; `history` counts what came when
    record      what goes in and comes out
    table       the tables; `migration` brings a store to them, step by step
    connection  databases, and what is set on each connection; `failure` puts errors into one line
    archive     a tenant as one file; `bundle` is the file, `row` has the rows in it
"""

from helba.service.store.record import (
    AnsweredRound,
    Counts,
    HistoryPoint,
    LedgerCounts,
    RoundRecord,
    Saved,
    UpdateRecord,
)
from helba.service.store.store import Store

__all__ = [
    "AnsweredRound",
    "Counts",
    "HistoryPoint",
    "LedgerCounts",
    "RoundRecord",
    "Saved",
    "Store",
    "UpdateRecord",
]
