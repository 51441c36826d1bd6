"""The server's computations on ciphertexts in a round: scores, and sums of reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from helba.learning.exchange import Compare, EncryptPads, Steps
from helba.learning.plan import SharesPlan
from helba.learning.report import LOG2_REPORT
from helba.ring import Ciphertext, Ring
from helba.ring.sharing.integer import Integers, Places
from helba.ring.sharing.pad import SHARE_MODULUS

# -- sums


def encrypt_report(ring: Ring, plan: SharesPlan, report: Sequence[int]) -> Ciphertext:
    """Return a report as its user encrypts it: d + 1 integers at the places of an outer product."""
    bound = plan.report_bound()
    return ring.encrypt(
        np.array([int(each) * plan.report_multiple for each in report], dtype=object),
        places=plan.outer.report_places.places,
        scale=bound.peak,
        peak=bound.peak,
        norm=bound.norm,
    )


def fold_report(ring: Ring, plan: SharesPlan, report: Ciphertext) -> Ciphertext:
    """Return x x^T, r x and r^2 of one encrypted report, at two primes."""
    made = ring.product(report, ring.automorphism(report), terms=1)
    return made.with_scale(plan.sum_scale)


def run_fold(ring: Ring, plan: SharesPlan, *, reports: Integers, boxes: tuple[bytes, ...]) -> Steps:
    """Return the sums of reports that came as shares, or None if one of them is out of range.

    `reports` has the server's shares, of shape (reports, d + 1).
    """
    count = len(reports)
    pads, _ = yield EncryptPads(boxes=boxes)
    shares = (-reports.reshape(1, -1)) % SHARE_MODULUS
    in_range: bool = yield Compare(values=(), shares=(shares,))
    if not in_range:
        return None
    flat = reports.reshape(-1)
    groups = [(flat, places) for places in plan.report_places(count)]
    made = _add_shares(ring, plan, pads, groups, multiple=plan.report_multiple)
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
    flat = asks.reshape(-1)
    shares = [(flat[index], places) for places, index in groups]
    features = _add_shares(ring, plan, pads, shares, multiple=plan.grid.feature_multiple)
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


def _add_shares(
    ring: Ring,
    plan: SharesPlan,
    pads: Sequence[Ciphertext],
    shares: Sequence[tuple[Integers, Places]],
    *,
    multiple: int,
) -> list[Ciphertext]:
    """Encrypted pads plus the server's shares: the numbers themselves, times a multiple."""
    peak = float(plan.rounding.peak)
    add = partial(ring.add_shares, multiple=multiple, peak=peak)
    return ring.run_all(
        [
            partial(add, pad, numbers, places=places)
            for pad, (numbers, places) in zip(pads, shares, strict=True)
        ]
    )
