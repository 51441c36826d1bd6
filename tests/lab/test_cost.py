"""What a plan costs: counts are what really happens, bytes those of real messages."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from helba.garbling import (
    EvaluatorSession,
    GarblerSession,
    SetupAnswer,
    SetupOffer,
    build_ranges_check,
)
from helba.lab.plan import cost
from helba.lab.plan.cost import Counts, Timing
from helba.learning.model_check import ModelCheck
from helba.learning.plan import OPENERS
from helba.learning.round import encrypt_report
from helba.learning.update_certificate import UpdateTerms
from helba.learning.update_plan import UpdatePlan
from helba.ring.wire import dump_ciphertext, dump_opening
from tests.learning.driving import (
    History,
    World,
    draw_reports,
    make_plan,
    make_settings,
    make_world,
)

COUNTED = ("encrypt", "encrypt_zero", "product", "automorphism", "split")


@pytest.fixture
def operations(monkeypatch):
    """Counts what a backend is asked to do, by the name of the operation."""
    found: Counter[str] = Counter()

    def count(backend):
        for name in COUNTED:
            monkeypatch.setattr(backend, name, counting(name, getattr(backend, name)))
        return found

    def counting(name, operation):
        def counted(*arguments, **named):
            found[name] += 1
            return operation(*arguments, **named)

        return counted

    return count


def prepare(world, *, reports):
    """An update of so many reports, ready to run."""
    plan, rng = world.plan, np.random.default_rng(0)
    sums = History(plan).add(draw_reports(rng, plan, reports))
    terms = UpdateTerms(before=plan.first_batch, samples=reports, untested=reports)
    return UpdatePlan(plan, terms), world.begin(), world.encrypt_sum(sums, reports=reports)


# -- counts


@pytest.mark.parametrize(("dim", "reports"), [(2, 1), (2, 40), (8, 3), (17, 3), (32, 2)])
def test_counts_of_an_update_are_what_happens(dim, reports, operations, monkeypatch):
    monkeypatch.setattr(World, "measure", lambda *_: 0.0)  # it decrypts
    world = make_world(make_settings(dim, growth=1.0))
    update, learned, growth = prepare(world, reports=reports)
    found = operations(world.ring.public_key.backend)
    ran = world.update(learned, growth, update)
    assert ran.result is not None
    counts = cost.count_update(update)
    assert counts.products == found["product"]
    assert counts.openings == found["split"]
    assert counts.encryptions == found["encrypt"] + found["encrypt_zero"]
    assert counts.automorphisms == found["automorphism"] == 0
    assert list(ran.steps) == cost.count_update_exchanges(update)
    circuit = ModelCheck(update).circuit
    assert (counts.gates, counts.levels) == (circuit.and_gates, circuit.depth)


def test_counts_grow_by_one_product_of_matrices_a_step():
    plan = make_plan(make_settings(8, arms=8))
    few, many = (
        UpdatePlan(plan, UpdateTerms(before=plan.first_batch, samples=n, untested=n))
        for n in (1, 1000)
    )
    assert many.steps > few.steps
    more = cost.count_update(many).products - cost.count_update(few).products
    assert more == (many.steps - few.steps) * plan.matrix.products


@pytest.mark.parametrize("opener", OPENERS)
def test_typical_update_is_near_the_horizon(opener):
    plan = make_plan(make_settings(8, arms=8, schedule="trace"), opener=opener)
    update = cost.typical_update(plan)
    assert update.terms.samples == 10_000
    assert update.terms.unseen == 1
    assert update.residual < 0.01
    shortest = make_plan(make_settings(8, arms=8, horizon=1), opener=opener)
    assert cost.typical_update(shortest).terms.samples == 2


# -- bytes


@pytest.mark.ckks
@pytest.mark.parametrize(("dim", "arms", "polynomials"), [(2, 4, 1), (8, 16, 2), (8, 23, 3)])
def test_bytes_of_ciphertexts_are_those_of_real_ones(dim, arms, polynomials):
    """Of a report, an ask and the openings of its scores, in as many polynomials as they take."""
    world = make_world(make_settings(dim, arms=arms), backend="openfhe", log2_ring_dim=9)
    plan, ring = world.plan, world.ring
    backend = ring.public_key.backend
    report = encrypt_report(ring, plan, draw_reports(np.random.default_rng(0), plan, 1)[0])
    assert len(dump_ciphertext(report, backend=backend)) == cost.report_bytes(plan)
    peak = float(plan.rounding.peak)
    number, place = np.divmod(np.ravel(plan.inner(1).score_places.places), ring.parameters.ring_dim)
    sent = opened = 0
    for polynomial in range(polynomials):
        ask = ring.encrypt([1], places=[0], scale=1.0, peak=peak, primes=2)
        sent += len(dump_ciphertext(ask, backend=backend))
        score = ring.product(ask, world.begin().model)
        opening, _ = ring.open(score, places=place[number == polynomial], to=world.to)
        opened += len(dump_opening(opening, backend=backend))
    assert set(number.tolist()) == set(range(polynomials))
    assert sent == cost.ask_bytes(plan)
    assert opened == cost.score_opening_bytes(plan)


@pytest.mark.parametrize("lanes", [1, 3])
def test_bytes_of_a_garbled_circuit_are_those_of_its_messages(lanes):
    circuit = build_ranges_check(((0, 9),), bits=16)
    garbler, evaluator = GarblerSession(), EvaluatorSession()
    offer = SetupOffer.from_bytes(garbler.offer().to_bytes())
    garbler.complete(SetupAnswer.from_bytes(evaluator.answer(offer).to_bytes()))
    shares = np.ones((lanes, 1), dtype=np.uint64)
    transfer = evaluator.begin(circuit, shares=shares)
    garbled = garbler.garble(circuit, shares=shares, transfer=transfer)
    returned = evaluator.evaluate(garbled.tables).returned
    to_garbler, to_evaluator = cost.garbled_bytes(circuit, lanes=lanes)
    assert to_garbler == len(transfer.to_bytes()) + len(returned.to_bytes())
    assert to_evaluator == len(garbled.tables.to_bytes())


# -- seconds


def test_prediction_is_counts_times_seconds_and_grows_with_the_ring():
    seconds = {kind: 10.0**-number for number, kind in enumerate(cost.KINDS)}
    timing = Timing(seconds=seconds, note="")
    parameters = make_plan(make_settings(2, arms=2)).parameters
    assert parameters.ring_dim == cost.SHIPPED_RING_DIM
    counts = Counts(encryptions=2, products=3, automorphisms=4, openings=5, gates=6, levels=7)
    ring = 2 * 1.0 + 3 * 0.1 + 4 * 0.01 + 5 * (1e-3 + 1e-4)
    gates = 6 * 1e-5 + 7 * 1e-6
    assert timing.predict(counts, parameters=parameters) == pytest.approx(ring + gates)
    larger = make_plan(make_settings(2, arms=2), security=192).parameters
    assert timing.predict(counts, parameters=larger) == pytest.approx(2 * ring + gates)
    assert timing.predict(Counts(), parameters=parameters) == 0.0
