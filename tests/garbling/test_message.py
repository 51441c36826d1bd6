"""Messages: exact lengths, and a clear error for every damaged payload."""

import gc
import hashlib
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from helba.errors import DamagedData
from helba.garbling import (
    ReturnedMessage,
    SetupAnswer,
    SetupOffer,
    TablesMessage,
    TransferMessage,
    build_argmax,
    build_ranges_check,
    predict_sizes,
)
from tests.garbling.parties import build_threshold, open_shares

CIRCUIT = build_ranges_check(((-9, 9), (-9, 9)), bits=8)
LANES = 3
NAMED = {"circuit": CIRCUIT, "lanes": LANES}
OPENING = {"transfer": TransferMessage, "tables": TablesMessage, "returned": ReturnedMessage}
SETUP = {"offer": SetupOffer, "answer": SetupAnswer}
KINDS = [*SETUP, *OPENING]
HEADER = struct.Struct("<10sBBI16s16s16s")


@pytest.fixture(scope="module")
def payloads(parties):
    zero = [np.zeros((LANES, 1), dtype=np.uint64)] * 2
    outcome = open_shares(parties, CIRCUIT, evaluator=zero, garbler=zero)
    return {
        "offer": SetupOffer(session=b"s" * 16, points=bytes(32 * 256)).to_bytes(),
        "answer": SetupAnswer(session=b"s" * 16, points=bytes(32 * 128)).to_bytes(),
        "transfer": outcome.transfer.to_bytes(),
        "tables": outcome.garbled.tables.to_bytes(),
        "returned": outcome.evaluated.returned.to_bytes(),
    }


def read(kind: str, data: bytes):
    return (
        SETUP[kind].from_bytes(data) if kind in SETUP else OPENING[kind].from_bytes(data, **NAMED)
    )


@pytest.mark.parametrize("kind", SETUP)
def test_set_up_names_no_opening(payloads, kind):
    data = bytearray(payloads[kind])
    start = 32 + HEADER.size - 32  # of the name, after the session
    data[start : start + 16] = b"n" * 16
    with pytest.raises(DamagedData, match="names no opening"):
        read(kind, renew_digest(bytes(data)))


def renew_digest(data: bytes) -> bytes:
    return hashlib.sha256(data[32:]).digest() + data[32:]


@pytest.mark.parametrize("kind", KINDS)
def test_message_survives_its_bytes(payloads, kind):
    assert read(kind, payloads[kind]).to_bytes() == payloads[kind]
    assert read(kind, renew_digest(payloads[kind])).to_bytes() == payloads[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_10_000_damaged_payloads_give_a_clear_error_each(payloads, kind):
    rng = np.random.default_rng(KINDS.index(kind))
    good = payloads[kind]
    for i in range(10_000):
        if i == 100:
            gc.collect()
            before = count_memory()
        data = bytearray(good)
        place = int(rng.integers(len(good)))
        match i % 5:
            case 0:
                data[place] ^= 1 << int(rng.integers(8))
            case 1:
                data = data[:place]
            case 2:
                data += rng.bytes(int(rng.integers(1, 40)))
            case 3:
                end = place + int(rng.integers(1, 64))
                data[place:end] = rng.bytes(len(data[place:end]))
                if data == good:
                    continue
            case 4:
                # The header is damaged and the digest made anew: all but session and name counts.
                at = 32 + int(rng.choice([*range(16), *range(48, 64)]))
                data[at] ^= 1 + int(rng.integers(255))
                data = renew_digest(bytes(data))
        with pytest.raises(DamagedData, match=r"^expected .*, got "):
            read(kind, bytes(data))
    gc.collect()
    assert count_memory() - before < 5 << 20


def count_memory() -> int:
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("kind", KINDS)
def test_message_of_one_kind_is_not_one_of_another(payloads, kind):
    for other in KINDS:
        if other != kind:
            with pytest.raises(DamagedData):
                read(kind, payloads[other])
            size = len(payloads[kind])
            with pytest.raises(DamagedData, match="kind"):
                read(kind, renew_digest((payloads[other] + bytes(size))[:size]))


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        (0, b"helba-ring", "expected a message of garbling"),
        (1, 2, "expected a message of version 1, got version 2"),
        (2, 9, "got kind 9"),
        (3, 4, "expected a message for 3 lanes, got one for 4"),
        (6, b"c" * 16, "expected a message for this circuit"),
    ],
)
def test_header_that_is_another_is_named(payloads, field, value, text):
    good = payloads["tables"]
    fields = list(HEADER.unpack(good[32:96]))
    fields[field] = value
    with pytest.raises(DamagedData, match=text):
        read("tables", renew_digest(good[:32] + HEADER.pack(*fields) + good[96:]))


@pytest.mark.parametrize("lanes", [1, 2, 7, 64])
@pytest.mark.parametrize(
    "circuit",
    [build_argmax(1, bits=8), build_argmax(3, bits=9), build_threshold(bits=12), CIRCUIT],
    ids=["constant", "argmax", "threshold", "range"],
)
def test_sizes_are_predicted(any_parties, circuit, lanes):
    zero = [np.zeros((lanes, group.values), dtype=np.uint64) for group in circuit.groups]
    outcome = open_shares(any_parties, circuit, evaluator=zero, garbler=zero)
    sizes = predict_sizes(circuit, lanes=lanes)
    assert len(outcome.transfer.to_bytes()) == sizes.transfer
    assert len(outcome.garbled.tables.to_bytes()) == sizes.tables
    returned = outcome.evaluated.returned
    assert (len(returned.to_bytes()) if returned else 0) == sizes.returned


def test_circuit_without_returned_bits_has_no_returned_message(payloads):
    for data in (b"", payloads["returned"]):
        with pytest.raises(DamagedData, match="returns no bit"):
            ReturnedMessage.from_bytes(data, circuit=build_argmax(2, bits=8), lanes=LANES)


def test_sizes_are_these(payloads):
    # Frame 96, nonce 16; 16 bytes a bit up; 32 bytes a gate down, with a key and a seed of 16.
    sizes = predict_sizes(build_argmax(2, bits=40), lanes=10)
    assert sizes.transfer == 96 + 16 + 16 * 80 * 10
    assert sizes.tables == 96 + 32 + 32 * 118 * 10
    assert sizes.returned == 0
    sizes = predict_sizes(build_threshold(bits=40), lanes=8)
    assert sizes.tables == 96 + 32 + 32 * 39 * 8 + 64 * 8
    assert sizes.returned == 96 + 16 * 8
    assert len(payloads["offer"]) == 96 + 32 * 256
    assert len(payloads["answer"]) == 96 + 32 * 128
