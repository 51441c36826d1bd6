"""Messages that come twice, late or broken: each counts once, and what is refused changes nothing.

The server's answer to a message that does not fit is a refusal or an error; its whole state, the
decrypted statistics included, is the same afterwards.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from helba.bandits.settings import Settings
from helba.errors import DamagedData, InvalidInput, OutOfRange, WrongVector
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.wire.messages import (
    ID_BYTES,
    Ask,
    Receipt,
    Refusal,
    TaskReply,
    TestReply,
)
from tests.engines import BOTH
from tests.reference.protocol.parties import (
    MILD,
    TOY,
    History,
    Table,
    authority_of,
    draw_contexts,
    require_model,
)

both = pytest.mark.parametrize("scheme", BOTH)


def new_table(scheme: str = "simulate") -> Table:
    return Table(authority_of(TOY, scheme=scheme))


def is_refused(table: Table, data: bytes) -> bool:
    """Whether this gets one refusal, and leaves everything as it was, the ledger included."""
    before = table.state()
    replies = [table.decode(reply) for reply in table.server.receive(data)]
    refused = len(replies) == 1 and isinstance(replies[0], Refusal)
    return refused and table.state() == before


@both
def test_ask_twice_gets_the_same_answer_and_is_one_round(scheme: str) -> None:
    table = new_table(scheme)
    ask = table.ask([[1.0, 0.0], [0.0, 0.5]])
    first = table.server.receive(ask)
    before = table.state()
    assert table.server.receive(ask) == first
    assert table.state() == before
    assert table.server.round == 1


def test_ask_again_after_its_report_is_refused() -> None:
    table = new_table()
    ask = table.ask([[1.0, 0.0]])
    (answer,) = table.server.receive(ask)
    table.report(table.user.read(answer).round, context=[1.0, 0.0], reward=0.5)
    table.help()
    assert is_refused(table, ask)


def test_ask_under_an_ended_batch_is_refused_and_under_the_last_one_answered() -> None:
    table = new_table()
    table.learn([0.5, 1.0], 0.5)
    asks = [table.ask([[1.0, 0.0], [0.0, 0.5]])]
    for _ in range(2):
        table.learn([0.5, 1.0], 0.5)
        asks.append(table.ask([[1.0, 0.0], [0.0, 0.5]]))
    assert [table.decode(ask).batch for ask in asks] == [0, 1, 2]
    assert is_refused(table, asks[0])
    for ask in asks[1:]:
        (answer,) = table.server.receive(ask)
        assert table.user.read(answer).arm in (0, 1)


@both
def test_report_twice_counts_once(scheme: str) -> None:
    table = new_table(scheme)
    history, generator, reports = History(table.settings), np.random.default_rng(0), []
    for _ in range(4):
        x, reward = draw_contexts(generator, table.settings, arms=1)[0], generator.normal()
        played = table.play([x])
        reports.append(table.user.report(played.round, context=x, reward=reward))
        again = table.user.report(played.round, context=-x[::-1], reward=-reward)
        history.add(x, reward)
        table.server.receive(reports[-1])
        for repeated in (reports[-1], reports[0], again):
            (receipt,) = table.server.receive(repeated)
            receipt = table.decode(receipt)
            assert isinstance(receipt, Receipt)
            assert not receipt.counted
    table.help()
    assert table.server.samples == 4
    np.testing.assert_allclose(table.design(), history.design(), rtol=0, atol=1e-5)
    np.testing.assert_allclose(table.response(), history.response(), rtol=0, atol=1e-5)
    require_model(table, history)


def test_test_reply_twice_late_or_unknown_changes_nothing() -> None:
    table = Table(authority_of(MILD, scheme="simulate"))
    generator, replies = np.random.default_rng(1), []
    for _ in range(8):
        x = draw_contexts(generator, table.settings)
        played = table.play(x)
        if played.reply is not None:
            replies.append(played.reply)
            table.send_bit(played)
            sent = table.decode(played.reply)
            other = TestReply(user=sent.user, test=sent.test, positive=not sent.positive)
            assert is_refused(table, played.reply)
            assert is_refused(table, table.encode(other))
        table.report(played.round, context=x[played.arm], reward=0.5)
        table.help()
    assert len(replies) > 1
    assert table.server.updates > 0
    for reply in replies:
        assert is_refused(table, reply)
    name = secrets.token_bytes(ID_BYTES)
    unknown = TestReply(user=table.user.id, test=name, positive=True)
    assert is_refused(table, table.encode(unknown))


@pytest.mark.parametrize("positive", [True, False])
def test_bit_of_an_old_batch_changes_nothing_but_its_own_entry(positive: bool) -> None:
    """A test of the batch before says nothing about the growth since."""
    table = new_table()
    table.learn([0.1, 0.2], 0.5)
    held = table.play([[0.1, 0.1]])  # its test sees one reward, and its bit stays out
    assert held.reply is not None
    name = table.decode(held.reply).test
    played = table.play([[1.0, 0.1]])
    assert table.decode(played.reply).test == name  # the same test: no new noise for one growth
    table.report(played.round, context=[1.0, 0.1], reward=0.5)
    table.help()
    assert table.server.updates == 1
    before = table.state()
    bit = TestReply(user=table.user.id, test=name, positive=positive)
    assert table.server.receive(table.encode(bit)) == ()
    after = table.state()
    assert after.pop("tests") == sorted(set(before.pop("tests")) - {name})
    assert after.pop("bits") == before.pop("bits") + 1  # it came back all the same
    spent = before.pop("ledger")
    assert after.pop("ledger") == {**spent, table.user.id: spent[table.user.id] + 1}
    assert after == before


@both
def test_task_reply_twice_late_or_unknown_is_refused(scheme: str) -> None:
    table, history = new_table(scheme), History(table_settings(scheme))
    replies = []
    for x, reward in (([0.1, 0.5], 0.6), ([1.0, 0.5], 0.3), ([-0.2, 1.1], -0.4)):
        history.add(x, reward)
        played = table.play([x])
        table.send_bit(played)
        table.report(played.round, context=x, reward=reward)
        while tasks := table.tasks():
            (task,) = tasks
            replies.append(table.user.help(task))
            table.server.receive(replies[-1])
            for late in replies:
                assert is_refused(table, late)
    assert table.server.updates == 2
    assert len(replies) >= 6
    unknown = replace(table.decode(replies[0]), task=secrets.token_bytes(ID_BYTES))
    assert is_refused(table, table.encode(unknown))
    require_model(table, history)


def table_settings(scheme: str) -> Settings:
    return authority_of(TOY, scheme=scheme).deployment.settings


@both
def test_report_of_an_unknown_round_is_refused(scheme: str) -> None:
    table = new_table(scheme)
    name = secrets.token_bytes(ID_BYTES)
    assert is_refused(table, table.user.report(name, context=[1.0, 0.0], reward=1.0))


class Broken:
    """A server in the middle of everything, and messages to it that are broken in their parts."""

    def __init__(self, scheme: str) -> None:
        self.table = new_table(scheme)
        self.table.learn([1.0, 0.5], 0.5)
        self.table.play([[0.5, 0.5]])
        self.open = self.table.play([[0.2, 0.5]])
        started = self.table.play([[0.2, 1.5]])
        self.table.report(started.round, context=[0.2, 1.5], reward=1.0)
        (self.task,) = self.table.tasks()

    def messages(self) -> list[bytes]:
        table = self.table
        ask = table.decode(table.ask([[1.0, 0.0]]))
        report = table.decode(table.user.report(self.open.round, context=[1.0, 0.0], reward=1.0))
        reply = table.decode(table.user.help(self.task))
        stranger = Table(Authority(table.deployment))
        foreign_ask = stranger.decode(stranger.ask([[1.0, 0.0]]))
        foreign = stranger.decode(
            stranger.user.report(self.open.round, context=[1.0, 0.0], reward=1.0)
        )
        broken = [
            replace(ask, parts=()),
            replace(ask, parts=ask.parts * 2),
            replace(ask, parts=(b"",)),
            replace(ask, parts=(ask.parts[0][:-1],)),
            replace(ask, parts=report.parts[:1]),
            replace(ask, parts=foreign_ask.parts),
            replace(report, parts=()),
            replace(report, parts=report.parts[:-1]),
            replace(report, parts=(*report.parts[:-1], b"x")),
            replace(report, parts=report.parts[::-1]),
            replace(report, parts=(*report.parts, report.parts[0])),
            replace(report, parts=foreign.parts),
            replace(reply, parts=()),
            replace(reply, parts=(b"",)),
            replace(reply, parts=reply.parts * 2),
            replace(reply, parts=report.parts[:1]),
            replace(reply, parts=(), bits="+-" * 32),
            replace(reply, parts=(table.decode(self.task).parts[0],)),
        ]
        return [table.force(message) for message in broken]


@both
def test_broken_content_raises_and_changes_nothing(scheme: str) -> None:
    broken = Broken(scheme)
    table = broken.table
    messages = broken.messages()
    before = table.state()
    for data in messages:
        with pytest.raises((DamagedData, InvalidInput, WrongVector)):
            table.server.receive(data)
        assert table.state() == before
    # the refresh goes on with the right share, and the round is reported as if nothing had been
    table.report(broken.open.round, context=[0.2, 0.5], reward=0.1)
    table.help()
    assert table.server.updates == 1


def test_messages_that_no_server_receives_raise() -> None:
    table = new_table()
    (answer,) = table.server.receive(table.ask([[1.0, 0.0]]))
    for data in (answer, table.server.notice()):
        with pytest.raises(DamagedData):
            table.server.receive(data)
    assert table.server.round == 1


def test_contexts_that_make_the_simulator_overflow_leave_no_round() -> None:
    """Numbers that no honest user sends: the simulator notices, and the round is as never asked."""
    table = new_table()
    table.learn([1.0, 0.5], 0.5)
    ask = table.decode(table.ask([[1.0, 0.0], [0.0, 1.0]]))
    profile, engine = table.server.profile, table.user._engine
    huge = engine.encrypt(np.full(profile.context_slots, 1e3), level=profile.context_level)
    before = table.state()
    wrong = table.encode(replace(ask, parts=(engine.vector_to_bytes(huge),)))
    (refused,) = table.server.receive(wrong)
    assert isinstance(table.decode(refused), Refusal)
    after = table.state()
    assert after.pop("seen") is not None
    before.pop("seen")
    (test,) = after.pop("tests")  # it rides again as it is: somebody else might have it
    assert before.pop("tests") == []
    assert after == before
    (answer,) = table.server.receive(table.encode(ask))
    assert table.decode(answer).test == test


def test_report_that_cannot_be_added_is_not_added_in_part() -> None:
    """The first of its vectors can be added, the second wraps around: none of it stays."""
    table = new_table()
    played = table.play([[1.0, 0.0]])
    report = table.decode(table.user.report(played.round, context=[1.0, 0.0], reward=1.0))
    size, engine = table.deployment.matrices.size, table.user._engine
    largest = engine.vector_to_bytes(engine.encrypt(np.full(size, 2.0**60)))
    before = table.state()
    table.server.response = engine.encrypt(np.full(size, 2.0**60))
    parts = (report.parts[0], largest, *report.parts[2:])
    with pytest.raises(OutOfRange):
        table.server.receive(table.encode(replace(report, parts=parts)))
    after = table.state()
    for state in (before, after):
        state.pop("response")
    assert after == before


@examples(max_examples=15)
@given(st.data())
def test_any_order_of_repeated_messages_gives_the_same_statistics(data: st.DataObject) -> None:
    """Every message of a few rounds, repeated and shuffled among the later ones, counts once."""
    table, history = new_table(), History(table_settings("simulate"))
    sent: list[bytes] = []
    for number in range(4):
        x = np.array([0.3 * number - 0.5, 0.4])
        ask = table.ask([x])
        (answer,) = table.server.receive(ask)
        played = table.user.read(answer)
        report = table.user.report(played.round, context=x, reward=0.1 * number)
        history.add(x, 0.1 * number)
        sent += [ask, report, *([played.reply] if played.reply else [])]
        if played.reply is not None:
            table.send_bit(played)
        table.server.receive(report)
        for repeated in data.draw(st.lists(st.sampled_from(sent), max_size=6)):
            table.server.receive(repeated)
        for task in table.tasks():
            reply = table.user.help(task)
            sent.append(reply)
            table.server.receive(reply)
    table.help()
    assert (table.server.round, table.server.samples, table.server.rejected) == (4, 4, 0)
    np.testing.assert_allclose(table.design(), history.design(), atol=1e-9)
    np.testing.assert_allclose(table.response(), history.response(), atol=1e-9)
    require_model(table, history)


def test_share_of_another_refresh_under_the_right_name_is_no_reply() -> None:
    """The engine's id of the refresh does not fit: refused, and the task stays open."""
    tables = [new_table(), new_table()]
    for table in tables:
        table.learn([0.5, 1.0], 0.5)
        played = table.play([[1.0, 0.5]])
        table.report(played.round, context=[1.0, 0.5], reward=0.5)
    first, second = tables
    (task,), (other,) = first.tasks(), second.tasks()
    share = first.decode(second.user.help(other)).parts
    name = first.decode(task).task
    before = first.state()
    reply = TaskReply(user=first.user.id, task=name, work="refresh", parts=share)
    with pytest.raises(WrongVector):
        first.server.receive(first.encode(reply))
    assert first.state() == before
    first.help()
    assert first.server.updates == 1


def test_ask_of_a_kind_without_contexts_is_damage() -> None:
    table = new_table()
    ask = Ask(user=table.user.id, round=bytes(ID_BYTES), batch=0)
    with pytest.raises(DamagedData):
        table.server.receive(table.encode(ask))
