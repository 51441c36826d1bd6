"""Differences of the arms' scores from encrypted contexts and an encrypted model."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput
from helba.reference.circuits.algebra.packing import cyclic_sum
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.planning.layout.score import ScoreLayout

Array = NDArray[np.float64]


def sum_features(
    engine: Engine, contexts: EncryptedVector, *, model: EncryptedVector, layout: ScoreLayout
) -> EncryptedVector:
    """Return the inner product over the features, in every slot of its minor index. 1 level."""
    product = engine.multiply(contexts, model)
    return cyclic_sum(
        engine, product, stride=layout.pairs, count=layout.features, radix=layout.radix
    )


def score_differences(
    engine: Engine,
    contexts: EncryptedVector,
    *,
    model: EncryptedVector,
    layout: ScoreLayout,
    trace: EncryptedVector | None = None,
) -> EncryptedVector:
    """Return (s_a - s_b)/scale in the grid of pairs, repeated over `layout.compare_slots`.

    1 level by pairs, 2 by arms. By pairs the trace of the update test is already part of
    `contexts` (slot q = 0); by arms it may be given as `trace`, packed by `pack_trace`.
    """
    scores = sum_features(engine, contexts, model=model, layout=layout)
    if layout.form == "pairs":
        if trace is not None:
            raise InvalidInput("trace", "given", "added to the contexts when scoring by pairs")
        return scores
    tested = None
    if trace is not None:
        tested = sum_features(engine, trace, model=model, layout=layout)
    return spread_scores(engine, scores, layout=layout, tested=tested)


def spread_scores(
    engine: Engine, scores: EncryptedVector, *, layout: ScoreLayout, tested: EncryptedVector | None
) -> EncryptedVector:
    """From period Kp to the grid: sum over c of mask_c * rotation by c, c = giant + baby. 1 level.

    A giant step's rotation comes last, so its masks are rotated back beforehand.
    """
    count, babies = layout.padded_arms, layout.baby_steps
    wide = engine.repeat(scores, layout.compare_slots)
    rotated = engine.rotate_many(wide, range(babies))
    masks = _masks(layout)
    parts = []
    for giant in range(0, count, babies):
        terms = [
            (engine.multiply_plain(vector, masks[giant + baby]), 1.0)
            for baby, vector in enumerate(rotated)
        ]
        if giant == 0 and tested is not None:
            wide_trace = engine.repeat(tested, layout.compare_slots)
            terms.append((engine.multiply_plain(wide_trace, _corner(layout)), 1.0))
        parts.append(engine.rotate(engine.combine(terms), giant))
    return engine.combine([(part, 1.0) for part in parts])


@lru_cache(maxsize=4)
def _masks(layout: ScoreLayout) -> tuple[Array, ...]:
    """For each c the factor of the scores rotated by c, rotated back by its giant step."""
    copies = layout.compare_slots // layout.grid
    compared = layout.compared_pairs().astype(np.float64)
    offset = np.arange(layout.grid) // layout.padded_arms
    masks = [np.tile(compared, copies)]  # the minuend: s_a itself, unrotated
    for c in range(1, layout.padded_arms):
        mask = np.tile(-compared * (offset == c), copies)
        masks.append(np.roll(mask, c - c % layout.baby_steps))
    for mask in masks:
        mask.flags.writeable = False
    return tuple(masks)


def _corner(layout: ScoreLayout) -> Array:
    """1 in slot 0 of every grid."""
    corner = np.zeros(layout.compare_slots)
    corner[:: layout.grid] = 1.0
    return corner
