"""Messages as bytes, and back. Domain objects never see bytes.

    mark, version, kind, the deployment's digest | fields, each with its length where it can vary

Ciphertexts and openings are those of `helba.ring.wire`, garbled circuits those of
`helba.garbling.message`, each with its own checks. Every failure is `DamagedData`. A message's
length depends on its kind, the plan and public counts, never on what it says.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from helba.errors import DamagedData, HelbaError
from helba.garbling import (
    Circuit,
    ReturnedMessage,
    SetupAnswer,
    SetupOffer,
    TablesMessage,
    TransferMessage,
)
from helba.garbling.circuits.argmax import name_bits
from helba.garbling.circuits.circuit import Bits
from helba.learning.plan import Batch
from helba.learning.update import TestTerms
from helba.learning.update_plan import UpdateTerms
from helba.protocol.box import BOX_BYTES, sealed_bytes
from helba.protocol.deployment import SharesDeployment
from helba.protocol.message import (
    ID_BYTES,
    SIGN_SEED_BYTES,
    Abort,
    Acceptance,
    Answer,
    Ask,
    Colours,
    CompareTask,
    Message,
    Offer,
    Pads,
    PadTask,
    Receipt,
    Refusal,
    Reopened,
    ReopenTask,
    Report,
    Shared,
    Tables,
    Transfer,
    Verdict,
    Work,
)
from helba.ring import Ciphertext, Opening, PublicKey
from helba.ring.sharing.pad import dump_shares, load_shares
from helba.ring.wire import dump_ciphertext, dump_opening, load_ciphertext, load_opening

VERSION = 1
_HEAD = struct.Struct("<4sBB16s")
_MARK = b"\x89HSh"
_KINDS: tuple[type, ...] = (
    Ask,
    Report,
    Answer,
    Receipt,
    Refusal,
    Offer,
    Acceptance,
    PadTask,
    Pads,
    ReopenTask,
    Reopened,
    CompareTask,
    Transfer,
    Tables,
    Verdict,
    Colours,
    Abort,
)
_SUBJECTS = ("ask", "fold", "test", "update")
_WORK = struct.Struct("<BIB")
_TEST = struct.Struct("<III")
_UPDATE = struct.Struct("<IIddIIB")
REASON_BYTES = 200
STEP_BYTES = 16
MOST_PARTS = 1 << 16


class Codec:
    """Writes and reads the messages of one deployment.

    `public_key` is the ring's; `opener_key` that of who opens, if that is another one's.
    """

    def __init__(
        self,
        deployment: SharesDeployment,
        *,
        public_key: PublicKey,
        opener_key: PublicKey | None = None,
    ) -> None:
        self.deployment = deployment
        self._public_key = public_key
        self._opener_key = public_key if opener_key is None else opener_key

    def encode(self, message: Message) -> bytes:
        """Return the message as bytes."""
        kind = _KINDS.index(type(message))
        head = _HEAD.pack(_MARK, VERSION, kind, self.deployment.digest)
        return b"".join([head, *_ENCODERS[type(message)](self, message)])

    def decode(self, data: bytes) -> Message:
        """Return the message, or raise `DamagedData`."""
        if len(data) < _HEAD.size:
            raise DamagedData(f"{len(data)} bytes are too few for a message")
        mark, version, kind, digest = _HEAD.unpack_from(data)
        if mark != _MARK or version != VERSION or kind >= len(_KINDS):
            raise DamagedData(f"expected a message of version {VERSION}, got other bytes")
        if digest != self.deployment.digest:
            raise DamagedData("the message belongs to another deployment")
        reader = _Reader(memoryview(data)[_HEAD.size :])
        try:
            message: Message = _DECODERS[_KINDS[kind]](self, reader)
        except DamagedData:
            raise
        except (HelbaError, struct.error, ValueError, OverflowError) as error:
            raise DamagedData(f"the message makes no sense: {error}") from error
        reader.require_end()
        return message

    # -- parts

    def _ciphertexts(self, values: Sequence[Ciphertext]) -> bytes:
        backend = self._public_key.backend
        return _list([dump_ciphertext(each, backend=backend) for each in values])

    def _read_ciphertexts(self, reader: _Reader) -> tuple[Ciphertext, ...]:
        return tuple(load_ciphertext(each, public_key=self._public_key) for each in reader.list())

    def _openings(self, values: Sequence[Opening]) -> bytes:
        return _list([dump_opening(each, backend=self._public_key.backend) for each in values])

    def _read_openings(self, reader: _Reader, counts: Sequence[int]) -> tuple[Opening, ...]:
        """Read openings of so many numbers each."""
        parts, key = reader.list(), self._opener_key
        if len(parts) != len(counts):
            raise DamagedData(f"expected {len(counts)} openings, got {len(parts)}")
        return tuple(
            load_opening(part, backend=key.backend, key_id=key.key_id, count=count)
            for part, count in zip(parts, counts, strict=True)
        )

    def _circuit(self, work: Work) -> tuple[Circuit, int]:
        lanes = work.count if work.subject == "ask" else 1
        return self.deployment.comparison(work).circuit, lanes

    def _read_work(self, reader: _Reader) -> Work:
        work = _read_work(reader)
        self.deployment.require_work(work)
        return work

    def _shared(self, shared: Shared) -> bytes:
        return shared.box + dump_shares(shared.shares)

    def _read_shared(self, data: memoryview, *, count: int) -> Shared:
        return Shared(
            box=bytes(data[:BOX_BYTES]), shares=load_shares(data[BOX_BYTES:], count=count)
        )

    @property
    def _sealed_bytes(self) -> int:
        return sealed_bytes(name_bits(self.deployment.settings.arms))

    @property
    def _is_shared(self) -> bool:
        return self.deployment.plan.opener == "authority"


class _Reader:
    """Takes fields off a message from the front."""

    def __init__(self, view: memoryview) -> None:
        self._view = view

    def take(self, count: int) -> memoryview:
        if count > len(self._view):
            raise DamagedData("the message is cut")
        found, self._view = self._view[:count], self._view[count:]
        return found

    def rest(self) -> memoryview:
        return self.take(len(self._view))

    def sized(self, *sizes: int) -> bytes:
        """Take the rest, which has one of these sizes."""
        if len(self._view) not in sizes:
            raise DamagedData(f"expected {sizes[-1]} bytes at the end, got {len(self._view)}")
        return bytes(self.rest())

    def id(self) -> bytes:
        return bytes(self.take(ID_BYTES))

    def number(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def flag(self) -> bool:
        value = self.take(1)[0]
        if value > 1:
            raise DamagedData(f"expected a flag, 0 or 1, got {value}")
        return bool(value)

    def list(self) -> list[memoryview]:
        count = self.number()
        if count > MOST_PARTS:
            raise DamagedData(f"a message has at most {MOST_PARTS} parts")
        return [self.take(self.number()) for _ in range(count)]

    def text(self, size: int) -> str:
        return bytes(self.take(size)).rstrip(b"\0").decode(errors="replace")

    def require_end(self) -> None:
        if len(self._view):
            raise DamagedData("the message is longer than its kind")


def _list(parts: Sequence[bytes]) -> bytes:
    framed = [len(parts).to_bytes(4, "little")]
    for part in parts:
        framed += [len(part).to_bytes(4, "little"), part]
    return b"".join(framed)


def _text(text: str, size: int) -> bytes:
    return text.encode()[:size].ljust(size, b"\0")


def _work(work: Work) -> bytes:
    subject, terms = _SUBJECTS.index(work.subject), work.terms
    if terms is None:
        return _WORK.pack(subject, work.count, 0)
    head = _WORK.pack(subject, work.count, 1)
    if isinstance(terms, TestTerms):
        return head + _TEST.pack(terms.batch, terms.unseen, terms.untested)
    b = terms.before
    return head + _UPDATE.pack(
        b.number,
        b.samples,
        b.residual,
        b.estimate_error,
        terms.samples,
        terms.untested,
        terms.cold,
    )


def _read_work(reader: _Reader) -> Work:
    number, count, has_terms = _WORK.unpack(reader.take(_WORK.size))
    if number >= len(_SUBJECTS) or not 1 <= count <= MOST_PARTS:
        raise DamagedData("expected the work of a task, got something else")
    subject = _SUBJECTS[number]
    terms: TestTerms | UpdateTerms | None = None
    if has_terms != (subject in ("test", "update")):
        raise DamagedData("expected terms for tests and updates, and for nothing else")
    if subject == "test":
        batch, unseen, untested = _TEST.unpack(reader.take(_TEST.size))
        terms = TestTerms(batch=batch, unseen=unseen, untested=untested)
    elif subject == "update":
        fields = _UPDATE.unpack(reader.take(_UPDATE.size))
        before = Batch(
            number=fields[0], samples=fields[1], residual=fields[2], estimate_error=fields[3]
        )
        terms = UpdateTerms(
            before=before, samples=fields[4], untested=fields[5], cold=bool(fields[6])
        )
    return Work(subject=subject, count=count, terms=terms)


def _bits(bits: Bits) -> bytes:
    return np.packbits(bits, bitorder="little").tobytes()


def _read_bits(reader: _Reader, count: int) -> Bits:
    packed = np.frombuffer(reader.take(-(-count // 8)), dtype=np.uint8)
    return np.unpackbits(packed, count=count, bitorder="little").astype(np.bool_)


def _encode_ask(codec: Codec, m: Ask) -> list[bytes]:
    shared = isinstance(m.features, Shared)
    body = codec._shared(m.features) if shared else codec._ciphertexts(m.features)  # type: ignore[arg-type]
    return [m.name, body]


def _decode_ask(codec: Codec, r: _Reader) -> Ask:
    name = r.id()
    if codec._is_shared:
        shared = codec._read_shared(r.rest(), count=codec.deployment.numbers)
        return Ask(name=name, features=shared)
    return Ask(name=name, features=codec._read_ciphertexts(r))


def _encode_report(codec: Codec, m: Report) -> list[bytes]:
    if isinstance(m.report, Shared):
        return [m.name, codec._shared(m.report)]
    return [m.name, dump_ciphertext(m.report, backend=codec._public_key.backend)]


def _decode_report(codec: Codec, r: _Reader) -> Report:
    name, body = r.id(), r.rest()
    if codec._is_shared:
        shared = codec._read_shared(body, count=codec.deployment.settings.dim + 1)
        return Report(name=name, report=shared)
    return Report(name=name, report=load_ciphertext(body, public_key=codec._public_key))


def _encode_answer(codec: Codec, m: Answer) -> list[bytes]:
    del codec
    return [m.name, m.task, m.batch.to_bytes(4, "little"), _bits(m.decoding), m.sealed]


def _decode_answer(codec: Codec, r: _Reader) -> Answer:
    name, task, batch = r.id(), r.id(), r.number()
    decoding = _read_bits(r, name_bits(codec.deployment.settings.arms))
    sealed = r.sized(codec._sealed_bytes if codec._is_shared else 0)
    return Answer(name=name, task=task, batch=batch, decoding=decoding, sealed=sealed)


def _decode_transfer(codec: Codec, r: _Reader) -> Transfer:
    task, work = r.id(), codec._read_work(r)
    circuit, lanes = codec._circuit(work)
    transfer = TransferMessage.from_bytes(bytes(r.rest()), circuit=circuit, lanes=lanes)
    return Transfer(task=task, work=work, transfer=transfer)


def _decode_tables(codec: Codec, r: _Reader) -> Tables:
    task, work = r.id(), codec._read_work(r)
    circuit, lanes = codec._circuit(work)
    told = _read_bits(r, lanes if codec.deployment.tells_range(work) else 0)
    tables = TablesMessage.from_bytes(bytes(r.rest()), circuit=circuit, lanes=lanes)
    return Tables(task=task, work=work, tables=tables, told=told)


def _decode_verdict(codec: Codec, r: _Reader) -> Verdict:
    task, work = r.id(), codec._read_work(r)
    circuit, lanes = codec._circuit(work)
    returned = ReturnedMessage.from_bytes(bytes(r.rest()), circuit=circuit, lanes=lanes)
    return Verdict(task=task, work=work, returned=returned)


_ENCODERS: dict[type, Any] = {
    Ask: _encode_ask,
    Report: _encode_report,
    Answer: _encode_answer,
    Receipt: lambda _, m: [m.name],
    Refusal: lambda _, m: [m.name, _text(m.reason, REASON_BYTES)],
    Offer: lambda _, m: [m.offer.to_bytes()],
    Acceptance: lambda _, m: [m.answer.to_bytes()],
    PadTask: lambda _, m: [m.task, _work(m.work), *m.boxes],
    Pads: lambda c, m: [m.task, c._ciphertexts(m.pads), m.signs],
    ReopenTask: lambda c, m: [
        m.task,
        _work(m.work),
        _text(m.step, STEP_BYTES),
        c._openings(m.openings),
    ],
    Reopened: lambda c, m: [m.task, _text(m.step, STEP_BYTES), c._ciphertexts(m.replies)],
    CompareTask: lambda c, m: [m.task, _work(m.work), c._openings(m.openings)],
    Transfer: lambda _, m: [m.task, _work(m.work), m.transfer.to_bytes()],
    Tables: lambda _, m: [m.task, _work(m.work), _bits(m.told), m.tables.to_bytes()],
    Verdict: lambda _, m: [m.task, _work(m.work), m.returned.to_bytes()],
    Colours: lambda _, m: [m.task, _list(m.sealed)],
    Abort: lambda _, m: [m.task, bytes([m.refused, m.unknown]), _text(m.reason, REASON_BYTES)],
}


def _decode_pad_task(codec: Codec, r: _Reader) -> PadTask:
    task, work = r.id(), codec._read_work(r)
    boxes = tuple(bytes(r.take(BOX_BYTES)) for _ in range(work.count))
    return PadTask(task=task, work=work, boxes=boxes)


def _decode_pads(codec: Codec, r: _Reader) -> Pads:
    task, pads = r.id(), codec._read_ciphertexts(r)
    return Pads(task=task, pads=pads, signs=r.sized(0, SIGN_SEED_BYTES))


def _decode_colours(codec: Codec, r: _Reader) -> Colours:
    task, sealed = r.id(), tuple(bytes(each) for each in r.list())
    if any(len(each) != codec._sealed_bytes for each in sealed):
        raise DamagedData("expected sealed halves of answers, got others")
    return Colours(task=task, sealed=sealed)


def _decode_reopen_task(codec: Codec, r: _Reader) -> ReopenTask:
    task, work, step = r.id(), codec._read_work(r), r.text(STEP_BYTES)
    counts = [
        len(places)
        for exchange in codec.deployment.exchanges(work, step)
        for places in exchange.places.values()
    ]
    return ReopenTask(task=task, work=work, step=step, openings=codec._read_openings(r, counts))


def _decode_compare_task(codec: Codec, r: _Reader) -> CompareTask:
    task, work = r.id(), codec._read_work(r)
    counts = [len(places) for places in codec.deployment.comparison(work).places]
    return CompareTask(task=task, work=work, openings=codec._read_openings(r, counts))


_DECODERS: dict[type, Any] = {
    Ask: _decode_ask,
    Report: _decode_report,
    Answer: _decode_answer,
    Receipt: lambda _, r: Receipt(name=r.id()),
    Refusal: lambda _, r: Refusal(name=r.id(), reason=r.text(REASON_BYTES)),
    Offer: lambda _, r: Offer(offer=SetupOffer.from_bytes(bytes(r.rest()))),
    Acceptance: lambda _, r: Acceptance(answer=SetupAnswer.from_bytes(bytes(r.rest()))),
    PadTask: _decode_pad_task,
    Pads: _decode_pads,
    ReopenTask: _decode_reopen_task,
    Reopened: lambda c, r: Reopened(
        task=r.id(), step=r.text(STEP_BYTES), replies=c._read_ciphertexts(r)
    ),
    CompareTask: _decode_compare_task,
    Transfer: _decode_transfer,
    Tables: _decode_tables,
    Verdict: _decode_verdict,
    Colours: _decode_colours,
    Abort: lambda _, r: Abort(
        task=r.id(), refused=r.flag(), unknown=r.flag(), reason=r.text(REASON_BYTES)
    ),
}
