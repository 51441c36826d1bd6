"""Rewards that are taken in together count as they would one after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helba.errors import DamagedData
from helba.protocol.growth import Growth, GrowthTests
from helba.protocol.messages import Receipt, Refusal
from helba.protocol.user import User
from tests.protocol.parties import TOY, Table, authority_of

CROWD = replace(TOY, users=8)
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


def test_rewards_without_room_for_all_are_held_one_by_one() -> None:
    table = Table(authority_of(CROWD, scheme="simulate"))
    table.server.profile.can_bridge = lambda *_, **__: False  # type: ignore[method-assign]
    table.server.receive_reports(reports_of(table, 3))
    assert table.server.samples + len(table.server.held) == 3
    assert len(table.server.held) >= 1
