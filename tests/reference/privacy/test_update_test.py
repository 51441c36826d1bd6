"""The update test shows its user a fair coin, whatever the trace is, and the server one bit.

Outside `Deployment.test_disclosure` of the threshold the sign has saturated: the value is a random
sign, times 1 up to the ripple e of the polynomial, and uniform noise. Two such values differ by a
total variation of 2 e at most, which hundreds of draws do not show. The value that a user reads is
checked against that law, and against that of other traces.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from helba.reference.circuits.comparison import argmax
from helba.reference.engine.chance import draw_uniform
from helba.reference.planning.cost.polynomial import PLAIN
from helba.reference.planning.layout.score_packing import pack_trace
from helba.reference.protocol.serving import growth as growth_module
from helba.reference.protocol.serving.growth import Growth, GrowthTests
from tests.reference.privacy.views import Array, decrypted
from tests.reference.protocol.parties import MILD, TOY, Table, authority_of
from tests.significance import PLAUSIBLE, SHOWN
from tests.sweep import sweep

DRAWS = sweep(60, long=100)
SUM = replace(MILD, argmax="sum")
CONTEXTS = [[0.5, 0.2], [0.1, -0.3]]


class Probed(Table):
    """A user whose answers carry a test of any trace that is wanted."""

    def __init__(self, request: Any = MILD, *, scheme: str = "simulate") -> None:
        super().__init__(authority_of(request, scheme=scheme))
        deployment = self.deployment
        C, reach = self.settings.trace_threshold, deployment.test_reach
        beyond = 1.02 * deployment.test_disclosure
        self.traces = {"just above": C + beyond, "far above": C + 0.95 * reach}
        if beyond < C:  # else all that is below the threshold lies within the disclosure
            self.traces |= {"far below": 0.0, "just below": C - beyond}

    def grow(self, trace: float) -> None:
        """Let the statistics have grown so far; A is I/lambda still."""
        server = self.server
        grown = np.zeros((self.settings.dim, self.settings.dim))
        grown[0, 0] = trace * self.settings.ridge
        slots = pack_trace(
            self.deployment.scores, growth=grown, threshold=0.0, reach=self.deployment.test_reach
        )
        level = server.profile.context_level
        vector = server._engine.encrypt(slots, level=level)
        server.growth = GrowthTests(waiting=[Growth(vector=vector)])
        server.schedule.passed, server.schedule.covered = False, 0

    def draw(self, trace: float) -> tuple[float, bool]:
        """The value that the user reads in a test of this trace, and the server's bit."""
        self.grow(trace)
        (answer,) = self.server.receive(self.ask(CONTEXTS))
        assert self.decode(answer).test is not None
        read = self.user.profile.read(decrypted(self, answer), riding=True).test
        assert read is not None
        self.send_bit(self.user.read(answer))
        return read, self.server.schedule.passed

    def draws(self, trace: float, *, count: int = DRAWS) -> tuple[Array, list[bool]]:
        found = [self.draw(trace) for _ in range(count)]
        return np.array([value for value, _ in found]), [bit for _, bit in found]


def fairness(values: Array) -> float:
    """p of the signs being those of a fair coin."""
    return float(stats.binomtest(int((values > 0).sum()), len(values)).pvalue)


def agreement(one: Array, other: Array) -> float:
    """p of two samples being of one law, in size and in sign."""
    sizes = stats.ks_2samp(np.abs(one), np.abs(other)).pvalue
    return float(min(sizes, stats.ks_2samp(one, other).pvalue))


def law(count: int) -> Array:
    """What a saturated test shows: a fair sign and uniform noise."""
    signs = np.where(draw_uniform(count, bound=1.0) > 0, 1.0, -1.0)
    return signs + draw_uniform(count, bound=0.5)


def samples_of(table: Probed) -> list[Array]:
    return [table.draws(trace)[0] for trace in table.traces.values()]


def least_agreement(samples: list[Array]) -> float:
    """The least p over all pairs of traces, and against the law itself."""
    all_of_them = [*samples, law(20 * DRAWS)]
    return min(agreement(one, other) for one, other in combinations(all_of_them, 2))


requests = pytest.mark.parametrize("request_", [TOY, MILD, SUM], ids=["two arms", "product", "sum"])


@requests
def test_user_sees_a_fair_coin_of_one_size_whatever_the_trace(request_: Any) -> None:
    table = Probed(request_)
    assert len(table.traces) == (2 if request_ is TOY else 4)
    samples = samples_of(table)
    assert least_agreement(samples) > PLAUSIBLE
    C = table.settings.trace_threshold
    near = [table.draws(trace)[0] for trace in (C - 1e-3, C, C + 1e-3)]  # its size may show there
    for values in (*samples, *near):
        assert fairness(values) > PLAUSIBLE


@requests
def test_server_learns_the_bit_outside_the_band(request_: Any) -> None:
    table = Probed(request_)
    C, band = table.settings.trace_threshold, table.deployment.test_band
    assert band < table.deployment.test_disclosure
    for trace in {0.0, max(0.0, C - 1.01 * band), C + 1.01 * band, *table.traces.values()}:
        if abs(trace - C) > band:
            assert set(table.draws(trace, count=30)[1]) == {trace > C}


def test_size_shows_inside_the_disclosure_as_the_docs_concede() -> None:
    table = Probed()
    C = table.settings.trace_threshold
    at, beyond = table.draws(C)[0], table.draws(C + 1.02 * table.deployment.test_disclosure)[0]
    assert agreement(at, beyond) < SHOWN
    assert fairness(at) > PLAUSIBLE


def test_ripple_is_all_that_is_left_of_the_trace() -> None:
    """Without the noise: sizes are within e of 1, and that moves the law by 2 e at most."""
    table = Probed()
    sign = table.deployment.sign
    assert sign is not None
    e, off = max(sign.error, sign.maximum - 1.0), table.deployment.flood * 3.0
    C, reach = table.settings.trace_threshold, table.deployment.test_reach
    gaps = np.linspace(table.deployment.test_disclosure, 0.95 * reach, 2000) / reach
    sizes = sign(gaps)
    assert np.abs(sizes - 1.0).max() <= e * (1.0 + 1e-9)
    # and the circuit computes that polynomial
    for gap in gaps[:: len(gaps) // 20]:
        table.grow(C + gap * reach)
        (answer,) = table.server.receive(table.ask(CONTEXTS))
        (test,) = table.server.growth.out.values()
        read = table.user.profile.read(decrypted(table, answer), riding=True).test
        assert read is not None
        assert abs((read - test.noise) * test.flip - sign(np.array([gap]))[0]) <= off
    assert 2.0 * e < 0.05


@pytest.mark.ckks
def test_ciphertexts_show_the_same() -> None:
    table, seen = Probed(scheme="ckks"), []
    for trace in table.traces.values():
        for _ in range(8):
            value, bit = table.draw(trace)
            assert bit == (trace > table.settings.trace_threshold)
            assert 0.47 < abs(value) < 1.53
            seen.append(value)
    assert {value > 0 for value in seen} == {True, False}
    assert stats.kstest(np.abs(seen), "uniform", args=(0.5, 1.0)).pvalue > PLAUSIBLE


def test_two_users_are_shown_the_same_draw_of_one_growth() -> None:
    """Several draws would thin the noise; they get one, each flooded anew."""
    table = Probed()
    table.grow(table.traces["far above"])
    values = []
    for user in (table.user, table.new_user(), table.new_user()):
        (answer,) = table.server.receive(table.ask(CONTEXTS, user=user))
        reading = user.profile.read(decrypted(table, answer, user=user), riding=True)
        values.append(reading.test)
    assert 0.0 < np.ptp(values) < 4.0 * table.deployment.flood


# -- the same statistics without the protection


def test_without_the_flip_the_coin_is_not_fair(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_flip(bound: int) -> int:
        return bound - 1

    monkeypatch.setattr(growth_module.secrets, "randbelow", no_flip)
    samples = samples_of(Probed())
    assert max(fairness(values) for values in samples) < SHOWN
    assert least_agreement(samples) < SHOWN


def test_without_the_noise_the_ripple_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(count: int, *, bound: float) -> Array:
        return np.zeros(count) * bound

    monkeypatch.setattr(growth_module, "draw_uniform", silent)
    assert least_agreement(samples_of(Probed())) < SHOWN


def test_without_saturation_the_trace_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The identity in place of the sign."""

    def linear(engine: Any, vector: Any, *, order: Any, outputs: Any) -> Any:  # noqa: ARG001
        (output,) = outputs
        if output is PLAIN:
            return (vector,)
        scaled = engine.multiply_plain(vector, output.alpha)
        return (engine.add_plain(scaled, output.beta),)

    monkeypatch.setattr(argmax, "evaluate_affine", linear)
    assert least_agreement(samples_of(Probed())) < SHOWN
