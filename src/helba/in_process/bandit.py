"""All parties of a bandit on shares in one process, behind the verbs of a policy.

`select` asks the server, which sees ciphertexts or shares; `update` reports. The parties exchange
bytes and nothing else (`parties`); the user's side is a `Client` as it would be anywhere else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from helba.bandits.bounds import growth_bound, switch_bound
from helba.bandits.policy import Array, Policy
from helba.bandits.settings import Settings
from helba.bandits.shares import shares_regret_bound
from helba.errors import InvalidInput
from helba.in_process.parties import Ledger, Parties
from helba.protocol.deployment import SharesDeployment
from helba.server.server import Server


@dataclass(kw_only=True)
class Certified:
    """The worst that the plan certified of the models and tests of a run.

    `residual` is that of the inverse, `estimate_error` that of w, `tolerance` how near two scores
    may be to be ties, rounding included, `band` how near C a trace may be for a test to go either
    way. `bounded` is False once the regret has no bound: there were more reports than a test
    resolves, or the horizon was extended.
    """

    residual: float
    estimate_error: float = 0.0
    tolerance: float = 0.0
    band: float = 0.0
    bounded: bool = True


class EncryptedBandit(Policy):
    """HELBA on shares: a policy like the others, but no party of it sees a number of another.

    In the setting `users` the one user opens its own rounds under its own key, and a second user,
    who is online, opens tests and updates. In `authority` the user sends shares, and the authority
    opens everything. Keys are made here, in about a second. Rewards may come late: `select` several
    times, and `update` when they are known; past the horizon they are refused until `extend`.
    `seed` fixes all that the simulator draws, and so which way ties go; encryption is never seeded.
    """

    _past_horizon = "reports are refused"

    def __init__(
        self,
        settings: Settings,
        *,
        engine: str = "ckks",
        opener: str = "users",
        security: int = 128,
        seed: int | None = None,
        deployment: SharesDeployment | None = None,
    ) -> None:
        super().__init__(settings)
        if deployment is None:
            deployment = SharesDeployment.of(
                settings, engine=engine, opener=opener, security=security
            )
        if deployment.settings != settings:
            raise InvalidInput("deployment", "one of other settings", "that of these settings")
        self.parties = Parties(deployment, seed=seed)
        self.client = self.parties.join()
        self._certified = Certified(residual=deployment.plan.first_batch.residual)

    @property
    def deployment(self) -> SharesDeployment:
        """The deployment that the parties agree on."""
        return self.parties.deployment

    @property
    def server(self) -> Server:
        """The server: it has no secret key."""
        return self.parties.server

    @property
    def ledger(self) -> Ledger:
        """Seconds and bytes of the run so far."""
        return self.parties.ledger

    def extend(self, horizon: int) -> None:
        """Go on with a longer horizon, with what was learned so far.

        The model keeps the weights of the old horizon until the next update, so there is no bound
        of the regret from here on.
        """
        self.parties.extend(horizon)
        super().extend(horizon)
        self.client = self.parties.join()
        self._certified.bounded = False

    def _choose(self, contexts: Array) -> int:
        with self._own_seconds("recommendation"):
            return self.client.recommend(contexts)

    def _learn(self, context: Array, reward: float) -> None:
        with self._own_seconds("report"):
            self.client.report(context, reward)
        self._note_certificates()
        self.updates = self.server.state.updates

    @contextmanager
    def _own_seconds(self, purpose: str) -> Iterator[None]:
        """Count what is not counted yet of this time as the user's."""
        ledger = self.ledger
        began, counted = time.perf_counter(), ledger.total()
        yield
        elsewhere = ledger.total() - counted
        ledger.seconds["user", purpose] += time.perf_counter() - began - elsewhere

    def _note_certificates(self) -> None:
        """Take in what was certified of a new model, or of a test."""
        plan, state, worst = self.deployment.plan, self.server.state, self._certified
        batch, terms, unseen = state.learned.batch, state.adopted, state.unseen
        if 0 < unseen <= plan.most_tested:
            worst.band = max(worst.band, plan.test_resolution(unseen=unseen, untested=1))
        worst.bounded = worst.bounded and unseen <= plan.most_tested
        if terms is None or batch.number == self.updates:
            return
        resolution = self.deployment.update_plan(terms).resolution
        worst.residual = max(worst.residual, batch.residual)
        worst.estimate_error = max(worst.estimate_error, batch.estimate_error)
        tolerance = resolution * plan.weigh(batch).span + plan.rounding_tolerance(batch)
        worst.tolerance = max(worst.tolerance, tolerance)

    def update_bound(self) -> float:
        """Return the bound by the growth rule, by the size of sums, and by trace tests if used."""
        most = growth_bound(self.settings)
        plan = self.deployment.plan
        most += self.settings.horizon / min(plan.most_unseen, plan.most_untested)
        if self.settings.schedule == "public":
            return most
        worst = self._certified
        return most + switch_bound(self.settings, band=worst.band, residual=worst.residual)

    def regret_bound(self) -> float | None:
        """Return the bound of the profile, with what was certified in this run.

        None without update tests, and where a batch has outgrown them.
        """
        worst, plan = self._certified, self.deployment.plan
        if not worst.bounded:
            return None
        length = self.settings.length * (1.0 + plan.rounding.slack)
        return shares_regret_bound(
            replace(self.settings, length=length),
            residual=worst.residual,
            estimate_error=worst.estimate_error + plan.rounding_error(self.settings.horizon),
            tolerance=worst.tolerance,
            band=worst.band,
        )
