"""Costs of a plan: counts of operations, bytes, and seconds by a calibration.

Counts and bytes are exact. Seconds are counts times what one operation takes; what ships was
measured with one thread (`helba bench kernels --only ring`, `helba bench argmax`), and
`helba bench kernels --calibrate` keeps a machine's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from helba.garbling import Circuit, predict_sizes
from helba.learning.layout import MatrixProduct
from helba.learning.model_check import ModelCheck
from helba.learning.plan import INVERSE_ERROR, Batch, SharesPlan
from helba.learning.update_certificate import UpdateTerms
from helba.learning.update_plan import UpdatePlan
from helba.numerics.inverse import WarmStart
from helba.ring.parameters import RingParameters
from helba.ring.sharing.packing import packed_bytes
from helba.ring.wire import FRAME_BYTES

KINDS = ("encrypt", "product", "automorphism", "open", "receive", "gate", "level")
# Seconds at N = 2^13, one thread: an encryption, a product at three primes, an automorphism, the
# server's and the opener's part of an opening at two primes, a gate of many lanes, and a level of
# gates of one lane; both parties of a garbled circuit.
SAMPLED = 48  # points of a horizon at which updates are looked at
SHIPPED = {
    "encrypt": 2.0e-3,
    "product": 2.7e-3,
    "automorphism": 1.9e-3,
    "open": 2.1e-3,
    "receive": 0.8e-3,
    "gate": 1.2e-7,
    "level": 4.0e-5,
}
SHIPPED_RING_DIM = 1 << 13


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Operations of one piece of work, of all parties; of a shared product a part."""

    encryptions: float = 0
    products: float = 0
    automorphisms: float = 0
    openings: float = 0
    gates: float = 0
    levels: float = 0


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds of one operation of each kind at N = 2^13, and where they come from."""

    seconds: Mapping[str, float]
    note: str

    def predict(self, counts: Counts, *, parameters: RingParameters) -> float:
        """Return the seconds that all parties together need."""
        growth = parameters.ring_dim / SHIPPED_RING_DIM
        ring = (
            counts.encryptions * self.seconds["encrypt"]
            + counts.products * self.seconds["product"]
            + counts.automorphisms * self.seconds["automorphism"]
            + counts.openings * (self.seconds["open"] + self.seconds["receive"])
        )
        gates = counts.gates * self.seconds["gate"] + counts.levels * self.seconds["level"]
        return ring * growth + gates


def typical_update(plan: SharesPlan) -> UpdatePlan:
    """Return an update near the horizon.

    With tests one report is new to them; without, all of a batch that has grown as the rule says.
    """
    samples = max(2, plan.settings.horizon)
    public = plan.settings.schedule == "public"
    return _update_at(plan, samples=samples, unseen=_batch_at(plan, samples) if public else 1)


class WorstUpdate(UpdatePlan):
    """An update whose residual is the aim itself, which others end below by chance."""

    @cached_property
    def warm(self) -> WarmStart:
        """The start, as inexact as it may be."""
        start, aim = self._choose_start()
        return replace(start, error=aim)


def sample_updates(plan: SharesPlan) -> list[UpdatePlan]:
    """Return the worst updates from the first to the horizon: of one new report, and of batches.

    No test has seen the new ones, as many as it may be.
    """
    horizon = max(2, plan.settings.horizon)
    points = sorted({round(horizon ** (i / SAMPLED)) for i in range(SAMPLED + 1)})
    return [
        _update_at(plan, samples=samples, unseen=unseen, kind=WorstUpdate)
        for samples in points
        for unseen in sorted({1, min(_batch_at(plan, samples), plan.most_untested)})
    ]


def _batch_at(plan: SharesPlan, samples: int) -> int:
    """The reports of a batch that has grown to so many as the rule says."""
    grown = samples - math.floor(samples / (1.0 + plan.settings.growth))
    return min(max(1, grown), plan.most_unseen)


def _update_at(
    plan: SharesPlan, *, samples: int, unseen: int, kind: type[UpdatePlan] = UpdatePlan
) -> UpdatePlan:
    """An update of so many reports in all, of which that many are new, and no test has seen."""
    before = Batch(
        number=plan.most_updates(samples),
        samples=samples - unseen,
        residual=INVERSE_ERROR,
        estimate_error=0.0,
    )
    return kind(plan, UpdateTerms(before=before, samples=samples, untested=unseen))


def count_update_exchanges(update: UpdatePlan) -> list[str]:
    """Return the names of the steps in which an update is reopened."""
    newton = [f"newton {number}" for number in range(1, update.steps)]
    return ["design", "product", *newton, "inverse", "estimate", "residual", "model"]


def count_update(update: UpdatePlan) -> Counts:
    """Return the operations of an update, its check included."""
    layout, check = update.layout, ModelCheck(update)
    openings = encryptions = 0
    for step in count_update_exchanges(update):
        for exchange in update.exchanges(step):
            openings += len(exchange.places)
            encryptions += sum(len(parts) for parts in exchange.rearrangements)
    whole, top = layout.products, _products(layout, rows=update.dim, columns=update.dim)
    vector = _products(layout, rows=update.dim, columns=1)
    copies = sum(len(copy.arrangement.parts) for copy in check.copies)
    products = top + (update.steps - 1) * whole + top + vector + vector + top + vector
    products += 2 + len(update.column.parts) + copies
    circuit = check.circuit
    return Counts(
        encryptions=encryptions + openings + len(check.values) + copies,
        products=products,
        openings=openings + len(check.values),
        gates=circuit.and_gates,
        levels=circuit.depth,
    )


def _products(layout: MatrixProduct, *, rows: int, columns: int) -> int:
    """Products of polynomials for the first rows and columns of a product of matrices."""
    wanted = layout.result_places[:rows, :columns].parts
    return sum(len(layout.terms[number]) for number in wanted)


def garbled_bytes(circuit: Circuit, *, lanes: int) -> tuple[int, int]:
    """Return bytes of a garbled circuit, to the garbler and to the evaluator."""
    sizes = predict_sizes(circuit, lanes=lanes)
    return sizes.transfer + sizes.returned, sizes.tables


def ask_bytes(plan: SharesPlan) -> int:
    """Return bytes of the ciphertexts of an ask that its user encrypts."""
    return plan.inner(1).polynomials * ciphertext_bytes(plan.parameters, primes=2)


def report_bytes(plan: SharesPlan) -> int:
    """Return bytes of the ciphertext of a report that its user encrypts."""
    return ciphertext_bytes(plan.parameters, primes=3)


def ciphertext_bytes(parameters: RingParameters, *, primes: int) -> int:
    """Return the bytes of a ciphertext of OpenFHE."""
    return FRAME_BYTES + 2 * packed_bytes(parameters.moduli[:primes], count=parameters.ring_dim)


def opening_bytes(parameters: RingParameters, *, primes: int, count: int) -> int:
    """Return the bytes of an opening of `count` numbers of OpenFHE."""
    moduli = parameters.moduli[:primes]
    second = packed_bytes(moduli, count=parameters.ring_dim)
    return FRAME_BYTES + second + packed_bytes(moduli, count=count)


def score_opening_bytes(plan: SharesPlan) -> int:
    """Return bytes of the openings of one ask's scores."""
    scores = plan.inner(1).score_places
    counts = np.bincount(np.ravel(scores.places) // scores.ring_dim)  # by polynomial
    return sum(opening_bytes(plan.parameters, primes=1, count=int(count)) for count in counts)
