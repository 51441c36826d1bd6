"""What tests put into a store, and what they find in it."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta, timezone
from pathlib import Path

from sqlalchemy import select

from helba.service.checkpoint import Checkpoint
from helba.service.protocol.files import read_deployment
from helba.service.store import AnsweredRound, LedgerCounts, Store, UpdateRecord
from helba.service.store.table import metadata

FINGERPRINT = "ab" * 32
NOW = datetime(2024, 5, 17, 12, 0, 30, 250_001, tzinfo=timezone.utc)
ANN, BOB = b"a" * 16, b"b" * 16
KEY = b"k" * 16


def digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def checkpoint_of(
    number: int,
    *parts: bytes,
    kept: tuple[bytes, ...] = (),
    key: bytes = KEY,
    follows: int | None = None,
) -> Checkpoint:
    """A checkpoint of these new parts, after those that are stored already."""
    return Checkpoint(
        number=number,
        follows=number - 1 if follows is None else follows,
        key=key,
        head=b"head %d" % number,
        digests=tuple(digest(data) for data in (*kept, *parts)),
        parts={digest(data): data for data in parts},
    )


def answered(*names: bytes, user: bytes = ANN, minutes_ago: float = 0.0) -> list[AnsweredRound]:
    at = NOW - timedelta(minutes=minutes_ago)
    return [AnsweredRound(round=name, user=user, batch=3, seconds=0.5, at=at) for name in names]


def ledger_of(total: int, *, key: bytes = KEY, **bits: int) -> LedgerCounts:
    users = {name.encode() * 16: count for name, count in bits.items()}
    return LedgerCounts(key=key, total=total, bits=users, budget=1000)


def fill(store: Store, *, tenant: str = "main") -> None:
    """Two checkpoints, rounds of each kind, a ledger and an update."""
    store.commit(
        tenant,
        checkpoint=checkpoint_of(1, b"first", b"second"),
        answered=[*answered(b"r1", b"r2"), *answered(b"r3", user=BOB)],
        at=NOW,
    )
    store.commit(
        tenant,
        checkpoint=checkpoint_of(2, b"third", kept=(b"second",)),
        reported=[b"r1"],
        dropped=[b"r3"],
        ledger=ledger_of(7, a=3, b=4),
        updates=[UpdateRecord(number=1, at=NOW, samples=40)],
        at=NOW + timedelta(seconds=1),
    )


def rows_of(store: Store, *, tenant: str | None = None) -> dict[str, list[tuple[object, ...]]]:
    """Every row of a store, or of one tenant without its name."""
    found = {}
    with store.read() as connection:
        for table in metadata.sorted_tables:
            owner = table.c.name if table.name == "helba_tenant" else table.c.tenant
            columns = [c for c in table.columns if tenant is None or c is not owner]
            chosen = select(*columns).order_by(*table.primary_key.columns)
            if tenant is not None:
                chosen = chosen.where(owner == tenant)
            found[table.name] = [tuple(row) for row in connection.execute(chosen)]
    return found


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def fill_tenant(folder: Path, url: str) -> None:
    fingerprint = read_deployment(folder / "deployment.json", allow_insecure=True).fingerprint
    with Store(url) as store:
        store.open_tenant("main", fingerprint=fingerprint)
        fill(store)


def rows_at(url: str, *, tenant: str = "main") -> dict[str, list[tuple[object, ...]]]:
    with Store(url, create=False) as store:
        return rows_of(store, tenant=tenant)
