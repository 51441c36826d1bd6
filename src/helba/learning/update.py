"""The server's computations on ciphertexts when it learns: tests and updates.

Generators stop where the opener is needed: they yield a `Reopen`, a `Compare` or an `EncryptPads`
and are sent the stacks, what the comparison gave, or the ciphertexts. Everything else needs public
keys only. See `update_plan` for the steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from helba.errors import EngineError
from helba.garbling import Circuit, build_ranges_check
from helba.learning.exchange import Compare, Exchange, Reopen, Stack, Steps, Target
from helba.learning.layout import Arrangement, MatrixProduct, symmetrising_moves
from helba.learning.model_check import ModelCheck
from helba.learning.plan import INVERSE_SCALE, NOISE_FACTOR, TEST_SCALE, Batch, SharesPlan
from helba.learning.update_certificate import ROOM
from helba.learning.update_plan import UpdatePlan
from helba.ring import Ciphertext, Ring

TEST_BITS = 50
CHECK_PEAK = 2.0**50  # of a checked value, or it wraps and is found by its range


@dataclass(frozen=True, kw_only=True, eq=False)
class Learned:
    """An adopted model with all that the next update begins from; under the ring's key.

    `model` has two primes and makes scores; `test` has two and makes traces. The others have three:
    `rows` and `columns` are X = lambda A, `design` is V/lambda by rows, `response` is g as a
    column.
    """

    batch: Batch
    model: Ciphertext
    test: Ciphertext
    rows: Stack
    columns: Stack
    design: Stack
    response: Stack | None


@dataclass(frozen=True, kw_only=True)
class TestTerms:
    """The public counts of an update test: reports beyond the model, and those new to tests."""

    batch: int
    unseen: int
    untested: int


class TestPlan:
    """An update test as far as it is public: the growth of V is reopened, the trace compared."""

    __test__ = False  # for pytest

    def __init__(self, plan: SharesPlan, terms: TestTerms) -> None:
        self.plan = plan
        self.terms = terms
        self.scale = plan.test_scale(terms.untested)

    @cached_property
    def exchange(self) -> Exchange:
        """The sum of x x^T, which is opened and reopened without anything else."""
        plan, scale, d = self.plan, self.scale, self.plan.settings.dim
        moves = symmetrising_moves(
            plan.sum_places[:d, :d],
            target=plan.trace_left,
            factor=scale / plan.context_scale,
        )
        terms = self.terms
        growth = Target(
            name="growth", moves=moves, scale=scale, peak=ROOM * terms.unseen * plan.ratio * scale
        )
        peak = ROOM * terms.unseen * plan.sum_scale
        return Exchange(ring_dim=plan.parameters.ring_dim, targets=(growth,), peak=peak)

    @property
    def deviation(self) -> float:
        """The opener's noise on the trace."""
        unseen, untested = self.terms.unseen, self.terms.untested
        return NOISE_FACTOR * self.plan.test_noise(unseen=unseen, untested=untested)

    @property
    def circuit(self) -> Circuit:
        """One bit: the trace is at least C."""
        plan = self.plan
        scale = self.scale * TEST_SCALE / plan.parameters.moduli[1]
        limit = plan.settings.trace_threshold * scale * 2.0**TEST_BITS / plan.parameters.moduli[0]
        return build_ranges_check(((round(limit), (1 << (TEST_BITS - 1)) - 1),), bits=TEST_BITS)


def begin_learning(ring: Ring, plan: SharesPlan) -> Learned:
    """Return the model before any report: X = I, w = 0, encrypted by the server itself."""
    batch, d = plan.first_batch, plan.settings.dim
    per_entry, one = round(plan.inverse_units(plan.weigh(batch))), np.eye(d, dtype=np.int64)
    places = plan.inner(1).model_places.places
    diagonal = np.flatnonzero(np.equal(*np.triu_indices(d)))
    entries = np.zeros(len(places), dtype=object)
    entries[d + diagonal] = per_entry * plan.grid.model_multiple
    bound = plan.model_bound
    model = ring.encrypt(
        entries,
        places=places,
        scale=float(plan.grid.model_multiple),
        peak=bound.peak,
        norm=bound.norm,
        primes=2,
    )

    def encrypt(arrangement: Arrangement, scale: float) -> Stack:
        values = np.ravel(one).astype(object) * round(scale)
        norm = ROOM * scale * np.sqrt(d)
        return Stack(
            {
                k: ring.encrypt(
                    values[index], places=places, scale=scale, peak=ROOM * scale, norm=norm
                )
                for k, (places, index) in arrangement.parts.items()
            }
        )

    layout = plan.matrix
    test = encrypt(plan.trace_right, TEST_SCALE).only
    return Learned(
        batch=batch,
        model=model,
        test=ring.drop(test, primes=2),
        rows=encrypt(layout.row_places[:d], INVERSE_SCALE),
        columns=encrypt(layout.column_places, INVERSE_SCALE),
        design=encrypt(layout.row_places[:d], plan.design_scale),
        response=None,
    )


# -- the update test


def run_test(ring: Ring, test: TestPlan, *, learned: Learned, growth: Ciphertext) -> Steps:
    """Return True if the trace of A (V - V_j) is at least C, up to the test's resolution."""
    (opened,) = yield Reopen(step="test", stacks=(Stack({0: growth}),))
    terms, plan = test.terms, test.plan
    left = ring.drop(opened.only, primes=2).within(peak=terms.unseen * plan.ratio * test.scale)
    trace = ring.product(left, learned.test, peak=2.0**52)  # see `SharesPlan.test_scale`
    reached: bool = yield Compare(values=(trace,))
    return reached


# -- the update


def run_update(ring: Ring, update: UpdatePlan, *, learned: Learned, growth: Ciphertext) -> Steps:
    """Return the new `Learned`, or None if the check rejects it.

    `growth` is the sum of the reports that the old model does not know.
    """
    plan, layout, d = update.plan, update.layout, update.dim
    if update.terms.cold:
        start = begin_learning(ring, plan)
        learned = replace(learned, rows=start.rows, columns=start.columns)
    more, response = yield Reopen(step="design", stacks=(Stack({0: growth}),))
    design = _add(ring, learned.design, more)
    peak = update.condition * plan.design_scale * ROOM
    design = _bounded(design, peak=peak, norm=peak * float(np.sqrt(d)), count=d * d)
    if learned.response is not None:
        response = _add(ring, learned.response, response)

    product = _multiply(ring, layout, design, learned.columns, only=d)
    columns, *below = yield Reopen(step="product", stacks=(product,))
    # Integers at scale 1, so that parts of several scales share a polynomial.
    unscaled = partial(Ciphertext.with_scale, scale=1.0)
    stack = learned.rows.each(unscaled)
    if below:
        stack = _add(ring, stack, below[0].each(unscaled))
    for number in range(1, update.steps + 1):
        two = columns.each(ring.negate)
        two = _add_diagonal(ring, two, layout.column_places, value=2.0 * update.residue_scale)
        last = number == update.steps
        product = _multiply(ring, layout, stack, two, only=d if last else 2 * d)
        if not last:
            columns, stack = yield Reopen(step=f"newton {number}", stacks=(product,))
    rows, columns, test, inverse_part = yield Reopen(step="inverse", stacks=(product,))

    first = _multiply(ring, layout, rows, response, only=d)
    response = response.each(partial(ring.drop, primes=2))
    column, again, response, across = yield Reopen(step="estimate", stacks=(first, response))
    response = _bounded(response, peak=update.terms.samples * plan.response_scale * ROOM, count=d)
    opened = ring.run_all(
        [partial(_multiply, ring, layout, design, each, only=d) for each in (column, columns)]
    )
    rest, mirrored_rest, left, right = yield Reopen(step="residual", stacks=tuple(opened))
    rest, mirrored_rest = (
        _bounded(_add(ring, one, other), peak=update.residual_peak * scale, count=d)
        for one, other, scale in (
            (response, rest, plan.response_scale),
            (across, mirrored_rest, update.rest_scale),
        )
    )
    left, right = (
        _bounded(
            _add_diagonal(ring, each, arrangement, value=update.check_scale),
            peak=update.reach * max(update.residual, 2.0**-10) * update.check_scale,
            count=d * d,
        )
        for each, arrangement in ((left, plan.trace_left), (right, plan.trace_right))
    )
    refinement = _multiply(ring, layout, rows, rest, only=d)
    refined = Stack(
        {
            k: ring.sum(
                [part.with_scale(update.estimate_scale), ring.drop(again.parts[k], primes=2)]
            )
            for k, part in refinement.parts.items()
        }
    )
    estimate_part, norm, mirrored, refined_by = yield Reopen(
        step="model", stacks=(refined, refinement)
    )
    passed = yield from _check(
        ring,
        update,
        rest=(left, right),
        refinement=(mirrored_rest, refined_by),
        norm=(norm, mirrored),
        copies=(rows, columns, test, inverse_part),
    )
    if not passed:
        return None
    model = ring.sum([estimate_part.only, inverse_part.only], independent=True)
    bound = plan.model_bound
    return Learned(
        batch=update.after,
        model=ring.drop(model.within(peak=bound.peak, norm=bound.norm), primes=2),
        test=ring.drop(test.only, primes=2),
        rows=rows,
        columns=columns,
        design=design,
        response=response,
    )


def _check(
    ring: Ring,
    update: UpdatePlan,
    *,
    rest: tuple[Stack, Stack],
    refinement: tuple[Stack, Stack],
    norm: tuple[Stack, Stack],
    copies: tuple[Stack, ...],
) -> Steps:
    check = ModelCheck(update)
    pairs = (rest, refinement, norm)
    d = update.dim
    bits = np.frombuffer(ring.draw(d * d), dtype=np.uint8) & 1
    drawn = (2 * bits.astype(np.int64) - 1).reshape(d, d)
    signs = np.triu(drawn) + np.triu(drawn, 1).T

    def sum_signed(held: Ciphertext, places: Any, integers: Any, peak: float) -> Ciphertext:
        drawn_signs = ring.encrypt(integers, places=places, scale=1.0, peak=peak, primes=2)
        held = ring.drop(held, primes=2).with_scale(1.0)
        return ring.product(held, drawn_signs, peak=CHECK_PEAK)

    summed = [
        partial(sum_signed, stack.parts[k], places, integers, float(copy.multiple))
        for copy, stack in zip(check.copies, copies, strict=True)
        for k, (places, integers) in copy.mirrored_signs(signs).items()
    ]
    made = ring.run_all([*summed, *(partial(_last_product, ring, *pair) for pair in pairs)])
    opened = [*made[len(summed) :], ring.sum(made[: len(summed)])]
    values: list[Ciphertext] = []
    for ciphertext, value in zip(opened, check.values, strict=True):
        if ciphertext.noise > value.noise:
            raise EngineError(
                f"checked value {len(values)} has noise {ciphertext.noise:.3g}, "
                f"the plan has {value.noise:.3g}"
            )
        values.append(replace(ciphertext, scale=value.scale))
    passed: bool = yield Compare(values=tuple(values))
    return passed


def _last_product(ring: Ring, first: Stack, second: Stack) -> Ciphertext:
    """The sum of the products of two stacks' polynomials, at two primes."""
    first, second = (stack.each(partial(ring.drop, primes=2)) for stack in (first, second))
    products = [ring.product(first.parts[k], second.parts[k], peak=CHECK_PEAK) for k in first.parts]
    return ring.sum(products)


def _multiply(
    ring: Ring, layout: MatrixProduct, rows: Stack, columns: Stack, *, only: int
) -> Stack:
    """The product of two matrices; `only` the first rows of the result are wanted."""
    wanted = layout.result_places[:only].parts
    results = {}
    for number in wanted:
        pairs = [(i, j) for i, j in layout.terms[number] if i in rows.parts and j in columns.parts]
        if pairs:
            products = [
                partial(ring.product, rows.parts[i], columns.parts[j], terms=layout.block[1])
                for i, j in pairs
            ]
            results[number] = ring.sum(ring.run_all(products))
    return Stack(results)


def _add(ring: Ring, first: Stack, second: Stack) -> Stack:
    """The sum of two stacks, of which one may lack polynomials of the other."""
    total = dict(first.parts)
    for k, part in second.parts.items():
        total[k] = ring.sum([total[k], part], independent=True) if k in total else part
    return Stack(total)


def _bounded(stack: Stack, *, peak: float, count: int, norm: float | None = None) -> Stack:
    """The same, with a bound that the plan vouches for."""
    return stack.each(partial(Ciphertext.within, peak=peak, norm=norm, count=count))


def _add_diagonal(ring: Ring, stack: Stack, arrangement: Arrangement, *, value: float) -> Stack:
    """Add a multiple of I to a matrix."""
    parts, diagonal = dict(stack.parts), np.arange(arrangement.shape[0])
    for k, (places, _) in arrangement[diagonal, diagonal].parts.items():
        parts[k] = ring.add_values(parts[k], [round(value)] * len(places), places=places)
    return Stack(parts)
