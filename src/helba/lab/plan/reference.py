"""A plan for people and for programs: tables with a reason for every choice, or one JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from helba.lab.progress import note
from helba.lab.report import print_json, print_table
from helba.reference.planning.cost.calibration import load_calibration, shipped_calibration
from helba.reference.planning.plan import Plan
from helba.reference.planning.planner import make_plan
from helba.reference.planning.request import PlanRequest

MEGABYTE, GIGABYTE = 1e6, 1e9


def plan_and_report(fields: Mapping[str, Any], *, as_json: bool) -> None:
    """Make the plan that `fields` ask for and print it."""
    request = PlanRequest(**fields)
    calibration = load_calibration()
    shipped = shipped_calibration()
    if calibration.coefficients is shipped.coefficients and calibration.note != shipped.note:
        note(f"helba: {calibration.note}")
    plan = make_plan(request, calibration=calibration)
    if as_json:
        print_json(plan.as_json())
    else:
        print_plan(plan)


def print_plan(plan: Plan) -> None:
    """Print choices with their reasons, then promises, then costs."""
    request = plan.request
    title = (
        f"d = {request.dim}, K = {request.arms}, T = {request.horizon}, "
        f"{request.security} bits, profile {request.profile}, bonus {request.bonus}"
    )
    rows = [(choice.name, choice.value, choice.reason) for choice in plan.reasons]
    print_table(title, columns=("choice", "value", "why"), rows=rows)
    print_table(
        "what it promises, at worst", columns=("certificate", "error", "of"), rows=_promises(plan)
    )
    print_table("what it costs", columns=("", "", ""), rows=_costs(plan))


def _promises(plan: Plan) -> list[tuple[str, str, str]]:
    rows = [
        (name, f"{made.error:.3g}", f"{made.quantity} ({made.levels} levels)")
        for name, made in plan.certificates.items()
    ]
    rows.append(("estimate", f"{plan.estimate_error:.3g}", "norm of w - V^-1 g in V"))
    if plan.disclosure is not None:
        seen = plan.disclosure
        shows = "the order of its arms" if seen.shows_order else "the best of its arms"
        text = f"below it a user may learn a gap of its scores, above it {shows} only"
        rows.append(("disclosure", f"{seen.revealed_below:.3g}", text))
        rows.append(("range", f"{plan.score_range:.3g}", "two scores of a round differ by less"))
    return rows


def _costs(plan: Plan) -> list[tuple[str, str, str]]:
    keys = plan.evaluation_key_bytes
    rows = [
        ("a round", _seconds(plan.seconds_per_round), f"predicted; {plan.calibration}"),
        ("an update", _seconds(plan.seconds_per_update), _updates_of(plan)),
        (
            "both",
            _seconds(plan.seconds_per_round_with_updates),
            "a round and its share of the updates",
        ),
        ("up", _bytes(plan.bytes_up), "contexts and statistics of a round, compressed"),
        ("down", _bytes(plan.bytes_down), "the answer of a round, compressed"),
        ("evaluation keys", _bytes(keys), f"{len(plan.rotations)} rotations, and products"),
        ("memory", _bytes(plan.memory_bytes), _memory_of(plan)),
        ("re-encryption key", _bytes(plan.reencryption_key_bytes), "for each user, at the server"),
    ]
    if plan.request.refresh == "client":
        both = _bytes(plan.refresh_bytes_up + plan.refresh_bytes_down)
        rows.insert(5, ("a refresh", both, "down and up again, for each ciphertext"))
    return rows


def _updates_of(plan: Plan) -> str:
    text, most = f"{plan.updates} or more in all", plan.rewards_per_update
    return text if most is None else f"{text}; one takes {most} rewards, or more"


def _memory_of(plan: Plan) -> str:
    text = "keys, and ciphertexts that an update works with"
    return f"{text}; bootstrapping takes more" if plan.request.refresh == "bootstrap" else text


def _seconds(value: float) -> str:
    return f"{value:.3g} s"


def _bytes(value: int) -> str:
    if value >= GIGABYTE:
        return f"{value / GIGABYTE:.3g} GB"
    return f"{value / MEGABYTE:.3g} MB"
