"""`make_plan`: a plan for a request, or an error that names the limit and what is possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from helba.errors import InvalidInput, RunFailed
from helba.reference.numerics.certificate import Certificate
from helba.reference.planning.bounds.flooding import answer_flood
from helba.reference.planning.bounds.precision import trace_reach
from helba.reference.planning.cost.calibration import Calibration, load_calibration
from helba.reference.planning.cost.chain import levels_of
from helba.reference.planning.draft import Draft, Drafter, Limit
from helba.reference.planning.layout.paper_packing import PaperLayout
from helba.reference.planning.parameters import LEAST_SECURE_SCALE_BITS, Parameters
from helba.reference.planning.plan import Plan
from helba.reference.planning.reasons import explain
from helba.reference.planning.request import PlanRequest
from helba.reference.planning.search import (
    MOST_DEPTH,
    Found,
    find_draft,
    fits_slots,
    most_key_bytes,
    rotations_of,
)
from helba.reference.planning.sizes import message_bytes, switching_key_bytes
from helba.reference.twin.terms import Accuracy
from helba.ring.security import RING_DIMS, describe_ring

# Of the arms the user sends their features, and with a root those of the bonus apart; of its play
# x x^T and r x, which it knows in the clear, and x x^T once more for the update test. In the
# paper's profile the server multiplies: x by row and by column, and r.
CONTEXTS = {"quadratic": 1, "sqrt": 2}
STATISTICS = 2
TESTS = {"trace": 1, "public": 0}
PAPER_MESSAGES = 5


def make_plan(request: PlanRequest, *, calibration: Calibration | None = None) -> Plan:
    """Return the quickest plan that carries the request.

    `InvalidInput` says which limit a request hits, and the nearest one that is possible.
    """
    prices = load_calibration() if calibration is None else calibration
    _require_overrides(request)
    found = find_draft(request, calibration=prices)
    if isinstance(found, Limit):
        raise _refusal(request, limit=found, calibration=prices)
    return _assemble(found, calibration=prices)


def _require_overrides(request: PlanRequest) -> None:
    """Refuse what the security table rules out, whatever the rest of the request."""
    if request.ring_dim is not None and request.depth is not None:
        Parameters(
            ring_dim=request.ring_dim,
            depth=request.depth,
            scale_bits=request.scale_bits or LEAST_SECURE_SCALE_BITS,
            digits=request.depth + 1,  # the least P
            security=request.security,
        )


def _assemble(found: Found, *, calibration: Calibration) -> Plan:
    drafter, draft = found.drafter, found.draft
    parameters, settings = draft.parameters, drafter.settings
    rotations = rotations_of(drafter, max_slots=parameters.max_slots)
    round_levels = sum(levels_of(piece) for piece in draft.round.pieces)
    whole = len(draft.round.pieces) == 1
    top = parameters.depth - round_levels if whole else drafter.start
    seen = drafter.disclosure(draft.score_range)
    newton = sum(len(piece) for piece in draft.inverse.pieces) - (0 if draft.warm is None else 1)
    points = (*draft.round.points, *draft.inverse.points, *draft.model.points)
    layout = drafter.layout
    return Plan(
        request=drafter.request,
        parameters=parameters,
        sign=drafter.sign,
        method=drafter.method,
        layout="arms" if layout is None else layout.form,
        slots=max(drafter.matrices.slots, _round_slots(drafter)),
        rotations=rotations,
        bootstrap_slots=drafter.renewal_slots if drafter.start else 0,
        round_levels=round_levels,
        update_levels=sum(
            levels_of(piece) for chain in (draft.inverse, draft.model) for piece in chain.pieces
        ),
        newton_steps=newton,
        refreshes_per_round=draft.round.refreshes,
        refreshes_per_update=draft.refreshes_per_update,
        refresh_points=points if draft.renewals == 0 else (*points, "estimate", "next round"),
        updates=draft.updates,
        bytes_up=PAPER_MESSAGES * message_bytes(parameters, level=drafter.start)
        if layout is None
        else (CONTEXTS[settings.bonus] + TESTS[settings.schedule])
        * message_bytes(parameters, level=top)
        + STATISTICS * message_bytes(parameters, level=drafter.start),
        bytes_down=message_bytes(parameters, level=parameters.depth),
        refresh_bytes_up=message_bytes(parameters),
        refresh_bytes_down=message_bytes(parameters, level=parameters.depth - 1),
        switching_key_bytes=switching_key_bytes(parameters),
        seconds_per_round=draft.seconds_per_round,
        seconds_per_update=draft.seconds_per_update,
        calibration=calibration.note,
        certificates=_certificates(drafter, draft),
        estimate_error=draft.estimate_error,
        accuracy=_accuracy(drafter, draft),
        comparison_error=draft.comparison_error,
        flood=answer_flood(arms=settings.arms, method=drafter.method),
        score_range=draft.score_range,
        disclosure=seen,
        reasons=explain(drafter, draft=draft, rotations=len(rotations)),
    )


def _round_slots(drafter: Drafter) -> int:
    """Slots of the arms."""
    if drafter.layout is not None:
        return drafter.layout.compare_slots
    return PaperLayout(dim=drafter.settings.dim, arms=drafter.settings.arms).slots


def _accuracy(drafter: Drafter, draft: Draft) -> Accuracy:
    """What every update promises, as the parties and the twin need it."""
    settings = drafter.settings
    noise = draft.inverse_noise
    certified = Accuracy(
        inverse_error=draft.inverse_error,
        product_noise=noise.product,
        renewal_noise=noise.renewal,
        ending_noise=noise.ending,
        piece=noise.piece,
    )
    left = certified.estimate_error(
        settings, residual=draft.inverse_error, samples=settings.horizon
    )
    return replace(certified, estimate_noise=max(0.0, draft.estimate_error - left))


def _certificates(drafter: Drafter, draft: Draft) -> dict[str, Certificate]:
    """What inverse, bonus and argmax promise over the whole horizon."""
    settings = drafter.settings
    top = settings.length**2 / settings.ridge
    names = [step.name for piece in draft.round.pieces for step in piece]
    levels = dict.fromkeys(names, 0)
    for piece in draft.round.pieces:
        for step in piece:
            levels[step.name] += step.cost.levels
    compared = sum(levels.get(name, 0) for name in ("sign", "argmax", "amax", "NewComp"))
    interval = (1.0, 1.0 + trace_reach(settings))
    if draft.warm is not None:
        interval = (draft.warm.low, draft.warm.high)
    return {
        "inverse": Certificate(
            quantity="spectral norm of V^(1/2) A V^(1/2) - I",
            interval=interval,
            error=draft.inverse_error,
            levels=sum(levels_of(piece) for piece in draft.inverse.pieces),
        ),
        "bonus": Certificate(
            quantity="error of a bonus, in units of the score",
            interval=(0.0, top),
            error=draft.bonus_error,
            levels=levels.get("root", 0),
        ),
        "argmax": Certificate(
            quantity="best score minus the score of the arm played",
            interval=(0.0, draft.score_range),
            error=draft.tolerance,
            levels=compared,
        ),
    }


def _refusal(request: PlanRequest, *, limit: Limit, calibration: Calibration) -> Exception:
    """The limit in words, and the nearest request that is possible."""
    where = f"at {request.security} bits" + (
        f" and N = {describe_ring(request.ring_dim)}" if request.ring_dim is not None else ""
    )
    most = describe_ring(request.ring_dim or RING_DIMS[-1])
    why = {
        Limit.SLOTS: f"the {(request.ring_dim or RING_DIMS[-1]) // 2} slots of N = {most} are full",
        Limit.LEVELS: f"no ring up to {most} has the levels",
        Limit.PRECISION: f"noise outgrows the certificates in rings up to {most}",
        Limit.KEYS: f"the rotation keys pass {most_key_bytes(request) >> 30} GiB",
    }[limit]
    fixed = _fixed_refusal(request, why=why, calibration=calibration)
    if fixed is not None:
        return fixed
    for name in _SHRINKING[limit]:
        largest = _largest(request, name=name, limit=limit, calibration=calibration)
        if largest is not None:
            allowed = f"at most about {largest} {where} with refresh {request.refresh}: {why}"
            return InvalidInput(name, getattr(request, name), allowed)
    return RunFailed(f"no plan {where} with refresh {request.refresh}: {why}")


# What a request may fix; the first that stands in the way alone is refused.
_FIXED = ("depth", "scale_bits", "ring_dim")


def _fixed_refusal(
    request: PlanRequest, *, why: str, calibration: Calibration
) -> InvalidInput | None:
    """Refuse what the request fixes, if it is possible otherwise; None if its sizes are not."""
    given = {name: value for name in _FIXED if (value := getattr(request, name)) is not None}
    for name, value in given.items():
        nearest = _nearest(request, name=name, calibration=calibration)
        if nearest is None:
            continue
        where = f"at {request.security} bits"
        if name != "ring_dim" and request.ring_dim is not None:
            where += f" and N = {describe_ring(request.ring_dim)}"
        if name == "depth" and nearest > value:
            why = "a round needs more levels"
        bound = "least" if nearest > value else "most"
        allowed = f"at {bound} about {nearest} {where} with refresh {request.refresh}: {why}"
        return InvalidInput(name, value, allowed)
    if len(given) < 2:
        return None
    found = find_draft(_without(request, *given), calibration=calibration)
    if isinstance(found, Limit):
        return None
    possible = [str(getattr(found.draft.parameters, name)) for name in given]
    return InvalidInput(
        " and ".join(given),
        " and ".join(map(str, given.values())),
        f"about {' and '.join(possible)} at {request.security} bits: {why}",
    )


def _nearest(request: PlanRequest, *, name: str, calibration: Calibration) -> int | None:
    """The possible value of one fixed field that is nearest, the others as they are, or None."""
    found = find_draft(_without(request, name), calibration=calibration)
    if isinstance(found, Limit):
        return None
    values: Sequence[int] = RING_DIMS if name == "ring_dim" else range(MOST_DEPTH + 1)
    good = values.index(getattr(found.draft.parameters, name))
    bad = values.index(getattr(request, name))
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        closer = replace(request, **{name: values[middle]})  # type: ignore[arg-type]
        if isinstance(find_draft(closer, calibration=calibration), Found):
            good = middle
        else:
            bad = middle
    return values[good]


def _without(request: PlanRequest, *names: str) -> PlanRequest:
    """The request with these fields left to the planner."""
    return replace(request, **dict.fromkeys(names))  # type: ignore[arg-type]


_SHRINKING = {
    Limit.SLOTS: ("arms", "dim"),
    Limit.LEVELS: ("horizon", "arms", "dim"),
    Limit.PRECISION: ("horizon", "dim"),
    Limit.KEYS: ("dim", "horizon"),
}
_LEAST = {"dim": 1, "arms": 2, "horizon": 1}


def _largest(
    request: PlanRequest, *, name: str, limit: Limit, calibration: Calibration
) -> int | None:
    """The largest value of one field with which the request is possible, or None."""

    def possible(value: int) -> bool:
        smaller = replace(request, **{name: value})  # type: ignore[arg-type]
        if limit is Limit.SLOTS and not fits_slots(smaller):  # quicker than the whole search
            return False
        return isinstance(find_draft(smaller, calibration=calibration), Found)

    least, high = _LEAST[name], int(getattr(request, name))
    low = max(least, high // 4)
    while not possible(low):
        if low == least:
            return None
        low, high = max(least, low // 4), low
    while high - low > max(1, low // 20):  # to one part in twenty: each step is a search
        middle = (low + high) // 2
        low, high = (middle, high) if possible(middle) else (low, middle)
    return low
