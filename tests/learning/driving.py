"""Both parties of the server's computations on shares in one process, and numpy beside them.

`World` drives the generators of `helba.learning.update`: it opens what they yield, takes the
opener's part, evaluates circuits in the clear, and sends the stacks back. What came of every step
is kept, so that a test can look at it; a test may put something wrong in its place (`Wrong`).
`History` has the same reports as exact integers, and the model that numpy makes of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from helba.bandits.settings import Settings
from helba.garbling import Circuit
from helba.learning.exchange import (
    Compare,
    EncryptPads,
    Exchange,
    Reopen,
    Stack,
    Steps,
    open_stack,
    take_replies,
)
from helba.learning.layout import Arrangement
from helba.learning.model_check import CHECK_BITS, ModelCheck
from helba.learning.plan import (
    INVERSE_SCALE,
    TEST_SCALE,
    Batch,
    SharesPlan,
    make_shares_plan,
)
from helba.learning.round import run_fold
from helba.learning.update import (
    TEST_BITS,
    Learned,
    TestPlan,
    TestTerms,
    begin_learning,
    run_test,
    run_update,
)
from helba.learning.update_certificate import UpdateTerms
from helba.learning.update_plan import UpdatePlan
from helba.opener.reopening import reopen_shares
from helba.ring import DEVIATIONS, Ciphertext, Recipient, Ring, insecure_parameters
from helba.ring.noise import encryption_noise
from helba.ring.secret import Opener, make_keys, make_reencryption_key
from helba.ring.sharing.pad import draw_seed, expand_pad, split
from tests.garbling.parties import evaluate_clear

# By step and by the name of a target: what takes the place of its stack.
Wrong = Mapping[str, Mapping[str, Callable[[Stack], Stack]]]


def make_settings(dim, *, arms=4, horizon=10_000, ratio=1.0, schedule="public", **others):
    """Settings with L = 1 and lambda = 1/ratio."""
    told = {"length": 1.0, "parameter_bound": 1.0, "noise": 0.5, "reward_max": 2.0} | others
    return Settings(
        dim=dim, arms=arms, horizon=horizon, ridge=1.0 / ratio, schedule=schedule, **told
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """A circuit, and the opener's part of what it compares."""

    circuit: Circuit
    bits: int
    deviations: tuple[float, ...]
    shares: tuple[Any, ...] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ran:
    """What came of a computation: its result, the stacks of every step, and what was compared.

    `values` are the compared values in the plan's numbers, the opener's noise included. `reach` is
    the largest integer that was opened over what the plan allows it, errors apart.
    """

    result: Any
    steps: Mapping[str, Mapping[str, Stack]]
    values: tuple[float, ...]
    reach: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """A server with public keys, an opener of a key of its own where the plan says so, a reader."""

    plan: SharesPlan
    ring: Ring
    opener: Opener
    reader: Opener
    to: Recipient | None

    # -- driving

    def drive(
        self,
        steps: Steps,
        *,
        exchanges: Callable[[str], tuple[Exchange, ...]] | None = None,
        comparison: Comparison | None = None,
        pads: Any = None,
        wrong: Wrong | None = None,
    ) -> Ran:
        """Run a generator to its end; `wrong` may disturb the stacks that it is sent."""
        taken: dict[str, dict[str, Stack]] = {}
        values: tuple[float, ...] = ()
        reach = 0.0
        try:
            needed = next(steps)
            while True:
                if isinstance(needed, Reopen):
                    reach = max(reach, self.measure(needed.stacks, exchanges(needed.step)))
                    stacks = self.reopen(needed.stacks, exchanges(needed.step))
                    for name, change in (wrong or {}).get(needed.step, {}).items():
                        stacks[name] = change(stacks[name])
                    taken[needed.step] = stacks
                    needed = steps.send(list(stacks.values()))
                elif isinstance(needed, EncryptPads):
                    needed = steps.send(pads)
                else:
                    passed, values = self.compare(needed, comparison)
                    needed = steps.send(passed)
        except StopIteration as end:
            return Ran(result=end.value, steps=taken, values=values, reach=reach)

    def measure(self, stacks, exchanges) -> float:
        """The largest integer that is to be opened, its error off, over the exchange's peak."""
        found = 0.0
        for stack, exchange in zip(stacks, exchanges, strict=True):
            for number, places in exchange.places.items():
                part = stack.parts[number]
                integers = self.reader.decrypt(part, places=places)
                largest = max(abs(int(each)) for each in integers) - part.error_bound
                found = max(found, largest / exchange.peak)
        return found

    def reopen(self, stacks, exchanges) -> dict[str, Stack]:
        """Both sides of a reopening; one stack for each target, by its name."""
        found: dict[str, Stack] = {}
        for stack, exchange in zip(stacks, exchanges, strict=True):
            openings, mask = open_stack(self.ring, stack, exchange, to=self.to)
            replies = reopen_shares(self.opener, openings, exchange)
            names = [target.name for target in exchange.targets]
            names = [f"{name} again" if name in found else name for name in names]
            taken = take_replies(self.ring, mask, replies, exchange)
            found |= dict(zip(names, taken, strict=True))
        return found

    def compare(self, needed: Compare, comparison: Comparison) -> tuple[bool, tuple[float, ...]]:
        """Both sides of comparing values at the last coefficient, the circuit in the clear."""
        last, bits = [self.plan.parameters.ring_dim - 1], comparison.bits
        evaluator, garbler, values = [], [], []
        for value, deviation in zip(needed.values, comparison.deviations, strict=True):
            opening, mask = self.ring.open(value, places=last, to=self.to)
            share = self.opener.receive(opening, places=last)
            own = self.opener.add_noise(share, deviation=deviation).modulo(bits=bits)
            masked = mask.take_modulo(bits=bits)
            evaluator.append(own.reshape(1, 1))
            garbler.append(masked.reshape(1, 1))
            unit = self.plan.parameters.moduli[0] / 2.0**bits / value.scale
            values.append(around_zero(int(own[0]) - int(masked[0]), bits=bits) * unit)
        evaluator += comparison.shares
        garbler += needed.shares
        _, bit = evaluate_clear(comparison.circuit, evaluator=evaluator, garbler=garbler)
        return bool(bit[0, 0]), tuple(values)

    # -- the server's work

    def begin(self) -> Learned:
        """The model before any report."""
        return begin_learning(self.ring, self.plan)

    def update(
        self,
        learned: Learned,
        growth: Ciphertext,
        update: UpdatePlan,
        *,
        wrong: Wrong | None = None,
        check: ModelCheck | None = None,
    ) -> Ran:
        """Run an update, with another check if given; its result is the new `Learned`, or None."""
        check = check or ModelCheck(update)
        return self.drive(
            run_update(self.ring, update, learned=learned, growth=growth),
            exchanges=update.exchanges,
            comparison=Comparison(
                circuit=check.circuit, bits=CHECK_BITS, deviations=check.deviations
            ),
            wrong=wrong,
        )

    def test(self, learned: Learned, growth: Ciphertext, terms: TestTerms) -> Ran:
        """Run an update test; its result is one bit."""
        test = TestPlan(self.plan, terms)
        return self.drive(
            run_test(self.ring, test, learned=learned, growth=growth),
            exchanges={"test": (test.exchange,)}.__getitem__,
            comparison=Comparison(
                circuit=test.circuit, bits=TEST_BITS, deviations=(test.deviation,)
            ),
        )

    def fold(self, reports, *, circuit: Circuit) -> Ran:
        """Sum reports that come as shares, each with a seed of its own; in `authority` only."""
        count, numbers = np.shape(reports)
        seeds = [draw_seed() for _ in range(count)]
        pads = [expand_pad(seed, count=numbers, context=b"report") for seed in seeds]
        shares = [
            split(report, seed=seed, context=b"report")
            for report, seed in zip(reports, seeds, strict=True)
        ]
        encrypted = self.opener.encrypt_pads(
            [(np.concatenate(pads), places) for places in self.plan.report_places(count)],
            multiple=self.plan.report_multiple,
            scale=1.0,
        )
        own = (np.concatenate(pads).reshape(1, -1),)
        return self.drive(
            run_fold(self.ring, self.plan, reports=np.stack(shares), boxes=(b"",) * count),
            comparison=Comparison(circuit=circuit, bits=96, deviations=(), shares=own),
            pads=(encrypted, b""),
        )

    def encrypt_sum(self, sums, *, reports: int, rng=None) -> Ciphertext:
        """Encrypt integer sums of p p^T as the folds of so many reports would have made them.

        That is how a test jumps over a whole batch. With `rng` they get errors of the deviation
        that the plan allows the folds.
        """
        plan, prime = self.plan, self.plan.parameters.moduli[2]
        exact = np.ravel(sums).astype(object) * plan.report_multiple**2
        values = (2 * exact + prime) // (2 * prime)
        if rng is not None:
            errors = np.rint(rng.normal(0.0, plan.sum_noise(reports), len(values)))
            values = values + errors.astype(np.int64).astype(object)
        return self.ring.encrypt(
            values,
            places=np.ravel(plan.sum_places.places),
            scale=plan.sum_scale,
            peak=1.01 * reports * plan.sum_scale,
            primes=2,
        )

    def learn_at_once(self, history: History, batch: Batch, *, inverse, rng) -> Learned:
        """A state as after `batch`, encrypted directly, with `inverse` for lambda A.

        Its sums have errors of the deviation that the plan allows all folds together.
        """
        plan, d = self.plan, self.plan.settings.dim
        settings, layout = plan.settings, plan.matrix
        errors = rng.normal(0.0, plan.sum_noise(history.samples), (d + 1, d))
        design = history.design / settings.ridge
        design += (errors[:d] + errors[:d].T) / 2.0 / plan.context_scale
        response = history.response / (settings.reward_max * settings.length)
        response += errors[d] / plan.sum_scale
        update = UpdatePlan(plan, UpdateTerms(before=batch, samples=batch.samples + 1, untested=1))
        start = self.begin()
        return replace(
            start,
            batch=batch,
            rows=self.encrypt(inverse, layout.row_places[:d], scale=INVERSE_SCALE),
            columns=self.encrypt(inverse, layout.column_places, scale=INVERSE_SCALE),
            test=self.ring.drop(
                self.encrypt(inverse, plan.trace_right, scale=TEST_SCALE).only, primes=2
            ),
            design=self.encrypt(design, layout.row_places[:d], scale=plan.design_scale),
            response=self.encrypt(response, update.column, scale=plan.response_scale),
        )

    def encrypt(self, numbers, arrangement: Arrangement, *, scale: float) -> Stack:
        """Encrypt an array where it stands, one ciphertext for each polynomial."""
        values = np.array([round(float(x) * scale) for x in np.ravel(numbers)], dtype=object)
        peak = 1.01 * float(max(abs(value) for value in values)) + 1.0
        return Stack(
            {
                k: self.ring.encrypt(values[index], places=places, scale=scale, peak=peak)
                for k, (places, index) in arrangement.parts.items()
            }
        )

    # -- reading

    def read(self, stack: Stack, arrangement: Arrangement, *, scale: float | None = None):
        """The numbers that stand in a stack, errors included."""
        found = np.zeros(arrangement.places.size)
        for k, (places, index) in arrangement.parts.items():
            part = stack.parts[k]
            integers = self.reader.decrypt(part, places=places)
            found[index] = [float(each) / (scale or part.scale) for each in integers]
        return found.reshape(arrangement.shape)

    def read_rows(self, stack: Stack):
        """X = lambda A by rows."""
        rows = self.plan.matrix.row_places[: self.plan.settings.dim]
        return self.read(stack, rows, scale=INVERSE_SCALE)

    def read_columns(self, stack: Stack):
        """X by columns."""
        return self.read(stack, self.plan.matrix.column_places, scale=INVERSE_SCALE)

    def read_test(self, ciphertext: Ciphertext):
        """X where it makes traces."""
        places = self.plan.trace_right
        return self.read(Stack({0: ciphertext}), places, scale=TEST_SCALE)

    def read_model(self, ciphertext: Ciphertext):
        """The model's entries in units of the grid: whole numbers, up to encryption noise."""
        places, multiple = self.plan.inner(1).model_places, self.plan.grid.model_multiple
        return self.read(Stack({0: ciphertext}), places, scale=float(multiple))

    @property
    def fresh_error(self) -> float:
        """No coefficient of a fresh encryption is off by more."""
        return DEVIATIONS * encryption_noise(self.plan.parameters)


@lru_cache(maxsize=64)
def _plan_size(dim, arms, *, opener, security, parameters) -> SharesPlan:
    settings = make_settings(dim, arms=arms)
    return make_shares_plan(settings, opener=opener, security=security, parameters=parameters)


def make_plan(settings, *, opener="users", security=128, parameters=None) -> SharesPlan:
    """The plan of these settings; bits and grid follow from the sizes alone, and are kept.

    `test_plan` compares it with `make_shares_plan`, which takes seconds for some sizes.
    """
    sized = _plan_size(
        settings.dim, settings.arms, opener=opener, security=security, parameters=parameters
    )
    rounding = replace(sized.rounding, length=settings.length, reward_max=settings.reward_max)
    return replace(sized, settings=settings, rounding=rounding)


@lru_cache(maxsize=16)
def make_world(
    settings, *, backend="simulate", opener="users", security=128, log2_ring_dim=None
) -> World:
    """Parties with fresh keys; in `users` tests and updates are opened under a user's own key."""
    parameters = None if log2_ring_dim is None else insecure_parameters(log2_ring_dim)
    plan = make_plan(settings, opener=opener, security=security, parameters=parameters)
    keys = make_keys(plan.parameters, backend=backend, automorphism=plan.automorphism)
    reader = Opener(keys.secret, public_key=keys.public)
    own, to = reader, None
    if opener == "users":
        user = make_keys(plan.parameters, backend=backend)
        own = Opener(user.secret, public_key=keys.public)
        way = make_reencryption_key(keys.secret, to=user.public)
        to = Recipient(public=user.public, reencryption=way)
    ring = Ring(keys.public, evaluation_key=keys.evaluation)
    return World(plan=plan, ring=ring, opener=own, reader=reader, to=to)


def around_zero(number: int, *, bits: int) -> int:
    """A number modulo 2^bits in [-2^(bits-1), 2^(bits-1))."""
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


# -- numpy's side


class History:
    """All reports so far as exact sums of integers, and the model that numpy makes of them."""

    def __init__(self, plan: SharesPlan) -> None:
        self.plan = plan
        self.sums = np.zeros((plan.settings.dim + 1,) * 2, dtype=np.int64)
        self.samples = 0

    def add(self, reports, *, times: int = 1):
        """Take rounded reports in, each so many times; return the sums of p p^T."""
        more = times * (np.asarray(reports).T @ np.asarray(reports))
        self.sums = self.sums + more
        self.samples += times * len(reports)
        return more

    @property
    def design(self):
        """V = lambda I + sum of x x^T."""
        settings, unit = self.plan.settings, self.plan.settings.length / self.plan.rounding.peak
        return settings.ridge * np.eye(settings.dim) + self.sums[:-1, :-1] * unit**2

    @property
    def response(self):
        """g = sum of r x."""
        settings, peak = self.plan.settings, self.plan.rounding.peak
        return self.sums[:-1, -1] * (settings.length * settings.reward_max / peak**2)

    @property
    def estimate(self):
        """V^-1 g."""
        return np.linalg.solve(self.design, self.response)

    def measure_residual(self, inverse) -> float:
        """||V^(1/2) A V^(1/2) - I||, for an A that need not be symmetric."""
        values, vectors = np.linalg.eigh(self.design)
        root = (vectors * np.sqrt(values)) @ vectors.T
        return float(np.linalg.norm(root @ inverse @ root - np.eye(len(root)), 2))

    def measure_estimate(self, estimate) -> float:
        """||w - V^-1 g||_V."""
        off = estimate - self.estimate
        return math.sqrt(float(off @ self.design @ off))

    def longest(self, entry: float) -> float:
        """What the V-norm of numbers up to `entry` can be, at most."""
        return entry * math.sqrt(float(np.abs(self.design).sum()))


def draw_reports(rng, plan: SharesPlan, count: int, *, kind: str = "mixed"):
    """Rounded reports: contexts in all directions, within 1e-3 of one, or half and half."""
    settings, rounding = plan.settings, plan.rounding
    contexts = rng.normal(size=(count, settings.dim))
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    if kind != "spread":
        near = np.ones(settings.dim) / math.sqrt(settings.dim) + 1e-3 * contexts
        near /= np.linalg.norm(near, axis=1, keepdims=True)
        chosen = np.ones(count, bool) if kind == "collinear" else rng.random(count) < 0.5
        contexts[chosen] = near[chosen]
    contexts *= settings.length * rng.choice([1.0, 1.0, 0.5], (count, 1))
    theta = np.cos(np.arange(settings.dim))
    theta *= settings.parameter_bound / np.linalg.norm(theta)
    rewards = contexts @ theta + settings.noise * rng.normal(size=count)
    rewards = np.clip(rewards, -settings.reward_max, settings.reward_max)
    whole = np.rint(rewards * (rounding.peak / settings.reward_max)).astype(np.int64)
    return np.column_stack([rounding.round_contexts(contexts), whole])


# -- updates one after the other, and what is stated of each


def next_update(plan: SharesPlan, batch: Batch, *, most: int | None = None) -> UpdatePlan:
    """The update that the public schedule makes after a batch, at the horizon at the latest."""
    samples = batch.samples + 1
    low, high = samples, max(samples, plan.settings.horizon)
    while low < high:  # `growth_due` goes from False to True once
        middle = (low + high) // 2
        due = plan.growth_due(batch, samples=middle)
        low, high = (low, middle) if due else (middle + 1, high)
    samples = low if most is None else min(low, batch.samples + most)
    untested = samples - batch.samples
    return UpdatePlan(plan, UpdateTerms(before=batch, samples=samples, untested=untested))


def walk_schedule(plan: SharesPlan):
    """The updates of the public schedule up to the horizon, on paper."""
    batch = plan.first_batch
    while batch.samples < plan.settings.horizon:
        update = next_update(plan, batch)
        yield update
        batch = update.after


def assert_certified(world: World, ran: Ran, history: History, update: UpdatePlan) -> float:
    """A new model is what its plan says, in all its copies; return the residual of its inverse."""
    learned, plan, settings = ran.result, world.plan, world.plan.settings
    assert isinstance(learned, Learned)
    assert learned.batch == update.after
    assert learned.batch.samples == history.samples
    ridge, fresh = settings.ridge, world.fresh_error
    rows = world.read_rows(learned.rows)

    # what was opened is as small as the probability of a failure counts it
    assert ran.reach <= 1.0

    # the inverse, symmetric, and its other copies
    residual = history.measure_residual(rows / ridge)
    reading = np.trace(history.design) / ridge * 2.0 * settings.dim * fresh / INVERSE_SCALE
    assert residual <= update.residual + reading
    assert np.abs(rows - rows.T).max() <= 2.0 * fresh / INVERSE_SCALE
    columns, test = world.read_columns(learned.columns), world.read_test(learned.test)
    assert np.abs(columns - rows).max() <= 2.0 * (fresh + 1.0) / INVERSE_SCALE
    assert np.abs(test - rows).max() <= 2.0 * (fresh + 1.0) / TEST_SCALE

    # the model: whole numbers, one unit and the opener's noise from the inverse
    entries = world.read_model(learned.model)
    apart = np.abs(entries - np.rint(entries)).max()
    assert apart <= learned.model.error_bound / plan.grid.model_multiple < 0.5
    w, inverse = read_weights(world, learned, update)
    per_entry = update.model_inverse_scale / plan.grid.model_multiple
    noise = DEVIATIONS * 2.0**20 * update.inverse_noise / update.product_scale
    assert np.abs(inverse - rows).max() <= 2.0 / per_entry + 2.0 * noise

    # the estimate: as it was refined, and as the model has it, up to one unit an entry
    exact = world.read(ran.steps["model"]["norm"], plan.inner(1).model_places[: settings.dim])
    exact = exact * settings.reward_max * settings.length / ridge
    rounded = 2.0 * fresh / update.norm_scale * settings.reward_max * settings.length / ridge
    assert history.measure_estimate(exact) <= update.estimate_error + history.longest(rounded)
    unit = plan.rounding.peak / (update.weights.unit * settings.length)
    assert history.measure_estimate(w) <= update.estimate_error + history.longest(unit)
    assert np.linalg.norm(w) <= update.weights.estimate_bound * 1.05
    return residual


def read_weights(world: World, learned: Learned, update: UpdatePlan):
    """w and lambda A that the model's whole numbers stand for."""
    plan, d = world.plan, world.plan.settings.dim
    entries = np.rint(world.read_model(learned.model))
    unit = plan.rounding.peak / (update.weights.unit * plan.settings.length)
    upper = np.zeros((d, d))
    upper[np.triu_indices(d)] = entries[d:]
    per_entry = update.model_inverse_scale / plan.grid.model_multiple
    return entries[:d] * unit, (upper + upper.T) / 2.0 / per_entry


@dataclass(frozen=True, kw_only=True, eq=False)
class Updated:
    """One update of a schedule: its plan, what came of it, all reports, the inverse's residual."""

    update: UpdatePlan
    ran: Ran
    history: History
    residual: float


def run_schedule(
    world: World,
    *,
    updates: int | None = None,
    most: int | None = None,
    kind: str = "mixed",
    seed: int = 0,
) -> Iterator[Updated]:
    """Jump through updates of the public schedule, of `most` new reports each; all are certified.

    `history` is one object, which grows from update to update.
    """
    plan, rng = world.plan, np.random.default_rng(seed)
    history, learned, done = History(plan), world.begin(), 0
    while history.samples < plan.settings.horizon and done != updates:
        update = next_update(plan, learned.batch, most=most)
        unseen = update.terms.unseen
        sums = history.add(draw_reports(rng, plan, unseen, kind=kind))
        growth = world.encrypt_sum(sums, reports=unseen, rng=rng)
        ran = world.update(learned, growth, update)
        residual = assert_certified(world, ran, history, update)
        yield Updated(update=update, ran=ran, history=history, residual=residual)
        learned, done = ran.result, done + 1


def add_to(
    world: World, arrangement: Arrangement, index: Any, amount: float, *, scale: float | None = None
) -> Callable[[Stack], Stack]:
    """Return what changes one number of a stack by `amount`, keeping its public side."""
    number, place = divmod(int(arrangement.places[index]), arrangement.ring_dim)

    def change(stack: Stack) -> Stack:
        part = stack.parts[number]
        by = round(amount * (scale or part.scale))
        changed = world.ring.add_values(part, [by], places=[place])
        return Stack({**stack.parts, number: replace(changed, bound=part.bound)})

    return change
