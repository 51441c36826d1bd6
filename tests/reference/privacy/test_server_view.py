"""What the server sees of a run: ciphertexts, keys, and shapes that say nothing of the data.

- No number of a user, in any usual form, and no secret key stands in a byte that it got.
- With the public schedule the whole sequence of messages, who, what, how long (but for keys, whose
  length is a matter of their own randomness), is the same for all
  contexts and rewards. With the trace schedule it is the same without what update times decide:
  tasks and their replies, notices, which are fetched again when a model is new, and `TestReply`,
  one of which follows every answer that carries a test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helba.errors import DamagedData, HelbaError
from helba.reference.engine import SecretKey, get_scheme
from helba.reference.engine.wire.packing import unpack_words
from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.wire.frame import frame
from helba.reference.protocol.wire.messages import Ask
from helba.service.protocol.snapshot import save_server
from helba.service.protocol.vault import open_secret
from tests.engines import BOTH
from tests.reference.engine.tampering import open_sealed
from tests.reference.privacy.transcript import AUTHORITY, SERVER, Shape, Transcript
from tests.reference.privacy.views import (
    PUBLIC,
    UPDATES,
    Array,
    Run,
    capture_packed,
    record,
    without_length_of_keys,
)
from tests.reference.protocol.parties import MILD, TOY, authority_of
from tests.reference.protocol.talking import CUT_TOY
from tests.sweep import sweep

both = pytest.mark.parametrize("scheme", BOTH)
CUT = replace(CUT_TOY, schedule="public")
# three of them hold every number of arms, and contexts that pack otherwise
ROUNDS = {"simulate": sweep(8, long=16), "ckks": sweep(3, long=5)}
DATA = [(2, 1.0), (3, 1e-6), (4, 0.0)]


# -- bytes


def known_to_the_server(run: Run) -> list[bytes]:
    """Every message and key that it got or made, and all that it has kept."""
    sent = [entry.data for entry in run.transcript.view_of(SERVER)]
    return [*sent, save_server(run.server), *unpacked(run)]


def unpacked(run: Run) -> Iterator[bytes]:
    """The ciphertexts of its messages as words, before they were packed."""
    parameters, simulated = run.server.deployment.parameters, run.server._engine.name == "simulate"
    for entry in run.transcript.view_of(SERVER):
        try:
            parts = run.transcript.decode(entry).parts
        except DamagedData:
            continue  # a key: enrolments are searched as they are
        for part in parts:
            opened = open_sealed(part)
            slots, level = (int(str(opened.header[name])) for name in ("slots", "level"))
            towers = 2 * (parameters.depth + 1 - level)
            count = 2 * slots if simulated else towers * parameters.ring_dim
            yield unpack_words(memoryview(opened.payload), count=count).tobytes()


def forms_of(number: float, *, scale_bits: int) -> Iterator[bytes]:
    """A number as it might be written: floats, decimals, fixed point, and all that in hex."""
    plain = [np.array(number, dtype=kind).tobytes() for kind in ("<f8", ">f8")]
    fixed = round(number * 2.0**scale_bits) % (1 << 64)
    plain += [fixed.to_bytes(8, "little"), fixed.to_bytes(8, "big")]
    plain += [repr(number).strip("-").encode(), f"{abs(number):.7f}".encode()]
    for form in plain:
        yield form
        yield form.hex().encode()


def found_in(data: Iterable[bytes], numbers: Iterable[float], *, scale_bits: int) -> int:
    """How many of the numbers stand somewhere."""
    whole = b"\0".join(data)
    return sum(
        any(form in whole for form in forms_of(number, scale_bits=scale_bits)) for number in numbers
    )


def secrets_of(run: Run, packed: list[Array]) -> list[float]:
    """What nobody but the user may know: but for round numbers, which stand everywhere."""
    numbers = np.unique(np.concatenate([*run.secrets, *packed]))
    return [float(each) for each in numbers if abs(each * 1e4 - round(each * 1e4)) > 1e-6]


def searched(scheme: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """How many numbers of the user the server has, and how many there are."""
    run = record(authority_of(TOY, scheme=scheme))
    packed = capture_packed(run, monkeypatch)
    run.play(rounds=4, seed=1)
    numbers = secrets_of(run, packed)
    bits = run.server.deployment.parameters.scale_bits
    return found_in(known_to_the_server(run), numbers, scale_bits=bits), len(numbers)


@pytest.mark.ckks
def test_server_has_no_number_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    found, among = searched("ckks", monkeypatch)
    assert among > 50
    assert found == 0


def test_search_finds_the_numbers_where_nothing_is_encrypted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The simulator hides nothing; what never travels, like scores, is not there either."""
    found, among = searched("simulate", monkeypatch)
    assert found > 0.5 * among


@pytest.mark.ckks
def test_search_finds_a_context_in_a_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who names its rounds by its contexts."""
    run = record(authority_of(TOY, scheme="ckks"))
    profile = run.bandit.user.profile
    pack, told = profile.pack_contexts, []

    def watch(contexts: Array, **rest: Any) -> Any:
        told.append(contexts[0])
        return pack(contexts, **rest)

    def telling(**fields: Any) -> Ask:
        return Ask(**{**fields, "round": told[-1].tobytes()})

    monkeypatch.setattr(profile, "pack_contexts", watch)
    monkeypatch.setattr("helba.reference.protocol.user.Ask", telling)
    with pytest.raises(HelbaError):  # it knows the round by another name, and ends here
        run.play(rounds=1, seed=1)
    bits = run.server.deployment.parameters.scale_bits
    assert found_in(known_to_the_server(run), secrets_of(run, told), scale_bits=bits) == 2


def key_samples(key: SecretKey) -> list[bytes]:
    """Pieces of a secret key: as OpenFHE writes it, packed, and its words."""
    import openfhe as fhe

    scheme = get_scheme("ckks")
    whole = fhe.Serialize(key._payload, fhe.BINARY)
    sealed = scheme.secret_key_to_bytes(key)
    count = (key.parameters.depth + 1) * key.parameters.ring_dim
    words = unpack_words(memoryview(open_sealed(sealed).payload), count=count)
    rows = words.reshape(key.parameters.depth + 1, key.parameters.ring_dim)
    packed, half = open_sealed(sealed).payload, len(whole) // 2
    samples = [whole[half : half + 64], packed[len(packed) // 2 :][:64], packed[-96:-32]]
    return samples + [row[:8].tobytes() for row in rows]


@pytest.mark.ckks
def test_server_has_no_secret_key() -> None:
    run = record(authority_of(TOY, scheme="ckks")).play(rounds=2, seed=1)
    keys = [run.authority._keys.secret, run.bandit.user._secret_key]
    data = known_to_the_server(run)
    whole = b"\0".join(data)
    for key in keys:
        samples = key_samples(key)
        assert not any(sample in whole for sample in samples)
        assert all(len(set(sample)) > 8 for sample in samples)
        # where there is one, it is found
        there = get_scheme("ckks").secret_key_to_bytes(key)
        assert any(sample in there for sample in samples)
    parts = [part for each in data for part in (each, *parts_of(run.transcript, each))]
    for part in parts:
        with pytest.raises(HelbaError):
            get_scheme("ckks").secret_key_from_bytes(part, allow_insecure=True)
        with pytest.raises(HelbaError):
            open_secret(part, passphrase="", purpose="user's secret key")


def parts_of(transcript: Transcript, data: bytes) -> tuple[bytes, ...]:
    try:
        return transcript.codec.decode(data).parts
    except DamagedData:
        return ()


# -- shapes


def shape_of(
    request: Any, *, scheme: str, seed: int, scale: float = 1.0, rounds: int | None = None
) -> tuple[Shape, ...]:
    """The shape of all that the server sees of a run."""
    run = record(authority_of(request, scheme=scheme))
    run.play(rounds=rounds or ROUNDS[scheme], seed=seed, scale=scale)
    assert run.server.updates > 0
    return tuple(without_length_of_keys(run.transcript.shapes(run.transcript.view_of(SERVER))))


def without_updates(shapes: Iterable[Shape]) -> list[Shape]:
    return [each for each in shapes if each[2].split()[0] not in {*UPDATES, "TestReply"}]


def heads_of(run: Run) -> list[dict[str, Any]]:
    """The plain fields of all messages that the server sees, but for names that are random."""
    found = []
    for entry in run.transcript.view_of(SERVER):
        if entry.source == AUTHORITY or entry.kind in ("Notice", "enrolment"):
            continue
        message = run.transcript.decode(entry)
        fields = {name: getattr(message, name) for name in message.__dataclass_fields__}
        found.append({k: v for k, v in fields.items() if k != "parts" and type(v) is not bytes})
    return found


@both
@pytest.mark.parametrize("request_", [PUBLIC, CUT], ids=["whole", "cut"])
def test_shape_of_a_public_run_says_nothing_of_the_data(scheme: str, request_: PlanRequest) -> None:
    """Nor does the help that users give in their own rounds."""
    first = shape_of(request_, scheme=scheme, seed=1)
    assert {"Ask", "Answer", "Report", "Receipt", "Task refresh"} <= {each[2] for each in first}
    assert "TestReply" not in {each[2] for each in first}
    for seed, scale in DATA if scheme == "simulate" else sweep(DATA[::2], long=DATA):
        assert shape_of(request_, scheme=scheme, seed=seed, scale=scale) == first


@both
@pytest.mark.parametrize("request_", [PUBLIC, CUT], ids=["whole", "cut"])
def test_plain_fields_of_a_public_run_say_nothing_of_the_data(
    scheme: str, request_: PlanRequest
) -> None:
    """Neither arms nor rewards, nor anything else that differs between runs; checks are signs."""
    runs = [
        record(authority_of(request_, scheme=scheme)).play(rounds=ROUNDS[scheme], seed=seed)
        for seed in (1, 2)
    ]
    assert runs[0].arms != runs[1].arms
    seen = [[{**head, "bits": None} for head in heads_of(run)] for run in runs]
    assert seen[0] == seen[1]


def test_shape_of_a_traced_run_says_nothing_but_update_times() -> None:
    shapes = [
        shape_of(MILD, scheme="simulate", seed=seed, scale=scale, rounds=24)
        for seed, scale in ((1, 1.0), (2, 1.0), (3, 0.3))
    ]
    assert len(set(shapes)) > 1  # updates come at other times
    first, *others = (without_updates(shape) for shape in shapes)
    assert all(other == first for other in others)
    lengths: dict[str, set[int]] = {}
    for shape in shapes:
        for _, _, kind, length in shape:
            lengths.setdefault(kind, set()).add(length)
    assert all(len(each) == 1 for each in lengths.values())


def test_shape_would_tell_data_apart_without_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    def bare(**arguments: Any) -> bytes:
        return frame(**{**arguments, "length": None})

    monkeypatch.setattr("helba.reference.protocol.wire.codec.frame", bare)
    monkeypatch.setattr("helba.reference.protocol.wire.codec.Codec.decode", decode_any_length)
    first = shape_of(PUBLIC, scheme="simulate", seed=1)
    assert shape_of(PUBLIC, scheme="simulate", seed=4, scale=0.0) != first


def decode_any_length(codec: Any, data: bytes) -> Any:
    from helba.reference.protocol.wire import codec as module

    kind, head, parts = module.unframe(
        data,
        magic=module.MAGIC,
        version=module.VERSION,
        what="a message",
        most_head=module.HEAD_BYTES,
        most_parts=module.MOST_PARTS,
    )
    return module.message_of(kind, head=head, parts=parts, deployment=codec._fingerprint)


def test_entries_print_no_contents() -> None:
    run = record(authority_of(TOY, scheme="simulate")).play(rounds=1, seed=1)
    texts = [repr(run.transcript), *map(repr, run.transcript.entries)]
    assert len(texts) > 5
    assert not any("b'" in text or "data" in text for text in texts)
