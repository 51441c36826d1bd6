"""What the comparison vector shows its own user of the gaps between its scores.

Two askings are compared whose winner (and order) is the same and whose gaps are all beyond the
resolution, so that their entries differ by the ripple of the sign polynomial alone, as far as that
can be: the worst pair of many that were drawn. The best distinguisher knows both vectors and the
law of the flood, and compares likelihoods over all slots of the answer: an entry stands in many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from helba.reference.circuits.comparison import argmax
from helba.reference.engine.reencryption import draw_coefficient_flood, draw_slot_flood
from helba.reference.numerics.argmax import Disclosure, comparison_vector, disclosure
from helba.reference.planning.cost.polynomial import PLAIN
from helba.reference.planning.request import PlanRequest
from helba.reference.twin.radius import quadratic_range
from tests.engines import BOTH
from tests.reference.privacy.views import Array, decrypted
from tests.reference.protocol.parties import MILD, TOY, Table, authority_of, draw_contexts

SUM = replace(MILD, argmax="sum")
PLANS = {"two arms": TOY, "product": MILD, "sum": SUM}
plans = pytest.mark.parametrize("plan", PLANS)
ASKINGS = 150
GRID = 1 << 12


@dataclass(frozen=True)
class Asking:
    """Contexts of all arms, their differences over the range, and the entries b without noise."""

    contexts: Array
    entries: Array
    least_gap: float
    scale: float


class Judged(Table):
    """A user at a server of any flood, and what is claimed of its answers."""

    def __init__(
        self, request: PlanRequest, *, flood: float | None = None, scheme: str = "simulate"
    ) -> None:
        super().__init__(authority_of(request, scheme=scheme))
        self.flood = self.deployment.flood if flood is None else flood
        # more than the update test could bear, which does not ride here
        self.server.deployment = replace(self.deployment, flood=self.flood)

    @property
    def claim(self) -> Disclosure:
        """For scores over their range."""
        deployment = self.deployment
        assert deployment.sign is not None
        assert deployment.method is not None
        return disclosure(
            sign=deployment.sign,
            arms=self.settings.arms,
            scale=1.0,
            method=deployment.method,
            slots=deployment.scores.compare_slots,
        )

    def judge(self, contexts: Array) -> Asking:
        """What the first model makes of them: A = I/lambda, w = 0."""
        settings, terms = self.settings, self.server.terms
        weights = terms.weights(settings)
        scale = quadratic_range(
            settings,
            contexts,
            radius=weights.certain_radius,
            gamma=weights.gamma,
            residual=terms.residual,
        )
        scores = weights.gamma / 2.0 * (contexts**2).sum(axis=1) / settings.ridge / scale
        assert self.deployment.sign is not None
        assert self.deployment.method is not None
        found = comparison_vector(
            scores, sign=self.deployment.sign, scale=1.0, method=self.deployment.method
        )
        least = float(np.diff(np.sort(scores)).min())
        return Asking(contexts, found.value, least, scale)

    def slots_of(self, asking: Asking) -> Array:
        """All slots of an answer to it."""
        (answer,) = self.server.receive(self.ask(asking.contexts))
        return decrypted(self, answer)


@lru_cache(maxsize=8)
def worst_pair(plan: str, *, gaps: bool = False) -> tuple[Asking, Asking]:
    """Two askings of one order, all gaps beyond the resolution, whose first entries are far apart.

    Or, with `gaps`, whose gaps are.
    """
    table, generator = Judged(PLANS[plan]), np.random.default_rng(0)
    assert table.deployment.sign is not None
    found: list[Asking] = []
    for _ in range(1500):
        contexts = draw_contexts(generator, table.settings)
        lengths = np.linalg.norm(contexts, axis=1)
        asking = table.judge(contexts[np.argsort(-lengths)])
        if asking.least_gap > table.deployment.sign.resolution:
            found.append(asking)
    assert len(found) > 100
    key = [asking.least_gap if gaps else asking.entries[0] for asking in found]
    return found[int(np.argmin(key))], found[int(np.argmax(key))]


def flood_density(amount: float) -> tuple[Array, Array]:
    """The law of what a simulated flood adds to a slot: density on a grid."""
    x = np.linspace(-amount, amount, GRID + 1)
    step = x[1] - x[0]
    half = round(amount / 8.0 / step)
    density = (np.abs(x) <= amount / 2.0).astype(np.float64)
    for _ in range(4):
        density = np.convolve(density, np.ones(2 * half + 1), mode="same")
    return x, density / (density.sum() * step)


def advantage(table: Judged, pair: tuple[Asking, Asking], *, flood: float) -> float:
    """How much more often the best distinguisher says "the second" of the second, from samples.

    It sees all slots of `ASKINGS` answers to each, and knows both vectors from many more.
    """
    seen = [np.array([table.slots_of(each) for _ in range(ASKINGS)]) for each in pair]
    means = [expected_slots(table, each) for each in pair]
    x, density = flood_density(flood)
    log = np.log(density + 1e-300)
    said = []
    for samples in seen:
        first, second = (
            np.interp(samples - mean, x, log, left=-700.0, right=-700.0).sum(axis=1)
            for mean in means
        )
        said.append(second > first)
    return float(said[1].mean() - said[0].mean())


def expected_slots(table: Judged, asking: Asking) -> Array:
    """The slots of an answer without its flood."""
    with pytest.MonkeyPatch.context() as patch:
        leave_flood_out(patch)
        return table.slots_of(asking)


def leave_flood_out(patch: pytest.MonkeyPatch) -> None:
    def nothing(count: int, **_: object) -> Array:
        return np.zeros(count)

    patch.setattr("helba.reference.engine.simulator.draw_slot_flood", nothing)
    patch.setattr("helba.reference.engine.simulator.draw_coefficient_flood", nothing)


def replace_sign_by_identity(patch: pytest.MonkeyPatch) -> None:
    def linear(engine: Any, vector: Any, *, order: Any, outputs: Any) -> Any:  # noqa: ARG001
        (output,) = outputs
        if output is PLAIN:
            return (vector,)
        return (engine.add_plain(engine.multiply_plain(vector, output.alpha), output.beta),)

    patch.setattr(argmax, "evaluate_affine", linear)


def largest_deviation(table: Judged, askings: tuple[Asking, ...]) -> float:
    """How far entries are from those of perfect signs."""
    arms, worst = table.settings.arms, 0.0
    for asking in askings:
        order = np.argsort(np.argsort(asking.entries))
        perfect = order / (arms - 1.0) if table.claim.shows_order else (order == arms - 1) * 1.0
        read = table.user.profile.read(table.slots_of(asking), riding=False)
        worst = max(worst, float(np.abs(read.comparison - perfect).max()))
    return worst


def tightest(table: Judged) -> float:
    """Slots that hold an entry, each flooded by itself; half of the flood is uniform in a slot.

    A shift by 2 ripple of what is uniform over a width of `flood` is a total variation of
    2 ripple/flood, and smoother noise on top takes nothing away from the bound.
    """
    layout = table.deployment.scores
    slots = layout.compare_slots // (layout.grid if layout.columns == 1 else layout.padded_arms)
    entries = 1 if layout.columns == 1 else table.settings.arms
    return slots * entries * 2.0 * table.claim.ripple / table.flood


# -- entries


@plans
@pytest.mark.parametrize("scheme", BOTH)
def test_entries_of_wide_gaps_stay_within_ripple_flood_and_noise(plan: str, scheme: str) -> None:
    table = Judged(PLANS[plan], scheme=scheme)
    allowed = table.claim.ripple + table.deployment.flood + table.deployment.comparison_noise
    assert largest_deviation(table, worst_pair(plan)) <= allowed


@plans
def test_entries_would_show_the_gaps_without_the_sign(
    plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = worst_pair(plan)
    replace_sign_by_identity(monkeypatch)
    table = Judged(PLANS[plan])
    allowed = table.claim.ripple + table.deployment.flood + table.deployment.comparison_noise
    assert largest_deviation(table, pair) > 10.0 * allowed


# -- advantage

# Wide enough that something is claimed of it: what plans choose is far below the ripple.
WIDE = 0.125
# Four standard deviations of an advantage that was measured.
FLUCTUATION = 4.0 * (0.5 / ASKINGS) ** 0.5


@pytest.mark.parametrize("gaps", [False, True], ids=["ripple", "gaps"])
def test_advantage_is_that_of_independent_slots_at_most(gaps: bool) -> None:
    table = Judged(TOY, flood=2.0 * WIDE)
    allowed = tightest(table)
    assert allowed + FLUCTUATION < 0.7
    pair = worst_pair("two arms", gaps=gaps)
    assert advantage(table, pair, flood=2.0 * WIDE) <= allowed + FLUCTUATION


def test_advantage_would_be_larger_without_the_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    table, pair = Judged(TOY, flood=2.0 * WIDE), worst_pair("two arms")
    leave_flood_out(monkeypatch)
    found = advantage(table, pair, flood=2.0**-40)  # who knows that there is none
    assert found > 0.95 > tightest(table) + FLUCTUATION


def test_advantage_would_be_larger_without_the_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = worst_pair("two arms", gaps=True)
    replace_sign_by_identity(monkeypatch)
    table = Judged(TOY, flood=2.0 * WIDE)
    assert advantage(table, pair, flood=2.0 * WIDE) > 0.95 > tightest(table) + FLUCTUATION


@plans
def test_flood_of_plans_does_not_cover_the_ripple(plan: str) -> None:
    """What the docs concede: beyond the resolution, too, a user may tell gaps apart."""
    table, pair = Judged(PLANS[plan]), worst_pair(plan)
    assert table.deployment.sign is not None
    assert min(asking.least_gap for asking in pair) > table.deployment.sign.resolution
    assert table.claim.ripple > table.flood
    assert table.claim.advantage(flood=table.flood) == 1.0
    assert advantage(table, pair, flood=table.flood) > 0.95


def swapped_places(table: Judged) -> tuple[Asking, Asking]:
    """The same winner; who came second and who third are the other way round."""
    asking, _ = worst_pair("product")
    return table.judge(asking.contexts), table.judge(asking.contexts[[0, 2, 1]])


def test_product_shows_who_came_second() -> None:
    """What the docs concede: an entry that lost to one other stands above the flood."""
    table = Judged(MILD)
    assert advantage(table, swapped_places(table), flood=table.flood) > 0.95


def test_law_of_the_flood_is_the_one_that_the_distinguisher_knows() -> None:
    drawn = draw_slot_flood(20_000, amount=WIDE)
    for _ in range(4):
        drawn = drawn + draw_coefficient_flood(20_000, slots=1, amount=WIDE) / 2.0
    x, density = flood_density(WIDE)
    below = np.cumsum(density) * (x[1] - x[0])
    assert stats.kstest(drawn, lambda at: np.interp(at, x, below)).pvalue > 1e-4
