"""Re-encryption keys as bytes: what they hold, and what is refused."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from helba.errors import (
    DamagedData,
    MissingKey,
    WrongVector,
)
from helba.reference.engine.keys import Recipient
from helba.reference.engine.wire.packing import pack_words, unpack_words
from helba.reference.planning.parameters import insecure_parameters
from tests.reference.engine.keeping import describe
from tests.reference.engine.reading import read_residues
from tests.reference.engine.switching import (
    Parties,
    close,
    insecure_other,
    insecure_small,
    meet,
    numbers,
)
from tests.reference.engine.tampering import open_sealed

# -- bytes


@pytest.mark.parametrize("level", range(insecure_small.depth + 1))
def test_keys_survive_their_bytes(parties: Parties, level: int) -> None:
    scheme, key = parties.scheme, parties.way_out(level=level)
    data = scheme.reencryption_key_to_bytes(key)
    found = scheme.reencryption_key_from_bytes(data, parameters=insecure_small)
    assert scheme.reencryption_key_to_bytes(found) == data
    assert found.belongs_to(key)
    assert found.leads_to(parties.user.public)
    assert found.level == level
    engine = parties.collective.engine
    for at in range(level, insecure_small.depth + 1):
        sent = engine.reencrypt(engine.encrypt(numbers(), level=at), key=found)
        assert np.abs(parties.read(sent) - numbers()).max() <= close(at)
    if level:
        with pytest.raises(MissingKey):
            engine.reencrypt(engine.encrypt(numbers(), level=level - 1), key=found)


@pytest.mark.ckks
def test_bytes_hold_what_the_level_needs() -> None:
    parties, width = meet("ckks"), insecure_small.digit_width
    auxiliary = len(_rows(parties.user.public)) - (insecure_small.depth + 1)
    for level in range(insecure_small.depth + 1):
        left = insecure_small.depth + 1 - level
        rows = 2 * math.ceil(left / width) * (left + auxiliary)
        data = parties.scheme.reencryption_key_to_bytes(parties.way_out(level=level))
        payload = open_sealed(data).payload
        words = unpack_words(memoryview(payload), count=rows * insecure_small.ring_dim)
        assert words.reshape(rows, -1).max(axis=1).all()
        with pytest.raises(DamagedData):
            unpack_words(memoryview(payload), count=(rows + 1) * insecure_small.ring_dim)


def _rows(public: object) -> tuple[int, ...]:
    """The moduli of one polynomial of a public key."""
    from helba.reference.engine.ckks.wire import _samples

    moduli = _samples(public.parameters).public.moduli  # type: ignore[attr-defined]
    return moduli[: len(moduli) // 2]


@pytest.mark.ckks
def test_key_of_bytes_gives_the_same_ciphertext() -> None:
    parties = meet("ckks")
    engine, key = parties.collective.engine, parties.way_out(level=3)
    data = parties.scheme.reencryption_key_to_bytes(key)
    found = parties.scheme.reencryption_key_from_bytes(data, parameters=insecure_small)
    for level in (3, 4, 5):
        vector = engine.encrypt(numbers(), level=level)
        made = [
            read_residues(parties.user_engine, engine.reencrypt(vector, key=each))
            for each in (key, found)
        ]
        np.testing.assert_array_equal(*made)


def test_keys_neither_print_nor_pickle(parties: Parties) -> None:
    key = parties.way_out(level=2)
    assert repr(key) == f"<ReencryptionKey of {insecure_small.fingerprint}>"
    for action in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            action(key)
    way = Recipient(key=key, public_key=parties.user.public)
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        pickle.dumps(way)


LEADS = {
    "missing": None,
    "a list": [],
    "a text": "nowhere",
    "no level": {"level": ...},
    "no tag": {"tag": ...},
    "no identity": {"identity": ...},
    "unknown field": {"more": 1},
    "level below": {"level": -1},
    "level beyond": {"level": insecure_small.depth + 1},
    "level as text": {"level": "2"},
    "level as truth": {"level": True},
    "level as fraction": {"level": 2.0},
    "tag as number": {"tag": 7},
    "tag empty": {"tag": ""},
    "tag too long": {"tag": "a" * 49},
    "tag with others": {"tag": "A" * 32},
    "tag with a line": {"tag": "0" * 32 + "\n"},
    "identity as number": {"identity": 7},
    "identity too short": {"identity": "0" * 63},
    "identity with others": {"identity": "g" * 64},
}


@pytest.mark.parametrize("change", LEADS)
def test_false_destinations_are_refused(parties: Parties, change: str) -> None:
    scheme = parties.scheme
    opened = open_sealed(scheme.reencryption_key_to_bytes(parties.way_out(level=2)))
    to, fields = json.loads(opened.detail)["leads_to"], LEADS[change]
    if isinstance(fields, dict):
        to = {name: value for name, value in {**to, **fields}.items() if value is not ...}
    else:
        to = fields
    with pytest.raises(DamagedData):
        scheme.reencryption_key_from_bytes(
            describe(opened, leads_to=to).seal(), parameters=insecure_small
        )


def test_false_descriptions_are_refused(parties: Parties) -> None:
    scheme = parties.scheme
    data = scheme.reencryption_key_to_bytes(parties.way_out(level=2))

    def refuse(changed: bytes, *, match: str = ".", parameters: object = insecure_small) -> None:
        with pytest.raises(DamagedData, match=match):
            scheme.reencryption_key_from_bytes(changed, parameters=parameters)  # type: ignore[arg-type]

    refuse(data, match="no security", parameters=None)
    refuse(data, match="other parameters", parameters=insecure_other)
    refuse(describe(open_sealed(data), rotations=[1]).seal(), match="neither rotates")
    refuse(describe(open_sealed(data), more=1).seal(), match="one form")
    refuse(describe(open_sealed(data), identity="g" * 64).seal())
    refuse(open_sealed(data, fingerprint=b"0" * 16).seal(), match="other parameters")
    for header in ({"slots": 8}, {"level": 2}):
        refuse(open_sealed(data, **header).seal(), match="neither slots nor level")
    for kind in (0, 3, 4, 5, 11, 65535):
        refuse(open_sealed(data, kind=kind).seal())
    other = "ckks" if scheme.name == "simulate" else "simulate"
    refuse(open_sealed(data, scheme=other.encode()).seal())
    refuse(open_sealed(data, library=b"openfhe 1.0.0").seal())
    for tag in (b"", b"x", b"0" * 31):
        refuse(open_sealed(data, tag=tag).seal())
    opened = open_sealed(data)
    opened.detail = opened.detail.replace(b'"leads_to"', b'"leads_up"')
    refuse(opened.seal())
    for cut in (0, 100, len(data) - 1):
        refuse(data[:cut])
    refuse(data + b"x")
    scheme.reencryption_key_from_bytes(data, allow_insecure=True)


def test_kinds_are_not_mistaken_for_one_another(parties: Parties) -> None:
    scheme, keys = parties.scheme, parties.collective.keys
    data = scheme.reencryption_key_to_bytes(parties.way_out())
    for read in (
        scheme.public_key_from_bytes,
        scheme.evaluation_key_from_bytes,
        scheme.secret_key_from_bytes,
    ):
        with pytest.raises(DamagedData):
            read(data, parameters=insecure_small)
    to = json.loads(open_sealed(data).detail)["leads_to"]
    for written, read in (
        (scheme.public_key_to_bytes(keys.public), scheme.public_key_from_bytes),
        (scheme.evaluation_key_to_bytes(keys.evaluation), scheme.evaluation_key_from_bytes),
        (scheme.secret_key_to_bytes(keys.secret), scheme.secret_key_from_bytes),
    ):
        with pytest.raises(DamagedData):
            scheme.reencryption_key_from_bytes(written, parameters=insecure_small)
        with pytest.raises(DamagedData, match="leads nowhere"):
            read(describe(open_sealed(written), leads_to=to).seal(), parameters=insecure_small)


@pytest.mark.ckks
def test_false_residues_are_refused() -> None:
    parties = meet("ckks")
    scheme, level = parties.scheme, 3
    data = scheme.reencryption_key_to_bytes(parties.way_out(level=level))
    left = insecure_small.depth + 1 - level
    auxiliary = len(_rows(parties.user.public)) - (insecure_small.depth + 1)
    rows = 2 * math.ceil(left / insecure_small.digit_width) * (left + auxiliary)
    opened = open_sealed(data)
    words = unpack_words(memoryview(opened.payload), count=rows * insecure_small.ring_dim)
    words = words.reshape(rows, -1)

    def refuse(changed: NDArray[np.uint64], match: str) -> None:
        opened.payload = pack_words(np.ascontiguousarray(changed))
        with pytest.raises(DamagedData, match=match):
            scheme.reencryption_key_from_bytes(opened.seal(), parameters=insecure_small)

    for row in range(rows):
        changed = words.copy()
        changed[row, -1] = 2**60
        refuse(changed, "not below its modulus")
        changed[row] = 0
        refuse(changed, "all zeros|shorter")
    refuse(words[:-1], "too few|shorter|unpack|packed")
    refuse(np.zeros_like(words), "too few|shorter|all zeros")
    opened.payload = b""
    with pytest.raises(DamagedData, match="too few"):
        scheme.reencryption_key_from_bytes(opened.seal(), parameters=insecure_small)
    # a key of a later level is too short for an earlier one, and the other way round
    for other in (level - 1, level + 1):
        opened = open_sealed(data)
        to = {**json.loads(opened.detail)["leads_to"], "level": other}
        with pytest.raises(DamagedData):
            scheme.reencryption_key_from_bytes(
                describe(opened, leads_to=to).seal(), parameters=insecure_small
            )


@pytest.mark.ckks
def test_short_keys_set_nothing_up() -> None:
    import openfhe as fhe

    parties = meet("ckks")
    scheme = parties.scheme
    data = scheme.reencryption_key_to_bytes(parties.way_out(level=2))
    never_opened = insecure_parameters(ring_dim=1 << 12, depth=7, scale_bits=43)
    before = len(fhe.GetAllContexts())
    opened = open_sealed(data, fingerprint=never_opened.fingerprint.encode())
    fields = json.loads(opened.detail)["parameters"]
    describe(opened, parameters={name: getattr(never_opened, name) for name in fields})
    with pytest.raises(DamagedData, match="too few for the"):
        scheme.reencryption_key_from_bytes(opened.seal(), allow_insecure=True)
    assert len(fhe.GetAllContexts()) == before
    # nor does a key that names no public key of its own or of its recipient
    for change in ({"identity": ""}, {"leads_to": {"identity": ""}}):
        opened = open_sealed(data)
        document = json.loads(opened.detail)
        if "leads_to" in change:
            change = {"leads_to": {**document["leads_to"], "identity": ""}}
        with pytest.raises(DamagedData, match="does not name its public key"):
            scheme.reencryption_key_from_bytes(
                describe(opened, **change).seal(), parameters=insecure_small
            )


def test_key_that_was_renamed_serves_nobody(parties: Parties) -> None:
    scheme = parties.scheme
    stranger = scheme.generate_pair(insecure_small)
    key = parties.way_out()
    opened = open_sealed(
        scheme.reencryption_key_to_bytes(key), tag=parties.user.public.tag.encode()
    )
    renamed = scheme.reencryption_key_from_bytes(opened.seal(), parameters=insecure_small)
    engine = parties.collective.engine
    with pytest.raises(WrongVector, match="another owner"):
        engine.reencrypt(engine.encrypt(numbers()), key=renamed)
    opened = open_sealed(scheme.reencryption_key_to_bytes(key))
    to = {**json.loads(opened.detail)["leads_to"], "tag": stranger.public.tag}
    describe(opened, leads_to=to)
    renamed = scheme.reencryption_key_from_bytes(opened.seal(), parameters=insecure_small)
    with pytest.raises(WrongVector, match="leads to another"):
        Recipient(key=renamed, public_key=parties.user.public)
    if scheme.name == "ckks":  # a tag is not all: identities name the public key
        with pytest.raises(WrongVector, match="leads to another"):
            Recipient(key=renamed, public_key=stranger.public)
    assert replace(Recipient(key=key, public_key=parties.user.public)).key is key
