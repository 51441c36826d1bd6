"""Why the planner chose what it chose, one line for each choice."""

from __future__ import annotations

from helba.reference.numerics.argmax import product_arm_limit
from helba.reference.planning.bounds.precision import MOST_INVERSE_ERROR, trace_reach
from helba.reference.planning.cost.chain import Chain, levels_of
from helba.reference.planning.draft import METHOD_MARGIN, Draft, Drafter
from helba.reference.planning.layout.score import ScoreLayout
from helba.reference.planning.plan import Choice
from helba.reference.twin.ciphertext import CKKS_NOISE
from helba.ring.security import describe_ring, max_log2_qp


def explain(drafter: Drafter, *, draft: Draft, rotations: int) -> tuple[Choice, ...]:
    """Return the choices of a plan with their reasons."""
    return (
        _ring(drafter, draft),
        _depth(drafter, draft),
        _scale(drafter, draft),
        _digits(draft),
        *_comparison(drafter, draft),
        _inverse(drafter, draft),
        _refresh(drafter, draft),
        _keys(rotations),
    )


def _ring(drafter: Drafter, draft: Draft) -> Choice:
    request, parameters = drafter.request, draft.parameters
    limit = max_log2_qp(parameters.ring_dim, security=request.security)
    reason = (
        f"log2(QP) is {parameters.log2_qp} of at most {limit} for {request.security} bits "
        "(ePrint 2024/463, table 5.2)"
    )
    if parameters.secret == "sparse":
        reason += "; that table does not cover the sparse secret of bootstrapping"
    elif request.ring_dim is None:
        reason += "; no smaller ring carries this depth and precision, or none is quicker"
    return Choice(name="ring", value=f"N = {describe_ring(parameters.ring_dim)}", reason=reason)


def _depth(drafter: Drafter, draft: Draft) -> Choice:
    parts = [f"{name} {levels}" for name, levels in _by_name(draft.round).items() if levels]
    whole = sum(levels_of(piece) for piece in draft.round.pieces)
    reason = f"a round takes {whole} levels ({', '.join(parts)})"
    if drafter.start:
        reason += f" above the {drafter.start} of bootstrapping"
    if draft.round.refreshes:
        reason += f", cut into {len(draft.round.pieces)} pieces"
    elif drafter.request.refresh == "none":
        reason += f", after {draft.updates} updates without a refresh"
    elif draft.parameters.depth > whole + drafter.start:
        reason += "; the rest saves refreshes of an update"
    return Choice(name="depth", value=f"{draft.parameters.depth} levels", reason=reason)


def _scale(drafter: Drafter, draft: Draft) -> Choice:
    reason = (
        f"noise leaves the inverse within {draft.inverse_error:.2g}"
        f" and a comparison within {draft.comparison_error:.2g}, at worst"
    )
    if drafter.sign is None:
        reason = "the cold inverse of the paper doubles its noise in every step"
    elif draft.inverse_error > 1e-3:
        reason += f"; as much as fits here ({MOST_INVERSE_ERROR} is the most for the inverse)"
    return Choice(name="scale", value=f"{draft.parameters.scale_bits} bits", reason=reason)


def _digits(draft: Draft) -> Choice:
    parameters = draft.parameters
    reason = f"quickest key switching that fits: P has {parameters.log2_p} bits"
    return Choice(name="digits", value=str(parameters.digits), reason=reason)


def _comparison(drafter: Drafter, draft: Draft) -> tuple[Choice, ...]:
    layout, sign, method = drafter.layout, drafter.sign, drafter.method
    if layout is None or sign is None or method is None:
        why = "one arm after the other, as in the paper (errata 1 and 2 corrected)"
        return (Choice(name="argmax", value="amax and acomp", reason=why),)
    slots = draft.parameters.max_slots
    if layout.form == "pairs":
        fits = f"{layout.slots} slots of {slots} hold all pairs of arms: "
        fits += "differences cost no level"
    elif drafter.request.bonus == "sqrt":
        fits = "the root is taken of each arm's bonus, before arms are compared"
    else:
        pairs = ScoreLayout(dim=layout.dim, arms=layout.arms, form="pairs").compare_slots
        fits = f"pairs would take {pairs} slots of {slots}; one level more spreads the scores"
    degrees = ", ".join(map(str, sign.degrees))
    quality = (
        f"error {sign.error:.2g} beyond {sign.resolution:.3g} of the range of scores; quickest of "
        "the compositions that reach it"
    )
    limit = product_arm_limit(sign=sign, noise=METHOD_MARGIN * CKKS_NOISE)
    if layout.arms == 2:
        way, why = "single comparison", "two arms need nothing else"
    elif method == "product":
        way, why = "product", f"shows the winner, well above the noise up to {limit} arms"
    elif drafter.request.argmax == "sum":
        way, why = "sum", "as asked; shows the order of the arms"
    elif layout.arms <= limit:
        way = "sum"
        why = (
            "a product shows less, but its levels and keys do not fit here, or noise would pass "
            "what its flood covers; shows the order"
        )
    else:
        way, why = "sum", f"a product would drown in the noise past {limit} arms; shows the order"
    return (
        Choice(name="layout", value=layout.form, reason=fits),
        Choice(name="sign", value=f"degrees ({degrees})", reason=quality),
        Choice(name="argmax", value=way, reason=why),
    )


def _inverse(drafter: Drafter, draft: Draft) -> Choice:
    steps = len([step for piece in draft.inverse.pieces for step in piece])
    if draft.warm is None:
        return Choice(
            name="inverse", value=f"{steps} Newton steps", reason="from I/c, as in the paper"
        )
    reach = trace_reach(drafter.settings)
    reason = f"from the last inverse: since then the trace has grown by {reach:.3g} at most"
    return Choice(name="inverse", value=f"{draft.warm.steps} Newton steps", reason=reason)


def _refresh(drafter: Drafter, draft: Draft) -> Choice:
    kind = drafter.request.refresh
    if kind == "none":
        reason = f"{draft.updates} updates fit into the levels; then learning ends"
        return Choice(name="refresh", value="none", reason=reason)
    who = "masked, by a user who is online" if kind == "client" else "bootstrapping, by the server"
    points = [*draft.inverse.points, "estimate", *draft.model.points, "next round"]
    value = f"{draft.refreshes_per_update} an update"
    if draft.round.refreshes:
        value += f", {draft.round.refreshes} a round"
    return Choice(name="refresh", value=value, reason=f"{who}; before: {', '.join(points)}")


def _keys(rotations: int) -> Choice:
    reason = "one for each step that scores, argmax, matrix products and the model's layout take"
    return Choice(name="rotation keys", value=str(rotations), reason=reason)


def _by_name(chain: Chain) -> dict[str, int]:
    totals: dict[str, int] = {}
    for piece in chain.pieces:
        for step in piece:
            totals[step.name] = totals.get(step.name, 0) + step.cost.levels
    return totals
