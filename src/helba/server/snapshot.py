"""A server's state as bytes, and back."""

from __future__ import annotations

import hashlib
import struct

from helba.errors import DamagedData, InvalidInput
from helba.learning.exchange import Stack
from helba.learning.plan import Batch
from helba.learning.update import Learned
from helba.learning.update_plan import UpdateTerms
from helba.protocol.box import BOX_BYTES
from helba.protocol.deployment import SharesDeployment
from helba.protocol.message import ID_BYTES
from helba.ring import Ciphertext, PublicKey
from helba.ring.sharing.pad import dump_shares, load_shares
from helba.ring.wire import dump_ciphertext, load_ciphertext
from helba.server.state import Growth, Row, ServerState

_MARK = b"\x89HSs"
VERSION = 3
_HEAD = struct.Struct("<4sB16s16s")
_BATCH = struct.Struct("<IIdd")
_COUNTS = struct.Struct("<QQQQQQd")
_COUNT = struct.Struct("<Q")
_TERMS = struct.Struct("<IIB")
_DIGEST_BYTES = 32


def dump_state(state: ServerState, *, deployment: SharesDeployment, public_key: PublicKey) -> bytes:
    """Return the state as bytes, with a digest."""
    backend = public_key.backend
    parts: list[bytes] = []

    def add(part: bytes) -> None:
        parts.append(len(part).to_bytes(4, "little") + part)

    def add_ciphertext(ciphertext: Ciphertext) -> None:
        add(dump_ciphertext(ciphertext, backend=backend))

    def add_stack(stack: Stack | None) -> None:
        found = {} if stack is None else stack.parts
        add(struct.pack(f"<{len(found)}I", *found))
        for ciphertext in found.values():
            add_ciphertext(ciphertext)

    learned, batch = state.learned, state.learned.batch
    add(_BATCH.pack(batch.number, batch.samples, batch.residual, batch.estimate_error))
    add_ciphertext(learned.model)
    add_ciphertext(learned.test)
    for stack in (learned.rows, learned.columns, learned.design, learned.response):
        add_stack(stack)
    add(
        _COUNTS.pack(
            state.cleared,
            state.attempts,
            state.tests,
            state.rejected,
            state.abandoned,
            state.dropped_reports,
            state.failure,
        )
    )
    for growth in (state.growth, state.taken):
        add(b"" if growth is None else _COUNT.pack(growth.count))
        if growth is not None:
            add_ciphertext(growth.total)
    add(b"" if state.adopted is None else _dump_terms(state.adopted))
    add(b"".join(state.names))
    add(b"".join(state.members))
    add(b"".join(_dump_row(row) for row in state.rows.values()))
    head = _HEAD.pack(_MARK, VERSION, deployment.digest, public_key.key_id)
    body = head + b"".join(parts)
    return body + hashlib.sha256(body).digest()


def load_state(data: bytes, *, deployment: SharesDeployment, public_key: PublicKey) -> ServerState:
    """Return the state that was dumped, or raise `DamagedData`."""
    if len(data) < _HEAD.size + _DIGEST_BYTES:
        raise DamagedData(f"{len(data)} bytes are too few for a server's state")
    body = memoryview(data)[:-_DIGEST_BYTES]
    if hashlib.sha256(body).digest() != data[-_DIGEST_BYTES:]:
        raise DamagedData("the digest is wrong: the state was changed or cut")
    mark, version, digest, key_id = _HEAD.unpack_from(body)
    if (mark, version) != (_MARK, VERSION):
        raise DamagedData(f"expected a server's state of version {VERSION}, got other bytes")
    if digest != deployment.digest or key_id != public_key.key_id:
        raise DamagedData("the state belongs to another deployment or key")
    view = body[_HEAD.size :]

    def take() -> memoryview:
        nonlocal view
        size = int.from_bytes(view[:4], "little")
        if len(view) < 4 + size:
            raise DamagedData("the state is cut")
        found, view = view[4 : 4 + size], view[4 + size :]
        return found

    def take_ciphertext() -> Ciphertext:
        return load_ciphertext(take(), public_key=public_key)

    def take_stack() -> Stack | None:
        listed = take()
        numbers = struct.unpack(f"<{len(listed) // 4}I", listed)
        parts = {number: take_ciphertext() for number in numbers}
        return Stack(parts) if parts else None

    def take_growth() -> Growth | None:
        counted = take()
        if not len(counted):
            return None
        (count,) = _COUNT.unpack(counted)
        return Growth(total=take_ciphertext(), count=count)

    def take_full_stack() -> Stack:
        found = take_stack()
        if found is None:
            raise DamagedData("a matrix of the model is missing")
        return found

    try:
        number, samples, residual, error = _BATCH.unpack(take())
        batch = Batch(number=number, samples=samples, residual=residual, estimate_error=error)
        learned = Learned(
            batch=batch,
            model=take_ciphertext(),
            test=take_ciphertext(),
            rows=take_full_stack(),
            columns=take_full_stack(),
            design=take_full_stack(),
            response=take_stack(),
        )
        cleared, attempts, tests, rejected, abandoned, dropped, failure = _COUNTS.unpack(take())
        growth, taken = take_growth(), take_growth()
        adopted = _load_terms(take())
        names, members = take(), take()
        rows = _load_rows(take(), numbers=deployment.settings.dim + 1)
    except (struct.error, InvalidInput) as problem:
        raise DamagedData(f"the state makes no sense: {problem}") from problem
    if len(view) or len(names) % ID_BYTES or len(members) % ID_BYTES:
        raise DamagedData("the state is longer than it says")
    return ServerState(
        learned=learned,
        growth=growth,
        taken=taken,
        cleared=cleared,
        attempts=attempts,
        rows={row.name: row for row in rows},
        names=_split_ids(names),
        members=_split_ids(members),
        adopted=adopted,
        tests=tests,
        rejected=rejected,
        abandoned=abandoned,
        dropped_reports=dropped,
        failure=failure,
    )


def _split_ids(data: memoryview) -> dict[bytes, None]:
    return dict.fromkeys(bytes(data[i : i + ID_BYTES]) for i in range(0, len(data), ID_BYTES))


def _dump_terms(terms: UpdateTerms) -> bytes:
    before = terms.before
    head = _BATCH.pack(before.number, before.samples, before.residual, before.estimate_error)
    return head + _TERMS.pack(terms.samples, terms.untested, terms.cold)


def _load_terms(data: memoryview) -> UpdateTerms | None:
    if not len(data):
        return None
    number, samples, residual, error = _BATCH.unpack(data[: _BATCH.size])
    total, untested, cold = _TERMS.unpack(data[_BATCH.size :])
    before = Batch(number=number, samples=samples, residual=residual, estimate_error=error)
    return UpdateTerms(before=before, samples=total, untested=untested, cold=bool(cold))


def _dump_row(row: Row) -> bytes:
    return row.name + bytes([min(row.judged, 255)]) + row.box + dump_shares(row.shares)


def _load_rows(data: memoryview, *, numbers: int) -> list[Row]:
    share_bytes = len(dump_shares([0] * numbers))  # type: ignore[arg-type]
    size = ID_BYTES + 1 + BOX_BYTES + share_bytes
    if len(data) % size:
        raise DamagedData("the stored reports are cut")
    rows = []
    for start in range(0, len(data), size):
        row = data[start : start + size]
        rows.append(
            Row(
                name=bytes(row[:ID_BYTES]),
                judged=row[ID_BYTES],
                box=bytes(row[ID_BYTES + 1 : -share_bytes]),
                shares=load_shares(row[-share_bytes:], count=numbers),
            )
        )
    return rows
