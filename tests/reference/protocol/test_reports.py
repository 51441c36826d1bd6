"""Rewards that are taken in together count as they would one after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helba.bandits.terms import MOST_RESIDUAL
from helba.errors import DamagedData
from helba.reference.protocol.growth import Growth, GrowthTests
from helba.reference.protocol.messages import Receipt, Refusal
from helba.reference.protocol.user import User
from helba.service.protocol.snapshot import restore_server, save_server
from tests.reference.protocol.parties import MILD, TOY, History, Table, authority_of, require_model

CROWD = replace(TOY, users=8)
MILD_CROWD = replace(MILD, arms=2, users=8)
CONTEXTS = [[0.9, 0.1], [-0.3, 0.6]]


def answered(table: Table, user: User, *, slot: int = 0) -> bytes:
    """A round that was answered; its id."""
    terms = user.read_notice(table.server.notice())
    ask = user.ask(CONTEXTS, terms=terms, slot=slot)
    return user.read(table.server.receive(ask)[0]).round


def reports_of(table: Table, count: int) -> list[bytes]:
    users = [table.new_user() for _ in range(count)]
    return [
        user.report(
            answered(table, user, slot=number),
            context=[0.1 * number, 0.5],
            reward=0.1 * number,
        )
        for number, user in enumerate(users)
    ]


@pytest.mark.parametrize("scheme", ["simulate", pytest.param("ckks", marks=pytest.mark.ckks)])
def test_reports_taken_together_add_up_to_all_of_them(scheme: str) -> None:
    table = Table(authority_of(CROWD, scheme=scheme))
    reports = reports_of(table, 3)
    replies = [table.decode(each) for each in table.server.receive_reports(reports)]
    assert [(type(each), each.counted) for each in replies[:3]] == [(Receipt, True)] * 3
    x = np.array([[0.1 * number, 0.5] for number in range(3)])
    design = table.deployment.matrices.unpack(table.open(table.server.design))
    ridge = table.settings.ridge * np.eye(2)
    np.testing.assert_allclose(design, ridge + x.T @ x, atol=1e-3)
    assert table.server.samples == table.server.schedule.plays == 3


def test_tests_see_rewards_taken_together_or_not_at_all() -> None:
    table = Table(authority_of(CROWD, scheme="simulate"))
    engine = table.server._engine
    ones = engine.encrypt(np.ones(8))
    growth = GrowthTests(waiting=[Growth(vector=ones, count=3), Growth(vector=ones, count=4)])
    assert growth.show(engine, most=2) is None
    growth.show(engine, most=6)
    assert (growth.count, len(growth.waiting)) == (3, 1)
    growth.show(engine, most=7)
    assert (growth.count, len(growth.waiting)) == (7, 0)


def test_report_that_comes_twice_in_a_batch_counts_once() -> None:
    table = Table(authority_of(TOY, scheme="simulate"))
    report = table.user.report(answered(table, table.user), context=[0.2, 0.1], reward=0.5)
    first, second, *_ = map(table.decode, table.server.receive_reports([report, report]))
    assert (first.counted, second.counted) == (True, False)
    assert table.server.samples == 1


def test_report_that_is_refused_spoils_nobody_elses() -> None:
    table = Table(authority_of(TOY, scheme="simulate"))
    good = table.user.report(answered(table, table.user), context=[0.2, 0.1], reward=0.5)
    unknown = table.user.report(bytes(16), context=[0.2, 0.1], reward=0.5)
    first, second, *_ = map(table.decode, table.server.receive_reports([unknown, good]))
    assert isinstance(first, Refusal)
    assert isinstance(second, Receipt)
    assert table.server.samples == 1


def test_something_else_than_a_report_is_none() -> None:
    table = Table(authority_of(TOY, scheme="simulate"))
    ask = table.user.ask(CONTEXTS, terms=table.user.read_notice(table.server.notice()))
    with pytest.raises(DamagedData, match="not all reports"):
        table.server.receive_reports([ask])


def report_some(table: Table, count: int, *, history: History) -> list[bytes]:
    """Reports of as many rounds, which `history` has too."""
    reports = []
    for number in range(count):
        user = table.new_user()
        context, reward = [0.1 * (number % 9), 0.5], 0.1 * (number % 5)
        round = answered(table, user, slot=number % table.deployment.users)
        reports.append(user.report(round, context=context, reward=reward))
        history.add(context, reward)
    return reports


@pytest.mark.parametrize("scheme", ["simulate", pytest.param("ckks", marks=pytest.mark.ckks)])
def test_rewards_that_come_during_an_update_wait_as_sums(scheme: str) -> None:
    table = Table(authority_of(MILD_CROWD, scheme=scheme))
    history = History(table.settings)
    server = table.server
    server.receive_reports(report_some(table, 2, history=history))
    assert table.tasks()  # an update is under way
    for some in (3, 8, 7):
        server.receive_reports(report_some(table, some, history=history))
    assert server.status().held == 18
    counts = [each.count for each in server.held]
    assert counts == [11, 7]
    assert max(counts) <= server._most_held == table.deployment.unseen
    before = server.updates
    table.help()
    assert server.updates > before
    assert (server.status().held, server.samples) == (0, 20)
    np.testing.assert_allclose(table.design(), history.design(), atol=1e-4)
    require_model(table, history)


def test_rewards_that_wait_as_sums_survive_a_save() -> None:
    table = Table(authority_of(MILD_CROWD, scheme="simulate"))
    history = History(table.settings)
    for some in (2, 5):
        table.server.receive_reports(report_some(table, some, history=history))
    assert [each.count for each in table.server.held] == [5]
    saved = save_server(table.server)
    table.server = restore_server(
        saved,
        deployment=table.deployment,
        engine=table.server._engine,
        directory=table.server.directory,
    )
    assert table.server.status().held == 5
    table.help()
    assert (table.server.status().held, table.server.samples) == (0, 7)
    require_model(table, history)


def test_sums_that_wait_are_small_enough_for_an_update_of_the_worst_model() -> None:
    """An update never gets stuck: however coarse the model, a batch without rewards takes one."""
    for request in (TOY, MILD, CROWD, MILD_CROWD):
        server = Table(authority_of(request, scheme="simulate")).server
        most, settings = server._most_held, server.deployment.settings
        assert 1 <= most <= server.deployment.unseen
        if most > 1:
            worst = replace(server.terms, residual=MOST_RESIDUAL)
            step = (1 + MOST_RESIDUAL) * settings.length**2 / settings.ridge
            assert server.profile.can_bridge(worst, reach=most * step)
            if most < server.deployment.unseen:
                assert not server.profile.can_bridge(worst, reach=(most + 1) * step)


def test_rewards_without_room_for_all_are_counted_as_far_as_there_is_room() -> None:
    table = Table(authority_of(CROWD, scheme="simulate"))
    server, history = table.server, History(table.settings)
    reports = report_some(table, 6, history=history)
    server._has_room = lambda count: server.schedule.plays + count <= 2  # type: ignore[method-assign]
    server.receive_reports(reports)
    assert server.samples == 2
    assert server.status().held == 4
