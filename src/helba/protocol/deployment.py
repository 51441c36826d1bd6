"""The terms that all parties agree on: the plan, the engine, circuits and places."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from helba.bandits.settings import Settings
from helba.errors import InvalidInput, require_choice, require_whole
from helba.garbling import (
    Circuit,
    ClearEvaluatorSession,
    ClearGarblerSession,
    EvaluatorSession,
    GarblerSession,
    ShareRange,
    build_argmax,
    build_report_check,
)
from helba.learning.model_check import CHECK_BITS, ModelCheck
from helba.learning.plan import SharesPlan
from helba.learning.plan import make_shares_plan as make_plan
from helba.learning.score import COMBINATIONS
from helba.learning.update import TEST_BITS, TestPlan, TestTerms
from helba.learning.update_certificate import UpdateTerms
from helba.learning.update_plan import UpdatePlan
from helba.protocol.message import Work
from helba.randomness import Draw, draw_bytes
from helba.ring import Bound, Ciphertext, PublicKey, RingParameters
from helba.ring.ciphertext import describe_fresh
from helba.ring.sharing.integer import Integers, Places
from helba.ring.sharing.pad import NUMBER_BYTES, SHARE_MODULUS, sum_signed

ENGINES = {"ckks": "openfhe", "simulate": "simulate"}
SHARE_BITS = 8 * NUMBER_BYTES
PLAN_VERSION = 1  # of scales and steps that follow from a plan: parties must agree on them


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """A comparison as the plan has it: what is opened, its circuit, and the opener's noise.

    `places` are the coefficients of each opening; `bits` is what shares are brought to.
    """

    circuit: Circuit
    places: tuple[Places, ...]
    bits: int
    deviations: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class SharesDeployment:
    """The plan and the engine (`ckks`, or `simulate` in the clear)."""

    plan: SharesPlan
    engine: str = "ckks"

    def __post_init__(self) -> None:
        require_choice("engine", self.engine, ENGINES)

    @classmethod
    def of(
        cls,
        settings: Settings,
        *,
        engine: str = "ckks",
        opener: str = "users",
        security: int = 128,
        parameters: RingParameters | None = None,
    ) -> SharesDeployment:
        """Plan for these settings."""
        plan = make_plan(settings, opener=opener, security=security, parameters=parameters)
        return cls(plan=plan, engine=engine)

    def extended(self, horizon: int) -> SharesDeployment:
        """Return the same deployment with a longer horizon: another one, whose state may go on."""
        return replace(self, plan=self.plan.extended(horizon))

    @property
    def backend(self) -> str:
        """The ring's backend."""
        return ENGINES[self.engine]

    @property
    def settings(self) -> Settings:
        """The bandit's settings."""
        return self.plan.settings

    @cached_property
    def digest(self) -> bytes:
        """Sixteen bytes that name the deployment; they go into every message."""
        plan = self.plan
        scales = (plan.scale_horizon, PLAN_VERSION)
        chosen = (plan.rounding, plan.lanes, plan.score_bits, plan.grid, *scales)
        shared = (asdict(plan.settings), plan.opener, plan.parameters.fingerprint, self.engine)
        text = repr((shared, chosen))
        return hashlib.blake2b(text.encode(), digest_size=16).digest()

    @cached_property
    def origin(self) -> bytes:
        """The digest before any extension of the horizon: sealed seeds outlive those."""
        plan = self.plan
        settings = replace(plan.settings, horizon=plan.scale_horizon)
        first = replace(plan, settings=settings, scaled_for=None)
        return replace(self, plan=first).digest

    def make_garbler(self, draw: Draw = draw_bytes) -> GarblerSession:
        """Return the server's side of a garbling session; a real one draws for itself."""
        return GarblerSession() if self.engine == "ckks" else ClearGarblerSession(draw=draw)

    def make_evaluator(self, draw: Draw = draw_bytes) -> EvaluatorSession:
        """Return the opener's side of a garbling session; a real one draws for itself."""
        return EvaluatorSession() if self.engine == "ckks" else ClearEvaluatorSession(draw=draw)

    # -- asks

    @property
    def numbers(self) -> int:
        """Features of an ask: those of all its arms."""
        return self.settings.arms * self.plan.rounding.features

    @property
    def checked(self) -> int:
        """Numbers of an ask that its circuit checks: each of them, or as many random sums."""
        return min(self.numbers, COMBINATIONS)

    @property
    def sums_are_checked(self) -> bool:
        """True if random sums are checked in place of single numbers."""
        return self.numbers > COMBINATIONS

    def feature_groups(self, lanes: int) -> list[tuple[Places, NDArray[np.intp]]]:
        """Return, for each polynomial of asks, its places and which of all numbers stand there."""
        return list(self.plan.inner(lanes).feature_places.parts.values())

    def describe_features(self, public_key: PublicKey) -> list[Ciphertext]:
        """Return the public side of an ask as its user encrypts it, for each polynomial."""
        scale = float(self.plan.grid.feature_multiple)
        bounds = [self.feature_bound(len(places)) for places, _ in self.feature_groups(1)]
        fresh = [describe_fresh(public_key, bound=bound) for bound in bounds]
        return [replace(each, scale=scale, primes=2) for each in fresh]

    def feature_bound(self, count: int) -> Bound:
        """Return the bound of a user's features in the ring."""
        peak = float(self.plan.rounding.peak * self.plan.grid.feature_multiple)
        norm = peak * np.sqrt(2.0 * self.settings.arms) * 1.01
        return Bound.of(peak=peak, norm=float(norm), count=count)

    def describe_report(self, public_key: PublicKey) -> Ciphertext:
        """Return the public side of a report as its user encrypts it."""
        bound = self.plan.report_bound()
        return describe_fresh(public_key, bound=bound).with_scale(bound.peak)

    # -- exchanges

    def require_work(self, work: Work) -> None:
        """Raise `InvalidInput` unless the plan has such a task: its counts bound what it costs."""
        plan, terms = self.plan, work.terms
        most = {"ask": plan.lanes, "fold": plan.group}.get(work.subject, 1)
        require_whole("count", work.count, least=1, most=most)
        if isinstance(terms, TestTerms):
            require_whole("unseen", terms.unseen, least=1, most=plan.most_unseen)
            require_whole("untested", terms.untested, least=1, most=terms.unseen)
        elif isinstance(terms, UpdateTerms):
            require_whole("samples", terms.samples, least=1, most=self.settings.horizon)
            before = terms.before
            if not (0.0 <= before.residual < 1.0 and 0.0 <= before.estimate_error < math.inf):
                raise InvalidInput("before", before, "finite bounds, of the residual below 1")

    def exchanges(self, work: Work, step: str) -> tuple[Any, ...]:
        """Return what a step of a test or update opens and reopens."""
        if isinstance(work.terms, TestTerms) and step == "test":
            return (self.test_plan(work.terms).exchange,)
        if isinstance(work.terms, UpdateTerms):
            return self.update_plan(work.terms).exchanges(step)
        raise InvalidInput("step", f"{step!r} of {work.subject}", "a step of a test or an update")

    def update_plan(self, terms: UpdateTerms) -> UpdatePlan:
        """Return the steps of an update."""
        return _update_plan(self.plan, terms)

    def test_plan(self, terms: TestTerms) -> TestPlan:
        """Return the public side of an update test."""
        return _test_plan(self.plan, terms)

    def comparison(self, work: Work) -> Comparison:
        """Return what the work compares at its end."""
        if work.subject == "fold":  # its circuits are large, and `build_report_check` keeps a few
            return self._make_comparison(work)
        return _comparison(self, work)

    def _make_comparison(self, work: Work) -> Comparison:
        plan, last = self.plan, np.array([self.plan.parameters.ring_dim - 1])
        if isinstance(work.terms, TestTerms):
            test = self.test_plan(work.terms)
            return Comparison(
                circuit=test.circuit, places=(last,), bits=TEST_BITS, deviations=(test.deviation,)
            )
        if isinstance(work.terms, UpdateTerms):
            check = ModelCheck(self.update_plan(work.terms))
            return Comparison(
                circuit=check.circuit,
                places=(last,) * len(check.values),
                bits=CHECK_BITS,
                deviations=check.deviations,
            )
        if work.subject == "fold":
            circuit = self._report_circuit(work.count)
            return Comparison(circuit=circuit, places=(), bits=SHARE_BITS, deviations=())
        if work.subject == "ask":
            groups = list(plan.inner(work.count).score_places.parts.values())
            return Comparison(
                circuit=self.argmax_circuit,
                places=tuple(places for places, _ in groups),
                bits=plan.grid.bits,
                deviations=(0.0,) * len(groups),
            )
        raise InvalidInput("work", work.subject, "an ask, a fold, or a test or update with terms")

    @property
    def argmax_circuit(self) -> Circuit:
        """The circuit of an ask: the best arm, or arm 0 for an ask that is out of range."""
        grid, checked = self.plan.grid, self.ask_range if self.plan.opener == "authority" else None
        return build_argmax(
            self.settings.arms, bits=grid.bits, grid_bits=grid.low_bits, checked=checked
        )

    def told_bits(self, work: Work) -> int:
        """Count the asks of which the work's circuit tells the opener whether they are in range."""
        return work.count if work.subject == "ask" and self.plan.opener == "authority" else 0

    @property
    def ask_range(self) -> ShareRange:
        """The check of an ask's numbers, or of their random sums."""
        return ShareRange(self.checked, self.plan.checked_bits)

    def checked_values(self, asks: Integers, *, seed: bytes, sign: int) -> Integers:
        """Return one party's shares of what is checked of its shares of asks, (lanes, numbers).

        The numbers themselves or, by the seed, sums with random signs; times `sign`, modulo 2^96.
        """
        if not self.sums_are_checked:
            return (sign * asks) % SHARE_MODULUS
        signs = sign * draw_signs(seed, sums=self.checked, numbers=self.numbers)
        return np.stack([sum_signed(lane, signs=signs) for lane in asks])

    def group_opened(self, work: Work, shares: Sequence[Any]) -> list[Any]:
        """Return shares of opened values as the first groups of the work's circuit.

        Scores, which are given by polynomial, become one of shape (lanes, arms).
        """
        if work.subject != "ask":
            return [share.reshape(1, 1) for share in shares]
        scores = np.empty(work.count * self.settings.arms, dtype=np.uint64)
        groups = list(self.plan.inner(work.count).score_places.parts.values())
        for share, (_, index) in zip(shares, groups, strict=True):
            scores[index] = share
        return [scores.reshape(work.count, self.settings.arms)]

    def _report_circuit(self, reports: int) -> Circuit:
        rounding = self.plan.rounding
        magnitude, leading = rounding.peak.bit_length(), self.plan.leading_bits
        length = rounding.peak * (1.0 + rounding.slack) / (1 << (magnitude - leading))
        return build_report_check(
            self.settings.dim,
            bits=SHARE_BITS,
            limit=rounding.peak,
            reward_limit=rounding.peak,
            leading_bits=leading,
            bound=int(length**2) + 1,
            reports=reports,
        )


_comparison = lru_cache(maxsize=128)(SharesDeployment._make_comparison)
_test_plan = lru_cache(maxsize=128)(TestPlan)
_update_plan = lru_cache(maxsize=128)(UpdatePlan)


def draw_signs(seed: bytes, *, sums: int, numbers: int) -> NDArray[np.int8]:
    """Return the coefficients of random sums that the seed makes: (sums, numbers).

    Each is the difference of two fair bits: 0 with probability 1/2, else 1 or -1. Without zeros two
    numbers of 2^95 would cancel modulo 2^96 in every sum (see `helba.learning.score`).
    """
    count = 2 * sums * numbers
    stream = hashlib.shake_128(b"helba signs" + seed).digest(-(-count // 8))
    bits = np.unpackbits(np.frombuffer(stream, dtype=np.uint8), count=count).astype(np.int8)
    first, second = bits.reshape(2, sums, numbers)
    return first - second
