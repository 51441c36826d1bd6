"""Rewards that come while an update is under way wait as sums, and are all counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helba.reference.protocol.serving.growth import Growth, GrowthTests
from helba.reference.protocol.user import User
from helba.reference.twin.terms import MOST_RESIDUAL
from helba.service.protocol.snapshot import restore_server, save_server
from tests.reference.protocol.parties import MILD, TOY, History, Table, authority_of, require_model

MILD_PAIR = replace(MILD, arms=2)
CONTEXTS = [[0.9, 0.1], [-0.3, 0.6]]


def answered(table: Table, user: User) -> bytes:
    """A round that was answered; its id."""
    ask = user.ask(CONTEXTS, terms=user.read_notice(table.server.notice()))
    return user.read(table.server.receive(ask)[0]).round


def test_tests_see_rewards_taken_together_or_not_at_all() -> None:
    table = Table(authority_of(TOY, scheme="simulate"))
    engine = table.server._engine
    ones = engine.encrypt(np.ones(8))
    growth = GrowthTests(waiting=[Growth(vector=ones, count=3), Growth(vector=ones, count=4)])
    assert growth.show(engine, most=2) is None
    growth.show(engine, most=6)
    assert (growth.count, len(growth.waiting)) == (3, 1)
    growth.show(engine, most=7)
    assert (growth.count, len(growth.waiting)) == (7, 0)


def report_some(table: Table, count: int, *, history: History) -> None:
    """Report as many rounds, which `history` has too."""
    reports = []
    for number in range(count):
        user = table.new_user()
        context, reward = [0.1 * (number % 9), 0.5], 0.1 * (number % 5)
        round = answered(table, user)
        reports.append(user.report(round, context=context, reward=reward))
        history.add(context, reward)
    for report in reports:
        table.server.receive(report)


@pytest.mark.parametrize("scheme", ["simulate", pytest.param("ckks", marks=pytest.mark.ckks)])
def test_rewards_that_come_during_an_update_wait_as_sums(scheme: str) -> None:
    table = Table(authority_of(MILD_PAIR, scheme=scheme))
    history, server = History(table.settings), table.server
    report_some(table, 1, history=history)
    while not table.tasks():  # until an update is under way
        report_some(table, 1, history=history)
    before, started = len(history.rewards), server.samples
    report_some(table, 7, history=history)
    assert server.status().held == 7
    assert sum(each.count for each in server.held) == 7
    counts = [each.count for each in server.held]
    assert max(counts) == server._most_held == table.deployment.unseen
    updates = server.updates
    table.help()
    assert server.updates > updates
    assert started == before
    assert (server.status().held, server.samples) == (0, before + 7)
    np.testing.assert_allclose(table.design(), history.design(), atol=1e-4)
    require_model(table, history)


def test_rewards_that_wait_as_sums_survive_a_save() -> None:
    table = Table(authority_of(MILD_PAIR, scheme="simulate"))
    history = History(table.settings)
    while not table.tasks():
        report_some(table, 1, history=history)
    before = len(history.rewards)
    report_some(table, 5, history=history)
    assert table.server.status().held == 5
    saved = save_server(table.server)
    table.server = restore_server(
        saved,
        deployment=table.deployment,
        engine=table.server._engine,
        directory=table.server.directory,
    )
    assert table.server.status().held == 5
    table.help()
    assert (table.server.status().held, table.server.samples) == (0, before + 5)
    require_model(table, history)


def test_sums_that_wait_are_small_enough_for_an_update_of_the_worst_model() -> None:
    """An update never gets stuck: however coarse the model, a batch without rewards takes one."""
    for request in (TOY, MILD, MILD_PAIR):
        server = Table(authority_of(request, scheme="simulate")).server
        most, settings = server._most_held, server.deployment.settings
        assert 1 <= most <= server.deployment.unseen
        if most > 1:
            worst = replace(server.terms, residual=MOST_RESIDUAL)
            step = (1 + MOST_RESIDUAL) * settings.length**2 / settings.ridge
            assert server.profile.can_bridge(worst, reach=most * step)
            if most < server.deployment.unseen:
                assert not server.profile.can_bridge(worst, reach=(most + 1) * step)
