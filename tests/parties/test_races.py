"""Races: what comes late, twice, in another order, or not at all, changes nothing that counts.

Each rule of the table of races has a test. At the end a seeded schedule loses, repeats and holds
messages back and restarts the server; afterwards every acknowledged report counts once, every
answer is the integer argmax of the model that it names, and nothing is left to do.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helba.learning.plan import SharesPlan
from helba.opener.opener import MOST_TASKS
from helba.protocol.message import Answer, Receipt, Refusal
from helba.server.asks import MOST_ASKING
from helba.server.server import PATIENCE
from tests.parties.cheating import altering, deliver_flight
from tests.parties.world import (
    SERVER,
    World,
    draw_contexts,
    draw_report,
    hold,
    lose,
    make_deployment,
    make_settings,
    repeat,
    sent,
)

FROM_OPENERS = ("Acceptance", "Pads", "Reopened", "Transfer", "Verdict", "Colours", "Abort")


def make_world(opener, *, users=1, **others) -> World:
    return World(make_deployment(make_settings(2, 3, **others), opener=opener), users=users)


def check_answer(world: World, member, name, contexts, models) -> None:
    """The arm is that of the model which the answer names."""
    (answer,) = (m for m in member.inbox if isinstance(m, Answer) and m.name == name)
    assert member.arms[name] == world.best(contexts, models[answer.batch])


# -- asks


def test_ask_is_scored_with_the_model_at_that_time_and_names_it(opener):
    world = make_world(opener, users=2)
    first, second = world.users
    rng = np.random.default_rng(0)
    models = {0: world.model()}
    held: list = []
    world.rules.append(hold("CompareTask", held, subject="ask"))
    contexts = draw_contexts(rng, world.deployment.settings)
    early = world.ask(first, contexts)
    world.settle()
    assert held
    world.learn(second, rng, count=4)
    models[1] = world.model()
    assert world.server.state.learned.batch.number == 1
    late = world.ask(second, contexts)
    world.flight += held
    world.settle()
    check_answer(world, first, early, contexts, models)
    check_answer(world, second, late, contexts, models)
    batches = [m.batch for member in world.users for m in member.inbox if isinstance(m, Answer)]
    assert batches == [0, 1]


def test_ask_that_waits_is_scored_with_the_model_that_came_meanwhile(opener):
    world = make_world(opener)
    (member,) = world.users
    rng = np.random.default_rng(1)
    contexts = draw_contexts(rng, world.deployment.settings)
    held: list = []
    world.rules.append(hold("Ask", held))
    name = world.ask(member, contexts)
    world.learn(member, rng, count=4)
    world.flight += held
    world.settle()
    check_answer(
        world, member, name, contexts, {world.server.state.learned.batch.number: world.model()}
    )


def test_ask_repeated_gets_a_new_circuit_and_the_same_arm(opener):
    world = make_world(opener)
    (member,) = world.users
    contexts = draw_contexts(np.random.default_rng(2), world.deployment.settings)
    world.rules.append(repeat("Ask"))
    name = world.ask(member, contexts)
    world.settle()
    answers = [m for m in member.inbox if isinstance(m, Answer)]
    assert [answer.name for answer in answers] == [name, name]
    assert member.arms[name] == world.best(contexts)
    circuits = [p.message.tables for p in world.log if p.kind == "Tables"]
    lanes = sum(tables.lanes for tables in circuits)
    assert lanes == 2  # each has labels of its own
    if opener == "users":
        assert len({answer.task for answer in answers}) == 2
        assert len({tables.name for tables in circuits}) == 2


def test_rounds_of_many_users_are_in_flight_at_once(opener):
    world = make_world(opener, users=12)
    rng = np.random.default_rng(3)
    held: list = []
    world.rules.append(hold("Transfer", held, times=100))
    asked = []
    for member in world.users:
        contexts = draw_contexts(rng, world.deployment.settings)
        asked.append((member, world.ask(member, contexts), contexts))
    world.settle()
    assert len(held) == (12 if opener == "users" else 1)
    world.rules.clear()
    rng.shuffle(held)  # answers come in another order
    world.flight += held
    world.settle()
    for member, name, contexts in asked:
        assert member.arms[name] == world.best(contexts)


def test_asks_do_not_wait_for_an_update(opener):
    world = make_world(opener, users=2)
    rng = np.random.default_rng(4)
    held: list = []
    world.rules.append(hold("Reopened", held, subject=None))
    world.learn(world.users[0], rng, count=2)
    assert held
    assert world.status().updating
    contexts = draw_contexts(rng, world.deployment.settings)
    assert world.recommend(world.users[1], contexts) == world.best(contexts)
    assert world.status().updating
    world.flight += held
    world.settle()
    assert world.status().updates == 1
    world.check_sums()


# -- reports


def test_report_repeated_counts_once_and_the_first_bytes_win(opener):
    world = make_world(opener)
    (member,) = world.users
    first = sent(member.user.report(np.array([0.5, 0.5]), 1.0))
    second = replace(sent(member.user.report(np.array([-0.9, 0.1]), -2.0)), name=first.name)
    world.reports[first.name] = world.round_report((0.5, 0.5), 1.0)
    for message in (first, second, first):
        world.post(member, message)
    world.settle()
    world.post(member, second)
    world.settle()
    assert [m.name for m in member.inbox if isinstance(m, Receipt)] == [first.name] * 4
    world.check_sums()


def test_report_during_an_update_counts_for_the_next(opener):
    world = make_world(opener)
    (member,) = world.users
    rng = np.random.default_rng(5)
    held: list = []
    world.rules.append(hold("Reopened", held))
    world.learn(member, rng, count=2)
    assert world.status().updating
    world.learn(member, rng, count=3)
    assert world.server.state.samples == 5
    world.check_sums()
    world.flight += held
    world.settle()
    # the first update had two reports, the five were due for the second
    first, second = (
        p.message.work.terms for p in world.log if p.kind == "CompareTask" and p.subject == "update"
    )
    assert (first.samples, second.before.samples, second.samples) == (2, 2, 5)
    assert world.server.state.learned.batch.samples == 5
    world.check_sums()


def test_rewards_may_come_many_rounds_later(opener):
    world = make_world(opener, users=3)
    rng = np.random.default_rng(6)
    settings, waiting = world.deployment.settings, []
    for turn in range(12):
        member = world.users[turn % 3]
        contexts = draw_contexts(rng, settings)
        arm = world.recommend(member, contexts)
        assert arm == world.best(contexts)
        waiting.append((member, contexts[arm]))
        if turn >= 6:
            late, context = waiting.pop(int(rng.integers(len(waiting))))
            world.report(late, context, 0.3)
            world.settle()
    assert world.server.state.samples == 6
    assert world.status().updates >= 2
    world.check_sums()


def test_growth_counts_reports_and_not_asks(opener):
    world = make_world(opener)
    (member,) = world.users
    rng = np.random.default_rng(7)
    world.learn(member, rng, count=1)
    for _ in range(10):
        world.recommend(member, draw_contexts(rng, world.deployment.settings))
    assert world.status().updates == 0
    world.learn(member, rng, count=1)
    assert world.status().updates == 1


def test_reports_that_pile_up_are_folded_and_learned_in_few_updates(opener):
    world = make_world(opener)
    (member,) = world.users
    count = 3 * world.plan.group if opener == "authority" else 30
    rng = np.random.default_rng(8)
    for _ in range(count):
        world.report(member, *draw_report(rng, world.deployment.settings))
    deliver_flight(world)
    world.settle()
    assert world.server.state.samples == count
    # an update does not wait for what is still to be folded: the growth rule decides
    assert 2 * world.server.state.learned.batch.samples > count
    assert world.status().updates <= 2
    world.check_sums()


def test_reports_past_the_horizon_are_refused_also_while_others_are_folded(opener):
    world = make_world(opener, horizon=6)
    (member,) = world.users
    rng = np.random.default_rng(9)
    held: list = []
    world.rules.append(hold("Pads", held))
    for _ in range(4):
        world.report(member, *draw_report(rng, world.deployment.settings))
    world.settle()
    for _ in range(4):
        world.report(member, *draw_report(rng, world.deployment.settings))
    world.settle()
    refused = [m for m in member.inbox if isinstance(m, Refusal)]
    assert len(refused) == 2
    assert "horizon of 6" in refused[0].reason
    world.flight += held
    world.settle()
    assert world.server.state.samples == 6
    world.check_sums()


# -- tests and updates


def trace_world(opener, **others) -> World:
    return make_world(
        opener, schedule="trace", **({"growth": 20.0, "trace_threshold": 1.7} | others)
    )


@pytest.mark.parametrize("threshold", [1.7, 0.5])  # the test says no, or yes
def test_test_in_flight_at_adoption_is_dropped(opener, threshold):
    world = trace_world(opener, growth=4.0, trace_threshold=threshold)
    (member,) = world.users
    held: list = []
    world.rules.append(hold("Verdict", held, subject="test"))
    world.report(member, (0.99, 0.0), 1.0)
    world.settle()
    assert held
    for _ in range(4):  # growth makes an update due
        world.report(member, (0.99, 0.0), 1.0)
    world.settle()
    assert world.status().updates == 1
    world.report(member, (0.99, 0.0), 1.0)  # too little for the growth rule, or the trace's
    world.settle()
    status = world.status()
    assert [c.work.subject for c in world.conversations] == ["test"]
    world.rules.clear()
    world.flight += held
    world.settle()
    # the old test is over, and one that sees the report says no: it starts nothing either
    assert world.status().tests == status.tests + 2
    assert world.status().updates == 1
    assert world.server.state.learned.batch.samples == 5
    assert world.server.state.cleared == 6
    world.check_sums()


def test_test_that_fires_beside_an_update_starts_no_second_one(opener):
    world = trace_world(opener, growth=4.0, trace_threshold=0.5)
    (member,) = world.users
    verdicts: list = []
    world.rules.append(hold("Verdict", verdicts, subject="test"))
    world.report(member, (0.99, 0.0), 1.0)  # the trace is 0.98: the test says yes
    world.settle()
    reopened: list = []
    world.rules.append(hold("Reopened", reopened))
    for _ in range(4):
        world.report(member, (0.99, 0.0), 1.0)
    world.settle()
    assert world.status().updating
    world.flight += verdicts
    world.settle()
    updating = [c for c in world.conversations if c.work.subject == "update"]
    assert len(updating) == 1
    world.flight += reopened
    world.settle()
    assert world.status().updates == 1
    world.check_sums()


def test_update_is_due_with_more_reports_than_newton_bridges_untested(opener, monkeypatch):
    """Where tests do not keep up: the certificate counts on it."""
    monkeypatch.setattr(SharesPlan, "most_untested", 3)
    world = trace_world(opener, growth=30.0)
    (member,) = world.users
    world.rules.append(hold("Verdict", [], subject="test"))
    for count in range(1, 4):
        assert world.status().updates == 0
        world.report(member, (0.2, 0.0), 0.1)
        world.settle()
        assert world.server.state.samples == count
    assert world.status().updates == 1
    assert world.server.state.adopted.untested == 3


def test_report_that_comes_during_a_test_is_part_of_the_update_it_starts(opener):
    world = trace_world(opener, trace_threshold=0.5)
    (member,) = world.users
    held: list = []
    world.rules.append(hold("Verdict", held, subject="test"))
    world.report(member, (0.99, 0.0), 1.0)
    world.settle()
    world.report(member, (0.1, 0.0), 1.0)
    world.settle()
    world.flight += held
    world.settle()
    assert world.server.state.learned.batch.samples == 2
    world.check_sums()


def test_reports_that_come_during_an_update_are_tested_on_adoption(opener):
    world = trace_world(opener, trace_threshold=0.5)
    (member,) = world.users
    held: list = []
    world.rules.append(hold("Reopened", held, subject=None, times=1))
    world.report(member, (0.99, 0.0), 1.0)
    world.settle(until=lambda: bool(held) and not world.flight)
    world.rules.append(hold("Reopened", held, times=1))
    world.flight += held
    held.clear()
    world.settle()
    if world.status().updating:
        for _ in range(3):
            world.report(member, (0.0, 0.99), 1.0)
        world.settle()
        world.flight += held
        world.settle()
    assert world.server.state.learned.batch.samples == world.server.state.samples == 4
    world.check_sums()


@pytest.mark.parametrize("times", [1, 3])
def test_model_that_fails_its_check_is_not_served_and_made_again(opener, times):
    world = make_world(opener)
    (member,) = world.users
    rng = np.random.default_rng(10)
    world.learn(member, rng, count=2)
    before, model = world.server.state.learned, world.model()
    broken = [times]

    def damage(message):
        """An opener that encrypts something else in the step before the check."""
        if message.step != "inverse" or not broken[0]:
            return message
        broken[0] -= 1
        first, *others = message.replies
        wrong = world.ring.add_values(first, [1 << 60], places=[0])
        return replace(message, replies=(replace(first, body=wrong.body), *others))

    world.rules.append(altering(world, "Reopened", damage))
    served = []
    for _ in range(2):
        world.report(member, *draw_report(rng, world.deployment.settings))
    while not world.status().rejected:
        world.step()
    served.append(world.server.state.learned is before)
    world.settle()
    assert served == [True]
    status = world.status()
    assert (status.rejected, status.updates) == (times, 2)
    cold = [
        p.message.work.terms.cold
        for p in world.log
        if p.kind == "CompareTask" and p.subject == "update"
    ]
    # from the adopted inverse three times, then from none
    assert cold == [False, *[False] * times, times >= 3]
    assert world.model() != model
    contexts = draw_contexts(rng, world.deployment.settings)
    assert world.recommend(member, contexts) == world.best(contexts)
    world.check_sums()


# -- losses


LOST = {
    "users": [
        ("Acceptance", None),
        ("CompareTask", "ask"),
        ("Transfer", "ask"),
        ("ReopenTask", "update"),
        ("Reopened", None),
        ("CompareTask", "update"),
        ("Tables", "update"),
        ("Verdict", "update"),
        ("Verdict", "test"),
    ],
    "authority": [
        ("PadTask", "ask"),
        ("Pads", None),
        ("Colours", None),
        ("Tables", "ask"),
        ("Transfer", "fold"),
        ("Verdict", "fold"),
        ("Reopened", None),
        ("Verdict", "update"),
        ("Verdict", "test"),
    ],
}


@pytest.mark.parametrize(
    ("opener", "kind", "subject"), [(o, *each) for o, found in LOST.items() for each in found]
)
def test_lost_message_costs_a_new_attempt_with_everything_fresh(opener, kind, subject):
    world = trace_world(opener, trace_threshold=0.5)
    (member,) = world.users
    rng = np.random.default_rng(11)
    contexts = draw_contexts(rng, world.deployment.settings)
    world.rules.append(lose(kind, subject=subject))
    name = world.ask(member, contexts)
    world.report(member, (0.9, 0.1), 1.0)
    world.report(member, (0.1, 0.9), 1.0)
    model = world.model()
    world.settle()
    assert not world.idle
    if kind == "Acceptance":
        world.lose(member.id)
    else:
        (task,) = (each.name for each in world.conversations)
        world.abandon(task, reason="nothing came back")
    world.rules.clear()
    world.settle()
    assert world.idle
    (answer,) = (m for m in member.inbox if isinstance(m, Answer))
    assert answer.batch in (0, 1)
    if answer.batch == 0:
        assert member.arms[name] == world.best(contexts, model)
    assert world.status().updates == 1
    world.check_sums()
    names = [p.message.openings[0].name for p in world.log if getattr(p.message, "openings", ())]
    assert len(set(names)) == len(names)  # masks are drawn anew
    transfers = [p.message.transfer.name for p in world.log if p.kind == "Transfer"]
    assert len(set(transfers)) == len(transfers)


def test_opener_that_goes_away_holds_nobody_else_up():
    world = make_world("users", users=3)
    gone, other, spare = world.users
    rng = np.random.default_rng(12)
    contexts = draw_contexts(rng, world.deployment.settings)
    held: list = []
    world.rules.append(hold("Transfer", held))
    name = world.ask(gone, contexts)
    world.settle()
    assert world.recommend(other, contexts) == world.best(contexts)
    world.lose(gone.id)
    assert world.status().abandoned == 1
    # its round begins again when it is back, with a new session and a new name
    world.flight += held
    world.settle()
    assert gone.arms[name] == world.best(contexts)
    tasks = {p.task for p in world.log if p.kind == "CompareTask" and p.to == gone.id}
    assert len(tasks) == 2
    # another user may open updates when the helper is lost
    world.rules.append(lose("ReopenTask", subject="update"))
    world.learn(other, rng, count=2)
    assert world.status().updating
    world.lose(world.helper.id)
    world.server.add_helper(spare.id)
    world.settle()
    assert world.status().updates == 1
    world.check_sums()


def test_late_reply_of_an_abandoned_task_changes_nothing(opener):
    world = make_world(opener)
    (member,) = world.users
    rng = np.random.default_rng(13)
    held: list = []
    world.rules.append(hold("Reopened", held))
    world.learn(member, rng, count=2)
    (task,) = (each.name for each in world.conversations)
    world.abandon(task, reason="late")
    world.settle()
    assert world.status().updates == 1
    saved, status = world.save(), world.status()
    world.deliver(held[0])
    assert not world.flight
    assert (world.save(), world.status()) == (saved, status)


@pytest.mark.parametrize("kind", FROM_OPENERS)
def test_everything_that_an_opener_sends_may_come_twice(opener, kind):
    """Newton's steps are alike: an old reply must not be taken for the next one's."""
    world = make_world(opener, growth=0.1)
    (member,) = world.users
    world.rules.append(repeat(kind))
    rng = np.random.default_rng(14)
    for _ in range(3):
        contexts = draw_contexts(rng, world.deployment.settings)
        assert world.recommend(member, contexts) == world.best(contexts)
        world.learn(member, rng)
    status = world.status()
    assert status.updates >= 2
    assert (status.rejected, status.abandoned) == (0, 0)
    world.check_sums()


@pytest.mark.parametrize("kind", ["Offer", "PadTask", "CompareTask", "Tables", "ReopenTask"])
def test_everything_that_an_opener_gets_may_come_twice(opener, kind):
    world = make_world(opener)
    (member,) = world.users
    world.rules.append(repeat(kind))
    rng = np.random.default_rng(15)
    contexts = draw_contexts(rng, world.deployment.settings)
    name = world.ask(member, contexts)
    world.settle()
    assert member.arms[name] == world.best(contexts)
    world.learn(member, rng, count=2)
    assert world.status().updates == 1
    assert world.status().abandoned == 0
    world.check_sums()


def test_messages_of_others_and_of_no_task_change_nothing(opener):
    world = make_world(opener, users=2)
    rng = np.random.default_rng(16)
    world.learn(world.users[0], rng, count=2)
    replies = [p for p in world.log if p.to == SERVER and p.kind in FROM_OPENERS]
    before = world.save()
    for parcel in replies:  # of tasks that are over
        assert world.handle(world.codec.decode(parcel.data), sender=parcel.sender) == ()
    held: list = []
    world.rules.append(hold("Reopened", held))
    world.learn(world.users[0], rng, count=2)
    stranger = world.users[1].id
    for parcel in held:  # a task that is open, and somebody else's
        assert world.handle(world.codec.decode(parcel.data), sender=stranger) == ()
    assert world.status().updating
    assert world.status().abandoned == 0
    assert world.save() != before
    world.flight += held
    world.settle()
    world.check_sums()


def test_verdict_with_the_bits_of_another_circuit_is_refused():
    """An opener must not pass the bit of a fold off as that of a model's check."""
    world = make_world("authority")
    (member,) = world.users
    rng = np.random.default_rng(8)
    checks: list = []
    world.rules.append(hold("Verdict", checks, subject="update"))
    folds: list = []
    world.learn(member, rng, count=2)
    assert [each.subject for each in checks] == ["update"]
    world.rules.append(hold("Verdict", folds, subject="fold"))
    world.report(member, *draw_report(rng, world.deployment.settings))
    world.settle()
    (check,), (fold,) = checks, folds
    updates = world.status().updates
    forged = replace(fold.message, task=check.message.task, work=check.message.work)
    world.server.handle(forged, sender=check.sender, now=world.now)
    assert world.status().updates == updates
    assert world.status().abandoned == 1
    assert "another" in world.server.last_trouble
    world.flight.append(fold)
    deliver_flight(world)
    assert world.status().samples == 3
    world.settle()
    world.check_sums()


def test_session_that_is_used_up_is_followed_by_another(opener, monkeypatch):
    monkeypatch.setattr("helba.garbling.session.MAX_OPENINGS", 6)
    world = make_world(opener)
    (member,) = world.users
    rng = np.random.default_rng(4)
    for _ in range(15):
        contexts = draw_contexts(rng, world.deployment.settings)
        assert world.recommend(member, contexts) == world.best(contexts)
    world.learn(member, rng, count=3)
    world.check_sums()
    assert world.status().abandoned <= 6


def test_openings_that_the_server_gave_up_make_room_for_new_ones(monkeypatch):
    """The opener is not told that a conversation was given up: its labels wait."""
    monkeypatch.setattr("helba.garbling.session.MAX_WAITING_BYTES", 40_000)
    world = make_world("authority")
    (member,) = world.users
    contexts = draw_contexts(np.random.default_rng(6), world.deployment.settings)
    world.rules.append(lose("Tables", times=20))
    name = world.ask(member, contexts)
    for _ in range(20):
        world.settle()
        (task,) = (each.name for each in world.conversations)
        world.abandon(task, reason="nothing came back")
    world.settle()
    assert member.arms[name] == world.best(contexts)
    assert 0 < len(world.helper.opener._tasks) < 20


def test_acceptance_of_an_earlier_offer_is_ignored(opener):
    world = make_world(opener)
    (member,) = world.users
    held: list = []
    world.rules.append(hold("Acceptance", held))
    contexts = draw_contexts(np.random.default_rng(17), world.deployment.settings)
    name = world.ask(member, contexts)
    world.settle()
    opening = world.helper.id if opener == "authority" else member.id
    world.lose(opening)
    if opener == "authority":
        world.server.add_helper(opening)
    world.send(world.server.work(now=world.now))  # a new offer
    world.deliver(held[0])
    assert not world.server._conversations._sessions
    world.settle()
    assert member.arms[name] == world.best(contexts)
    assert world.server.last_trouble == ""


@pytest.mark.parametrize("kind", ["Pads", "Reopened", "Colours"])
def test_reply_with_parts_missing_costs_an_attempt(opener, kind):
    world = make_world(opener)
    (member,) = world.users
    left = [1]

    def cut(message):
        name = {"Pads": "pads", "Reopened": "replies", "Colours": "halves"}[kind]
        if not left[0]:
            return message
        left[0] -= 1
        return replace(message, **{name: getattr(message, name)[:-1]})

    world.rules.append(altering(world, kind, cut))
    rng = np.random.default_rng(18)
    contexts = draw_contexts(rng, world.deployment.settings)
    assert world.recommend(member, contexts) == world.best(contexts)
    world.learn(member, rng, count=2)
    assert world.status().updates == 1
    sent = kind == "Reopened" or opener == "authority"
    assert world.status().abandoned == int(sent)
    world.check_sums()


# -- a seeded schedule


class Chaos:
    """Loses, repeats and holds parcels between server and opener back, and restarts the server."""

    def __init__(self, world: World, rng) -> None:
        self.world, self.rng, self.held = world, rng, []
        self.verdicts = 0
        world.rules.append(self.rule)
        self.on = True

    def rule(self, parcel):
        spared = ("Answer", "Receipt", "Refusal")  # between users and server a channel is reliable
        if not self.on or parcel.kind in spared:
            yield parcel
            return
        # of one report's verdicts the opener gives three: their loss is limited
        counted = parcel.subject == "fold" and parcel.kind in ("Tables", "Verdict")
        chance = self.rng.random()
        if chance < 0.06 and not (counted and self.verdicts):
            self.verdicts += counted
            return
        if chance < 0.12 and not counted:
            self.held.append(parcel)
            return
        yield parcel
        if chance > 0.94 and not counted:
            yield parcel

    def recover(self) -> None:
        """What a transport does when nothing comes back: it gives the tasks up."""
        world = self.world
        for member in world.members.values():
            if member.id in world.server._conversations._offers:
                world.lose(member.id)
        world.server.add_helper(world.helper.id)
        for task in [each.name for each in world.conversations]:
            world.abandon(task, reason="nothing came back")
        world.flight += self.held
        self.held = []


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("schedule", ["public", "trace"])
def test_any_schedule_counts_every_report_once_and_answers_rightly(opener, schedule, seed):
    settings = make_settings(2, 3, growth=0.8, schedule=schedule, trace_threshold=2.0)
    world = World(make_deployment(settings, opener=opener), users=3)
    rng = np.random.default_rng((seed, schedule == "trace"))
    chaos = Chaos(world, rng)
    models = {0: world.model()}
    asked, reported = [], []

    def learn_models():
        models.setdefault(world.server.state.learned.batch.number, world.model())

    for _ in range(25):
        action = rng.choice(["ask", "report", "report", "step", "recover", "restart"])
        member = world.users[int(rng.integers(3))]
        if action == "ask":
            contexts = draw_contexts(rng, settings)
            asked.append((member, world.ask(member, contexts), contexts))
        elif action == "report":
            reported.append((member, world.report(member, *draw_report(rng, settings))))
        elif action == "step":
            for _ in range(int(rng.integers(1, 40))):
                world.step()
                learn_models()
        elif action == "recover":
            chaos.recover()
        elif rng.random() < 0.3:
            deliver_flight_of_users(world)
            world.restart()
            chaos.held = []
        learn_models()
    chaos.on = False
    for _ in range(50):
        chaos.recover()
        while world.step():
            learn_models()
        if world.idle:
            break
    assert world.idle
    world.check_sums()
    for member, name, contexts in asked:
        found = [m for m in member.inbox if isinstance(m, Answer) and m.name == name]
        if name in member.arms:
            best = {world.best(contexts, models[answer.batch]) for answer in found}
            assert member.arms[name] in best
        else:  # it was lost, or forgotten by a restart: the user asks again
            assert world.recommend(member, contexts) == world.best(contexts)
    acknowledged = [name for _, name in reported if name in world.acknowledged]
    assert world.server.state.samples == len(acknowledged)
    assert world.status().dropped_reports == 0


def deliver_flight_of_users(world: World) -> None:
    """Receipts that the server has sent arrive before it is restarted."""
    for parcel in [p for p in world.flight if p.kind in ("Receipt", "Answer", "Refusal")]:
        world.flight.remove(parcel)
        world.deliver(parcel)


# -- full sums, sessions, and who takes part


def test_full_sum_with_reports_waiting_makes_an_update_and_goes_on(opener):
    """More reports at once than a sum can hold: an update makes room, and all of them count."""
    settings = make_settings(2, 2, horizon=43, growth=9.0)  # a deployment of its own
    world = World(make_deployment(settings, opener=opener))
    vars(world.plan)["most_unseen"] = 3  # of thousands
    rng = np.random.default_rng(0)
    sent = 0
    for _ in range(8):
        world.report(world.users[0], *draw_report(rng, settings))
        sent += 1
    world.settle()
    status = world.status()
    assert world.idle
    assert status.updates >= 1
    # in `users` what finds the sum full is refused, and sent again later
    assert status.samples == len(world.acknowledged) >= 3
    assert len(world.acknowledged) == (sent if opener == "authority" else 3)
    world.check_sums()


def test_offer_that_comes_twice_or_late_changes_nothing(opener):
    """Else the opener would have other seeds than the server, and arms would be random."""
    settings = make_settings(2, 3)
    world = World(make_deployment(settings, opener=opener))
    rng, seen = np.random.default_rng(1), []

    def keep(parcel):
        if parcel.kind == "Offer":
            seen.append(parcel)
            yield parcel
        yield parcel

    world.rules.append(keep)
    for _ in range(3):
        contexts = draw_contexts(rng, settings)
        assert world.recommend(world.users[0], contexts) == world.best(contexts)
        world.learn(world.users[0], rng)
        for parcel in seen:
            world.deliver(parcel)
        world.settle()
    member = world.users[0] if opener == "users" else world.helper
    world.lose(member.id)  # a new session takes the old one's place
    if opener == "authority":
        world.server.add_helper(member.id)
    for _ in range(3):
        contexts = draw_contexts(rng, settings)
        assert world.recommend(world.users[0], contexts) == world.best(contexts)
        for parcel in seen:  # old offers included
            world.deliver(parcel)
        world.settle()
    assert len({parcel.message.offer.session for parcel in seen}) >= 2
    world.check_sums()


def test_opener_that_restarted_is_offered_a_new_session(opener):
    settings = make_settings(2, 3)
    world = World(make_deployment(settings, opener=opener))
    rng = np.random.default_rng(2)
    world.learn(world.users[0], rng, count=3)
    member = world.users[0] if opener == "users" else world.helper
    contexts = draw_contexts(rng, settings)
    assert world.recommend(world.users[0], contexts) == world.best(contexts)
    member.opener._session = None  # it forgot
    member.opener._accepted.clear()
    contexts = draw_contexts(rng, settings)
    assert world.recommend(world.users[0], contexts) == world.best(contexts)


@pytest.mark.ckks
def test_damaged_tables_lose_no_acknowledged_report():
    settings = make_settings(2, 3)
    world = World(make_deployment(settings, engine="ckks", opener="authority"))
    spoilt = [2]

    def spoil(parcel):
        if parcel.kind == "Tables" and parcel.subject == "fold" and spoilt[0]:
            spoilt[0] -= 1
            tables = parcel.message.tables
            wrong = replace(tables, tables=tables.tables ^ np.uint64(1))
            message = replace(parcel.message, tables=wrong)
            yield replace(parcel, message=message, data=world.codec.encode(message))
        else:
            yield parcel

    world.rules.append(spoil)
    rng = np.random.default_rng(3)
    for _ in range(3):
        world.report(world.users[0], *draw_report(rng, settings))
    world.settle()
    assert spoilt == [0]
    assert world.status().dropped_reports == 0
    world.check_sums()


def test_asks_that_wait_for_an_opener_are_begun_a_few_at_a_time(monkeypatch):
    assert MOST_ASKING < MOST_TASKS  # or the opener forgets tasks that are under way
    monkeypatch.setattr("helba.server.asks.MOST_ASKING", 2)
    settings = make_settings(2, 3)
    world = World(make_deployment(settings, opener="users"))
    rng = np.random.default_rng(4)
    rows = [draw_contexts(rng, settings) for _ in range(7)]
    names = [world.ask(world.users[0], contexts) for contexts in rows]
    world.settle_until("CompareTask")
    assert sum(c.work.subject == "ask" for c in world.conversations) == 2
    world.settle()
    for name, contexts in zip(names, rows, strict=True):
        assert world.users[0].arms[name] == world.best(contexts)


def test_who_is_not_enrolled_is_refused_also_after_a_restart(opener):
    settings = make_settings(2, 3)
    world = World(make_deployment(settings, opener=opener))
    stranger = bytes(16)
    rng = np.random.default_rng(5)
    for _ in range(2):
        user = world.users[0].user
        for message in (
            sent(user.ask(draw_contexts(rng, settings))),
            sent(user.report(*draw_report(rng, settings))),
        ):
            (answer,) = world.handle(message, sender=stranger)
            assert isinstance(answer.message, Refusal)
            assert "not enrolled" in answer.message.reason
        world.restart()
    world.learn(world.users[0], rng)
    world.check_sums()


def test_ask_that_came_twice_does_not_spoil_the_others():
    """Its box may stand in a product only once: the second one goes with the next product."""
    world = make_world("authority", users=6)
    rng = np.random.default_rng(21)
    rows = [draw_contexts(rng, world.deployment.settings) for _ in world.users]
    asks = [sent(m.user.ask(each)) for m, each in zip(world.users, rows, strict=True)]
    for member, ask in [*zip(world.users, asks, strict=True), (world.users[2], asks[2])]:
        world.post(member, ask)
    world.settle()
    counts = [len(each.message.boxes) for each in world.log if each.kind == "PadTask"]
    assert counts == [6, 1]
    assert world.status().abandoned == 0
    for member, ask, contexts in zip(world.users, asks, rows, strict=True):
        assert member.arms[ask.name] == world.best(contexts)


def test_helper_without_keys_at_the_server_is_asked_for_nothing():
    world = make_world("users", growth=0.1)
    stranger = world.join(enrolled=False)
    world.server._helpers = [stranger.id, world.helper.id]
    world.learn(world.users[0], np.random.default_rng(22), count=3)
    assert world.status().updates > 0
    assert not any(each.to == stranger.id for each in world.log)
    world.server._helpers = [stranger.id]
    world.report(world.users[0], [0.1, 0.2], 0.5)
    world.settle()
    assert not any(each.to == stranger.id for each in world.log)


@pytest.mark.parametrize("kind", ["Tables", "Verdict"])
def test_verdict_that_is_lost_is_asked_for_again_and_uses_up_no_other(kind):
    world = make_world("authority", growth=100.0)
    world.rules.append(lose(kind, subject="fold"))
    world.report(world.users[0], [0.3, 0.3], 0.5)
    world.settle()
    assert len(world.server.state.rows) == 1
    world.now += PATIENCE
    world.settle()
    assert world.server.state.rows == {}
    assert world.status().abandoned == 0
    assert set(world.helper.opener.state.verdicts.values()) == {1}
    assert world.helper.opener.state.bits_returned == 1
    world.check_sums()


def test_tables_are_sent_again_once():
    world = make_world("authority", growth=100.0)
    world.rules.append(lose("Verdict", subject="fold", times=2))
    world.report(world.users[0], [0.3, 0.3], 0.5)
    world.settle()
    for abandoned in (0, 1):
        world.now += PATIENCE
        world.settle()
        assert world.status().abandoned == abandoned
    world.check_sums()
    assert set(world.helper.opener.state.verdicts.values()) == {2}


def test_ask_beyond_the_queue_may_come_later_and_one_of_another_form_may_not(opener, monkeypatch):
    monkeypatch.setattr("helba.server.asks.MOST_WAITING", 0)
    world = make_world(opener)
    member = world.users[0]
    contexts = draw_contexts(np.random.default_rng(23), world.deployment.settings)
    other = make_world("users" if opener == "authority" else "authority").users[0]
    for user, later in ((member.user, True), (other.user, False)):
        ask = sent(user.ask(contexts))
        (envelope,) = world.handle(ask, sender=member.id)
        assert (envelope.message.name, envelope.message.later) == (ask.name, later)
    name = next(iter(member.user.state.rounds))
    member.user.handle(Refusal(name=name, reason="full", later=True))
    assert name in member.user.state.rounds
    member.user.handle(Refusal(name=name, reason="wrong"))
    assert member.user.state.rounds == {}
