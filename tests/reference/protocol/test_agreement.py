"""An encrypted run plays what the plaintext twin plays, round by round, but for certified ties."""

from __future__ import annotations

import numpy as np
import pytest

from helba.bandits.schedule import UpdateSchedule
from helba.problems.toy import Toy
from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.bandit import ReferenceBandit
from helba.reference.protocol.serving.server import Status
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import TestReply
from helba.reference.twin.ciphertext import CiphertextTwin
from tests.engines import BOTH
from tests.reference.protocol.parties import (
    MILD,
    TOY,
    History,
    authority_of,
    draw_contexts,
    require_arm,
)
from tests.reference.protocol.talking import CUT_MILD
from tests.sweep import in_soak

ROUNDS = {"simulate": 130, "ckks": 15}


class Run:
    """One run on the toy problem beside the twin that follows it, and a twin on its own."""

    def __init__(self, scheme: str, *, seed: int, rounds: int) -> None:
        problem, authority = Toy(seed=seed), authority_of(TOY, scheme=scheme)
        self.deployment = authority.deployment
        settings = self.deployment.settings
        self.bandit = ReferenceBandit(settings, authority=authority)
        follower = CiphertextTwin(settings, accuracy=self.deployment.accuracy)
        self.alone = CiphertextTwin(settings, accuracy=self.deployment.accuracy)
        self.history = History(settings)
        self.certain: list[bool] = []
        self.same: list[bool] = []
        self.regret = self.twin_regret = 0.0
        for each in problem.rounds(rounds):
            terms = self.bandit.terms
            arm, expected = self.bandit.select(each.contexts), follower.select(each.contexts)
            self.certain.append(
                require_arm(
                    self.deployment, each.contexts, arm=arm, terms=terms, history=self.history
                )
            )
            self.same.append(arm == expected)
            self.regret += float(each.means.max() - each.means[arm])
            x, reward = each.contexts[arm], float(each.rewards[arm])
            before = self.bandit.updates
            self.bandit.update(x, reward)
            self.history.add(x, np.clip(reward, -settings.reward_max, settings.reward_max))
            updated = self.bandit.updates > before
            follower.follow(x, reward, terms=self.bandit.terms if updated else None)
            played = self.alone.select(each.contexts)
            self.twin_regret += float(each.means.max() - each.means[played])
            self.alone.update(each.contexts[played], float(each.rewards[played]))
        self.follower = follower


@pytest.mark.parametrize("scheme", BOTH)
def test_run_plays_as_its_twin_outside_ties(scheme: str) -> None:
    run = Run(scheme, seed=0, rounds=ROUNDS[scheme])
    status: Status = run.bandit.server.status()
    assert all(same for same, certain in zip(run.same, run.certain, strict=True) if certain)
    assert np.mean(run.certain) > 0.8  # not vacuous
    assert (status.round, status.samples) == (ROUNDS[scheme], ROUNDS[scheme])
    assert status.updates == run.bandit.updates == run.follower.updates > 5
    assert (status.rejected, status.lag, status.last_error, run.bandit.overflows) == (0, 1, None, 0)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, *map(in_soak, (5, 10, 15, 20))])
def test_regret_over_seeds_is_that_of_the_twin(first: int) -> None:
    """Seed by seed: the twin that plays and updates on its own has the very same regret.

    A certified tie or a test within its band may part them; that must be rare.
    """
    equal = 0
    for seed in range(first, first + 5):
        run = Run("simulate", seed=seed, rounds=65)
        assert all(same for same, certain in zip(run.same, run.certain, strict=True) if certain)
        if all(run.certain) and run.bandit.updates == run.alone.updates:
            assert run.regret == pytest.approx(run.twin_regret, abs=1e-9)
            equal += 1
    assert equal >= 3


@pytest.mark.parametrize("request_", [MILD, CUT_MILD], ids=["whole", "cut"])
def test_update_tests_tell_the_trace_outside_their_band(request_: PlanRequest) -> None:
    """Every bit that comes back is the sign of numpy's Tr(A (V - V_j)) - C, or within the band."""
    authority = authority_of(request_, scheme="simulate")
    deployment, settings = authority.deployment, authority.deployment.settings
    server, codec = authority.make_server(), Codec(deployment)
    bandit = ReferenceBandit(settings, authority=authority, server=server)
    generator, history, clear, bits = np.random.default_rng(2), History(settings), 0, set()

    def receive(data: bytes) -> tuple[bytes, ...]:
        nonlocal clear
        message = codec.decode(data)
        if isinstance(message, TestReply):
            test = server.growth.out[message.test]
            seen = server.terms.samples + test.covered
            V_j = history.design(server.terms.samples)
            growth = history.design(seen) - V_j
            trace = float(np.trace(np.linalg.inv(V_j) @ growth))
            error = server.terms.residual * trace
            says = message.positive == (test.flip > 0)
            distance = trace - settings.trace_threshold
            if abs(distance) > deployment.test_band + error:
                assert says == (distance > 0)
                clear += 1
                bits.add(says)
        return original(data)

    original, server.receive = server.receive, receive  # type: ignore[method-assign]
    for _ in range(60):
        contexts = draw_contexts(generator, settings)
        arm = bandit.select(contexts)
        reward = float(generator.uniform(-1, 1))
        history.add(contexts[arm], reward)
        bandit.update(contexts[arm], reward)
    assert bits == {True, False}
    assert clear > 10


def test_updates_happen_when_the_rules_say_so() -> None:
    """The rules of the plaintext schedule, replayed on numpy's trace, give the same updates."""
    authority = authority_of(MILD, scheme="simulate")
    deployment, settings = authority.deployment, authority.deployment.settings
    bandit = ReferenceBandit(settings, authority=authority)
    schedule = UpdateSchedule(settings, lag=1, band=deployment.test_band)
    generator, history, start = np.random.default_rng(7), History(settings), 0
    uncertain = False
    for round in range(1, 61):
        contexts = draw_contexts(generator, settings)
        arm = bandit.select(contexts)
        history.add(contexts[arm], 0.5)
        before = bandit.updates
        bandit.update(contexts[arm], 0.5)
        V_j = history.design(start)
        trace = float(np.trace(np.linalg.inv(V_j) @ (history.design() - V_j)))
        slack = deployment.test_band + bandit.terms.residual * trace
        uncertain |= abs(trace - settings.trace_threshold) <= slack
        due = schedule.due(round=round, passed=trace > settings.trace_threshold)
        updated = bandit.updates > before
        assert updated == due or uncertain
        if updated:
            schedule.restart(round=round)
            start, uncertain = round, False
    assert bandit.updates > 6
