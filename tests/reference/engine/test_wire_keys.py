"""Bytes of a key neither get under somebody else's tag nor decide what a process sets up."""

from __future__ import annotations

import gc
import json
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from helba.errors import DamagedData, EngineError, WrongVector
from helba.reference.engine import get_scheme
from helba.reference.engine.wire.packing import pack_words, unpack_words
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import open_keyed
from tests.reference.engine.keeping import (
    describe,
    frames,
    held,
    insecure_small,
    load_key,
    make_key,
    make_way,
    old_heap_apart,
    remove_unused,
    require_right,
)
from tests.reference.engine.tampering import open_sealed

pytestmark = [pytest.mark.ckks, pytest.mark.usefixtures("heap")]


@pytest.fixture(scope="module")
def heap() -> Iterator[None]:
    with old_heap_apart():
        yield


# -- keys under somebody else's tag


@pytest.mark.parametrize("ring_dim", [1 << 10, 1 << 11, 1 << 12])
def test_key_of_a_stranger_is_refused_while_its_tag_is_in_use(ring_dim: int) -> None:
    keyed, _ = make_key()
    parameters = insecure_parameters(ring_dim=ring_dim, depth=6, scale_bits=45)
    _, other = make_key(parameters=parameters)
    tag, identity = keyed.keys.public.tag, keyed.keys.public.identity
    forged = open_sealed(other, tag=tag.encode())
    with pytest.raises(DamagedData, match="another owner is in use"):
        load_key(forged.seal())
    with pytest.raises(DamagedData, match="is in use"):
        load_key(describe(forged, identity=identity).seal())
    assert held(tag) == (1, 2)
    require_right(keyed)


@pytest.mark.parametrize("ring_dim", [1 << 10, 1 << 11, 1 << 12])
def test_key_of_a_stranger_that_came_first_serves_nobody(ring_dim: int) -> None:
    scheme = get_scheme("ckks")
    keyed, data = make_key()
    public = keyed.keys.public
    parameters = insecure_parameters(ring_dim=ring_dim, depth=6, scale_bits=45)
    _, other = make_key(parameters=parameters)
    del keyed
    remove_unused()
    forged = load_key(open_sealed(other, tag=public.tag.encode()).seal())
    with pytest.raises(WrongVector):
        scheme.engine(public, evaluation_key=forged)
    with pytest.raises(DamagedData, match="another owner is in use"):
        load_key(data)
    del forged
    gc.collect()
    key = load_key(data)
    assert scheme.engine(public, evaluation_key=key).evaluation_key is key


def test_rotations_are_not_added_to_a_key_in_use() -> None:
    keyed, data = make_key((1, 2))
    other, more = make_key((1, 2, 3))
    opened = open_sealed(data)
    opened.payload += frames(open_sealed(more).payload)[3]
    with pytest.raises(DamagedData, match="does not hold as much"):
        load_key(describe(opened, rotations=[1, 2, 3]).seal())
    assert held(keyed.keys.public.tag) == (1, 2)
    part = describe(open_sealed(data), rotations=[1])
    part.payload = b"".join(frames(part.payload)[:2])
    assert load_key(part.seal()).rotations == {1}
    require_right(keyed)
    require_right(other)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_key_that_differs_in_one_residue_is_refused_while_its_tag_is_in_use(place: int) -> None:
    keyed, data = make_key()
    opened = open_sealed(data)
    parts = frames(opened.payload)
    towers = insecure_small.depth + 1 + insecure_small.auxiliary_primes
    count = 2 * insecure_small.digits * towers * insecure_small.ring_dim
    words = unpack_words(memoryview(parts[place])[8:], count=count).copy()
    words[-1] ^= 1
    packed = pack_words(words)
    parts[place] = struct.pack("<Q", len(packed)) + packed
    opened.payload = b"".join(parts)
    with pytest.raises(DamagedData, match="it is another one"):
        load_key(opened.seal())
    parts[place] = (
        struct.pack("<Q", 8 * count) + (words ^ (np.arange(count) == count - 1)).tobytes()
    )
    opened.payload = b"".join(parts)
    assert load_key(opened.seal()).rotations == {1, 2}  # packed in another way, and the same
    require_right(keyed)


@pytest.mark.parametrize("tag", [b"simulated-00", b"0" * 31, b"0" * 33, b"z" * 32])
def test_key_with_a_false_tag_is_refused(tag: bytes) -> None:
    scheme = get_scheme("ckks")
    keyed = open_keyed("ckks", parameters=insecure_small, rotations=(1, 2, 3))
    public = open_sealed(scheme.public_key_to_bytes(keyed.keys.public), tag=tag).seal()
    with pytest.raises(DamagedData, match="tag"):
        scheme.public_key_from_bytes(public, allow_insecure=True)
    evaluation = open_sealed(scheme.evaluation_key_to_bytes(keyed.keys.evaluation), tag=tag).seal()
    with pytest.raises(DamagedData, match="tag"):
        scheme.evaluation_key_from_bytes(evaluation, allow_insecure=True)
    written = scheme.reencryption_key_to_bytes(make_way(keyed))
    with pytest.raises(DamagedData, match="tag"):
        scheme.reencryption_key_from_bytes(
            open_sealed(written, tag=tag).seal(), allow_insecure=True
        )
    opened = open_sealed(written)
    to = {**json.loads(opened.detail)["leads_to"], "tag": tag.decode()}
    with pytest.raises(DamagedData, match="tag"):
        scheme.reencryption_key_from_bytes(
            describe(opened, leads_to=to).seal(), allow_insecure=True
        )


def test_public_key_under_another_tag_is_refused() -> None:
    scheme = get_scheme("ckks")
    keyed, _ = make_key()
    opened = open_sealed(scheme.public_key_to_bytes(keyed.keys.public), tag=b"0" * 32)
    with pytest.raises(DamagedData, match="not the one that it names"):
        scheme.public_key_from_bytes(opened.seal(), allow_insecure=True)


def test_key_that_names_no_public_key_is_refused() -> None:
    keyed, data = make_key()
    with pytest.raises(DamagedData, match="does not name its public key"):
        load_key(describe(open_sealed(data), identity="").seal())
    require_right(keyed)


# -- what bytes may set up


def test_short_payload_opens_no_context() -> None:
    import openfhe as fhe

    scheme = get_scheme("ckks")
    keyed, data = make_key()
    before = len(fhe.GetAllContexts())
    never_opened = insecure_parameters(ring_dim=1 << 12, depth=7, scale_bits=44)
    written = {
        "public": (scheme.public_key_to_bytes(keyed.keys.public), scheme.public_key_from_bytes),
        "evaluation": (data, scheme.evaluation_key_from_bytes),
        "secret": (scheme.secret_key_to_bytes(keyed.keys.secret), scheme.secret_key_from_bytes),
        "re-encryption": (
            scheme.reencryption_key_to_bytes(make_way(keyed)),
            scheme.reencryption_key_from_bytes,
        ),
    }
    for sealed, read in written.values():
        opened = open_sealed(sealed, fingerprint=never_opened.fingerprint.encode())
        fields = json.loads(opened.detail)["parameters"]
        changed = {name: getattr(never_opened, name) for name in fields}
        describe(opened, parameters=changed)
        for payload in (b"", opened.payload):
            opened.payload = payload
            with pytest.raises(DamagedData, match="too few for the"):
                read(opened.seal(), allow_insecure=True)
    assert len(fhe.GetAllContexts()) == before


def test_evaluation_key_of_zeros_is_refused_before_it_is_unpacked() -> None:
    keyed, data = make_key()
    opened = describe(open_sealed(data), rotations=list(range(1, 200)))
    part = struct.pack("<Q", 100) + bytes(100)
    opened.payload = part * 200
    with pytest.raises(DamagedData, match="too few for the"):
        load_key(opened.seal())
    whole = frames(open_sealed(data).payload)
    opened = describe(open_sealed(data), rotations=[1, 2, 3])
    opened.payload = b"".join(whole) + part
    with pytest.raises(DamagedData, match="shorter than residues can be"):
        load_key(opened.seal())
    require_right(keyed)


def test_bytes_set_up_a_limited_number_of_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    from helba.reference.engine.ckks import admission

    scheme = get_scheme("ckks")
    monkeypatch.setattr(admission, "MOST_STRANGE", 2)
    monkeypatch.setattr(admission, "_strange", set())
    written = []
    for depth in (2, 3, 4):
        parameters = insecure_parameters(ring_dim=1 << 10, depth=depth)
        written.append(scheme.public_key_to_bytes(scheme.generate_keys(parameters).public))
    for data in written:
        scheme.public_key_from_bytes(data, allow_insecure=True)  # the process's own choice
    monkeypatch.setattr(admission, "_chosen", set())
    for data in written[:2] * 2:
        scheme.public_key_from_bytes(data, allow_insecure=True)
    with pytest.raises(EngineError, match="name the expected ones"):
        scheme.public_key_from_bytes(written[2], allow_insecure=True)
    scheme.public_key_from_bytes(written[2], parameters=parameters)
    scheme.public_key_from_bytes(written[2], allow_insecure=True)
