"""A refresh answered wrongly costs one update and nothing else, wherever in the update it comes."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from helba.reference.protocol.profiles.ciphertext import CiphertextProfile
from helba.reference.protocol.wire.messages import TaskReply
from tests.engines import BOTH
from tests.reference.protocol.parties import TOY, History, forge_share, plan_of, require_model
from tests.reference.protocol.talking import CUT_TOY, open_table
from tests.sweep import SOAK, in_soak, sweep

both = pytest.mark.parametrize("scheme", BOTH)
REQUESTS = {"whole": TOY, "cut": CUT_TOY}
either = pytest.mark.parametrize("model", REQUESTS)
WAYS = ("random", "zeros", "shifted", "another")


class Update:
    """A server whose second update is under way, with numpy's history beside it."""

    def __init__(self, scheme: str, *, model: str = "whole") -> None:
        self.table = open_table(scheme, request=REQUESTS[model])
        self.history = History(self.table.settings)
        self.generator = np.random.default_rng(4)
        for _ in range(2):
            self.learn()
            self.table.help()
        self.learn()

    def learn(self) -> None:
        x, reward = self.generator.uniform(-1, 1, 2), float(self.generator.uniform(-1, 1))
        played = self.table.play([x])
        self.table.send_bit(played)
        self.history.add(x, reward)
        self.table.report(played.round, context=x, reward=reward)

    def advance(self, steps: int) -> bytes:
        """Answer that many tasks rightly and return the next one."""
        for _ in range(steps):
            (task,) = self.table.tasks()
            self.table.server.receive(self.table.user.help(task))
        (task,) = self.table.tasks()
        return task


@lru_cache(maxsize=2)
def count_tasks(model: str) -> list[str]:
    update = Update("simulate", model=model)
    kinds = update.table.kinds()
    assert update.table.server.updates == 2
    return kinds


@either
def test_update_refreshes_and_ends_with_a_check(model: str) -> None:
    kinds = count_tasks(model)
    assert kinds[-1] == "check"
    assert set(kinds[:-1]) == {"refresh"}
    assert len(kinds) >= 4


def require_recovery(update: Update) -> None:
    """The model was not adopted; the old one serves on, and the next update is right."""
    table, server = update.table, update.table.server
    assert (server.updates, server.rejected) == (1, 1)
    assert server.terms.number == 1
    assert server.status().last_error
    require_model(table, update.history)
    assert table.play([[0.5, 0.5], [0.1, -0.3]]).overflow is False
    update.learn()
    table.help()
    assert (server.updates, server.rejected, server.terms.samples) == (2, 1, 4)
    require_model(table, update.history)
    np.testing.assert_allclose(table.design(), update.history.design(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("scheme", "model", "how"),
    [
        *(("simulate", model, how) for model in REQUESTS for how in WAYS),
        *(
            case("ckks", model, how, marks=pytest.mark.ckks)
            for place, model in enumerate(REQUESTS)
            for number, how in enumerate(WAYS)
            for case in [in_soak if (number + place) % 2 else pytest.param]
        ),
    ],
)
def test_wrong_share_at_any_refresh_is_not_adopted(scheme: str, model: str, how: str) -> None:
    refreshes = len(count_tasks(model)) - 1
    spare_update = Update(scheme, model=model)
    # CKKS takes its time: every place in the simulator, and on CKKS one or two for each way
    places = range(refreshes)
    if scheme == "ckks" and SOAK:
        stride = (refreshes + 1) // 2
        places = range(WAYS.index(how) % stride, refreshes, stride)
    elif scheme == "ckks":
        first = refreshes * WAYS.index(how) // len(WAYS)
        places = range(first, first + 1)
    for place in places:
        update = Update(scheme, model=model)
        task = update.advance(place)
        spare = None
        if how == "another":
            request = update.table.user._own.request_from_bytes(update.table.decode(task).parts[0])
            spare = find_spare(spare_update, slots=request.slots)
        update.table.server.receive(forge_share(update.table, task, how=how, spare=spare))
        update.table.help()
        require_recovery(update)


def estimates_renewed() -> range:
    """The places, among the refreshes of a cut update, at which the estimate is renewed."""
    refreshes = len(count_tasks("cut")) - 1
    points = plan_of(CUT_TOY).refresh_points
    cuts = sum(name in ("refinement", "model") for name in points)
    assert cuts > 0
    return range(refreshes - 1 - cuts, refreshes - 1)  # the last refresh is that of the model


def check_models_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave what renewals changed of the estimate out of the check."""
    check: Any = CiphertextProfile._check

    def lax(self: CiphertextProfile, engine: Any, *, scoring: Any, **others: Any) -> Any:
        return check(self, engine, scoring=replace(scoring, renewed=()), **others)

    monkeypatch.setattr(CiphertextProfile, "_check", lax)


@both
def test_wrong_share_for_the_estimate_is_not_adopted(scheme: str) -> None:
    """By as little as would be worth it: the inverse is right, and the model renewed rightly."""
    places = estimates_renewed()
    for place in places if scheme == "simulate" else sweep(places[:1], long=places):
        update = Update(scheme, model="cut")
        task = update.advance(place)
        update.table.server.receive(forge_share(update.table, task, how="shifted", shift=0.2))
        update.table.help()
        require_recovery(update)


@both
def test_wrong_share_for_the_estimate_would_be_adopted_if_it_were_not_checked(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_models_alone(monkeypatch)
    update = Update(scheme, model="cut")
    task = update.advance(estimates_renewed()[-1])
    update.table.server.receive(forge_share(update.table, task, how="shifted", shift=0.2))
    update.table.help()
    assert (update.table.server.updates, update.table.server.rejected) == (2, 0)
    with pytest.raises(AssertionError):
        require_model(update.table, update.history)


def find_spare(update: Update, *, slots: int) -> bytes:
    """The share of a refresh of another update with as many slots."""
    while True:
        (task,) = update.table.tasks()
        message, own = update.table.decode(task), update.table.user._own
        share = update.table.user.help(task)
        if message.work == "refresh" and own.request_from_bytes(message.parts[0]).slots == slots:
            return share
        update.table.server.receive(share)


@both
@pytest.mark.parametrize("bits", ["", "+" * 64, "flipped"])
def test_wrong_signs_in_a_check_refuse_the_model(scheme: str, bits: str) -> None:
    update = Update(scheme)
    task = update.advance(len(count_tasks("whole")) - 1)
    table = update.table
    if bits == "flipped":
        right = table.decode(table.user.help(task)).bits
        bits = right.translate(str.maketrans("+-", "-+"))
    name = table.decode(task).task
    reply = TaskReply(user=table.user.id, task=name, work="check", bits=bits)
    table.server.receive(table.encode(reply))
    require_recovery(update)


def test_right_model_passes_its_check_with_all_signs() -> None:
    """The bits of an honest helper are the server's own signs, one for one."""
    update = Update("simulate")
    task = update.advance(len(count_tasks("whole")) - 1)
    (work,) = update.table.server.worker.work
    signs = "".join("+" if sign > 0 else "-" for sign in work.running.request.signs)
    assert update.table.decode(update.table.user.help(task)).bits == signs
    assert len(signs) >= 32
    assert len(set(signs)) == 2
