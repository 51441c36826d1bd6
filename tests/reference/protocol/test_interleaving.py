"""Several users in flight: the public counts bound what nobody can see, in every order of events.

`trace_bound` is never below Tr(A (V - V_j)), on which the warm start of an update relies, and with
`lag` the bound of the theory holds for what was played before every round.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from helba.bandits.bounds import trace_growth_bound
from helba.reference.planning.layout.score_packing import pack_trace
from helba.reference.protocol.user import Recommendation, User
from helba.reference.protocol.wire.messages import Receipt
from tests.engines import BOTH
from tests.reference.protocol.parties import (
    MILD,
    TOY,
    Array,
    History,
    Table,
    authority_of,
    require_model,
)

EVENTS = ("ask", "ask old", "report", "bit", "help", "lose report", "lose bit")


@dataclass
class Crowd:
    """Rounds in flight: each may send its bit, its report, both in any order, or neither."""

    table: Table
    generator: np.random.Generator
    unreported: list[tuple[User, Recommendation, Array]] = field(default_factory=list)
    bits: list[Recommendation] = field(default_factory=list)
    played: list[Array] = field(default_factory=list)
    in_model: dict[int, Array] = field(default_factory=dict)
    lags: list[int] = field(default_factory=list)
    worst: float = 0.0
    tightest: float = np.inf

    def __post_init__(self) -> None:
        self.history = History(self.table.settings)
        self.users = [self.table.new_user() for _ in range(5)]
        self.notices = [self.table.server.notice()]
        self.in_model[0] = self.history.design()

    def ask(self, *, old: bool = False) -> None:
        settings = self.table.settings
        user = self.users[int(self.generator.integers(5))]
        x = self.generator.normal(size=(settings.arms, settings.dim))
        x *= settings.length / np.linalg.norm(x, axis=1)[:, None]  # as long as can be
        notice = self.notices[-2] if old and len(self.notices) > 1 else self.notices[-1]
        ask = user.ask(x, terms=user.read_notice(notice))
        batch = self.table.decode(ask).batch
        self.require_growth(batch)
        (answer,) = self.table.server.receive(ask)
        told = user.read(answer)
        assert not told.overflow
        self.unreported.append((user, told, x[told.arm]))
        self.played.append(x[told.arm])
        if told.reply is not None:
            self.bits.append(told)
        self.require_lag()

    def require_growth(self, batch: int) -> None:
        """Remember Tr(V_j^-1 (V_t - V_j)) of all that was played before this round."""
        V_j = self.in_model[batch]
        x = np.array(self.played).reshape(-1, self.table.settings.dim)
        V_t = self.table.settings.ridge * np.eye(self.table.settings.dim) + x.T @ x
        self.worst = max(self.worst, float(np.trace(np.linalg.solve(V_j, V_t - V_j))))

    def require_lag(self) -> None:
        settings, server = self.table.settings, self.table.server
        residual = max(model.terms.residual for model in server.models.values())
        bound = trace_growth_bound(
            settings,
            residual=residual,
            band=self.table.deployment.test_band,
            lag=server.status().lag,
        )
        assert self.worst <= bound + 1e-6
        self.lags.append(server.status().lag)

    def require_trace(self) -> None:
        """The public bound against numpy, with the inverse and the design as they decrypt."""
        server = self.table.server
        V_j = self.history.design(server.terms.samples)
        trace = float(np.trace(self.table.model().inverse @ (self.table.design() - V_j)))
        bound = server.schedule.trace_bound(residual=server.terms.residual)
        assert trace <= bound + 1e-6
        self.tightest = min(self.tightest, bound - trace)

    def report(self, *, lost: bool = False) -> None:
        if not self.unreported:
            return
        index = int(self.generator.integers(len(self.unreported)))
        user, told, context = self.unreported.pop(index)
        if lost:
            return
        reward = float(self.generator.uniform(-1, 1))
        self.history.add(context, reward)
        receipt = self.table.report(told.round, context=context, reward=reward, user=user)[0]
        assert self.table.decode(receipt) == Receipt(round=told.round, counted=True)

    def bit(self, *, lost: bool = False) -> None:
        if not self.bits:
            return
        told = self.bits.pop(int(self.generator.integers(len(self.bits))))
        if not lost and told.reply is not None:
            self.table.server.receive(told.reply)

    def help(self) -> None:
        self.table.help()
        self.look()

    def look(self) -> None:
        server = self.table.server
        number = server.terms.number
        if number not in self.in_model:
            self.in_model[number] = self.history.design(server.terms.samples)
            self.notices.append(server.notice())

    def happen(self, event: str) -> None:
        {
            "ask": self.ask,
            "ask old": lambda: self.ask(old=True),
            "report": self.report,
            "bit": self.bit,
            "help": self.help,
            "lose report": lambda: self.report(lost=True),
            "lose bit": lambda: self.bit(lost=True),
        }[event]()
        self.look()
        self.require_trace()


def new_crowd(*, scheme: str = "simulate", seed: int = 0) -> Crowd:
    return Crowd(Table(authority_of(MILD, scheme=scheme)), np.random.default_rng(seed))


@examples(max_examples=15)
@given(
    st.lists(st.sampled_from(EVENTS + ("ask", "report", "bit") * 2), min_size=10, max_size=45),
    st.integers(0, 1000),
)
def test_public_bounds_hold_in_every_order(events: list[str], seed: int) -> None:
    crowd = new_crowd(seed=seed)
    for event in events:
        crowd.happen(event)
    crowd.help()
    server = crowd.table.server
    assert server.rejected == 0
    assert server.round == len(crowd.played)
    assert server.samples == len(crowd.history.rewards)
    assert crowd.lags == sorted(crowd.lags)
    np.testing.assert_allclose(crowd.table.design(), crowd.history.design(), atol=1e-9)
    require_model(crowd.table, crowd.history)


def test_long_random_run_of_a_crowd_updates_and_keeps_its_bounds() -> None:
    """Not vacuous: many updates by test and by growth, delays of several rounds, old batches."""
    crowd = new_crowd(seed=3)
    for _ in range(150):
        crowd.happen(str(crowd.generator.choice(EVENTS, p=[0.3, 0.05, 0.3, 0.2, 0.1, 0.02, 0.03])))
    crowd.help()
    require_model(crowd.table, crowd.history)
    assert crowd.table.server.updates >= 5
    assert crowd.table.server.status().lag > 5
    assert crowd.tightest < 1.0


@pytest.mark.parametrize("scheme", BOTH)
def test_five_users_may_ask_before_any_reports_in_another_order(scheme: str) -> None:
    crowd = new_crowd(scheme=scheme)
    for _ in range(5):
        crowd.ask()
    assert crowd.table.server.status().lag == 4
    for _ in range(4):  # one never comes
        crowd.report()
        crowd.look()
        crowd.require_trace()
    crowd.help()
    crowd.ask()
    assert crowd.table.server.round == 6
    assert crowd.table.server.samples == 4
    assert crowd.table.server.rejected == 0
    require_model(crowd.table, crowd.history)


@pytest.mark.parametrize("delay", [0, 1, 4])
def test_lag_is_what_was_delayed(delay: int) -> None:
    """Every report comes `delay` rounds late, every bit at once: a test sees it a round later."""
    crowd = new_crowd(seed=1)
    for _ in range(25):
        crowd.ask()
        if crowd.bits:
            crowd.bit()
        if len(crowd.unreported) > delay:
            user, told, context = crowd.unreported.pop(0)
            crowd.history.add(context, 0.5)
            crowd.table.report(told.round, context=context, reward=0.5, user=user)
        crowd.help()
    assert crowd.table.server.status().lag == delay + 1
    assert crowd.table.server.updates > 2


def test_round_under_the_batch_before_counts_what_only_the_new_one_has_tested() -> None:
    """Growth that the new batch tested with its own inverse says nothing about the old one's."""
    table = Table(authority_of(MILD, scheme="simulate"))
    notices = {}
    for _ in range(7):  # short contexts: updates after rounds 2 and 4, and all tests say no
        table.learn([0.2, 0.1], 0.5)
        notices[table.server.terms.number] = table.server.notice()
    schedule = table.server.schedule
    assert (schedule.start, schedule.covered_before, schedule.covered, schedule.lag) == (4, 1, 2, 1)
    ask = table.user.ask([[0.2, 0.1]], terms=table.user.read_notice(notices[1]))
    (answer,) = table.server.receive(ask)
    assert table.decode(answer).test is None  # no test of a batch that is over
    # 7 plays came before, the model of batch 1 has 2 of them, a test of batch 1 saw 1
    assert table.server.status().lag == 7 - 2 - 1


@pytest.mark.parametrize("scheme", BOTH)
def test_refresh_that_never_returns_stops_neither_rounds_nor_reports(scheme: str) -> None:
    table = Table(authority_of(TOY, scheme=scheme))
    history = History(table.settings)
    generator = np.random.default_rng(0)

    def take_part() -> None:
        x = generator.uniform(-1, 1, 2)
        played = table.play([x])
        table.send_bit(played)
        history.add(x, 0.5)
        table.report(played.round, context=x, reward=0.5)

    for _ in range(2):
        take_part()
    (task,) = table.tasks()
    served = table.server.terms
    for _ in range(12):  # nobody helps
        take_part()
        assert table.tasks() == (task,)
        assert table.server.terms == served
    assert (table.server.round, table.server.samples, table.server.updates) == (14, 2, 0)
    assert table.server.status().held == 12
    while table.server.updates == 0:  # at last; reports of meanwhile are for the next batch
        table.server.receive(table.user.help(table.tasks()[0]))
    assert table.server.terms.samples == 2
    assert table.server.samples == 14
    assert table.server.schedule.plays == 12
    assert sum(growth.count for growth in table.server.growth.waiting) == 12
    np.testing.assert_allclose(
        sum(table.open(growth.vector) for growth in table.server.growth.waiting),
        pack_trace(
            table.deployment.scores,
            growth=history.design() - history.design(2),
            threshold=0.0,
            reach=table.deployment.test_reach,
        ),
        rtol=0,
        atol=1e-5,
    )
    require_model(table, history)
    bound = table.server.schedule.trace_bound(residual=table.server.terms.residual)
    V_j = history.design(2)
    assert np.trace(np.linalg.solve(V_j, history.design() - V_j)) <= bound
    table.help()  # they made the next update due at once
    assert (table.server.updates, table.server.terms.samples) == (2, 14)
    require_model(table, history)


def test_rewards_that_never_come_cause_no_update_and_later_ones_count() -> None:
    table = Table(authority_of(TOY, scheme="simulate"))
    generator, rounds = np.random.default_rng(0), []
    for _ in range(40):
        x = generator.uniform(-1, 1, (2, 2))
        told = table.play(x)
        assert told.reply is None  # nothing to test
        rounds.append((told.round, x[told.arm]))
        assert table.tasks() == ()
    status = table.server.status()
    assert (status.round, status.samples, status.updates, status.rejected) == (40, 0, 0, 0)
    assert status.lag == 39
    history = History(table.settings)
    for round, context in rounds[::-7]:
        history.add(context, 0.25)
        table.report(round, context=context, reward=0.25)
        table.help()
    assert table.server.samples == len(history.rewards) == 6
    assert table.server.updates >= 1
    np.testing.assert_allclose(table.design(), history.design(), atol=1e-9)
    require_model(table, history)


def test_burst_of_late_rewards_is_learned_in_as_many_updates_as_it_takes() -> None:
    """Far more rewards than one update can bridge: held, and taken in one update after another."""
    table = Table(authority_of(TOY, scheme="simulate"))
    history, generator = History(table.settings), np.random.default_rng(5)
    late = []
    for _ in range(60):
        x = generator.uniform(-1, 1, 2)
        late.append((table.play([x]), x))
    for played, x in late:
        history.add(x, 0.25)
        table.report(played.round, context=x, reward=0.25)
    assert table.server.status().held > 0
    table.help()
    status = table.server.status()
    assert (status.held, status.samples, status.rejected) == (0, 60, 0)
    assert table.server.terms.samples >= 40
    require_model(table, history)
    before = status.updates
    for _ in range(8):
        x = generator.uniform(-1, 1, 2)
        history.add(x, 0.25)
        table.learn(x, 0.25)
    assert table.server.updates > before
    assert table.server.rejected == 0
    require_model(table, history)
