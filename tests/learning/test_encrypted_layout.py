"""The layouts on ciphertexts at full security: a fold of reports, an update, a test by trace.

These are the circuits of the second design in their shortest form. Scales follow public bounds by
real factors at every reopening, down to lambda = 1/30.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from helba.garbling import EvaluatorSession, GarblerSession, build_ranges_check
from helba.learning.layout import (
    Arrangement,
    MatrixProduct,
    OuterProduct,
    symmetrising_moves,
)
from helba.ring import Move, Rearrangement
from helba.ring.sharing.pad import draw_seed, expand_pad, split, sum_signed
from tests.ring.parties import make_parties

pytestmark = pytest.mark.ckks


def places_of(arrangement):
    assert arrangement.polynomials == 1
    return arrangement.places


def integers(values, scale):
    exact = [round(Fraction(float(each)) * Fraction(scale)) for each in np.ravel(values)]
    return np.array(exact, dtype=object)


def encrypt(parties, values, arrangement, *, scale, peak):
    return parties.ring.encrypt(
        integers(values, scale), places=places_of(arrangement), scale=scale, peak=scale * peak
    )


def read(parties, ciphertext, arrangement):
    found = parties.read(ciphertext, places_of(arrangement))
    numbers = np.array([float(each) / ciphertext.scale for each in found])
    return numbers.reshape(arrangement.shape)


def rearranged(*moves, scale):
    return Rearrangement(moves, scale=scale)


def draw_reports(rng, *, count, dim, bits=12):
    contexts = rng.normal(size=(count, dim))
    contexts *= rng.uniform(0.5, 1, (count, 1)) / np.linalg.norm(contexts, axis=1, keepdims=True)
    rewards = np.clip(contexts @ np.ones(dim) / np.sqrt(dim), -1, 1)
    return np.rint(np.column_stack([contexts, rewards]) * 2**bits) / 2**bits


def fold(parties, reports):
    """The sums of all reports by one product."""
    count, dim = reports.shape[0], reports.shape[1] - 1
    gram = MatrixProduct.gram(dim, reports=count, ring_dim=parties.parameters.ring_dim)
    scale = 2.0**47
    sums = parties.ring.product(
        encrypt(parties, reports.T, gram.row_places, scale=scale, peak=1.0),
        encrypt(parties, reports, gram.column_places, scale=scale, peak=1.0),
        terms=count,
    )
    return gram, sums


@pytest.mark.parametrize(("dim", "count"), [(2, 900), (8, 101), (16, 28)])
def test_fold_holds_the_sums_of_all_reports_within_its_error(dim, count):
    parties = make_parties("openfhe", 13)
    reports = draw_reports(np.random.default_rng(dim), count=count, dim=dim)
    gram, sums = fold(parties, reports)
    found = read(parties, sums, gram.result_places)
    assert np.abs(found - reports.T @ reports).max() <= sums.error_bound / sums.scale
    assert sums.error_bound / sums.scale < 1e-6


def test_outer_product_of_one_report_is_its_statistic():
    parties = make_parties("openfhe", 13)
    layout = OuterProduct(ring_dim=parties.parameters.ring_dim, dim=8)
    assert layout.step == 9
    report = draw_reports(np.random.default_rng(1), count=1, dim=8)[0]
    made = encrypt(parties, report, layout.report_places, scale=2.0**47, peak=1.0)
    statistic = parties.ring.product(made, parties.ring.automorphism(made), terms=1)
    found = read(parties, statistic, layout.sum_places)
    assert (
        np.abs(found - np.outer(report, report)).max()
        <= statistic.error_bound / statistic.scale
        < 1e-8
    )


def test_trace_stands_in_the_last_coefficient():
    parties = make_parties("openfhe", 13)
    reports = draw_reports(np.random.default_rng(2), count=20, dim=8)
    gram, sums = fold(parties, reports)
    A = np.random.default_rng(3).normal(size=(8, 8))
    A = (A + A.T) / 2
    tested_places = gram.result_places[:8, :8].transposed.mirrored
    tester = encrypt(parties, A, tested_places, scale=2.0**40, peak=4.0)
    tested = parties.ring.product(sums, tester, terms=64)
    assert tested.primes == 1
    last = Arrangement(np.array(8191), ring_dim=8192)
    found = read(parties, tested, last)
    exact = np.trace(A @ (reports[:, :8].T @ reports[:, :8]))
    assert abs(float(found) - exact) <= tested.error_bound / tested.scale < 1e-3


@pytest.mark.parametrize(("dim", "ridge"), [(2, 1.0), (8, 1.0), (8, 1 / 30), (16, 1 / 30)])
def test_update_by_products_and_reopenings_inverts_the_design(dim, ridge):
    """Scaled Newton from a cold start: [X; M] <- [X; M] (2 - M), one product and reopening each."""
    parties = make_parties("openfhe", 13)
    ring, degree = parties.ring, parties.parameters.ring_dim
    count = min(100, degree // (dim + 1) ** 2)
    reports = draw_reports(np.random.default_rng(dim), count=count, dim=dim)
    gram, sums = fold(parties, reports)
    design = ridge * np.eye(dim) + reports[:, :dim].T @ reports[:, :dim]
    layout = MatrixProduct.fitting((2 * dim, dim, dim), ring_dim=degree)
    top, bottom = layout.result_places[:dim], layout.result_places[dim:]
    one, inverse = 2.0**48, 2.0**57  # the scales of M and of X, in units of 1 and of 1/ridge
    diagonal = np.arange(dim)
    row_diagonal = places_of(layout.row_places)[diagonal, diagonal]
    column_diagonal = places_of(layout.column_places)[diagonal, diagonal]

    largest = 1 + count / ridge  # public: eigenvalues of V/ridge lie in [1, largest]
    step, radius = 2 / (1 + largest), (largest - 1) / (largest + 1)
    stretch = one * step / ridge / sums.scale
    to_rows, to_columns = (
        rearranged(
            Move(gram.result_places[:dim, :dim].places, target.places, factor=stretch), scale=one
        )
        for target in (layout.row_places[dim:], layout.column_places)
    )
    below, columns = parties.reopen(sums, [to_rows, to_columns], renew=True)  # M = step V/ridge
    scaled_one = round(one * step)
    below = ring.add_values(
        below, [scaled_one] * dim, places=places_of(layout.row_places)[dim + diagonal, diagonal]
    ).within(peak=2 * one)
    columns = ring.add_values(columns, [scaled_one] * dim, places=column_diagonal)
    stack = ring.add_values(below, [round(step * inverse)] * dim, places=row_diagonal)
    steps = 0
    while True:
        two = ring.add_values(ring.negate(columns), [round(2 * one)] * dim, places=column_diagonal)
        product = ring.product(stack.with_scale(1.0), two.within(peak=2 * one), terms=dim)
        growth = 2 / (2 - radius**2)
        radius, steps = radius**2 / (2 - radius**2), steps + 1
        factor = growth / product.scale
        new_top = symmetrising_moves(top, target=layout.row_places[:dim], factor=factor)
        if radius <= 0.02:
            break
        new_bottom, new_columns = (
            Move(bottom.places, target.places, factor=factor)
            for target in (layout.row_places[dim:], layout.column_places)
        )
        product = product.within(peak=4 * inverse * product.scale)
        reopened = parties.reopen(
            product,
            [rearranged(*new_top, new_bottom, scale=1.0), rearranged(new_columns, scale=one)],
            renew=True,
        )
        stack = reopened[0].within(peak=2 * inverse)
        columns = reopened[1].within(peak=2 * one)
    product = product.within(peak=4 * inverse * product.scale)
    (last,) = parties.reopen(product, [rearranged(*new_top, scale=inverse)])
    found = read(parties, last, layout.row_places[:dim]) / ridge
    root = np.linalg.cholesky(design)
    off = np.linalg.norm(root.T @ found @ root - np.eye(dim), 2)
    assert off <= radius + 1e-3
    assert np.abs(found - found.T).max() * ridge <= 2 * last.error_bound / last.scale
    assert steps <= 8
    assert last.failure < 2.0**-25


@pytest.mark.parametrize("dim", [20, 32])
def test_product_in_blocks_is_the_matrix_product(dim):
    """(2d x d)(d x d) over several polynomials: products of blocks, summed where they meet."""
    parties = make_parties("openfhe", 13)
    degree, rng = parties.parameters.ring_dim, np.random.default_rng(dim)
    layout = MatrixProduct.fitting((2 * dim, dim, dim), ring_dim=degree)
    assert layout.products > 1
    left, right = rng.uniform(-1, 1, (2 * dim, dim)), rng.uniform(-1, 1, (dim, dim))

    def encrypt_stack(values, arrangement):
        polynomials, coefficients = np.divmod(arrangement.places.reshape(-1), degree)
        exact = integers(values, 2.0**46)
        return [
            parties.ring.encrypt(
                exact[polynomials == number],
                places=coefficients[polynomials == number],
                scale=2.0**46,
                peak=2.0**46,
            )
            for number in range(arrangement.polynomials)
        ]

    rows = encrypt_stack(left, layout.row_places)
    columns = encrypt_stack(right, layout.column_places)
    results = [
        parties.ring.sum([parties.ring.product(rows[i], columns[j], terms=dim) for i, j in pairs])
        for pairs in layout.terms
    ]
    polynomials, coefficients = np.divmod(layout.result_places.places, degree)
    found = np.empty((2 * dim, dim))
    for number, result in enumerate(results):
        here = polynomials == number
        read_ = parties.read(result, coefficients[here])
        found[here] = [float(each) / result.scale for each in read_]
    assert np.abs(found - left @ right).max() <= results[0].error_bound / results[0].scale < 1e-7


def test_ask_out_of_range_is_found_on_its_shares_and_others_are_not():
    """128 sums of a polynomial's inputs with random signs, modulo 2^96, in one circuit."""
    rng = np.random.default_rng(4)
    bits, count, sums = 12, 8190, 128
    limit = int(2.0**bits * 9 * np.sqrt(count))  # Hoeffding: past it with probability 2^-57
    circuit = build_ranges_check(((-limit, limit),) * sums, bits=96)
    garbler, evaluator = GarblerSession(), EvaluatorSession()
    garbler.complete(evaluator.answer(garbler.offer()))

    def is_in_range(values):
        seed = draw_seed()
        share = split(values, seed=seed, context=b"ask")  # the server's
        pad = expand_pad(seed, count=count, context=b"ask")  # the opener's
        signs = rng.choice(np.array([-1, 1], dtype=np.int8), (sums, count))  # after the shares
        mine = sum_signed(pad, signs=signs).reshape(1, sums)
        masks = sum_signed(share, signs=-signs).reshape(1, sums)
        transfer = evaluator.begin(circuit, shares=np.hsplit(mine, sums))
        garbled = garbler.garble(circuit, shares=np.hsplit(masks, sums), transfer=transfer)
        return bool(garbler.finish(evaluator.evaluate(garbled.tables).returned)[0, 0])

    honest = rng.integers(-(2**bits), 2**bits + 1, count)
    assert is_in_range(honest)
    for forged in (1 << 40, -(1 << 54)):
        asks = honest.copy()
        asks[77] = forged  # one number of one user among all
        assert not is_in_range(asks)
