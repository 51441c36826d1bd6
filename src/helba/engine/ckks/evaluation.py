"""Evaluation keys as packed residues: relinearisation, one key for each rotation, bootstrapping.

OpenFHE keeps them in maps of the process, by key tag. They are written and read one by one, each
through the template of a key that was made here for that purpose (see `template`): no more than one
is in memory twice. Bootstrapping keys are the exception. One of them has a form of its own, which
OpenFHE only makes together with the others, so they are read together.

The payload is a sequence of packed keys, each after its length: relinearisation, rotations in the
order of their automorphisms, bootstrapping keys in the order of theirs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import openfhe as fhe

from helba.engine.ckks.context import open_context
from helba.engine.ckks.ownership import forget_keys
from helba.engine.ckks.process import require_own_randomness
from helba.engine.ckks.template import Template, find_rows, gather_rows, read_residues
from helba.engine.ckks.wire import parse, require_tag
from helba.engine.description import Description
from helba.engine.keys import EvaluationKey
from helba.engine.packing import pack_words
from helba.errors import DamagedData, EngineError, MissingKey
from helba.planning.bootstrap import BOOTSTRAP_BUDGET
from helba.planning.parameters import Parameters

__all__ = ["dump_evaluation_key", "load_evaluation_keys"]

_LENGTH = struct.Struct("<Q")
# A serialised map of one key starts with a pointer (5 bytes), the count, the automorphism.
_MAP_HEAD = struct.Struct("<QI")
_MAP_HEAD_AT = 5
_SAMPLE_AUTOMORPHISM = 5


def dump_evaluation_key(key: EvaluationKey) -> list[bytes]:
    """Return the parts of the payload; `MissingKey` if OpenFHE no longer has the keys."""
    maps: Any = fhe.CryptoContext
    samples = _samples(key.parameters)
    if key.tag not in maps.GetAllEvalMultKeys():
        raise MissingKey("OpenFHE no longer has these evaluation keys")
    product = fhe.Serialize(maps.GetEvalMultKeyVector(key.tag)[0], fhe.BINARY)
    parts = _framed(samples.product.dump(product))
    rotations = _automorphisms(key.parameters, key.rotations)
    extra = _bootstrap(key.parameters, key.bootstrap_slots) if key.bootstrap_slots else None
    wanted = [*rotations, *(extra.moduli if extra else ())]
    if not wanted:
        return parts
    packed = _dump_map(key, wanted=set(wanted), samples=samples, extra=extra)
    for automorphism in wanted:
        parts += _framed(packed[automorphism])
    return parts


def load_evaluation_keys(data: memoryview, *, description: Description, tag: str) -> None:
    """Put the keys into OpenFHE's maps, or raise `DamagedData` and leave them as they are.

    What is there already under this tag stays: bytes never replace a key that is in use.
    """
    maps: Any = fhe.CryptoContext
    parameters = description.parameters
    samples = _samples(parameters).with_tag(require_tag(tag))
    packed = _unframed(data)
    product = parse(fhe.DeserializeEvalKeyString, samples.product.load(_next(packed)))
    groups = [
        parse(
            fhe.DeserializeEvalKeyMapString,
            samples.rotation_by(automorphism).load(_next(packed)),
        )
        for automorphism in _automorphisms(parameters, frozenset(description.rotations))
    ]
    if description.bootstrap_slots:
        extra = _bootstrap(parameters, description.bootstrap_slots)
        rows = [
            read_residues(_next(packed), ring_dim=parameters.ring_dim, moduli=moduli)
            for moduli in extra.moduli.values()
        ]
        template = extra.template.with_tag(tag, old=extra.tag)
        groups.append(parse(fhe.DeserializeEvalKeyMapString, template.fill(np.concatenate(rows))))
    if next(packed, None) is not None:
        raise DamagedData("the evaluation key holds more keys than it describes")
    if tag not in maps.GetAllEvalMultKeys():
        maps.InsertEvalMultKey([product], tag)
    for group in groups:
        maps.InsertEvalAutomorphismKey(group, tag)


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
        forget_keys(tag)
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
        forget_keys(tag)
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


def _dump_map(
    key: EvaluationKey, *, wanted: set[int], samples: _Samples, extra: _Bootstrap | None
) -> dict[int, bytes]:
    """The packed keys that are `wanted`, by automorphism, out of OpenFHE's map."""
    maps: Any = fhe.CryptoContext
    present = maps.GetExistingEvalAutomorphismKeyIndices(key.tag)
    if not wanted <= set(present):
        raise MissingKey("OpenFHE no longer has these evaluation keys")
    ring_dim = key.parameters.ring_dim
    data = fhe.Serialize(maps.GetEvalAutomorphismKeyMap(key.tag), fhe.BINARY)
    packed, start = {}, 0
    for automorphism in present:
        moduli = samples.rotation.moduli
        if extra is not None:
            moduli = extra.moduli.get(automorphism, moduli)
        rows = find_rows(data, ring_dim=ring_dim, moduli=moduli, start=start)
        if automorphism in wanted:
            packed[automorphism] = pack_words(gather_rows(data, rows, ring_dim=ring_dim))
        start = rows[-1] + 8 * ring_dim
    return packed


def _automorphisms(parameters: Parameters, steps: frozenset[int]) -> list[int]:
    context = open_context(parameters)
    return sorted(context.FindAutomorphismIndex(step) for step in steps)


def _framed(packed: bytes) -> list[bytes]:
    return [_LENGTH.pack(len(packed)), packed]


def _next(packed: Iterator[memoryview]) -> memoryview:
    found = next(packed, None)
    if found is None:
        raise DamagedData("the evaluation key holds fewer keys than it describes")
    return found


def _unframed(data: memoryview) -> Iterator[memoryview]:
    while len(data):
        if len(data) < _LENGTH.size:
            raise DamagedData("the evaluation key ends in the middle of a length")
        (size,) = _LENGTH.unpack_from(data)
        if size > len(data) - _LENGTH.size:
            raise DamagedData("the evaluation key ends in the middle of a key")
        yield data[_LENGTH.size : _LENGTH.size + size]
        data = data[_LENGTH.size + size :]
