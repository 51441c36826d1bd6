"""Rounds that are cut: their users renew what they are answered with, and nobody else does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helba.reference.planning.bounds.precision import trace_reach
from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.bandit import ReferenceBandit
from helba.reference.protocol.serving.work import UpdateWork
from helba.reference.protocol.wire.messages import Answer, Refusal
from helba.reference.twin.ciphertext import CiphertextTwin
from helba.service.protocol.snapshot import restore_server, save_server
from tests.engines import BOTH
from tests.reference.protocol.parties import (
    History,
    authority_of,
    draw_contexts,
    forge_share,
    plan_of,
    play_toy,
    require_arm,
    require_model,
)
from tests.reference.protocol.talking import (
    ARMS,
    CUT_MILD,
    CUT_TOY,
    TalkingTable,
    open_table,
    refusal_of,
)
from tests.sweep import in_soak, sweep

both = pytest.mark.parametrize("scheme", BOTH)
either = pytest.mark.parametrize("request_", [CUT_TOY, CUT_MILD], ids=["toy", "tree"])

# -- what a round and an update take


@both
@either
def test_cut_rounds_and_updates_take_the_refreshes_of_the_plan(
    scheme: str, request_: PlanRequest
) -> None:
    plan, table = plan_of(request_), open_table(scheme, request=request_)
    assert plan.refreshes_per_round > 0
    history, generator = History(table.settings), np.random.default_rng(2)
    updates = as_planned = certain = taken = 0
    for number in range(1, (8 if scheme == "simulate" else 3) + 1):
        contexts = draw_contexts(generator, table.settings)
        terms = table.server.terms
        played = table.play(contexts)
        taken = taken or table.rounds_helped
        # a plan renews all that a root has at hand; each round takes as many, whatever its data
        assert table.rounds_helped == number * taken
        certain += require_arm(
            table.deployment, contexts, arm=played.arm, terms=terms, history=history
        )
        table.send_bit(played)
        x, reward = contexts[played.arm], float(generator.uniform(-1, 1))
        history.add(x, reward)
        table.report(played.round, context=x, reward=reward)
        if table.server.worker.work:
            steps = newton_steps(table)
            # one renewal for every Newton step; only a trace past the plan's takes more of them
            refreshes = plan.refreshes_per_update + steps - plan.newton_steps
            assert table.kinds() == ["refresh"] * refreshes + ["check"]
            updates += 1
            as_planned += steps == plan.newton_steps
        require_model(table, history)
    assert table.server.updates == updates >= 1
    assert table.server.rejected == 0
    assert as_planned >= 1
    assert plan.refreshes_per_round / 2 < taken <= plan.refreshes_per_round
    assert certain >= number // 2


def newton_steps(table: TalkingTable) -> int:
    """Of the update that has just begun: no more than planned while the trace is within reach."""
    (work,) = table.server.worker.work
    assert isinstance(work, UpdateWork)
    accuracy, plan = table.deployment.accuracy, plan_of(table.request)
    warm = accuracy.plan_inverse(residual=work.model.terms.residual, reach=work.reach)
    if work.reach <= trace_reach(table.settings):
        assert warm.steps <= plan.newton_steps
    return warm.steps


@both
def test_cut_run_is_played_where_data_arrives_switched(scheme: str) -> None:
    authority = authority_of(replace(CUT_TOY, keys="switched"), scheme=scheme)
    bandit = ReferenceBandit(authority.deployment.settings, authority=authority)
    rounds = 6 if scheme == "simulate" else 3
    _, certain = play_toy(bandit, rounds=rounds, rotate_after=2)
    status = bandit.server.status()
    assert certain
    assert (status.samples, status.rejected) == (rounds, 0)
    assert bandit.updates >= 1


# -- whose help a round takes


@both
def test_round_is_offered_to_nobody_but_its_own_user(scheme: str) -> None:
    table = open_table(scheme)
    bob = table.new_user()
    assert table.server.receive(table.ask(ARMS)) == ()
    (task,) = table.tasks()
    assert table.tasks(bob) == ()
    before = table.state()
    stolen = table.renamed(table.user.help(task), user=bob)
    assert "no task of this name" in refusal_of(table, table.server.receive(stolen)).reason
    assert table.state() == before
    answer = table.finish(())
    expected = CiphertextTwin(table.settings).select(np.array(ARMS))
    assert table.user.read(answer).arm == expected


def test_two_users_are_each_asked_about_their_own_round_alone() -> None:
    table = open_table()
    bob = table.new_user()
    for user in (table.user, bob):
        assert table.server.receive(table.ask(ARMS, user=user)) == ()
    ((mine,), (his,)) = table.tasks(), table.tasks(bob)
    assert table.decode(mine).task != table.decode(his).task
    told = {user: user.read(table.finish((), user=user)) for user in (bob, table.user)}
    assert told[bob].arm == told[table.user].arm
    assert told[bob].round != told[table.user].round


@both
def test_user_who_vanishes_loses_its_own_round_and_stops_nobody(scheme: str) -> None:
    table = open_table(scheme)
    gone, history = table.new_user(), History(table.settings)
    ask = table.ask(ARMS, user=gone)
    assert table.server.receive(ask) == ()
    generator = np.random.default_rng(6)
    for _ in range(6 if scheme == "simulate" else 3):
        x, reward = generator.uniform(-1, 1, 2), float(generator.uniform(-1, 1))
        history.add(x, reward)
        table.learn(x, reward)
    assert table.server.updates >= 1
    assert (table.server.samples, table.server.rejected) == (len(history.rewards), 0)
    require_model(table, history)
    # it was never answered, so nothing can be reported; but it may still come back
    name = table.decode(ask).round
    report = gone.report(name, context=ARMS[0], reward=1.0)
    assert "being answered" in refusal_of(table, table.server.receive(report)).reason
    assert table.server.receive(ask) == ()
    gone.read(table.finish((), user=gone))


def test_user_who_is_revoked_takes_its_waiting_rounds_along() -> None:
    table = open_table()
    gone = table.new_user()
    assert table.server.receive(table.ask(ARMS, user=gone)) == ()
    reply = gone.help(table.round_tasks(gone)[0])
    assert table.server.round == 1
    table.server.revoke(gone.id)
    assert table.server.worker.work == []
    assert (table.server.round, table.server.rounds) == (0, {})
    refusal_of(table, table.server.receive(reply))
    table.learn([0.5, -0.2], 0.3)
    assert table.server.samples == 1


# -- wrong shares in a round

WAYS = ("random", "zeros", "shifted")
SCORES_LEFT = 4  # renewals of a round from that of its scores on; three are the sign's


@pytest.mark.parametrize(
    ("scheme", "how", "place"),
    [
        *(("simulate", how, place) for how in WAYS for place in (0, 1)),
        *(
            case("ckks", how, place, marks=pytest.mark.ckks)
            for how, place, case in (
                ("random", 0, pytest.param),
                ("random", 1, in_soak),
                ("zeros", 0, in_soak),
                ("zeros", 1, in_soak),
                ("shifted", 0, in_soak),
                ("shifted", 1, pytest.param),
            )
        ),
    ],
)
def test_wrong_share_in_a_round_changes_its_own_answer_alone(
    scheme: str, how: str, place: int
) -> None:
    table = open_table(scheme)
    bob = table.new_user()
    for context in ([0.5, -0.2], [0.4, 0.8]):
        table.learn(context, 0.3)
    honest = table.play(ARMS)
    assert table.server.receive(table.ask(ARMS, user=bob)) == ()
    replies = table.server.receive(table.ask(ARMS))
    mine = ("answers", "tasks", "round", "rounds")  # what a round changes that is given up
    before = {name: value for name, value in table.state().items() if name not in mine}
    # far enough for the other arm to win, and within the range of the sign
    shift = 0.5 if honest.arm else -0.5
    step = 0
    while not replies:
        (task,) = table.round_tasks()
        share = table.user.help(task)
        if step == place:
            share = forge_share(table, task, how=how, shift=shift)
        replies = table.server.receive(share)
        step += 1
    told = table.decode(replies[0])
    # numbers that leave their range: the simulator notices, CKKS wraps them around
    assert isinstance(told, Refusal if scheme == "simulate" else Answer)
    after = table.state()
    assert {name: after[name] for name in before} == before
    assert bob.read(table.finish((), user=bob)).arm == honest.arm
    assert table.play(ARMS).arm == honest.arm
    table.learn([0.3, 0.3], 0.2)
    assert table.server.rejected == 0


@both
def test_shifted_share_of_the_scores_does_change_the_own_answer(scheme: str) -> None:
    """The control: a wrong share that stays within all ranges decides the round it is for."""
    table = open_table(scheme)
    bob = table.new_user()
    for context in ([0.5, -0.2], [0.4, 0.8]):
        table.learn(context, 0.3)
    honest = table.play(ARMS)
    per_round = table.rounds_helped // 3
    assert table.server.receive(table.ask(ARMS, user=bob)) == ()
    replies, left = table.server.receive(table.ask(ARMS)), per_round
    # the scores alternate in the slots, and are renewed once more before the sign is
    tip = np.where(np.arange(table.deployment.scores.slots) % 2 == honest.arm, -0.5, 0.5)
    while not replies:
        (task,) = table.round_tasks()
        share = table.user.help(task)
        if left == SCORES_LEFT:
            share = forge_share(table, task, how="shifted", shift=tip)
        replies, left = table.server.receive(share), left - 1
    assert table.user.read(replies[0]).arm != honest.arm
    assert bob.read(table.finish((), user=bob)).arm == honest.arm
    assert table.play(ARMS).arm == honest.arm


def test_round_that_a_wrong_share_broke_may_be_asked_again() -> None:
    table = open_table()
    ask = table.ask(ARMS)
    assert table.server.receive(ask) == ()
    replies: tuple[bytes, ...] = ()
    while not replies:
        (task,) = table.round_tasks()
        replies = table.server.receive(forge_share(table, task, how="zeros"))
    assert refusal_of(table, replies).subject == table.decode(ask).round
    assert (table.server.round, table.server.rounds, table.server.worker.work) == (0, {}, [])
    assert table.server.receive(ask) == ()
    assert table.user.read(table.finish(())).arm == CiphertextTwin(table.settings).select(
        np.array(ARMS)
    )


# -- servers that are saved on the way


def run(scheme: str, *, every: int = 0) -> tuple[TalkingTable, list[int], int]:
    """Arms of a run, and how often its server was saved and restored: at every so many pauses."""
    table, generator = open_table(scheme), np.random.default_rng(11)
    arms, pauses, saves = [], 0, 0

    def pause() -> None:
        nonlocal pauses, saves
        pauses += 1
        if every and pauses % every == 0:
            saves += 1
            table.server = restore_server(
                save_server(table.server),
                deployment=table.deployment,
                engine=table.server._engine,
                directory=table.server.directory,
            )

    for _ in range(4 if scheme == "simulate" else 2):
        contexts = generator.uniform(-0.5, 0.5, (2, 2))
        replies = table.server.receive(table.ask(contexts))
        while not replies:
            pause()
            (task,) = table.tasks()
            share = table.user.help(task)
            pause()
            replies = table.server.receive(share)
        told = table.user.read(replies[0])
        table.send_bit(told)
        arms.append(told.arm)
        x, reward = contexts[told.arm], float(generator.uniform(-1, 1))
        table.report(told.round, context=x, reward=reward)
        while tasks := table.tasks():
            pause()
            assert table.tasks() == tasks
            share = table.user.help(tasks[0])
            pause()
            table.server.receive(share)
    return table, arms, saves


@both
def test_server_restored_within_a_round_or_a_cut_model_goes_on(scheme: str) -> None:
    # two pauses a task: a third of them are as many before an answer as after it
    every = 1 if scheme == "simulate" else sweep(3, long=1)
    plain, expected, _ = run(scheme)
    saved, found, saves = run(scheme, every=every)
    plan = plan_of(CUT_TOY)
    assert "refinement" in plan.refresh_points  # the model's chain is cut
    assert every * saves >= 2 * (plan.refreshes_per_round + plan.refreshes_per_update)
    assert found == expected
    assert saved.server.status() == plain.server.status()
    assert saved.server.updates >= 1
    assert saved.server.rejected == 0
    np.testing.assert_allclose(saved.model().inverse, plain.model().inverse, rtol=0, atol=1e-5)
    np.testing.assert_allclose(saved.model().estimate, plain.model().estimate, rtol=0, atol=1e-5)
