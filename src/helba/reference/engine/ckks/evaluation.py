"""Evaluation keys as packed residues: relinearisation, one key for each rotation, bootstrapping.

OpenFHE keeps them in maps of the process, by key tag. They are written and read one by one, each
through the template of a key that was made here for that purpose (see `template`): no more than one
is in memory twice. Bootstrapping keys are the exception. One of them has a form of its own, which
OpenFHE only makes together with the others, so they are read together.

The payload is a sequence of packed keys, each after its length: relinearisation, rotations in the
order of their automorphisms, and the bootstrapping keys that are not among them.

A tag is the sender's choice, and OpenFHE does not look at what stands under it: a key of another
ring would be read past its end. So under a tag that is in use nothing is added or replaced. A key
is taken once more only if it is, residue by residue, what is there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import openfhe as fhe

from helba.errors import DamagedData, EngineError, MissingKey
from helba.reference.engine.ckks.context import open_context
from helba.reference.engine.ckks.ownership import find_entry
from helba.reference.engine.ckks.residue import (
    pack_residues,
    read_residues,
    read_rows,
    require_entropy,
)
from helba.reference.engine.ckks.wire import require_tag
from helba.reference.engine.keys import EvaluationKey
from helba.reference.engine.wire.description import Description
from helba.reference.planning.bounds.bootstrap import BOOTSTRAP_BUDGET
from helba.reference.planning.parameters import Parameters
from helba.ring.ckks.form import parse
from helba.ring.ckks.process import forget_keys, require_own_randomness
from helba.ring.ckks.template import Template, find_rows, gather_rows
from helba.ring.sharing.integer import Residues

_LENGTH = struct.Struct("<Q")
# A serialised map of one key starts with a pointer (5 bytes), the count, the automorphism.
_MAP_HEAD = struct.Struct("<QI")
_MAP_HEAD_AT = 5
_SAMPLE_AUTOMORPHISM = 5
_PRODUCT = 0  # where the relinearisation key stands; no automorphism is 0


def dump_evaluation_key(key: EvaluationKey) -> list[bytes]:
    """Return the parts of the payload; `MissingKey` if OpenFHE no longer has the keys."""
    places = _places(key.parameters, key.rotations, key.bootstrap_slots)
    packed = {
        place: pack_residues(residues) for place, residues in _resident(key.tag, wanted=set(places))
    }
    return [part for place in places for part in _framed(packed[place])]


def load_evaluation_keys(data: memoryview, *, description: Description, tag: str) -> None:
    """Put the keys into OpenFHE's maps, or raise `DamagedData` and leave them as they are.

    To be called inside `changing_maps`, and followed by `own_keys` there.
    """
    held = find_entry(require_tag(tag))
    owner = (description.parameters, description.identity)
    if held is not None and owner != (held.parameters, held.identity):
        raise DamagedData("an evaluation key of another owner is in use under the same tag")
    frames = list(_unframed(data))
    if len(frames) <= len(description.rotations):  # bootstrapping is not set up for so little
        raise DamagedData("the evaluation key holds fewer keys than it describes")
    places = _places_of(description)
    if len(frames) != len(places):
        raise DamagedData("the evaluation key does not hold as many keys as it describes")
    for frame, moduli in zip(frames, places.values(), strict=True):
        require_entropy(frame, ring_dim=description.parameters.ring_dim, moduli=moduli)
    packed = dict(zip(places, frames, strict=True))
    if held is None:
        _insert(packed, description=description, tag=tag)
    elif not set(places) <= set(_places_of(held)):
        raise DamagedData("an evaluation key of this tag is in use, and does not hold as much")
    else:
        _require_same(packed, description=description, tag=tag)


def switching_template(parameters: Parameters, *, tag: str | None = None) -> Template:
    """Return the template of a key that switches from one secret key to that of `tag`."""
    samples = _samples(parameters)
    return samples.product if tag is None else samples.product.with_tag(tag, old=samples.tag)


def _insert(packed: dict[int, memoryview], *, description: Description, tag: str) -> None:
    maps: Any = fhe.CryptoContext
    parameters = description.parameters
    samples = _samples(parameters).with_tag(tag)
    residues = read_rows(packed[_PRODUCT], template=samples.product)
    product = parse(fhe.DeserializeEvalKeyString, samples.product.fill(residues))
    groups = []
    for automorphism in _automorphisms(parameters, description.rotations):
        template = samples.rotation_by(automorphism)
        residues = read_rows(packed[automorphism], template=template)
        groups.append(parse(fhe.DeserializeEvalKeyMapString, template.fill(residues)))
    if description.bootstrap_slots:
        extra = _bootstrap(parameters, description.bootstrap_slots)
        rows = [
            read_residues(packed[automorphism], ring_dim=parameters.ring_dim, moduli=moduli)
            for automorphism, moduli in extra.moduli.items()
        ]
        template = extra.template.with_tag(tag, old=extra.tag)
        groups.append(parse(fhe.DeserializeEvalKeyMapString, template.fill(np.concatenate(rows))))
    maps.InsertEvalMultKey([product], tag)
    for group in groups:
        maps.InsertEvalAutomorphismKey(group, tag)


def _require_same(packed: dict[int, memoryview], *, description: Description, tag: str) -> None:
    """Raise `DamagedData` unless every key is the one that is held under this tag."""
    places = _places_of(description)
    for place, residues in _resident(tag, wanted=set(packed)):
        found = read_residues(
            packed[place], ring_dim=description.parameters.ring_dim, moduli=places[place]
        )
        if not np.array_equal(found, residues):
            raise DamagedData("an evaluation key of this tag is in use, and it is another one")


def _resident(tag: str, *, wanted: set[int]) -> Iterator[tuple[int, Residues]]:
    """The keys in OpenFHE's maps that are `wanted`, by place; `MissingKey` if one is not there."""
    maps: Any = fhe.CryptoContext
    held = find_entry(tag)
    present = maps.GetExistingEvalAutomorphismKeyIndices(tag)
    if held is None or tag not in maps.GetAllEvalMultKeys() or not wanted <= {_PRODUCT, *present}:
        raise MissingKey("OpenFHE no longer has these evaluation keys")
    product = fhe.Serialize(maps.GetEvalMultKeyVector(tag)[0], fhe.BINARY)
    yield _PRODUCT, _samples(held.parameters).product.gather(product)
    if wanted == {_PRODUCT}:
        return
    ring_dim, places = held.parameters.ring_dim, _places_of(held)
    data, start = fhe.Serialize(maps.GetEvalAutomorphismKeyMap(tag), fhe.BINARY), 0
    for automorphism in present:
        rows = find_rows(data, ring_dim=ring_dim, moduli=places[automorphism], start=start)
        if automorphism in wanted:
            yield automorphism, gather_rows(data, rows, ring_dim=ring_dim)
        start = rows[-1] + 8 * ring_dim


def _places_of(description: Description) -> dict[int, tuple[int, ...]]:
    return _places(description.parameters, description.rotations, description.bootstrap_slots)


def _places(
    parameters: Parameters, rotations: Iterable[int], bootstrap_slots: int
) -> dict[int, tuple[int, ...]]:
    """The moduli of every key, in the order of the payload: product, then by automorphism."""
    usual = _samples(parameters).product.moduli
    places = dict.fromkeys([_PRODUCT, *_automorphisms(parameters, rotations)], usual)
    if bootstrap_slots:
        extra = _bootstrap(parameters, bootstrap_slots).moduli
        places.update({place: extra[place] for place in extra if place not in places})
    return places


@dataclass(frozen=True, kw_only=True)
class _Samples:
    """Templates of keys that were made for this purpose and forgotten; their tag is `tag`."""

    product: Template
    rotation: Template
    tag: str

    def with_tag(self, tag: str) -> _Samples:
        return _Samples(
            product=self.product.with_tag(tag, old=self.tag),
            rotation=self.rotation.with_tag(tag, old=self.tag),
            tag=tag,
        )

    def rotation_by(self, automorphism: int) -> Template:
        head = bytearray(self.rotation.chunks[0])
        _MAP_HEAD.pack_into(head, _MAP_HEAD_AT, 1, automorphism)
        return replace(self.rotation, chunks=(bytes(head), *self.rotation.chunks[1:]))


@dataclass(frozen=True, kw_only=True)
class _Bootstrap:
    """Template of all bootstrapping keys, and the moduli of each by its automorphism."""

    template: Template
    moduli: dict[int, tuple[int, ...]]
    tag: str


@lru_cache(maxsize=16)
def _samples(parameters: Parameters) -> _Samples:
    require_own_randomness()
    context = open_context(parameters)
    pair = context.KeyGen()
    tag = pair.publicKey.GetKeyTag()
    ring_dim = parameters.ring_dim
    try:
        product = fhe.Serialize(context.KeySwitchGen(pair.secretKey, pair.secretKey), fhe.BINARY)
        turn = context.EvalAutomorphismKeyGen(pair.secretKey, [_SAMPLE_AUTOMORPHISM])
        rotation = fhe.Serialize(turn, fhe.BINARY)
    finally:
        forget_keys({tag})
    made = _Samples(
        product=Template.of(product, ring_dim=ring_dim),
        rotation=Template.of(rotation, ring_dim=ring_dim),
        tag=tag,
    )
    head = _MAP_HEAD.unpack_from(rotation, _MAP_HEAD_AT)
    if made.product.moduli != made.rotation.moduli or head != (1, _SAMPLE_AUTOMORPHISM):
        raise EngineError("OpenFHE writes keys in another way than it did")
    return made


@lru_cache(maxsize=4)
def _bootstrap(parameters: Parameters, slots: int) -> _Bootstrap:
    """Set the context up for bootstrapping, and learn what its keys look like."""
    require_own_randomness()
    context = open_context(parameters)
    pair = context.KeyGen()
    tag = pair.publicKey.GetKeyTag()
    maps: Any = fhe.CryptoContext
    context.EvalBootstrapSetup(list(BOOTSTRAP_BUDGET), [0, 0], slots)
    try:
        context.EvalBootstrapKeyGen(pair.secretKey, slots)
        automorphisms = maps.GetExistingEvalAutomorphismKeyIndices(tag)
        sample = fhe.Serialize(maps.GetEvalAutomorphismKeyMap(tag), fhe.BINARY)
    finally:
        forget_keys({tag})
    template = Template.of(sample, ring_dim=parameters.ring_dim)
    usual = _samples(parameters).product.moduli
    # all are like the others but one, which leads to the sparse secret
    short = len(template.moduli) - (len(automorphisms) - 1) * len(usual)
    moduli, start = {}, 0
    for automorphism in automorphisms:
        found = template.moduli[start : start + len(usual)]
        moduli[automorphism] = found if found == usual else found[:short]
        start += len(moduli[automorphism])
    if start != len(template.moduli):
        raise EngineError("OpenFHE writes bootstrapping keys in another way than it did")
    return _Bootstrap(template=template, moduli=moduli, tag=tag)


def _automorphisms(parameters: Parameters, steps: Iterable[int]) -> list[int]:
    context = open_context(parameters)
    return sorted(context.FindAutomorphismIndex(step) for step in steps)


def _framed(packed: bytes) -> list[bytes]:
    return [_LENGTH.pack(len(packed)), packed]


def _unframed(data: memoryview) -> Iterator[memoryview]:
    while len(data):
        if len(data) < _LENGTH.size:
            raise DamagedData("the evaluation key ends in the middle of a length")
        (size,) = _LENGTH.unpack_from(data)
        if size > len(data) - _LENGTH.size:
            raise DamagedData("the evaluation key ends in the middle of a key")
        yield data[_LENGTH.size : _LENGTH.size + size]
        data = data[_LENGTH.size + size :]
