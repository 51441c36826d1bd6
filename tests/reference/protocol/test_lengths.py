"""Every message has the one length of its kind, and bytes that were changed are refused."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import DamagedData, HelbaError, InvalidInput, RunFailed
from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.wire.codec import CUT, MAGIC, VERSION, Codec
from helba.reference.protocol.wire.frame import (
    DIGEST_BYTES,
    HEADER,
    LENGTH,
    frame,
    frame_bytes,
    unframe,
)
from helba.reference.protocol.wire.lengths import HEAD_BYTES, WORKS
from helba.reference.protocol.wire.messages import (
    ID_BYTES,
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
    head_of,
)
from tests.engines import BOTH
from tests.reference.protocol.parties import (
    MILD,
    TOY,
    Table,
    authority_of,
    deployment_of,
    draw_contexts,
)
from tests.reference.protocol.talking import CUT_MILD

HERE = Codec(deployment_of(TOY, scheme="simulate"))
NAME = b"\xff" * ID_BYTES
MOST = 1 << 53
LONGEST = 1.2345678901234567e-300  # 17 digits and an exponent

PAPER = PlanRequest(dim=2, arms=2, horizon=20, profile="paper", bonus="sqrt")
ROOT = PlanRequest(dim=2, arms=2, horizon=60, bonus="sqrt")

Sizes = dict[tuple[str, str | None], set[int]]


class Wire:
    """A table whose messages are all kept, by kind and work."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> list[bytes]:
        replies = list(self.table.server.receive(data))
        self.sent += [data, *replies]
        return replies

    def help(self) -> list[bytes]:
        replies = []
        while tasks := self.table.tasks():
            for task in tasks:
                self.sent.append(task)
                replies += self.send(self.table.user.help(task))
        return replies

    def round(self, contexts: Any, *, reward: float, again: bool = False) -> None:
        """Ask, answer, bit, report, and help; some of it twice."""
        table, notice = self.table, self.table.server.notice()
        ask = table.user.ask(contexts, terms=table.user.read_notice(notice))
        self.sent.append(notice)
        replies = self.send(ask) or self.help()
        answers = [data for data in replies if isinstance(table.decode(data), Answer)]
        told = table.user.read(answers[0])
        if told.reply is not None:
            self.send(told.reply)
            if again:
                self.send(told.reply)  # refused: it is known
        report = table.user.report(told.round, context=contexts[told.arm], reward=reward)
        self.send(report)
        if again:
            self.send(report)  # not counted
        self.help()

    def sizes(self) -> Sizes:
        found: Sizes = defaultdict(set)
        for data in self.sent:
            message = self.table.codec.decode(data)
            work = message.work if isinstance(message, Task | TaskReply) else None
            found[type(message).__name__, work].add(len(data))
        return dict(found)


def play(table: Table, *, rounds: int, seed: int, scale: float) -> Wire:
    """A run whose contexts and rewards are of this size."""
    wire, generator = Wire(table), np.random.default_rng(seed)
    bound = table.settings.reward_max
    for number in range(rounds):
        contexts = scale * draw_contexts(generator, table.settings)
        if number % 3 == 0:
            contexts = np.round(0.9 * contexts, 1)  # simulated, these pack into other lengths
        wire.round(contexts, reward=scale * bound * generator.random(), again=number % 2 == 0)
    unknown = table.user.report(secrets.token_bytes(ID_BYTES), context=[0.0, 0.0], reward=0.0)
    wire.send(unknown)
    return wire


def require_one_length_each(wires: list[Wire]) -> Sizes:
    found: Sizes = defaultdict(set)
    for wire in wires:
        for key, sizes in wire.sizes().items():
            found[key] |= sizes
        for data in wire.sent:
            assert len(data) == wire.table.codec.length_of(wire.table.codec.decode(data))
    assert {key: sizes for key, sizes in found.items() if len(sizes) > 1} == {}
    return dict(found)


def decoded(wires: list[Wire]) -> list[Message]:
    return [wire.table.codec.decode(data) for wire in wires for data in wire.sent]


@pytest.mark.parametrize("scheme", BOTH)
def test_every_message_of_a_run_has_the_length_of_its_kind(scheme: str) -> None:
    rounds = 60 if scheme == "simulate" else 24
    runs = [(1.0, 0), (1e-9, 1), (0.0, 2)] if scheme == "simulate" else [(1.0, 0)]
    wires = [
        play(Table(authority_of(MILD, scheme=scheme)), rounds=rounds, seed=seed, scale=scale)
        for scale, seed in runs
    ]
    sizes = require_one_length_each(wires)
    works = {("Task", "refresh"), ("Task", "check"), ("TaskReply", "refresh")}
    kinds = {"Notice", "Ask", "Answer", "TestReply", "Report", "Receipt", "Refusal"}
    assert {*works, ("TaskReply", "check"), *((kind, None) for kind in kinds)} <= set(sizes)
    messages = decoded(wires)
    assert {m.counted for m in messages if isinstance(m, Receipt)} == {True, False}
    assert {m.test is None for m in messages if isinstance(m, Answer)} == {True, False}
    assert {m.positive for m in messages if isinstance(m, TestReply)} == {True, False}


@pytest.mark.parametrize("request_", [ROOT, PAPER, CUT_MILD], ids=["sqrt", "paper", "cut"])
def test_every_message_of_other_profiles_has_the_length_of_its_kind(request_: PlanRequest) -> None:
    wires = [
        play(Table(authority_of(request_, scheme="simulate")), rounds=6, seed=1, scale=scale)
        for scale in (1.0, 1e-6)
    ]
    sizes = require_one_length_each(wires)
    assert (("Task", "opening") in sizes) == (request_ is PAPER)


def test_without_padding_lengths_tell_data_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other tests would see if messages were not filled up."""

    def bare(**arguments: Any) -> bytes:
        return frame(**{**arguments, "length": None})

    monkeypatch.setattr("helba.reference.protocol.wire.codec.frame", bare)
    table = Table(authority_of(MILD, scheme="simulate"))
    terms, contexts = table.server.terms, draw_contexts(np.random.default_rng(0), table.settings)

    def lengths() -> tuple[int, int]:
        asks = {len(table.user.ask(x, terms=terms)) for x in (contexts, 0.0 * contexts)}
        reports = {
            len(table.user.report(NAME, context=x, reward=r))
            for x, r in ((contexts[0], 0.3), (contexts[0], 0.0), (0.0 * contexts[0], 0.0))
        }
        return len(asks), len(reports)

    assert min(lengths()) > 1
    monkeypatch.undo()
    assert lengths() == (1, 1)


def largest() -> Iterator[Message]:
    """Every kind of message, its fields as long as they may be."""
    yield Notice(
        key=NAME,
        number=MOST,
        start=MOST,
        samples=MOST,
        last_round=MOST,
        residual=LONGEST,
        estimate_error=LONGEST,
    )
    yield Ask(user=NAME, round=NAME, batch=MOST)
    yield Answer(round=NAME, test=NAME)
    yield TestReply(user=NAME, test=NAME, positive=False)
    yield Report(user=NAME, round=NAME)
    yield Receipt(round=NAME, counted=False)
    yield Refusal(subject=NAME, reason="")
    for work in WORKS:
        yield Task(task=NAME, work=work)
        yield TaskReply(user=NAME, task=NAME, work=work, bits="+" * 64)


@pytest.mark.parametrize("message", list(largest()), ids=lambda message: type(message).__name__)
def test_largest_head_fits(message: Message) -> None:
    head = head_of(message, deployment="f" * 32)
    assert len(head) <= HEAD_BYTES
    assert HERE.decode(HERE.encode(message)) == message


@settings(max_examples=60)
@given(st.integers(0, MOST), st.floats(0.0, 2.0**53, exclude_max=True), st.text(max_size=3000))
def test_head_of_any_values_fits(number: int, real: float, reason: str) -> None:
    notice = Notice(
        key=NAME,
        number=number,
        start=number,
        samples=number,
        last_round=number,
        residual=real,
        estimate_error=real,
    )
    refusal = Refusal(subject=NAME, reason=reason)
    assert HERE.decode(HERE.encode(notice)) == notice
    data = HERE.encode(refusal)
    assert len(data) == HERE.length_of(refusal) == len(HERE.encode(notice))
    read = HERE.decode(data)
    assert isinstance(read, Refusal)
    if read.reason != reason:
        assert read.reason.endswith(CUT)
        assert reason.startswith(read.reason[: -len(CUT)])
        assert len(head_of(read, deployment="f" * 32)) > HEAD_BYTES - 12  # no more would have fit


def test_work_that_there_is_not_has_no_length() -> None:
    with pytest.raises(InvalidInput, match="work"):
        HERE.encode(Task(task=NAME, work="dishes"))


def test_message_of_more_than_its_kind_is_not_sent() -> None:
    long = b"x" * HERE.length_of(Ask(user=NAME, round=NAME, batch=0))
    with pytest.raises(RunFailed, match="bytes are more than"):
        HERE.encode(Ask(user=NAME, round=NAME, batch=0, parts=(long,)))
    with pytest.raises(RunFailed, match="head"):
        HERE.encode(TaskReply(user=NAME, task=NAME, work="check", bits="+" * HEAD_BYTES))


@pytest.mark.parametrize("change", [-1, 1, 1000])
def test_message_of_another_length_is_refused(change: int) -> None:
    for message in largest():
        length = HERE.length_of(message) + change
        head = head_of(message, deployment=deployment().fingerprint)
        data = frame(
            magic=MAGIC, version=VERSION, kind=message.kind, head=head, parts=(), length=length
        )
        with pytest.raises(DamagedData, match="all of its kind have"):
            HERE.decode(data)


def test_padding_of_anything_but_zeros_is_refused() -> None:
    data = bytearray(HERE.encode(Receipt(round=NAME, counted=True)))
    data[-DIGEST_BYTES - 1] = 1
    with pytest.raises(DamagedData, match="zeros"):
        HERE.decode(bytes(data))


def deployment() -> Deployment:
    return deployment_of(TOY, scheme="simulate")


def regions(data: bytes) -> dict[str, range]:
    """Where everything is in the bytes of a message."""
    _, head, parts = unframe(
        data, magic=MAGIC, version=VERSION, what="a message", most_head=HEAD_BYTES, most_parts=64
    )
    lengths = HEADER.size + LENGTH.size * len(parts)
    start = lengths + len(head)
    found = {
        "header": range(HEADER.size),
        "lengths": range(HEADER.size, lengths),
        "head": range(lengths, start),
    }
    for number, part in enumerate(parts):
        end = start + len(part)
        found[f"body of part {number}"] = range(start, end - DIGEST_BYTES)
        found[f"digest of part {number}"] = range(end - DIGEST_BYTES, end)
        start = end
    found["padding"] = range(start, len(data) - DIGEST_BYTES)
    found["digest"] = range(len(data) - DIGEST_BYTES, len(data))
    needed = frame_bytes(head=len(head), parts=[len(part) for part in parts])
    assert len(found["padding"]) == len(data) - needed
    return {name: places for name, places in found.items() if places}


def damaged(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The message with a bit flipped: first, last and one other place of every region."""
    for name, places in regions(data).items():
        for place in {places[0], places[-1], secrets.choice(places)}:
            changed = bytearray(data)
            changed[place] ^= 1 << secrets.randbelow(8)
            yield name, bytes(changed)


@pytest.mark.parametrize("scheme", BOTH)
def test_damage_anywhere_is_refused_and_changes_nothing(scheme: str) -> None:
    table = Table(authority_of(TOY, scheme=scheme))
    table.learn([1.0, 0.5], 0.5)
    played = table.play([[0.2, 1.5]])
    assert played.reply is not None
    report = table.user.report(played.round, context=[0.2, 1.5], reward=1.0)
    ask = table.ask([[0.3, 0.1]])
    require_refused(table, [played.reply, report, ask])
    (answer,) = table.server.receive(ask)
    waiting = dict(table.user._open)
    for name, data in damaged(answer):
        with pytest.raises(DamagedData):
            table.user.read(data)
        assert table.user._open == waiting, name
    table.server.receive(report)
    while tasks := table.tasks():
        for _, data in damaged(tasks[0]):
            with pytest.raises(DamagedData):
                table.user.help(data)
        share = table.user.help(tasks[0])
        require_refused(table, [share])
        table.server.receive(share)
    assert table.server.updates == 1


def require_refused(table: Table, messages: list[bytes]) -> None:
    """The server refuses these if any bit of them is wrong, and stays as it is."""
    before = table.state()
    for whole in messages:
        for name, data in damaged(whole):
            with pytest.raises(HelbaError):
                table.server.receive(data)
            assert table.state() == before, name
