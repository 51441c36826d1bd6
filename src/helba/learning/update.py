"""What the server computes on ciphertexts: sums, scores, tests and updates.

Generators stop where the opener is needed: they yield a `Reopen`, a `Compare` or an `EncryptPads`
and are sent the stacks, what the comparison gave, or the ciphertexts. Everything else needs public
keys only. See `update_plan` for the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from helba.errors import EngineError
from helba.garbling import Circuit, build_ranges_check
from helba.learning.exchange import Compare, EncryptPads, Exchange, Reopen, Stack, Target
from helba.learning.layout import Gram, MatrixProduct, OuterProduct, symmetrising_moves
from helba.learning.model_check import ModelCheck
from helba.learning.plan import (
    LOG2_INVERSE_SCALE,
    LOG2_REPORT,
    LOG2_TEST_SCALE,
    NOISE_FACTOR,
    Batch,
    SharesPlan,
    model_bound,
)
from helba.learning.update_plan import ROOM, UpdatePlan
from helba.ring import Ciphertext, Ring
from helba.ring.sharing.integer import Integers
from helba.ring.sharing.pad import SHARE_MODULUS

Steps = Generator[Reopen | Compare | EncryptPads, Any, Any]
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
        """What is opened and reopened: the sum of x x^T, without anything else."""
        plan, scale = self.plan, self.scale
        moves = symmetrising_moves(
            plan.statistic.context_places,
            target=plan.trace.left_places,
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
        terms = self.terms
        noise = self.plan.test_noise(unseen=terms.unseen, untested=terms.untested)
        return NOISE_FACTOR * noise

    @property
    def circuit(self) -> Circuit:
        """One bit: the trace is at least C."""
        plan = self.plan
        scale = self.scale * 2.0**LOG2_TEST_SCALE / plan.parameters.moduli[1]
        limit = plan.threshold * scale * 2.0**TEST_BITS / plan.parameters.moduli[0]
        return build_ranges_check(((round(limit), (1 << (TEST_BITS - 1)) - 1),), bits=TEST_BITS)


def begin_learning(ring: Ring, plan: SharesPlan) -> Learned:
    """Return the model before any report: X = I, w = 0, encrypted by the server itself."""
    batch, d = plan.first_batch, plan.settings.dim
    weights, one = plan.weigh(batch), np.eye(d, dtype=np.int64)
    ratio = plan.settings.length**2 / plan.settings.ridge
    per_entry = round(weights.gamma / 2.0 * ratio / plan.rounding.peak * weights.unit)
    places = plan.inner(1).model_places.places
    diagonal = np.flatnonzero(np.equal(*np.triu_indices(d)))
    entries = np.zeros(len(places), dtype=object)
    entries[d + diagonal] = per_entry * plan.grid.model_multiple
    bound = model_bound(plan.rounding, score_bits=plan.score_bits)
    bound = bound.scaled(plan.grid.model_multiple)
    model = ring.encrypt(
        entries,
        places=places,
        scale=float(plan.grid.model_multiple),
        peak=bound.peak,
        norm=bound.norm,
        primes=2,
    )
    inverse = 2.0**LOG2_INVERSE_SCALE

    def encrypt(arrangement: Any, scale: float) -> Stack:
        number, place = np.divmod(np.ravel(arrangement.places), arrangement.ring_dim)
        values = np.ravel(one).astype(object) * round(scale)
        norm = ROOM * scale * np.sqrt(d)
        return Stack(
            {
                int(k): ring.encrypt(
                    values[number == k],
                    places=place[number == k],
                    scale=scale,
                    peak=ROOM * scale,
                    norm=norm,
                )
                for k in arrangement.occupied
            }
        )

    layout = plan.matrix
    test = encrypt(plan.trace.right_places, 2.0**LOG2_TEST_SCALE).only
    return Learned(
        batch=batch,
        model=model,
        test=ring.drop(test, primes=2),
        rows=encrypt(layout.row_places[:d], inverse),
        columns=encrypt(layout.column_places, inverse),
        design=encrypt(layout.row_places[:d], plan.design_scale),
        response=None,
    )


# -- sums


def encrypt_report(ring: Ring, plan: SharesPlan, report: Sequence[int]) -> Ciphertext:
    """Return a report as its user encrypts it: d + 1 integers at the places of an outer product."""
    statistic = plan.statistic
    assert isinstance(statistic, OuterProduct)
    peak = 2.0**LOG2_REPORT
    return ring.encrypt(
        np.array([int(each) * plan.report_multiple for each in report], dtype=object),
        places=statistic.report_places.places,
        scale=peak,
        peak=peak,
        norm=peak * np.sqrt(2.0) * (1.0 + plan.rounding.slack),
    )


def fold_report(ring: Ring, plan: SharesPlan, report: Ciphertext) -> Ciphertext:
    """Return x x^T, r x and r^2 of one encrypted report, at two primes."""
    made = ring.product(report, ring.automorphism(report), terms=1)
    return made.with_scale(plan.sum_scale)


def run_fold(ring: Ring, plan: SharesPlan, *, reports: Integers, boxes: tuple[bytes, ...]) -> Steps:
    """Return the sums of reports that came as shares, or None if one of them is out of range.

    `reports` has the server's shares, of shape (reports, d + 1).
    """
    gram, count = plan.statistic, len(reports)
    assert isinstance(gram, Gram)
    pads, _ = yield EncryptPads(boxes=boxes)
    shares = (-reports.reshape(1, -1)) % SHARE_MODULUS
    in_range: bool = yield Compare(values=(), shares=(shares,))
    if not in_range:
        return None
    peak, flat = float(plan.rounding.peak), reports.reshape(-1)
    made = ring.run_all(
        [
            partial(
                ring.add_shares,
                pad,
                flat,
                places=arrangement.places[:count].reshape(-1),
                multiple=plan.report_multiple,
                peak=peak,
            )
            for pad, arrangement in zip(pads, (gram.left_places, gram.right_places), strict=True)
        ]
    )
    norm = 2.0**LOG2_REPORT * float(np.sqrt(2.0 * count)) * 1.01
    left, right = (each.within(norm=norm) for each in made)
    total = ring.product(left, right, terms=count, independent=True)
    return total.with_scale(plan.sum_scale)


# -- scores


def run_score(
    ring: Ring, plan: SharesPlan, *, features: Sequence[Ciphertext], model: Ciphertext
) -> Steps:
    """Return what the comparison of the scores gives, for features that a user encrypted."""
    result = yield Compare(values=_score(ring, plan, features, model=model))
    return result


def run_shared_scores(
    ring: Ring,
    plan: SharesPlan,
    *,
    asks: Integers,
    boxes: tuple[bytes, ...],
    groups: Sequence[tuple[Any, Any]],
    checked: Callable[[bytes], tuple[Any, ...]],
    model: Ciphertext,
) -> Steps:
    """Return what the comparison of scores gives, for asks that came as shares, side by side.

    `asks` has the server's shares, of shape (lanes, numbers); `groups` are places and numbers of
    each polynomial, `checked` makes the server's shares of what the circuit checks from the
    opener's seed of signs.
    """
    pads, signs = yield EncryptPads(boxes=boxes)
    flat, peak = asks.reshape(-1), float(plan.rounding.peak)
    features = ring.run_all(
        [
            partial(
                ring.add_shares,
                pad,
                flat[index],
                places=places,
                multiple=plan.grid.feature_multiple,
                peak=peak,
            )
            for pad, (places, index) in zip(pads, groups, strict=True)
        ]
    )
    result = yield Compare(values=_score(ring, plan, features, model=model), shares=checked(signs))
    return result


def _score(
    ring: Ring, plan: SharesPlan, features: Sequence[Ciphertext], *, model: Ciphertext
) -> tuple[Ciphertext, ...]:
    """The products with the model: scores, at one prime, within the grid's range."""
    grid = plan.grid
    unit = grid.feature_multiple * grid.model_multiple / ring.parameters.moduli[1]
    peak = 2.0**plan.score_bits * unit * 1.01
    product = partial(ring.product, peak=peak, independent=True)
    return tuple(ring.run_all([partial(product, each, model) for each in features]))


# -- the update test


def run_test(ring: Ring, test: TestPlan, *, learned: Learned, growth: Ciphertext) -> Steps:
    """Return True if the trace of A (V - V_j) is at least C, up to the test's resolution."""
    (opened,) = yield Reopen(step="test", stacks=(Stack.single(growth),))
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
    more, response = yield Reopen(step="design", stacks=(Stack.single(growth),))
    design = _add(ring, learned.design, more)
    peak = plan.condition(update.terms.samples) * plan.design_scale * ROOM
    design = _bounded(design, peak=peak, norm=peak * float(np.sqrt(d)), count=d * d)
    if learned.response is not None:
        response = _add(ring, learned.response, response)

    product = _multiply(ring, layout, design, learned.columns, only=d)
    columns, *below = yield Reopen(step="product", stacks=(product,))
    stack = _raw(learned.rows)
    if below:
        stack = _add(ring, stack, _raw(below[0]))
    for number in range(1, update.steps + 1):
        two = _two_minus(ring, update, columns)
        last = number == update.steps
        product = _multiply(ring, layout, stack, two, only=d if last else 2 * d)
        if not last:
            columns, stack = yield Reopen(step=f"newton {number}", stacks=(product,))
    rows, columns, test, inverse_part = yield Reopen(step="inverse", stacks=(product,))

    first = _multiply(ring, layout, rows, response, only=d)
    response = Stack({k: ring.drop(part, primes=2) for k, part in response.parts.items()})
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
        _add_identity(ring, update, each, arrangement)
        for each, arrangement in (
            (left, plan.trace.left_places),
            (right, plan.trace.right_places),
        )
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
    bound = model_bound(plan.rounding, score_bits=plan.score_bits)
    bound = bound.scaled(plan.grid.model_multiple)
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
    products = [
        ring.product(
            ring.drop(first.parts[k], primes=2),
            ring.drop(second.parts[k], primes=2),
            peak=CHECK_PEAK,
        )
        for k in first.parts
    ]
    return ring.sum(products)


def _multiply(
    ring: Ring, layout: MatrixProduct, rows: Stack, columns: Stack, *, only: int
) -> Stack:
    """The product of two matrices; `only` the first rows of the result are wanted."""
    wanted = layout.result_places[:only].occupied
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


def _raw(stack: Stack) -> Stack:
    """The same integers at scale 1, so that parts of several scales share a polynomial."""
    return Stack({k: part.with_scale(1.0) for k, part in stack.parts.items()})


def _bounded(stack: Stack, *, peak: float, count: int, norm: float | None = None) -> Stack:
    """The same, with a bound that the plan vouches for."""
    return Stack(
        {k: part.within(peak=peak, norm=norm, count=count) for k, part in stack.parts.items()}
    )


def _two_minus(ring: Ring, update: UpdatePlan, columns: Stack) -> Stack:
    """2 - M by columns."""
    places = update.layout.column_places.places.diagonal()
    return _add_diagonal(
        ring,
        Stack({k: ring.negate(part) for k, part in columns.parts.items()}),
        places=places,
        value=round(2.0 * update.residue_scale),
    )


def _add_identity(ring: Ring, update: UpdatePlan, stack: Stack, arrangement: Any) -> Stack:
    """I plus what stands there, bounded as a small matrix is."""
    places, value = arrangement.places.diagonal(), round(update.check_scale)
    made = _add_diagonal(ring, stack, places=places, value=value)
    size = update.reach * max(update.residual, 2.0**-10) * update.check_scale
    return _bounded(made, peak=size, count=update.dim**2)


def _add_diagonal(ring: Ring, stack: Stack, *, places: Any, value: int) -> Stack:
    number, place = np.divmod(np.ravel(places), ring.parameters.ring_dim)
    parts = dict(stack.parts)
    for k in np.unique(number):
        here = place[number == k]
        parts[int(k)] = ring.add_values(parts[int(k)], [value] * len(here), places=here)
    return Stack(parts)
