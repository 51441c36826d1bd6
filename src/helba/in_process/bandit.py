"""All parties of a bandit on shares in one process, behind the verbs of a policy.

`select` asks the server, which sees ciphertexts or shares; `update` reports. The parties exchange
bytes and nothing else (`network`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from helba.authority.authority import Authority
from helba.bandits.bounds import growth_bound, switch_bound
from helba.bandits.policy import Array, Policy
from helba.bandits.settings import Settings
from helba.bandits.shares import shares_regret_bound
from helba.errors import InvalidInput, RunFailed
from helba.in_process.network import Ledger, Network, Station
from helba.opener.opener import OpenerParty
from helba.protocol.codec import Codec
from helba.protocol.deployment import SharesDeployment
from helba.protocol.message import Answer, Message, Receipt, Refusal
from helba.ring import Opener
from helba.server.server import AUTHORITY, Server
from helba.user.user import User

__all__ = ["Certified", "EncryptedBandit"]


@dataclass(kw_only=True)
class Certified:
    """The worst that the plan certified of the models and tests of a run.

    `residual` is that of the inverse, `estimate_error` that of w, `tolerance` how near two scores
    may be to be ties, rounding included, `band` how near C a trace may be for a test to go either
    way. `tested` is False once there were more reports than a test resolves.
    """

    residual: float
    estimate_error: float = 0.0
    tolerance: float = 0.0
    band: float = 0.0
    tested: bool = True


class EncryptedBandit(Policy):
    """HELBA on shares: a policy like the others, but no party of it sees a number of another.

    In the setting `users` the one user opens its own rounds under its own key, and a second user,
    who is online, opens tests and updates. In `authority` the user sends shares, and the authority
    opens everything. Keys are made here, in about a second. Rewards may come late: `select` several
    times, and `update` when they are known.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        engine: str = "ckks",
        opener: str = "users",
        security: int = 128,
        deployment: SharesDeployment | None = None,
    ) -> None:
        super().__init__(settings)
        if deployment is None:
            deployment = SharesDeployment.of(
                settings, engine=engine, opener=opener, security=security
            )
        if deployment.settings != settings:
            raise InvalidInput("deployment", "one of other settings", "that of these settings")
        self.deployment = deployment
        self.authority = Authority(deployment)
        ring = self.authority.make_ring()
        self.server = Server(deployment, ring=ring)
        public = self.authority.public_key
        self.network = Network(self.server, codec=Codec(deployment, public_key=public))
        self.user = self._join("user")
        if deployment.plan.opener == "users":
            helper = self._join("opener")
            self.server.add_helper(helper.id)
        else:
            party = OpenerParty(
                deployment,
                opener=self.authority.make_opener(),
                sealing_key=self.authority.private_sealing_key,
            )
            self.network.stations[AUTHORITY] = Station(
                codec=Codec(deployment, public_key=public), opener=party, name="opener"
            )
            self.server.add_helper(AUTHORITY)
        self._certified = Certified(residual=deployment.plan.first_batch.residual)

    def _join(self, name: str) -> User:
        """Enrol a user; in the setting `users` it has a key of its own, and is an opener."""
        authority, deployment = self.authority, self.deployment
        public = authority.public_key
        if deployment.plan.opener == "authority":
            enrolment = authority.enrol()
            user = User(deployment, id=enrolment.id, sealing_key=authority.sealing_key)
            station = Station(codec=Codec(deployment, public_key=public), name=name)
        else:
            keys = authority.make_user_keys()
            enrolment = authority.enrol(keys.public)
            user = User(deployment, id=enrolment.id, public_key=public)
            party = OpenerParty(deployment, opener=Opener(keys.secret, public_key=public))
            codec = Codec(deployment, public_key=public, opener_key=keys.public)
            station = Station(codec=codec, opener=party, name=name)
        self.server.enrol(enrolment.id, enrolment.recipient)
        self.network.stations[user.id] = station
        return user

    @property
    def ledger(self) -> Ledger:
        """Seconds and bytes of the run so far."""
        return self.network.ledger

    def _choose(self, contexts: Array) -> int:
        network, station = self.network, self.network.stations[self.user.id]
        began = time.perf_counter()
        ask = self.user.ask(contexts)
        data = station.codec.encode(ask)
        network.ledger.add("user", "recommendation", time.perf_counter() - began)
        network.send(data, sender=self.user.id, purpose="recommendation")
        answer = self._await(ask.name)
        if not isinstance(answer, Answer):
            self.user.forget(ask.name)
            raise RunFailed(f"the server refused the round: {_reason(answer)}")
        began = time.perf_counter()
        colours = None
        if station.opener is not None:
            colours = station.opener.colours.pop(answer.task, None)
            if colours is None:
                self.user.forget(ask.name)
                raise RunFailed("the user's own half of the answer is missing")
        arm = self.user.read(answer, colours=colours)
        network.ledger.add("user", "recommendation", time.perf_counter() - began)
        return arm

    def _learn(self, context: Array, reward: float) -> None:
        network, station = self.network, self.network.stations[self.user.id]
        began = time.perf_counter()
        report = self.user.report(context, reward)
        data = station.codec.encode(report)
        network.ledger.add("user", "report", time.perf_counter() - began)
        network.send(data, sender=self.user.id, purpose="report")
        receipt = self._await(report.name)
        if not isinstance(receipt, Receipt):
            raise RunFailed(f"the server refused a report: {_reason(receipt)}")
        self._note_certificates()
        self.updates = self.server.learned.batch.number

    def _note_certificates(self) -> None:
        """Take in what was certified of a new model, or of a test."""
        plan, server, worst = self.deployment.plan, self.server, self._certified
        batch, terms = server.learned.batch, server.adopted
        unseen = server.samples - batch.samples
        if 0 < unseen <= plan.most_tested:
            worst.band = max(worst.band, plan.test_resolution(unseen=unseen, untested=1))
        worst.tested = worst.tested and unseen <= plan.most_tested
        if terms is None or batch.number == self.updates:
            return
        resolution = self.deployment.update_plan(terms).resolution
        worst.residual = max(worst.residual, batch.residual)
        worst.estimate_error = max(worst.estimate_error, batch.estimate_error)
        tolerance = resolution * plan.weigh(batch).span + plan.rounding_tolerance(batch)
        worst.tolerance = max(worst.tolerance, tolerance)

    def update_bound(self) -> float:
        """Updates by the growth rule, by the size of sums, and by the trace rule if it is used."""
        most = growth_bound(self.settings)
        plan = self.deployment.plan
        most += self.settings.horizon / min(plan.most_unseen, plan.most_untested)
        if self.settings.schedule == "public":
            return most
        worst = self._certified
        return most + switch_bound(self.settings, band=worst.band, residual=worst.residual)

    def regret_bound(self) -> float | None:
        """That of the profile, with what was certified in this run.

        None without update tests, and where a batch has outgrown them.
        """
        worst, plan = self._certified, self.deployment.plan
        if not worst.tested:
            return None
        length = self.settings.length * (1.0 + plan.rounding.slack)
        return shares_regret_bound(
            replace(self.settings, length=length),
            residual=worst.residual,
            estimate_error=worst.estimate_error + plan.rounding_error(self.settings.horizon),
            tolerance=worst.tolerance,
            band=worst.band,
        )

    def _await(self, name: bytes) -> Message | None:
        """The message about this round or report that came for the user."""
        inbox = self.network.stations[self.user.id].inbox
        found = [m for m in inbox if isinstance(m, Answer | Receipt | Refusal) and m.name == name]
        inbox.clear()
        return found[0] if found else None


def _reason(message: Message | None) -> str:
    return message.reason if isinstance(message, Refusal) else "it gave no answer"
