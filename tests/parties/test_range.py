"""Numbers out of range, in the setting `authority`: found, and of no effect on anybody else.

An ask that is out of range stands in one product with those of others, and reaches their scores
through the noise of the encrypted model. Each claim stands beside one that shows what happens
without the check.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helba.garbling.circuits.builder import TRUE
from helba.garbling.circuits.share_range import ShareRange
from helba.protocol.deployment import SharesDeployment
from helba.protocol.message import SIGN_SEED_BYTES, Answer, Refusal, Work
from tests.parties.cheating import (
    altering,
    boxed_badly,
    deliver_flight,
    post_report,
    shifted,
)
from tests.parties.world import (
    World,
    draw_contexts,
    draw_report,
    make_deployment,
    make_settings,
    sent,
)

USERS, CHEAT = 8, 2


def make_world(engine="simulate", *, dim=2, arms=3, users=USERS, **others) -> World:
    settings = make_settings(dim, arms, **others)
    world = World(make_deployment(settings, engine=engine, opener="authority"), users=users)
    world.learn(world.users[0], np.random.default_rng(1), count=4)
    assert world.server.state.learned.batch.number >= 1
    world.log.clear()
    return world


def ask_together(world: World, change, rng) -> list[tuple[int | None, int]]:
    """All users ask at once, one of them wrongly; return their arms, and the right ones."""
    rows = [draw_contexts(rng, world.deployment.settings) for _ in world.users]
    names = []
    for index, (member, contexts) in enumerate(zip(world.users, rows, strict=True)):
        message = sent(member.user.ask(contexts))
        world.post(member, change(message) if index == CHEAT else message)
        names.append(message.name)
    deliver_flight(world)  # all of them wait before the first is scored
    world.settle()
    arms = [m.arms.get(name) for m, name in zip(world.users, names, strict=True)]
    return [(arm, world.best(contexts)) for arm, contexts in zip(arms, rows, strict=True)]


def count_wrong(answers) -> int:
    return sum(arm != best for i, (arm, best) in enumerate(answers) if i != CHEAT)


def everywhere(world: World, rng) -> dict[int, int]:
    return {i: int(rng.integers(1 << 62)) << 34 for i in range(world.deployment.numbers)}


CRAFTED = {
    "a little too large": lambda *_: {4: 1 << 18},
    "too large": lambda *_: {4: 1 << 60},
    "far too large": lambda *_: {0: 1 << 80},
    "half of 2^96": lambda *_: {7: 1 << 95},
    "just below 2^96": lambda *_: {3: (1 << 96) - (1 << 81)},
    "many numbers": everywhere,
    # with signs alone they cancel in every sum modulo 2^96
    "two halves of 2^96": lambda *_: {0: 1 << 95, 7: 1 << 95},
}


@pytest.mark.parametrize("crafted", CRAFTED)
def test_ask_out_of_range_changes_nobody_elses_arm(crafted):
    world = make_world()
    rng = np.random.default_rng(2)
    shifts = CRAFTED[crafted](world, rng)
    before = world.helper.opener.state.bits_returned
    answers = ask_together(world, lambda ask: shifted(ask, shifts), rng)
    assert count_wrong(answers) == 0
    assert answers[CHEAT][0] == 0
    assert world.idle
    assert world.helper.opener.state.bits_returned == before
    # The server sees that a group of all, and one of three, had such an ask; and no label.
    aborts = [parcel.message for parcel in world.log if parcel.kind == "Abort"]
    assert [abort.refused for abort in aborts] == [True, True]
    assert not any(parcel.kind == "Verdict" for parcel in world.log)


@pytest.mark.ckks
@pytest.mark.parametrize("crafted", ["far too large", "many numbers"])
def test_ask_out_of_range_changes_nobody_elses_arm_on_openfhe(crafted):
    world = make_world("ckks")
    rng = np.random.default_rng(2)
    shifts = CRAFTED[crafted](world, rng)
    answers = ask_together(world, lambda ask: shifted(ask, shifts), rng)
    assert count_wrong(answers) == 0
    assert answers[CHEAT][0] == 0


@pytest.mark.parametrize("crafted", ["far too large", "many numbers", "two halves of 2^96"])
def test_ask_out_of_range_is_found_by_random_sums(crafted):
    world = make_world(arms=30, users=3)
    assert world.deployment.sums_are_checked
    assert world.plan.lanes >= 3
    rng = np.random.default_rng(3)
    shifts = CRAFTED[crafted](world, rng)
    answers = ask_together(world, lambda ask: shifted(ask, shifts), rng)
    assert count_wrong(answers) == 0
    assert answers[CHEAT][0] == 0


def test_signs_of_sums_are_drawn_anew_when_the_shares_have_arrived():
    """Who knew them before could make numbers whose sums are all in range."""
    world = make_world(arms=30, users=1)
    member, contexts = world.users[0], draw_contexts(np.random.default_rng(3), world.plan.settings)
    ask = sent(member.user.ask(contexts))
    for _ in range(20):
        world.post(member, ask)
        world.settle()
    told = [parcel.message.signs for parcel in world.log if parcel.kind == "Pads"]
    assert len(set(told)) == len(told) == 20
    assert {len(each) for each in told} == {SIGN_SEED_BYTES}
    bits = np.unpackbits(np.frombuffer(b"".join(told), dtype=np.uint8))
    assert abs(bits.mean() - 0.5) * 2.0 * np.sqrt(len(bits)) < 6.0  # false alarm: 2e-9


def test_several_asks_out_of_range_leave_the_others_alone():
    world = make_world(users=20)
    rng = np.random.default_rng(4)
    rows = [draw_contexts(rng, world.deployment.settings) for _ in world.users]
    names, wrong = [], {1, 7, 8, 19}
    for index, (member, contexts) in enumerate(zip(world.users, rows, strict=True)):
        message = sent(member.user.ask(contexts))
        world.post(member, shifted(message, {5: 1 << 85}) if index in wrong else message)
        names.append(message.name)
    deliver_flight(world)
    world.settle()
    for index, (member, name) in enumerate(zip(world.users, names, strict=True)):
        assert member.arms[name] == (0 if index in wrong else world.best(rows[index]))
    # 20 together, then 4 times up to 6 of them, then one by one where that fails
    assert world.helper.opener.state.aborts <= 5


class Unchecked(ShareRange):
    """A range that everything is in."""

    def build(self, builder, *, first):
        del builder, first
        return TRUE


def test_without_the_check_an_ask_changes_its_neighbours_arms(monkeypatch):
    checked = SharesDeployment.ask_range.fget

    def unchecked(deployment):
        found = checked(deployment)
        return Unchecked(found.values, found.low_bits, found.parities)

    monkeypatch.setattr(SharesDeployment, "ask_range", property(unchecked))
    world = make_world(horizon=501)  # a deployment of its own: circuits are kept
    rng = np.random.default_rng(2)
    answers = [ask_together(world, lambda ask: shifted(ask, {0: 1 << 80}), rng) for _ in range(4)]
    assert sum(map(count_wrong, answers)) >= 8  # of 28


@pytest.mark.parametrize("engine", ["simulate", pytest.param("ckks", marks=pytest.mark.ckks)])
def test_check_in_the_lane_of_the_ask_alone_does_not_help_its_neighbours(engine):
    """A server that tells the opener that all is well gets wrong arms out to the neighbours."""
    world = make_world(engine)
    rng = np.random.default_rng(2)

    def lie(tables):
        told = tables.told.copy()
        if len(told) > 1:
            told[CHEAT] ^= True
        return replace(tables, told=told)

    world.rules.append(altering(world, "Tables", lie))
    answers = [ask_together(world, lambda ask: shifted(ask, {0: 1 << 80}), rng) for _ in range(4)]
    assert sum(map(count_wrong, answers)) >= 8
    assert [each[CHEAT][0] for each in answers] == [0] * 4  # its own circuit sees it


def value_shift(world: World, contexts, place: int, value: int) -> dict[int, int]:
    """The shift that makes a number of an ask have this value."""
    numbers = [each for row in contexts for each in world.features(row)]
    return {place: value - numbers[place]}


@pytest.mark.parametrize(("value", "inside"), [(1, True), (0, False), (-1, False)])
@pytest.mark.parametrize("upper", [True, False])
def test_range_of_an_ask_ends_where_the_plan_says(value, inside, upper):
    world = make_world(users=1)
    for _ in range(12):  # the first weight becomes negative
        world.report(world.users[0], (-0.9, 0.0), 2.0)
    world.settle()
    model = world.model()
    limit = 1 << (world.deployment.ask_range.low_bits - 1)
    # the largest that passes is limit - 1, the smallest -limit
    number = limit - value if upper else -limit - 1 + value
    feature = int(np.argmax(model) if upper else np.argmin(model))
    assert number * model[feature] > 0
    contexts = np.array([[0.1, 0.1], [0.1, 0.1], [0.1, 0.1]])
    place = 2 * world.plan.rounding.features + feature
    message = sent(world.users[0].user.ask(contexts))
    world.post(world.users[0], shifted(message, value_shift(world, contexts, place, number)))
    world.settle()
    features = [world.features(row) for row in contexts]
    features[2][feature] = number
    scores = [sum(w * f for w, f in zip(model, row, strict=True)) for row in features]
    grid = world.plan.grid
    assert max(map(abs, scores)) < 2 ** (grid.bits - grid.low_bits - 1)  # nothing goes around
    assert int(np.argmax(scores)) == 2
    assert world.users[0].arms[message.name] == (2 if inside else 0)


def test_ask_alone_that_is_out_of_range_gets_arm_0_and_looks_like_any_other():
    world = make_world(users=1)
    member = world.users[0]
    seen = {}
    for shift in (0, 1 << 70):
        world.log.clear()
        contexts = [(0.1, 0.0), (0.2, 0.1), (0.9, 0.3)]
        message = sent(member.user.ask(np.array(contexts)))
        world.post(member, shifted(message, {2: shift}))
        world.settle()
        assert member.arms[message.name] == (0 if shift else world.best(contexts))
        seen[shift] = [(p.sender, p.to, p.kind, len(p.data)) for p in world.log]
    assert world.best(contexts) != 0
    assert seen[0] == seen[1 << 70]
    assert world.helper.opener.state.aborts == 0


def test_ask_with_a_box_that_nobody_can_open_is_refused_and_the_others_are_answered():
    world = make_world()
    rng = np.random.default_rng(5)
    answers = ask_together(world, boxed_badly, rng)
    assert count_wrong(answers) == 0
    assert answers[CHEAT][0] is None
    assert isinstance(world.users[CHEAT].inbox[-1], Refusal)
    assert sum(isinstance(m, Answer) for m in world.users[CHEAT].inbox) == 0
    assert world.idle


# -- reports


def too_large(world: World, place: int, sign: int, context, reward) -> dict[int, int]:
    numbers = world.round_report(context, reward)
    return {place: sign * (world.plan.rounding.peak + 1) - numbers[place]}


WRONG_REPORTS = {
    "a number of the context": lambda w, c, r: too_large(w, 0, 1, c, r),
    "a negative number": lambda w, c, r: too_large(w, 1, -1, c, r),
    "the reward": lambda w, c, r: too_large(w, 2, 1, c, r),
    "a negative reward": lambda w, c, r: too_large(w, 2, -1, c, r),
    "huge": lambda *_: {0: 1 << 90},
    # each number is in range, the length is not
    "the norm": lambda w, c, r: {
        i: int(0.9 * w.plan.rounding.peak) - w.round_report(c, r)[i] for i in range(2)
    },
}


@pytest.mark.parametrize("wrong", WRONG_REPORTS)
def test_report_out_of_range_is_dropped_and_the_others_count(wrong):
    world = make_world(users=1)
    rng, kept = np.random.default_rng(6), list(world.acknowledged.values())
    for index in range(7):
        context, reward = draw_report(rng, world.deployment.settings)
        shifts = WRONG_REPORTS[wrong](world, context, reward) if index == 4 else {}
        name = post_report(
            world, world.users[0], context, reward, lambda r, shifts=shifts: shifted(r, shifts)
        )
        if index != 4:
            kept.append(world.reports[name])
    deliver_flight(world)  # one group
    world.settle()
    status = world.status()
    assert status.dropped_reports == 1
    assert world.server.state.samples == len(kept)
    assert np.array_equal(world.sums(), world.expected_sums(kept))
    assert world.idle


def test_report_at_the_limits_counts():
    world = make_world(users=1)
    kept = list(world.acknowledged.values())
    for context, reward in (((1.0, 0.0), 2.0), ((0.0, -1.0), -2.0), ((0.6, -0.8), 0.0)):
        kept.append(world.reports[post_report(world, world.users[0], context, reward)])
    world.settle()
    assert world.status().dropped_reports == 0
    assert np.array_equal(world.sums(), world.expected_sums(kept))


def test_three_verdicts_are_enough_for_every_report_of_a_full_group():
    world = make_world(users=1)
    rng, kept = np.random.default_rng(7), list(world.acknowledged.values())
    group = world.plan.group
    assert group > 50
    wrong = {0, 31, group - 1}
    for index in range(group):
        context, reward = draw_report(rng, world.deployment.settings)
        shifts = {0: 1 << 40} if index in wrong else {}
        name = post_report(
            world, world.users[0], context, reward, lambda r, shifts=shifts: shifted(r, shifts)
        )
        if index not in wrong:
            kept.append(world.reports[name])
    deliver_flight(world)
    world.settle()
    assert world.status().dropped_reports == len(wrong)
    assert np.array_equal(world.sums(), world.expected_sums(kept))
    verdicts = world.helper.opener.state.verdicts
    assert max(verdicts.values()) == 3
    folds = [p for p in world.log if p.kind == "Verdict" and p.subject == "fold"]
    assert len(folds) <= 1 + 7 + 3 * 8


def test_report_with_a_box_that_nobody_can_open_is_dropped_and_the_others_count():
    world = make_world(users=1)
    rng, kept = np.random.default_rng(8), list(world.acknowledged.values())
    for index in range(6):
        report = draw_report(rng, world.deployment.settings)
        name = post_report(
            world, world.users[0], *report, boxed_badly if index == 2 else lambda r: r
        )
        if index != 2:
            kept.append(world.reports[name])
    deliver_flight(world)
    world.settle()
    assert world.status().dropped_reports == 1
    assert np.array_equal(world.sums(), world.expected_sums(kept))
    assert world.server.state.learned.batch.number >= 2


def test_without_the_check_a_report_out_of_range_is_summed(monkeypatch):
    def lax(deployment, reports):
        from helba.garbling import build_report_check

        return build_report_check(
            deployment.settings.dim,
            bits=96,
            limit=1 << 20,
            reward_limit=1 << 20,
            leading_bits=12,
            bound=1 << 40,
            reports=reports,
        )

    world = make_world(users=1, growth=2.5)
    before = world.sums()
    monkeypatch.setattr(SharesDeployment, "_report_circuit", lax)
    context, reward = (0.5, 0.5), 0.0
    peak = world.plan.rounding.peak
    shifts = {i: int(0.9 * peak) - peak // 2 for i in range(2)}
    post_report(world, world.users[0], context, reward, lambda r: shifted(r, shifts))
    world.settle()
    grown = world.sums() - before
    assert grown[0, 0] + grown[1, 1] > 1.6 * peak**2  # longer than L


def test_group_of_reports_is_no_larger_than_its_circuit():
    """At d = 1 a polynomial of 128 bits of security would hold 2,048 reports."""
    plan = make_deployment(make_settings(1, 2), opener="authority", log2=None).plan
    assert plan.group == 1024
    deployment = make_deployment(make_settings(1, 2), opener="authority", log2=None)
    assert deployment.comparison(Work(subject="fold", count=plan.group)).circuit.and_gates > 0


def test_server_with_shifted_shares_sees_three_times_whether_an_ask_is_in_range():
    """Beside another ask an abort shows; the fourth time the opener opens it alone only."""
    world = make_world(users=2)
    rng = np.random.default_rng(6)
    honest = sent(world.users[0].user.ask(draw_contexts(rng, world.deployment.settings)))
    refused = []
    for shift in (0, 1 << 80, 1, 2):
        other = sent(world.users[1].user.ask(draw_contexts(rng, world.deployment.settings)))
        world.log.clear()
        world.post(world.users[0], shifted(honest, {0: shift}))
        world.post(world.users[1], other)
        deliver_flight(world)
        world.settle()
        refused.append([p.message.reason for p in world.log if p.kind == "Abort"])
        assert other.name in world.users[1].arms
    assert [len(each) for each in refused] == [0, 1, 0, 1]
    assert "out of range" in refused[1][0]
    assert "judged 3 times already" in refused[3][0]
