"""Forms of values as bytes, and the reader that takes them off a message or a stored state.

    int, float  8 bytes      bool  a byte, 0 or 1      X | None  a bool, then the X
    bytes, ciphertext, key, shares: their length, then they      tuple, mapping: how many, then they
    lengths and how many: 4 bytes

A dataclass is its fields, in their order. What cannot be read is `DamagedData`, or what the class
raises for fields that make no sense.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from helba.errors import DamagedData
from helba.garbling.circuits.circuit import Bits
from helba.protocol.box import unpack_bits
from helba.ring import Ciphertext, PublicKey, Recipient
from helba.ring.backend import Backend
from helba.ring.sharing.integer import Integers
from helba.ring.sharing.pad import NUMBER_BYTES, SHARE_DIGEST_BYTES, dump_shares, load_shares
from helba.ring.wire import (
    dump_ciphertext,
    dump_key,
    load_ciphertext,
    load_public_key,
    load_reencryption_key,
)

MOST_PARTS = 1 << 16  # of a tuple
_hints: Callable[[Any], dict[str, Any]] = cache(get_type_hints)
_FLOAT = struct.Struct("<d")
_INTEGER = struct.Struct("<Q")


class Reader:
    """Takes values off some bytes from the front; `found` are the fields of a message so far."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self.found: dict[str, Any] = {}

    def take(self, count: int) -> memoryview:
        """Take so many bytes."""
        if count > len(self._view):
            raise DamagedData(f"the data is cut: expected {count} more bytes")
        taken, self._view = self._view[:count], self._view[count:]
        return taken

    def rest(self, *sizes: int) -> bytes:
        """Take what is left; where sizes are given, it has one of them."""
        if sizes and len(self._view) not in sizes:
            raise DamagedData(f"expected {sizes[-1]} bytes at the end, got {len(self._view)}")
        return bytes(self.take(len(self._view)))

    def number(self) -> int:
        """Take what `dump_number` wrote."""
        return int.from_bytes(self.take(4), "little")

    def flag(self) -> bool:
        """Take a bool."""
        value = self.take(1)[0]
        if value > 1:
            raise DamagedData(f"expected a flag, 0 or 1, got {value}")
        return bool(value)

    def part(self) -> memoryview:
        """Take bytes that say how many they are."""
        return self.take(self.number())

    def bits(self, count: int) -> Bits:
        """Take bits, eight a byte."""
        return unpack_bits(self.take(-(-count // 8)), count=count)

    def require_end(self) -> None:
        """Raise `DamagedData` unless everything was taken."""
        if len(self._view):
            raise DamagedData(f"expected the end of the data, got {len(self._view)} bytes more")


class Form(NamedTuple):
    """A pair of functions: writes a value as bytes, and reads it off the front of the rest."""

    dump: Callable[[Any], bytes]
    load: Callable[[Reader], Any]


def make_form(kind: Any, *, public_key: PublicKey) -> Form:
    """Return the form of a type; ciphertexts are under this key."""
    if kind in _FORMS:
        return _FORMS[kind]
    if kind is Ciphertext:
        return Form(
            lambda value: _frame(dump_ciphertext(value, backend=public_key.backend)),
            lambda reader: load_ciphertext(reader.part(), public_key=public_key),
        )
    if kind is PublicKey:
        load = partial(_load_key, backend=public_key.backend)
        return Form(lambda key: _frame(dump_key(key)), load)
    if kind is Recipient:
        return Form(_dump_recipient, partial(_load_recipient, public_key=public_key))
    if kind == Integers:
        return Form(lambda shares: _frame(dump_shares(shares)), _load_shares)
    make = partial(make_form, public_key=public_key)
    if is_dataclass(kind):
        return _fields(kind, {name: make(hint) for name, hint in _hints(kind).items()})
    combine = _COMBINED[get_origin(kind)]
    return combine(*(make(each) for each in get_args(kind) if each is not ...))


def dump_number(number: int) -> bytes:
    """Return a length, how many there are, or another number below 2^32."""
    return number.to_bytes(4, "little")


def _frame(part: bytes) -> bytes:
    return dump_number(len(part)) + part


def _load_shares(reader: Reader) -> Any:
    part = reader.part()
    return load_shares(part, count=(len(part) - SHARE_DIGEST_BYTES) // NUMBER_BYTES)


def _load_key(reader: Reader, *, backend: Backend) -> PublicKey:
    return load_public_key(reader.part(), parameters=backend.parameters, backend=backend)


def _dump_recipient(value: Recipient) -> bytes:
    return _frame(dump_key(value.public)) + _frame(dump_key(value.reencryption))


def _load_recipient(reader: Reader, *, public_key: PublicKey) -> Recipient:
    public = _load_key(reader, backend=public_key.backend)
    way = load_reencryption_key(reader.part(), public_key=public_key, to=public)
    return Recipient(public=public, reencryption=way)


def _fields(kind: Any, forms: dict[str, Form]) -> Form:
    return Form(
        lambda value: b"".join(form.dump(getattr(value, name)) for name, form in forms.items()),
        lambda reader: kind(**{name: form.load(reader) for name, form in forms.items()}),
    )


def _optional(form: Form, nothing: Form) -> Form:
    if nothing is not _FORMS[NoneType]:
        raise TypeError("a union has a form only as X | None")
    return Form(
        lambda value: b"\0" if value is None else b"\1" + form.dump(value),
        lambda reader: form.load(reader) if reader.flag() else None,
    )


def _tuple(form: Form) -> Form:
    def load(reader: Reader) -> tuple[Any, ...]:
        count = reader.number()
        if count > MOST_PARTS:
            raise DamagedData(f"a message has at most {MOST_PARTS} parts")
        return tuple(form.load(reader) for _ in range(count))

    return Form(lambda values: b"".join([dump_number(len(values)), *map(form.dump, values)]), load)


def _mapping(key: Form, value: Form) -> Form:
    def dump(found: Any) -> bytes:
        pairs = [key.dump(name) + value.dump(each) for name, each in found.items()]
        return dump_number(len(pairs)) + b"".join(pairs)

    return Form(
        dump,
        lambda reader: {key.load(reader): value.load(reader) for _ in range(reader.number())},
    )


_FORMS: dict[Any, Form] = {
    int: Form(_INTEGER.pack, lambda reader: _INTEGER.unpack(reader.take(_INTEGER.size))[0]),
    float: Form(_FLOAT.pack, lambda reader: _FLOAT.unpack(reader.take(_FLOAT.size))[0]),
    bool: Form(lambda value: bytes([value]), Reader.flag),
    bytes: Form(_frame, lambda reader: bytes(reader.part())),
    None: Form(lambda _: b"", lambda _: None),
    NoneType: Form(lambda _: b"", lambda _: None),
}
_COMBINED: dict[Any, Callable[..., Form]] = {
    UnionType: _optional,
    tuple: _tuple,
    dict: _mapping,
    Mapping: _mapping,
}
