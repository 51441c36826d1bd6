"""Differences of the arms' scores with the sqrt bonus, from two encrypted vectors of a user.

`planning.layout.root_packing` says what they hold, and which numbers are public.
"""

from __future__ import annotations

from helba.errors import InvalidInput, require_whole
from helba.reference.circuits.comparison.root import square_root_steps
from helba.reference.circuits.levels import Steps, with_levels
from helba.reference.circuits.scores.scores import spread_scores, sum_features
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.planning.layout.score import ScoreLayout

# From the arms' scores to the grid of pairs.
SPREAD_LEVELS = 1


def root_score_steps(
    engine: Engine,
    *,
    linear: EncryptedVector,
    quadratic: EncryptedVector,
    model: EncryptedVector,
    layout: ScoreLayout,
    rounds: int,
    iterations: int,
    coefficient: float,
    trace: EncryptedVector | None = None,
    levels_after: int | None = None,
) -> Steps[EncryptedVector]:
    """Return (s_a - s_b)/scale in the grid of pairs, as `score_differences` does by arms.

    s_a/scale = <w, x_a>/scale + coefficient sqrt(z_a + 1/n), n = `rounds`. 1 level for the two
    sums, `root_levels(iterations)`, 1 for spreading. The sum <w, x_a> waits near the top and is
    never refreshed, and so is that of `trace`. `levels_after` are those of the comparison, if that
    ends the round.
    """
    if layout.form != "arms":
        raise InvalidInput("form", repr(layout.form), "'arms' for the sqrt bonus")
    require_whole("rounds", rounds, least=1, most=10**9)
    mean, width = (
        sum_features(engine, contexts, model=model, layout=layout)
        for contexts in (linear, quadratic)
    )
    after = None if levels_after is None else SPREAD_LEVELS + levels_after
    root = yield from square_root_steps(
        engine,
        engine.add_plain(width, 1.0 / rounds),
        high=1.0 + 1.0 / rounds,
        iterations=iterations,
        factor=coefficient,
        levels_after=after,
    )
    scores = yield from with_levels(engine.add(mean, root), needed=SPREAD_LEVELS, rest=after)
    tested = None
    if trace is not None:  # as deep as it is needed: cheaper there
        trace = engine.lower(trace, max(trace.level, scores.level - 1))
        tested = sum_features(engine, trace, model=model, layout=layout)
    return spread_scores(engine, scores, layout=layout, tested=tested)
