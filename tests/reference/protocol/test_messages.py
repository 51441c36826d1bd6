"""Every message comes back as it was; bytes that are none raise DamagedData and nothing else."""

from __future__ import annotations

import json
import secrets
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import DamagedData
from helba.reference.protocol.wire.codec import MAGIC, VERSION, Codec
from helba.reference.protocol.wire.frame import COVERED_BYTES, frame, frame_bytes, unframe
from helba.reference.protocol.wire.lengths import WORKS
from helba.reference.protocol.wire.messages import (
    ID_BYTES,
    KINDS,
    Answer,
    Ask,
    Message,
    Notice,
    Receipt,
    Refusal,
    Report,
    Task,
    TaskReply,
    TestReply,
)
from tests.reference.protocol.parties import MILD, TOY, deployment_of

HERE = Codec(deployment_of(TOY, scheme="simulate"))
ELSEWHERE = Codec(deployment_of(MILD, scheme="simulate"))
NOBODY = b"\x01" * ID_BYTES

few = settings(max_examples=40)
names = st.binary(min_size=ID_BYTES, max_size=ID_BYTES)
works = st.sampled_from(WORKS)
numbers = st.integers(0, 1 << 53)
reals = st.floats(0.0, 2.0**52)
parts = st.lists(st.binary(max_size=COVERED_BYTES), max_size=3).map(tuple)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        Notice,
        parts=parts,
        key=names,
        number=numbers,
        start=numbers,
        samples=numbers,
        last_round=numbers,
        residual=reals,
        estimate_error=reals,
    ),
    st.builds(Ask, parts=parts, user=names, round=names, batch=numbers),
    st.builds(Answer, parts=parts, round=names, test=st.none() | names),
    st.builds(TestReply, parts=parts, user=names, test=names, positive=st.booleans()),
    st.builds(Report, parts=parts, user=names, round=names),
    st.builds(Receipt, parts=parts, round=names, counted=st.booleans()),
    st.builds(Refusal, parts=parts, subject=names, reason=st.text(max_size=20)),
    st.builds(Task, parts=parts, task=names, work=works),
    st.builds(TaskReply, parts=parts, user=names, task=names, work=works, bits=st.none()),
    st.builds(
        TaskReply,
        user=names,
        task=names,
        work=st.just("check"),
        bits=st.text("+-", max_size=64),
    ),
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text(max_size=40)
    | st.binary(max_size=20).map(bytes.hex),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=3,
)


def reseal(data: bytes, *, kind: int | None = None, version: int = VERSION, **head: Any) -> bytes:
    """The message with fields of its head changed (... removes one), and a right digest."""
    found, text, kept = unframe(
        data, magic=MAGIC, version=VERSION, what="a message", most_head=1 << 20, most_parts=64
    )
    fields = {k: v for k, v in {**json.loads(text), **head}.items() if v is not ...}
    text = json.dumps(fields).encode()
    needed = frame_bytes(head=len(text), parts=[len(part) for part in kept])
    return frame(
        magic=MAGIC,
        version=version,
        kind=found if kind is None else kind,
        head=text,
        parts=kept,
        length=max(len(data), needed),
    )


@few
@given(messages)
def test_message_round_trips(message: Message) -> None:
    assert HERE.decode(HERE.encode(message)) == message


def test_strategy_makes_every_kind() -> None:
    made = {Notice, Ask, Answer, TestReply, Report, Receipt, Refusal, Task, TaskReply}
    assert set(KINDS.values()) == made
    assert len({kind.kind for kind in made}) == len(made)


@few
@given(messages, st.data())
def test_flipped_byte_is_damage(message: Message, data: st.DataObject) -> None:
    """Wherever it is, but for the body of a part: that is the engine's, see `test_lengths`."""
    whole = bytearray(HERE.encode(message))
    parts = sum(map(len, message.parts))
    end = whole.index(b"}", whole.index(b"{")) + 1  # of the head
    region = data.draw(st.sampled_from(["before", "parts", "after"]))
    if region == "parts" and parts:
        place = end + data.draw(st.integers(0, parts - 1))
    elif region == "before":
        place = data.draw(st.integers(0, end - 1))
    else:
        place = data.draw(st.integers(end + parts, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DamagedData):
        HERE.decode(bytes(whole))


@few
@given(st.binary(min_size=COVERED_BYTES, max_size=90), st.data())
def test_digest_of_a_part_is_covered_and_its_body_is_not(part: bytes, data: st.DataObject) -> None:
    message = Report(user=NOBODY, round=bytes(ID_BYTES), parts=(part, b"another"))
    whole = HERE.encode(message)
    start = whole.index(b"}") + 1
    place = data.draw(st.integers(0, len(part) - 1))
    changed = bytearray(whole)
    changed[start + place] ^= data.draw(st.integers(1, 255))
    if place >= len(part) - COVERED_BYTES:
        with pytest.raises(DamagedData, match="digest"):
            HERE.decode(bytes(changed))
    else:
        assert HERE.decode(bytes(changed)).parts != message.parts


@few
@given(messages, st.data())
def test_cut_or_longer_message_is_damage(message: Message, data: st.DataObject) -> None:
    whole = HERE.encode(message)
    place = data.draw(st.integers(0, len(whole) - 1))
    longer = data.draw(st.binary(min_size=1, max_size=9))
    for broken in (whole[:place], whole[place + 1 :], whole + longer, longer + whole):
        with pytest.raises(DamagedData):
            HERE.decode(broken)
    with pytest.raises(DamagedData):
        HERE.decode(whole[:place] + longer + whole[place:])


@few
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_damage(data: bytes) -> None:
    with pytest.raises(DamagedData):
        HERE.decode(data)


@few
@given(messages, st.integers(0, 65535))
def test_other_deployment_version_and_kind_are_damage(message: Message, other: int) -> None:
    whole = HERE.encode(message)
    with pytest.raises(DamagedData, match="another deployment"):
        HERE.decode(ELSEWHERE.encode(message))
    if other != VERSION:
        with pytest.raises(DamagedData, match="version"):
            HERE.decode(reseal(whole, version=other))
    if other not in KINDS:
        with pytest.raises(DamagedData, match="unknown kind"):
            HERE.decode(reseal(whole, kind=other))


@few
@given(messages, st.data())
def test_missing_and_extra_fields_are_damage(message: Message, data: st.DataObject) -> None:
    whole = HERE.encode(message)
    plain = [field.name for field in fields(message) if field.name != "parts"]
    gone = data.draw(st.sampled_from([*plain, "deployment"]))
    for changes in ({gone: ...}, {"more": 1}, {"parts": []}):
        with pytest.raises(DamagedData):
            HERE.decode(reseal(whole, **changes))


@few
@given(messages, json_values, st.data())
def test_field_of_any_value_is_read_as_its_type_or_damage(
    message: Message, value: Any, data: st.DataObject
) -> None:
    plain = [field.name for field in fields(message) if field.name != "parts"]
    name = data.draw(st.sampled_from(plain))
    whole = reseal(HERE.encode(message), **{name: value})
    try:
        read = getattr(HERE.decode(whole), name)
    except DamagedData:
        return
    kind = type(getattr(message, name))
    allowed = {int: (int,), float: (float,), bytes: (bytes,), str: (str,), bool: (bool,)}
    optional = (name, type(message)) in {("test", Answer), ("bits", TaskReply)}
    if optional:
        assert read is None or type(read) in (bytes, str)
    else:
        assert type(read) in allowed[kind]
        assert type(read) is not float or 0.0 <= read < 2.0**53


@pytest.mark.parametrize(
    "number",
    [10**400, -(10**400), float("nan"), float("inf"), -1, True],
    ids=["huge", "tiny", "nan", "inf", "negative", "true"],
)
@pytest.mark.parametrize("name", ["number", "residual"])
def test_number_out_of_range_is_damage(name: str, number: float) -> None:
    notice = Notice(
        key=NOBODY,
        number=1,
        start=1,
        samples=1,
        last_round=1,
        residual=0.0,
        estimate_error=0.0,
    )
    whole = reseal(HERE.encode(notice), **{name: number})
    with pytest.raises(DamagedData):
        HERE.decode(whole)


@pytest.mark.parametrize("text", ["", "00", "zz" * ID_BYTES, "00" * (ID_BYTES + 1), "é" * 32])
@pytest.mark.parametrize("name", ["round", "user"])
def test_id_that_is_none_is_damage(name: str, text: str) -> None:
    report = Report(user=NOBODY, round=secrets.token_bytes(ID_BYTES))
    with pytest.raises(DamagedData):
        HERE.decode(reseal(HERE.encode(report), **{name: text}))


@pytest.mark.parametrize("head", [b"", b"[]", b"1", b"{", b"\xff\xfe", b"[" * 60_000, b'"\\ud800"'])
def test_head_that_is_no_object_is_damage(head: bytes) -> None:
    report = Report(user=NOBODY, round=bytes(ID_BYTES))
    length = max(HERE.length_of(report), frame_bytes(head=len(head), parts=[]))
    whole = frame(magic=MAGIC, version=VERSION, kind=5, head=head, parts=[], length=length)
    with pytest.raises(DamagedData):
        HERE.decode(whole)


def test_message_prints_no_ciphertext() -> None:
    secret = b"ciphertext that stays here"
    report = Report(user=NOBODY, round=bytes(16), parts=(secret,))
    for message in (report, Ask(user=NOBODY, round=bytes(16), batch=0)):
        assert "ciphertext" not in repr(message)
        assert repr(message).startswith(f"<{type(message).__name__} of ")
