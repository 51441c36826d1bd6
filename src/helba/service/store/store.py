"""A store: the tenants of one database, and what each of them must not lose.

Thread-safe. Any failure of the database is `Unavailable`, in one line; the store may be used on,
and works again when the database does.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime, timezone
from pathlib import Path

from sqlalchemy import Connection, Row, func, select

from helba.errors import DamagedData, Refused
from helba.service.checkpoint import Checkpoint
from helba.service.store import commit as writing
from helba.service.store.connection import make_engine, parse_url, prepare_file, reader, writer
from helba.service.store.failure import name_place, reporting
from helba.service.store.history import read_history
from helba.service.store.migration import migrate
from helba.service.store.record import (
    AnsweredRound,
    Counts,
    HistoryPoint,
    LedgerCounts,
    RoundRecord,
    Saved,
    UpdateRecord,
    require_instant,
    require_name,
)
from helba.service.store.table import checkpoint as checkpoints
from helba.service.store.table import ledger as ledgers
from helba.service.store.table import ledger_user, part, round_, tenant

OPEN = round_.c.reported_at.is_(None) & round_.c.dropped_at.is_(None)


class Store:
    """The store at `url`: sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/NAME.

    Opening it makes it if it is not there (unless `create` is False, then `RunFailed`) and brings
    it to the tables of this version. `Refused` if it was written by a newer version, or if what is
    there is something else.
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        self._url = parse_url(url)
        self.place = name_place(self._url)
        self._file: Path | None = None
        if self._url.get_backend_name() == "sqlite":
            self._file = Path(str(self._url.database))
            prepare_file(self._file, create=create)
        self._engine = make_engine(self._url)
        # Threads queue here for SQLite's one lock: it is not fair, and its patience has an end.
        self._turn = nullcontext() if self._file is None else threading.Lock()
        try:
            with reporting(self._url):
                migrate(self._engine, create=create)
        except BaseException:
            self.close()
            raise

    @property
    def file(self) -> Path | None:
        """The file of a SQLite store."""
        return self._file

    # -- tenants

    def open_tenant(self, name: str, *, fingerprint: str) -> None:
        """Add a tenant, or check that it is of this deployment: `Refused` if of another."""
        require_name(name)
        with self.write() as connection:
            row = {"name": name, "fingerprint": fingerprint}
            writing.add_rows(connection, tenant, [row])
            chosen = select(tenant.c.fingerprint).where(tenant.c.name == name)
            if connection.scalar(chosen) != fingerprint:
                raise Refused(
                    f"tenant {name!r} of the store at {self.place} is of another deployment"
                )

    def tenants(self) -> dict[str, str]:
        """Return the fingerprint of each tenant's deployment."""
        with self.read() as connection:
            rows = connection.execute(select(tenant).order_by(tenant.c.name))
            return {row.name: row.fingerprint for row in rows}

    # -- the state

    def load(self, tenant: str) -> Saved | None:
        """Return what was committed last, None if no checkpoint was.

        `DamagedData` if a part is missing or is not what its digest says.
        """
        with self.read() as connection:
            mine = checkpoints.c.tenant == tenant
            head = connection.execute(select(checkpoints).where(mine)).one_or_none()
            if head is None:
                return None
            rows = select(part.c.digest, part.c.data).where(part.c.tenant == tenant)
            parts = {bytes(row.digest): bytes(row.data) for row in connection.execute(rows)}
            open_rounds = select(round_.c.round, round_.c.user).where(
                round_.c.tenant == tenant, OPEN
            )
            rounds = {row.round: row.user for row in connection.execute(open_rounds)}
        size = writing.DIGEST_BYTES
        digests = [head.digests[i : i + size] for i in range(0, len(head.digests), size)]
        for digest in set(digests):
            if digest not in parts or hashlib.sha256(parts[digest]).digest() != digest:
                raise DamagedData(
                    f"the store at {self.place} is damaged: a part of the state of tenant "
                    f"{tenant!r} is missing or was changed"
                )
        return Saved(
            number=head.number,
            key=head.key,
            head=head.head,
            parts=tuple(parts[digest] for digest in digests),
            rounds=rounds,
        )

    def commit(
        self,
        tenant: str,
        *,
        checkpoint: Checkpoint | None = None,
        answered: Sequence[AnsweredRound] = (),
        reported: Sequence[bytes] = (),
        dropped: Sequence[bytes] = (),
        ledger: LedgerCounts | None = None,
        updates: Sequence[UpdateRecord] = (),
        at: datetime,
    ) -> None:
        """Write all of this in one transaction, or nothing. Repeating it changes nothing.

        The checkpoint must follow the one that is stored, or be the same; parts that it does not
        refer to are deleted. `RunFailed` if it does not, if a reported round was never answered, or
        if an answered one has the id of another user's: then another server writes to this tenant,
        or the caller is wrong. `Unavailable` leaves open whether it was written: repeat it.
        """
        require_instant("at", at)
        with self.write() as connection:
            writing.lock_tenant(connection, tenant)
            writing.write_answered(connection, tenant, answered)
            if checkpoint is not None:
                writing.write_checkpoint(connection, tenant, checkpoint, at=at)
            writing.mark_reported(connection, tenant, reported, at=at)
            writing.drop_rounds(connection, tenant, dropped, at=at)
            if ledger is not None:
                writing.write_ledger(connection, tenant, ledger)
            writing.write_updates(connection, tenant, updates)

    # -- rounds and counts

    def find_round(self, tenant: str, round: bytes) -> RoundRecord | None:
        """Return a round that was answered, None if there is none of this id."""
        chosen = select(round_).where(round_.c.tenant == tenant, round_.c.round == round)
        with self.read() as connection:
            row = connection.execute(chosen).one_or_none()
        return None if row is None else _record(row)

    def open_rounds(self, tenant: str, user: bytes) -> list[RoundRecord]:
        """Return a user's rounds that are neither reported nor dropped, the oldest first."""
        chosen = select(round_).where(round_.c.tenant == tenant, round_.c.user == user, OPEN)
        with self.read() as connection:
            rows = [_record(row) for row in connection.execute(chosen)]
        # Sorted here: an order in the query leads SQLite to walk through all rounds in that order.
        return sorted(rows, key=lambda row: (row.answered_at, row.round))

    def counts(self, tenant: str) -> Counts:
        """Return how many rounds there are."""
        rounds = select(func.count()).select_from(round_).where(round_.c.tenant == tenant)
        reported = rounds.where(round_.c.reported_at.is_not(None))
        every = [each.scalar_subquery() for each in (rounds, reported, rounds.where(OPEN))]
        with self.read() as connection:
            answered, counted, waiting = connection.execute(select(*every)).one()
        return Counts(answered=answered, reported=counted, open=waiting)

    def history(
        self, tenant: str, *, minutes: int, step_seconds: int, now: datetime | None = None
    ) -> list[HistoryPoint]:
        """Return what came in each step of the last minutes, the step under way at the end."""
        moment = datetime.now(timezone.utc) if now is None else now
        with self.read() as connection:
            return read_history(
                connection, tenant, seconds=60 * minutes, step_seconds=step_seconds, now=moment
            )

    def ledger(self, tenant: str) -> LedgerCounts | None:
        """Return the bits that were counted, None if none ever were."""
        rows = select(ledger_user.c.user, ledger_user.c.bits).where(ledger_user.c.tenant == tenant)
        with self.read() as connection:
            mine = ledgers.c.tenant == tenant
            found = connection.execute(select(ledgers).where(mine)).one_or_none()
            if found is None:
                return None
            bits = {row.user: row.bits for row in connection.execute(rows)}
        return LedgerCounts(key=found.key, total=found.total, bits=bits, budget=found.budget)

    # -- transactions

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the store, whatever is written meanwhile."""
        with (
            reporting(self._url),
            reader(self._engine.connect()) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that writes all of what is done in it, or nothing if an error leaves it."""
        with (
            self._turn,
            reporting(self._url),
            writer(self._engine.connect()) as connection,
            connection.begin(),
        ):
            yield connection

    def close(self) -> None:
        """End the connections that are not in use."""
        self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store: {self.place}>"


def _record(row: Row[tuple[object, ...]]) -> RoundRecord:
    return RoundRecord(
        round=row.round,
        user=row.user,
        batch=row.batch,
        seconds=row.seconds,
        answered_at=row.answered_at,
        reported_at=row.reported_at,
        dropped_at=row.dropped_at,
    )
