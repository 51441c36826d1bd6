"""The planner: from a request to the quickest parameters that carry it.

Searched are the rings of the security table, from the smallest; sign polynomials of the same
quality but different depth; the levels, from what a round needs to some more, which save refreshes
of an update; and the digits of key switching. For each the largest scale is tried first: if that is
too coarse, nothing else will do. Least predicted time wins, a round and its share of the updates.
Then the scale shrinks to the least that keeps the noise comfortable, since messages grow with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from helba.errors import InvalidInput
from helba.reference.numerics.argmax import choose_method
from helba.reference.numerics.composite import CompositeSign
from helba.reference.numerics.inverse import MATRIX_PRODUCT_LEVELS
from helba.reference.numerics.sign import cheapest_composition
from helba.reference.planning.bounds.extent import count_updates
from helba.reference.planning.bounds.flooding import answer_flood
from helba.reference.planning.bounds.precision import COMFORTABLE_INVERSE
from helba.reference.planning.cost.calibration import Calibration
from helba.reference.planning.cost.chain import levels_of
from helba.reference.planning.cost.workload import model_steps
from helba.reference.planning.draft import LEAST_LEVELS, Draft, Drafter, Limit
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.model import ModelAssembly
from helba.reference.planning.layout.paper_packing import PaperLayout
from helba.reference.planning.layout.score import ScoreLayout, choose_score_layout
from helba.reference.planning.layout.stages import power_stages, steps_of
from helba.reference.planning.parameters import LEAST_SECURE_SCALE_BITS, Parameters
from helba.reference.planning.request import PlanRequest
from helba.reference.planning.selection import largest_scale, possible_digits
from helba.reference.planning.sizes import switching_key_bytes
from helba.reference.twin.ciphertext import CKKS_NOISE, RESOLUTION, SIGN_ERROR, default_sign
from helba.ring.security import RING_DIMS

# Deeper by this many levels an update needs few refreshes; more would only slow the rounds.
SPARE_LEVELS = 8
# Levels of the pieces that a round is cut into, at most.
MOST_PIECE = 16
DEEPER_SIGNS = 3
BOOTSTRAP_RING = 1 << 16
# Noise that is comfortable in the comparison vector.
COMFORTABLE_COMPARISON = CKKS_NOISE
# How many times as large the flood is that covers the latter.
COMFORTABLE_FLOOD = 256
# Memory of the rotation keys, at most: up to dimension 16, beyond, and without a user's help, which
# takes rings of more levels.
KEY_BYTES_OF_SMALL = 2 << 30
KEY_BYTES_OF_LARGE = 4 << 30
KEY_BYTES_UNAIDED = 10 << 30
SMALL_DIM = 16
# The paper's cold inverse doubles its noise in every step; no scale makes a worst case of it small.
PAPER_BITS = 49
MOST_NEWTON_STEPS = 8
MOST_DEPTH = 100


@dataclass(frozen=True, kw_only=True)
class Found:
    """The best draft and the drafter that made it."""

    drafter: Drafter
    draft: Draft
    cut_round: bool


def find_draft(request: PlanRequest, *, calibration: Calibration) -> Found | Limit:
    """Return the quickest draft, or the limit that stands in the way."""
    best: Found | None = None
    hits: set[Limit] = set()  # of the largest ring that has the levels at all
    for cut_round in (False, True) if _may_cut(request) else (False,):
        smallest = RING_DIMS[-1]  # that carries it; cut, the next one may save refreshes
        for ring_dim in _rings(request):
            found, hit = _best_of_ring(
                request, ring_dim=ring_dim, calibration=calibration, cut_round=cut_round
            )
            if found is None:
                hits = hit if hit - {Limit.LEVELS} or not hits else hits
                continue
            smallest = min(smallest, ring_dim)
            if best is None or found.draft.seconds < best.draft.seconds:
                best = found
            if not _may_gain(best.drafter) and (not cut_round or ring_dim > smallest):
                break
    if best is not None:
        return _with_comfortable_scale(best)
    for limit in (Limit.PRECISION, Limit.KEYS, Limit.LEVELS):
        if limit in hits:
            return limit
    return Limit.SLOTS


def _may_gain(drafter: Drafter) -> bool:
    """Whether a larger ring can be quicker: only if it allows scoring by pairs."""
    return drafter.layout is not None and drafter.layout.form == "arms"


def sign_candidates(arms: int) -> tuple[CompositeSign, ...]:
    """Return the default sign, and deeper ones of its quality that need fewer products."""
    first, error = default_sign(arms), min(SIGN_ERROR, 0.25 / (arms - 1))
    found = [first]
    for depth in range(first.levels + 1, first.levels + 1 + DEEPER_SIGNS):
        with suppress(InvalidInput):  # not reachable at this depth
            other = cheapest_composition(resolution=RESOLUTION, error=error, depth=depth)
            if other not in found:
                found.append(other)
    return tuple(found)


def rotations_of(drafter: Drafter, *, max_slots: int) -> tuple[int, ...]:
    """Return the rotation steps of all circuits, in [1, max_slots), each once."""
    steps = set(_update_rotations(drafter.matrices, drafter.layout))
    if drafter.layout is not None and drafter.method is not None:
        steps.update(drafter.layout.rotations_for(drafter.method))
    else:
        settings = drafter.settings
        steps.update(PaperLayout(dim=settings.dim, arms=settings.arms).rotations)
    if drafter.request.refresh == "bootstrap":  # copies of a matrix, and of two, are averaged
        size = drafter.matrices.size
        for unit in (size, 2 * size):
            copies = max(1, drafter.renewal_slots // unit)
            steps |= steps_of(power_stages(unit=unit, count=copies))
    return tuple(sorted({step % max_slots for step in steps} - {0}))


@lru_cache(maxsize=64)
def _update_rotations(matrices: MatrixLayout, layout: ScoreLayout | None) -> tuple[int, ...]:
    steps = set(matrices.rotations)
    if layout is not None:
        steps.update(ModelAssembly(matrix=matrices, score=layout).rotations)
    return tuple(sorted(steps))


def _may_cut(request: PlanRequest) -> bool:
    """A round of `ciphertext` goes through in one; the paper's, and a root, need refreshes."""
    return request.refresh != "none" and (request.profile == "paper" or request.bonus == "sqrt")


def _rings(request: PlanRequest) -> tuple[int, ...]:
    if request.ring_dim is not None:
        return (request.ring_dim,)
    least = BOOTSTRAP_RING if request.refresh == "bootstrap" else 0
    return tuple(ring_dim for ring_dim in RING_DIMS if ring_dim >= least)


def most_key_bytes(request: PlanRequest) -> int:
    """Return the memory that the rotation keys may take."""
    if request.refresh != "client":
        return KEY_BYTES_UNAIDED
    return KEY_BYTES_OF_SMALL if request.dim <= SMALL_DIM else KEY_BYTES_OF_LARGE


def _best_of_ring(
    request: PlanRequest, *, ring_dim: int, calibration: Calibration, cut_round: bool
) -> tuple[Found | None, set[Limit]]:
    """The best draft of a ring, and the limits that others hit.

    The product of comparisons shows less than their sum, so it is taken wherever it is possible.
    """
    hits: set[Limit] = set()
    for method in _methods(request):
        best, hit = _best_of_method(
            request,
            ring_dim=ring_dim,
            calibration=calibration,
            cut_round=cut_round,
            method=method,
        )
        hits |= hit
        if best is not None:
            return best, hits
    return None, hits


def _methods(request: PlanRequest) -> tuple[str | None, ...]:
    """The ways of the argmax, the preferred one first; None in the paper's profile."""
    if request.profile == "paper":
        return (None,)
    if request.argmax != "auto":
        return (request.argmax,)
    sign = default_sign(request.arms)
    if choose_method(sign=sign, arms=request.arms, noise=CKKS_NOISE) == "sum":
        return ("sum",)
    return ("product", "sum") if request.arms > 2 else ("product",)


def _best_of_method(
    request: PlanRequest,
    *,
    ring_dim: int,
    calibration: Calibration,
    cut_round: bool,
    method: str | None,
) -> tuple[Found | None, set[Limit]]:
    best: Found | None = None
    hits: set[Limit] = set()
    slots = ring_dim // 2
    for drafter in _drafters(request, max_slots=slots, calibration=calibration, method=method):
        if cut_round and best is not None:
            break  # with many refreshes on the way the depth of the sign matters little
        fits = False
        steps = rotations_of(drafter, max_slots=slots)
        for parameters in _parameters(drafter, ring_dim=ring_dim, cut_round=cut_round):
            fits = True
            if len(steps) * switching_key_bytes(parameters) > most_key_bytes(request):
                hits.add(Limit.KEYS)
                continue
            draft = drafter.draft(parameters, cut_round=cut_round)
            if isinstance(draft, Limit):
                hits.add(draft)
            elif best is None or draft.seconds < best.draft.seconds:
                best = Found(drafter=drafter, draft=draft, cut_round=cut_round)
        if not fits:
            hits.add(Limit.LEVELS)
    return best, hits


def fits_slots(request: PlanRequest) -> bool:
    """Whether the largest ring holds matrices and scores, whatever else is missing."""
    try:
        _layouts(request, max_slots=_rings(request)[-1] // 2)
    except InvalidInput:
        return False
    return True


def _layouts(request: PlanRequest, *, max_slots: int) -> tuple[MatrixLayout, ScoreLayout | None]:
    matrices = MatrixLayout(dim=request.dim, max_slots=max_slots)
    if request.profile == "paper":
        needed = PaperLayout(dim=request.dim, arms=request.arms).slots
        if needed > max_slots:
            raise InvalidInput("max_slots", max_slots, f"at least {needed}")
        return matrices, None
    if request.bonus == "quadratic":
        layout = choose_score_layout(dim=request.dim, arms=request.arms, max_slots=max_slots)
        return matrices, layout
    # The root is taken of each arm's bonus, so scores cannot come as differences.
    layout = ScoreLayout(dim=request.dim, arms=request.arms, form="arms")
    if layout.compare_slots > max_slots:
        raise InvalidInput("max_slots", max_slots, f"at least {layout.compare_slots}")
    return matrices, layout


def _drafters(
    request: PlanRequest, *, max_slots: int, calibration: Calibration, method: str | None
) -> Iterator[Drafter]:
    settings = request.settings()
    try:
        matrices, layout = _layouts(request, max_slots=max_slots)
    except InvalidInput:
        return
    signs = () if layout is None else sign_candidates(request.arms)
    for sign in signs or (None,):
        yield Drafter(
            request=request,
            settings=settings,
            calibration=calibration,
            matrices=matrices,
            layout=layout,
            sign=sign,
            method=method,
        )


def _depths_without_refresh(drafter: Drafter, *, round_levels: int) -> Sequence[int]:
    """Levels of all updates, of one model and of a round, for one to a few Newton steps."""
    model = levels_of(model_steps(drafter.matrices, layout=drafter.layout))
    updates = count_updates(drafter.settings)
    depths = {
        updates * MATRIX_PRODUCT_LEVELS * (steps + 1) + model + round_levels
        for steps in range(1, MOST_NEWTON_STEPS + 1)
    }
    return sorted(depth for depth in depths if depth <= MOST_DEPTH)


def _parameters(drafter: Drafter, *, ring_dim: int, cut_round: bool) -> Iterator[Parameters]:
    request, start = drafter.request, drafter.start
    needed = start + levels_of(drafter.round_steps())
    depths: Sequence[int] = range(max(needed, start + LEAST_LEVELS), needed + SPARE_LEVELS + 1)
    if cut_round:
        depths = range(start + LEAST_LEVELS, start + MOST_PIECE + 1)
    elif request.refresh == "none":
        depths = _depths_without_refresh(drafter, round_levels=needed)
    if request.depth is not None:
        depths = range(request.depth, request.depth + 1)
    for depth in depths:
        if depth > MOST_DEPTH:
            return
        fits = False
        for digits in possible_digits(depth):
            parameters = largest_scale(
                ring_dim=ring_dim,
                depth=depth,
                digits=digits,
                security=request.security,
                scale_bits=request.scale_bits
                or (PAPER_BITS if request.profile == "paper" else None),
                secret="sparse" if request.refresh == "bootstrap" else "uniform",
            )
            if parameters is not None:
                fits = True
                yield parameters
        if not fits:
            return


def _with_comfortable_scale(best: Found) -> Found:
    """The same parameters with the fewest scale bits that keep the noise comfortable."""
    chosen = best.draft.parameters
    request = best.drafter.request
    if request.scale_bits is not None or request.profile == "paper" or best.drafter.start:
        return best
    flood = answer_flood(arms=request.arms, method=best.drafter.method)
    comfortable = min(COMFORTABLE_COMPARISON, flood / COMFORTABLE_FLOOD)
    for bits in range(LEAST_SECURE_SCALE_BITS, chosen.scale_bits):
        parameters = largest_scale(
            ring_dim=chosen.ring_dim,
            depth=chosen.depth,
            digits=chosen.digits,
            security=request.security,
            scale_bits=bits,
        )
        if parameters is None:
            continue
        draft = best.drafter.draft(parameters, cut_round=best.cut_round)
        if (
            isinstance(draft, Draft)
            and draft.inverse_error <= COMFORTABLE_INVERSE
            and draft.comparison_error <= comfortable
            and draft.refreshes_per_update <= best.draft.refreshes_per_update
        ):
            return replace(best, draft=draft)
    return best
