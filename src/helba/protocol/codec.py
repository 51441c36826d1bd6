"""Messages as bytes, and back. Domain objects never see bytes.

    mark, version, kind, the deployment's digest | the message's fields, in their order

A field has the same form in every message, by its name, with its length where that can vary.
Ciphertexts and openings are those of `helba.ring.wire`, garbled circuits those of
`helba.garbling.message`, each with its own checks. Every failure is `DamagedData`. A message's
length depends on its kind, the plan and public counts, never on what it says.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any, get_args

from helba.errors import DamagedData, HelbaError
from helba.garbling import ReturnedMessage, SetupAnswer, SetupOffer, TablesMessage, TransferMessage
from helba.garbling.circuits.argmax import name_bits
from helba.learning.update import TestTerms
from helba.learning.update_certificate import UpdateTerms
from helba.protocol.box import BOX_BYTES, pack_bits, sealed_bytes
from helba.protocol.deployment import SharesDeployment
from helba.protocol.form import Form, Reader, dump_number, make_form
from helba.protocol.message import ID_BYTES, SIGN_SEED_BYTES, Message, Shared, Work
from helba.ring import Ciphertext, Opening, PublicKey, Recipient
from helba.ring.sharing.pad import dump_shares, load_shares
from helba.ring.wire import dump_ciphertext, dump_opening, load_ciphertext, load_opening

VERSION = 1
_HEAD = struct.Struct("<4sBB16s")
_MARK = b"\x89HSh"
_KINDS: tuple[type, ...] = get_args(Message)
_SUBJECTS = ("ask", "fold", "test", "update")
_WORK = struct.Struct("<BIB")
REASON_BYTES = 200
STEP_BYTES = 16


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
        self._parts = make_form(tuple[bytes, ...], public_key=public_key)
        self._terms = {
            "test": make_form(TestTerms, public_key=public_key),
            "update": make_form(UpdateTerms, public_key=public_key),
        }
        self._forms = self._make_forms()

    def encode(self, message: Message) -> bytes:
        """Return the message as bytes."""
        kind = _KINDS.index(type(message))
        head = _HEAD.pack(_MARK, VERSION, kind, self.deployment.digest)
        names = [field.name for field in fields(message)]
        return b"".join([head, *(self._forms[each].dump(getattr(message, each)) for each in names)])

    def decode(self, data: bytes) -> Message:
        """Return the message, or raise `DamagedData`."""
        if len(data) < _HEAD.size:
            raise DamagedData(f"{len(data)} bytes are too few for a message")
        mark, version, kind, digest = _HEAD.unpack_from(data)
        if mark != _MARK or version != VERSION or kind >= len(_KINDS):
            raise DamagedData(f"expected a message of version {VERSION}, got other bytes")
        if digest != self.deployment.digest:
            raise DamagedData("the message belongs to another deployment")
        reader = Reader(memoryview(data)[_HEAD.size :])
        try:
            for field in fields(_KINDS[kind]):
                reader.found[field.name] = self._forms[field.name].load(reader)
            message: Message = _KINDS[kind](**reader.found)
        except DamagedData:
            raise
        except (HelbaError, ValueError, OverflowError) as error:
            raise DamagedData(f"the message makes no sense: {error}") from error
        reader.require_end()
        return message

    def _make_forms(self) -> dict[str, Form]:
        """Return the forms of all fields; some depend on the fields before them."""
        deployment, key = self.deployment, self._public_key
        shared, arms = deployment.plan.opener == "authority", deployment.settings.arms
        make = partial(make_form, public_key=key)
        name = Form(bytes, lambda reader: bytes(reader.take(ID_BYTES)))
        report = Form(
            lambda value: dump_ciphertext(value, backend=key.backend),
            lambda reader: load_ciphertext(reader.rest(), public_key=key),
        )
        half = sealed_bytes(name_bits(arms))
        return {
            "name": name,
            "task": name,
            "reason": _text(REASON_BYTES),
            "refused": make(bool),
            "unknown": make(bool),
            "later": make(bool),
            "work": Form(self._dump_work, self._load_work),
            "step": _text(STEP_BYTES),
            "features": self._shares_or(make(tuple[Ciphertext, ...]), count=deployment.numbers),
            "report": self._shares_or(report, count=deployment.settings.dim + 1),
            "batch": Form(dump_number, Reader.number),
            "decoding": Form(pack_bits, lambda reader: reader.bits(name_bits(arms))),
            "sealed": Form(bytes, lambda reader: reader.rest(half if shared else 0)),
            "halves": Form(self._parts.dump, partial(self._load_halves, size=half)),
            "boxes": Form(b"".join, _load_boxes),
            "pads": make(tuple[Ciphertext, ...]),
            "signs": Form(bytes, lambda reader: reader.rest(0, SIGN_SEED_BYTES)),
            "openings": Form(self._dump_openings, self._load_openings),
            "replies": make(tuple[Ciphertext, ...]),
            "told": Form(pack_bits, lambda r: r.bits(deployment.told_bits(r.found["work"]))),
            "offer": Form(SetupOffer.to_bytes, lambda r: SetupOffer.from_bytes(r.rest())),
            "answer": Form(SetupAnswer.to_bytes, lambda r: SetupAnswer.from_bytes(r.rest())),
            "transfer": self._garbled(TransferMessage),
            "tables": self._garbled(TablesMessage),
            "returned": self._garbled(ReturnedMessage),
            "user": name,
            "public_key": make(type(None) if shared else PublicKey),
            "recipient": make(type(None) if shared else Recipient),
        }

    def _shares_or(self, encrypted: Form, *, count: int) -> Form:
        """Return the form of what users send: in `authority` a sealed seed and so many shares."""
        shared = self.deployment.plan.opener == "authority"

        def dump(value: Any) -> bytes:
            if isinstance(value, Shared):
                return value.box + dump_shares(value.shares)
            return encrypted.dump(value)

        def load(reader: Reader) -> Any:
            if not shared:
                return encrypted.load(reader)
            box = bytes(reader.take(BOX_BYTES))
            return Shared(box=box, shares=load_shares(reader.rest(), count=count))

        return Form(dump, load)

    def _dump_work(self, work: Work) -> bytes:
        subject, has_terms = work.subject, work.terms is not None
        head = _WORK.pack(_SUBJECTS.index(subject), work.count, has_terms)
        return head + self._terms[subject].dump(work.terms) if has_terms else head

    def _load_work(self, reader: Reader) -> Work:
        number, count, has_terms = _WORK.unpack(reader.take(_WORK.size))
        if number >= len(_SUBJECTS):
            raise DamagedData(f"expected a subject below {len(_SUBJECTS)}, got {number}")
        subject = _SUBJECTS[number]
        if has_terms != (subject in self._terms):
            raise DamagedData("expected terms for tests and updates, and for nothing else")
        terms = self._terms[subject].load(reader) if has_terms else None
        work = Work(subject=subject, count=count, terms=terms)
        self.deployment.require_work(work)
        return work

    def _dump_openings(self, values: Sequence[Opening]) -> bytes:
        backend = self._public_key.backend
        return self._parts.dump([dump_opening(each, backend=backend) for each in values])

    def _load_openings(self, reader: Reader) -> tuple[Opening, ...]:
        """Openings of as many numbers as the plan opens in the step, or for the comparison."""
        work, parts, key = reader.found["work"], self._parts.load(reader), self._opener_key
        if "step" in reader.found:
            exchanges = self.deployment.exchanges(work, reader.found["step"])
            places = [each for exchange in exchanges for each in exchange.places.values()]
        else:
            places = list(self.deployment.comparison(work).places)
        if len(parts) != len(places):
            raise DamagedData(f"expected {len(places)} openings, got {len(parts)}")
        return tuple(
            load_opening(part, backend=key.backend, key_id=key.key_id, count=len(opened))
            for part, opened in zip(parts, places, strict=True)
        )

    def _garbled(self, kind: Any) -> Form:
        """Messages about the circuit of a work."""

        def load(reader: Reader) -> Any:
            work = reader.found["work"]
            circuit = self.deployment.comparison(work).circuit
            lanes = work.count if work.subject == "ask" else 1
            return kind.from_bytes(reader.rest(), circuit=circuit, lanes=lanes)

        return Form(kind.to_bytes, load)

    def _load_halves(self, reader: Reader, *, size: int) -> tuple[bytes, ...]:
        halves: tuple[bytes, ...] = self._parts.load(reader)
        if any(len(each) != size for each in halves):
            raise DamagedData(f"expected sealed halves of {size} bytes each")
        return halves


def _load_boxes(reader: Reader) -> tuple[bytes, ...]:
    return tuple(bytes(reader.take(BOX_BYTES)) for _ in range(reader.found["work"].count))


def _text(size: int) -> Form:
    """Texts that are cut or filled up to one length."""
    return Form(
        lambda text: text.encode()[:size].ljust(size, b"\0"),
        lambda reader: bytes(reader.take(size)).rstrip(b"\0").decode(errors="replace"),
    )
