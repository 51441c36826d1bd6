"""The opener answers what the plan says, counts what it returns, and aborts without a bit."""

from __future__ import annotations

import copy
import secrets
from dataclasses import replace

import numpy as np
import pytest

from helba.errors import InvalidInput
from helba.garbling.message import SetupOffer
from helba.learning import update
from helba.opener.opener import MOST_TASKS, MOST_VERDICTS
from helba.protocol.effects import Effects
from helba.protocol.message import (
    Abort,
    Acceptance,
    Colours,
    CompareTask,
    Offer,
    Pads,
    PadTask,
    Receipt,
    Reopened,
    ReopenTask,
    Tables,
    Transfer,
    Verdict,
    Work,
)
from helba.ring.sharing.pad import SHARE_MODULUS
from tests.parties.cheating import body_of, deliver_flight, post_report
from tests.parties.world import (
    World,
    draw_contexts,
    hold,
    make_deployment,
    make_settings,
    reply_of,
    sent,
)


class Hand:
    """A server by hand: it speaks to the opener message by message."""

    def __init__(self, engine="simulate", **others) -> None:
        settings = make_settings(2, 3, **others)
        self.world = World(make_deployment(settings, engine=engine, opener="authority"))
        self.deployment, self.opener = self.world.deployment, self.world.helper.opener
        self.user = self.world.users[0].user
        self.begin()

    def begin(self) -> None:
        """Set a session up."""
        self.session = self.deployment.make_garbler()
        accepted = reply_of(self.opener, Offer(offer=self.session.offer()))
        assert isinstance(accepted, Acceptance)
        self.session.complete(accepted.answer)

    def report(self):
        return body_of(sent(self.user.report(np.array([0.5, 0.1]), 0.5)))

    def pads(self, bodies, *, subject="fold", task=None):
        work = Work(subject=subject, count=len(bodies))
        message = PadTask(
            task=task or secrets.token_bytes(16), work=work, boxes=tuple(b.box for b in bodies)
        )
        return message, reply_of(self.opener, message)

    def compare(self, message):
        return reply_of(self.opener, CompareTask(task=message.task, work=message.work, openings=()))

    def tables(self, transfer, bodies) -> Tables:
        """The tables of a fold; the server's shares may be shifted."""
        circuit = self.deployment.comparison(transfer.work).circuit
        shares = np.stack([body.shares for body in bodies])
        shares = (-shares.reshape(1, -1)) % SHARE_MODULUS
        garbled = self.session.garble(circuit, shares=[shares], transfer=transfer.transfer)
        told = np.zeros(0, dtype=np.bool_)
        return Tables(task=transfer.task, work=transfer.work, told=told, tables=garbled.tables)

    def judge(self, bodies):
        """Have reports judged; return the opener's last word."""
        message, pads = self.pads(bodies)
        if isinstance(pads, Abort):
            return pads
        return reply_of(self.opener, self.tables(self.compare(message), bodies))

    def read(self, verdict: Verdict) -> bool:
        return bool(self.session.finish(verdict.returned)[0, 0])


@pytest.fixture
def hand():
    return Hand()


def is_abort(reply, *, refused=False) -> bool:
    return isinstance(reply, Abort) and reply.refused == refused


def test_report_is_judged_three_times_and_never_again(hand):
    body = hand.report()
    for _ in range(MOST_VERDICTS):
        verdict = hand.judge([body])
        assert isinstance(verdict, Verdict)
        assert hand.read(verdict)
    assert hand.opener.state.bits_returned == MOST_VERDICTS == 3
    assert is_abort(hand.judge([body]), refused=True)
    hand.begin()  # a new session does not help
    assert is_abort(hand.judge([body]), refused=True)
    assert is_abort(hand.judge([hand.report(), body]), refused=True)
    assert isinstance(hand.judge([hand.report()]), Verdict)
    assert hand.opener.state.bits_returned == 4


def test_verdicts_are_counted_over_tasks_that_are_open_at_once(hand):
    """Else a server would open many tasks for one report, and have all their bits."""
    body = hand.report()
    ready = []
    for _ in range(8):
        message, pads = hand.pads([body])
        assert isinstance(pads, Pads)
        ready.append(hand.tables(hand.compare(message), [body]))
    replies = [reply_of(hand.opener, tables) for tables in ready]
    assert sum(isinstance(reply, Verdict) for reply in replies) == MOST_VERDICTS
    assert all(is_abort(reply, refused=True) for reply in replies[MOST_VERDICTS:])
    assert hand.opener.state.bits_returned == MOST_VERDICTS


def test_server_with_shifted_shares_gains_three_bits_of_a_report(hand):
    body = hand.report()
    bits = []
    for shift in (0, 1 << 20, 1 << 30, 1 << 40):
        shares = body.shares.copy()
        shares[0] = (shares[0] + shift) % SHARE_MODULUS
        reply = hand.judge([replace(body, shares=shares)])
        bits.append(hand.read(reply) if isinstance(reply, Verdict) else None)
    assert bits == [True, False, False, None]


def test_tasks_that_never_come_to_a_verdict_do_not_use_a_report_up(hand):
    """A lost message costs an honest server nothing."""
    body = hand.report()
    for _ in range(10):
        message, _ = hand.pads([body])
        hand.compare(message)
        hand.opener._drop(message.task)
    assert isinstance(hand.judge([body]), Verdict)


def test_report_twice_in_a_group_is_refused(hand):
    first, second = hand.report(), hand.report()
    assert is_abort(hand.judge([first, second, first]), refused=True)
    assert hand.opener.state.bits_returned == 0
    assert isinstance(hand.judge([first, second]), Verdict)


def test_box_of_an_ask_is_no_report_and_the_other_way_round(hand):
    ask = body_of(sent(hand.user.ask(draw_contexts(np.random.default_rng(0), make_settings(2, 3)))))
    _, reply = hand.pads([ask], subject="fold")
    assert is_abort(reply, refused=True)
    _, reply = hand.pads([hand.report()], subject="ask")
    assert is_abort(reply, refused=True)


def test_tables_before_their_time_abort(hand):
    body = hand.report()
    message, _ = hand.pads([body])
    transfer = hand.compare(message)
    tables = hand.tables(transfer, [body])
    assert is_abort(reply_of(hand.opener, replace(tables, task=bytes(16))))
    other, _ = hand.pads([hand.report()])
    assert is_abort(reply_of(hand.opener, replace(tables, task=other.task)))
    assert hand.opener.state.bits_returned == 0
    verdict = reply_of(hand.opener, tables)
    assert isinstance(verdict, Verdict)
    assert reply_of(hand.opener, tables) is verdict  # a circuit is evaluated once
    assert hand.opener.state.bits_returned == 1


def test_comparison_of_shares_without_pads_aborts(hand):
    for subject in ("fold", "ask"):
        work = Work(subject=subject, count=1)
        reply = reply_of(hand.opener, CompareTask(task=bytes(16), work=work, openings=()))
        assert is_abort(reply)
    assert not hand.opener._tasks


def test_comparison_of_other_work_than_the_task_began_with_aborts(hand):
    message, _ = hand.pads([hand.report(), hand.report()])
    for work in (Work(subject="fold", count=1), Work(subject="ask", count=2)):
        again, _ = hand.pads([hand.report(), hand.report()])
        reply = reply_of(hand.opener, CompareTask(task=again.task, work=work, openings=()))
        assert is_abort(reply)
        assert again.task not in hand.opener._tasks
    assert isinstance(hand.compare(message), Transfer)


def test_repeated_messages_get_no_second_answer(hand):
    body = hand.report()
    message, pads = hand.pads([body])
    assert isinstance(pads, Pads)
    assert reply_of(hand.opener, message) is None
    transfer = hand.compare(message)
    assert isinstance(transfer, Transfer)
    assert hand.compare(message) is None
    assert isinstance(reply_of(hand.opener, hand.tables(transfer, [body])), Verdict)


@pytest.mark.parametrize(
    ("work", "step"),
    [
        (Work(subject="ask"), "test"),
        (Work(subject="fold"), "design"),
        (Work(subject="test", terms=update.TestTerms(batch=0, unseen=1, untested=1)), "design"),
        (Work(subject="test", terms=update.TestTerms(batch=0, unseen=1, untested=1)), "model"),
        (Work(subject="update"), "design"),
    ],
)
def test_step_that_is_not_of_the_plan_aborts(hand, work, step):
    reply = reply_of(hand.opener, ReopenTask(task=bytes(16), work=work, step=step, openings=()))
    assert is_abort(reply)


@pytest.mark.parametrize("subject", ["test", "update", "nonsense"])
def test_work_without_its_terms_has_no_circuit(subject):
    deployment = make_deployment(make_settings(2, 3), opener="authority")
    with pytest.raises(InvalidInput, match="with terms"):
        deployment.comparison(Work(subject=subject, count=1))


def test_steps_of_an_update_are_those_of_the_plan():
    world = World(make_deployment(make_settings(2, 3), opener="authority"))
    held: list = []
    world.rules.append(hold("ReopenTask", held))
    for context in ((0.5, 0.5), (0.5, 0.1)):
        world.report(world.users[0], context, 1.0)
    world.settle()
    message, opener = held[0].message, world.helper.opener
    assert isinstance(reply_of(opener, message), Reopened)
    for step in ("", "newton 0", "newton 99", "newton -1", "newton x", "check", "Design"):
        assert is_abort(reply_of(opener, replace(message, step=step))), step
    for step in ("newton 01", "newton ²", "newton \N{ARABIC-INDIC DIGIT ONE}", "newton 1 "):
        assert is_abort(reply_of(opener, replace(message, step=step))), step
    assert is_abort(reply_of(opener, replace(message, openings=message.openings * 2)))
    assert is_abort(reply_of(opener, replace(message, openings=())))


def test_openings_of_another_number_or_key_abort(opener):
    world = World(make_deployment(make_settings(2, 3), opener=opener), users=2)
    held: list = []
    world.rules.append(hold("CompareTask", held, subject="ask"))
    world.ask(world.users[0], draw_contexts(np.random.default_rng(0), make_settings(2, 3)))
    world.settle()
    message = held[0].message
    party = world.users[0].opener or world.helper.opener
    assert is_abort(reply_of(party, replace(message, openings=())))
    if opener == "users":  # another user cannot open what is for this one
        other = world.users[1].opener
        assert is_abort(reply_of(other, replace(message, task=secrets.token_bytes(16))))


def test_opener_without_a_session_aborts_a_comparison():
    world = World(make_deployment(make_settings(2, 3), opener="authority"))
    report = body_of(sent(world.users[0].user.report(np.array([0.1, 0.1]), 0.0)))
    work = Work(subject="fold", count=1)
    opener = world.helper.opener
    reply_of(opener, PadTask(task=bytes(16), work=work, boxes=(report.box,)))
    assert is_abort(reply_of(opener, CompareTask(task=bytes(16), work=work, openings=())))


def test_new_offer_replaces_the_session_and_ends_its_tasks(hand):
    body = hand.report()
    message, _ = hand.pads([body])
    tables = hand.tables(hand.compare(message), [body])
    hand.begin()
    assert not hand.opener._tasks
    assert is_abort(reply_of(hand.opener, tables))
    assert hand.opener.state.bits_returned == 0
    assert isinstance(hand.judge([body]), Verdict)


@pytest.mark.ckks
def test_damaged_offer_changes_nothing():
    hand = Hand("ckks")
    body = hand.report()
    message, _ = hand.pads([body])
    tables = hand.tables(hand.compare(message), [body])
    bad = SetupOffer(session=bytes(16), points=b"\xff" * 32 * SetupOffer.POINTS)
    assert reply_of(hand.opener, Offer(offer=bad)) is None
    assert isinstance(reply_of(hand.opener, tables), Verdict)


def test_number_of_tasks_is_bounded_and_the_oldest_goes(hand):
    messages = [hand.pads([hand.report()])[0] for _ in range(MOST_TASKS + 5)]
    assert len(hand.opener._tasks) == MOST_TASKS
    assert is_abort(hand.compare(messages[0]))
    assert isinstance(hand.compare(messages[-1]), Transfer)


@pytest.mark.ckks
def test_forged_tables_abort_and_are_counted():
    hand = Hand("ckks")
    rng = np.random.default_rng(0)
    for forged in range(3):
        body = hand.report()
        message, _ = hand.pads([body])
        tables = hand.tables(hand.compare(message), [body])
        inner = tables.tables
        if forged == 0:  # tables
            labels = inner.tables.copy()
            labels[:, 0] ^= rng.integers(1, 1 << 60, len(labels), dtype=np.uint64)
            inner = replace(inner, tables=labels)
        elif forged == 1:  # both hashes are of something else
            inner = replace(inner, hashes=rng.integers(0, 256, inner.hashes.shape, dtype=np.uint8))
        else:  # hashes of the two labels in the other order: one bit of each colour
            inner = replace(inner, hashes=inner.hashes[:, :, ::-1].copy())
        reply = reply_of(hand.opener, replace(tables, tables=inner))
        assert is_abort(reply)  # the tables are wrong, and not the numbers: again will do
        assert hand.opener.state.aborts == forged + 1
        assert reply_of(hand.opener, tables) is reply  # it is over
        # an abort tells something, too: it has used up one of three
        assert set(hand.opener.state.verdicts.values()) == {1}
    assert hand.opener.state.bits_returned == 0
    assert isinstance(hand.judge([hand.report()]), Verdict)


def test_wrong_number_of_told_bits_aborts(hand):
    body = hand.report()
    message, _ = hand.pads([body])
    tables = hand.tables(hand.compare(message), [body])
    assert is_abort(reply_of(hand.opener, replace(tables, told=np.array([True]))))
    assert hand.opener.state.bits_returned == 0


def test_asks_return_no_bit(opener):
    world = World(make_deployment(make_settings(2, 3), opener=opener))
    for seed in range(3):
        world.recommend(
            world.users[0], draw_contexts(np.random.default_rng(seed), make_settings(2, 3))
        )
    parties = [m.opener for m in world.members.values() if m.opener is not None]
    assert [party.state.bits_returned for party in parties] == [0] * len(parties)
    kinds = {p.kind for p in world.log}
    assert "Verdict" not in kinds
    assert ("Colours" in kinds) == (opener == "authority")


def test_refused_report_is_dropped_by_the_server_and_nothing_waits_for_it():
    world = World(make_deployment(make_settings(2, 3), opener="authority"))
    post_report(world, world.users[0], (0.3, 0.3), 0.1)
    deliver_flight(world)
    saved = world.save()
    for _ in range(MOST_VERDICTS):  # a server that is restored from an old state
        world.restart(saved)
        world.settle()
        assert world.server.state.samples == 1
    world.restart(saved)
    post_report(world, world.users[0], (0.1, 0.3), 0.1)
    world.settle()
    assert world.server.state.samples == 1
    assert world.status().dropped_reports == 1
    assert world.idle


def test_opener_takes_no_messages_of_others(hand):
    for message in (Receipt(name=bytes(16)), Colours(task=bytes(16), halves=())):
        with pytest.raises(InvalidInput, match="one for an opener"):
            reply_of(hand.opener, message)


def test_users_open_no_sealed_seeds():
    world = World(make_deployment(make_settings(2, 3), opener="users"))
    reply = reply_of(
        world.users[0].opener,
        PadTask(task=bytes(16), work=Work(subject="ask"), boxes=(bytes(138),)),
    )
    assert is_abort(reply, refused=True)


def test_stranger_is_not_heard():
    hand = Hand()
    opener, state = hand.opener, copy.deepcopy(hand.opener.state)
    body = hand.report()
    message, _ = hand.pads([body])
    offer = Offer(offer=hand.deployment.make_garbler().offer())
    task = replace(message, task=bytes(range(16)))
    for each in (offer, task):
        for sender in (bytes(16), hand.user.id):
            assert opener.handle(each, sender=sender) == Effects()
    assert opener.state == state
    assert task.task not in opener._tasks
    assert message.task in opener._tasks
