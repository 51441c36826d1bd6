"""A plan on shares, for people and for programs: a page of choices with their reasons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from helba.bandits.settings import Settings
from helba.lab.plan.cost import (
    Counts,
    ask_bytes,
    ciphertext_bytes,
    count_update,
    count_update_exchanges,
    garbled_bytes,
    report_bytes,
    sample_updates,
    score_opening_bytes,
    typical_update,
)
from helba.lab.plan.timing import load_timing
from helba.lab.report import print_json, print_table
from helba.learning.exchange import Exchange
from helba.learning.plan import SharesPlan
from helba.learning.update import TestPlan, TestTerms
from helba.learning.update_plan import UpdatePlan
from helba.protocol.box import BOX_BYTES
from helba.protocol.deployment import SharesDeployment
from helba.protocol.message import Work
from helba.ring import DEVIATIONS
from helba.ring.noise import encryption_noise
from helba.ring.security import describe_ring, max_log2_qp
from helba.ring.sharing.pad import SHARE_MODULUS
from helba.ring.sharing.reopening import LIFT_FAILURE

MESSAGE_BYTES = 38  # head and name of an ask or a report
NUMBER_BYTES = 12


# Bounds of the problem that a plan is made for unless told: those of the synthetic one.
BOUNDS: dict[str, Any] = {"parameter_bound": 1.0, "noise": 0.5, "reward_max": 4.0}


def plan_shares_and_report(
    problem: Mapping[str, Any], *, opener: str, security: int, as_json: bool
) -> None:
    """Make the plan for the settings that `problem` has, and print it."""
    settings = Settings(**BOUNDS, **problem)
    deployment = SharesDeployment.of(settings, opener=opener, security=security)
    report = describe_plan(deployment)
    if as_json:
        print_json(report)
        return
    _print(deployment, report)


def describe_plan(deployment: SharesDeployment) -> dict[str, Any]:
    """Return everything that the plan says, in plain types."""
    plan, settings = deployment.plan, deployment.settings
    parameters, update, timing = plan.parameters, typical_update(plan), load_timing()
    security = parameters.security or 0
    counts = count_update(update)
    worst = _certify(plan)
    up, down = _bytes_of_round(deployment)
    round_counts = _count_round(deployment)
    return {
        "profile": "shares",
        "opener": plan.opener,
        "dim": settings.dim,
        "arms": settings.arms,
        "horizon": settings.horizon,
        "schedule": settings.schedule,
        "ring_dim": parameters.ring_dim,
        "log2_qp": parameters.log2_qp,
        "max_log2_qp": max_log2_qp(parameters.ring_dim, security=security) if security else None,
        "security": parameters.security,
        "primes": [parameters.first_bits, parameters.middle_bits, parameters.middle_bits],
        "share_bits": plan.grid.bits,
        "context_bits": plan.rounding.bits,
        "score_bits": plan.score_bits,
        "resolution": worst["resolution"],
        "newton_steps": update.steps,
        "blocks": plan.matrix.products,
        "products_per_update": counts.products,
        "reopenings_per_update": len(count_update_exchanges(update)),
        "users_per_product": plan.lanes,
        "reports_per_product": plan.group,
        "updates": plan.most_updates(settings.horizon),
        "most_unseen": plan.most_unseen,
        "most_tested": plan.most_tested,
        "test_resolution": (
            plan.test_resolution(unseen=1, untested=1) if plan.most_tested else None
        ),
        "bytes_up": up,
        "bytes_down": down,
        "evaluation_key_bytes": _evaluation_key_bytes(plan),
        "memory_bytes": _memory_bytes(plan, update),
        "estimated_seconds_per_round": timing.predict(round_counts, parameters=parameters),
        "estimated_seconds_per_update": timing.predict(counts, parameters=parameters),
        "calibration": timing.note,
        "failure_probability": _failure(plan, update),
        "radius": worst["radius"],
        "certificates": {name: worst[name] for name in ("inverse", "estimate", "score")},
        "counts": {"round": asdict(round_counts), "update": asdict(counts)},
    }


def _certify(plan: SharesPlan) -> dict[str, float]:
    """Return the worst certificates of all updates up to the horizon, and the radius there.

    All of them grow with the reports, but for steps of scales and of Newton's: so updates are
    looked at from the first to the horizon.
    """
    updates = sample_updates(plan)
    return {
        "inverse": max(each.residual for each in updates),
        "estimate": max(each.estimate_error for each in updates),
        "resolution": max(each.resolution for each in updates),
        "score": max(each.resolution * each.weights.span for each in updates),
        "radius": updates[-1].weights.radius,
    }


def _bytes_of_round(deployment: SharesDeployment) -> tuple[int, int]:
    """Bytes that a user sends and receives in a round with its report."""
    plan = deployment.plan
    if plan.opener == "authority":
        numbers = deployment.numbers + deployment.settings.dim + 1
        up = 2 * (MESSAGE_BYTES + BOX_BYTES + 8) + NUMBER_BYTES * numbers
        return up, 138
    to_server, to_user = garbled_bytes(deployment.argmax_circuit, lanes=1)
    up = ask_bytes(plan) + report_bytes(plan) + to_server
    return up, score_opening_bytes(plan) + to_user


def _count_round(deployment: SharesDeployment) -> Counts:
    """Operations of one ask and one report; in `authority` their share of a full product."""
    plan, circuit = deployment.plan, deployment.argmax_circuit
    inner = plan.inner(plan.lanes)
    shared = plan.opener == "authority"
    per = plan.lanes if shared else 1
    polynomials = max(1, inner.polynomials)
    if not shared:
        return Counts(
            encryptions=3 * polynomials + 1,
            products=polynomials + 1,
            automorphisms=1,
            openings=polynomials,
            gates=circuit.and_gates,
            levels=circuit.depth,
        )
    group = plan.group
    check = deployment.comparison(Work(subject="fold", count=group)).circuit
    return Counts(
        encryptions=2 * polynomials / per + 2 / group,
        products=polynomials / per + 1 / group,
        openings=polynomials / per,
        gates=circuit.and_gates + check.and_gates / group,
        levels=circuit.depth / per + check.depth / group,
    )


def _evaluation_key_bytes(plan: SharesPlan) -> int:
    """A relinearisation key, and where users encrypt an automorphism key: three digits each."""
    keys = 2 if plan.automorphism is not None else 1
    polynomial = ciphertext_bytes(plan.parameters, primes=3) / 2.0 * (213 / 153)
    return int(keys * 3 * 2 * polynomial)


def _memory_bytes(plan: SharesPlan, update: UpdatePlan) -> int:
    """Ciphertexts that an update works with, and keys, beside the program's own."""
    layout = update.layout
    stacks = 6 * (layout.row_places.polynomials + layout.column_places.polynomials)
    return stacks * ciphertext_bytes(plan.parameters, primes=3) + 3 * _evaluation_key_bytes(plan)


def _failure(plan: SharesPlan, update: UpdatePlan) -> float:
    """Return the probability that an opened share wraps around the modulus within the horizon.

    That is of all updates, of a test and a report a round, and of asks that came as shares.
    """
    horizon = plan.settings.horizon
    total = plan.most_updates(horizon) * math.fsum(
        _exchange_failure(plan, exchange)
        for step in count_update_exchanges(update)
        for exchange in update.exchanges(step)
    )
    if plan.most_tested:
        terms = TestTerms(batch=0, unseen=plan.most_tested, untested=1)
        total += horizon * _exchange_failure(plan, TestPlan(plan, terms).exchange)
    if plan.opener == "authority":
        numbers = plan.settings.arms * plan.rounding.features
        total += horizon * numbers * _share_failure(plan, plan.grid.feature_multiple)
        copies = 2 * (plan.settings.dim + 1)
        total += horizon * copies * (_share_failure(plan, plan.report_multiple) + LIFT_FAILURE)
    return min(1.0, total)


def _exchange_failure(plan: SharesPlan, exchange: Exchange) -> float:
    """Of one reopening: of the integers that are opened, and those that are encrypted again."""
    modulus = float(plan.parameters.share_modulus)
    error = DEVIATIONS * encryption_noise(plan.parameters)
    total = 0.0
    for target, parts in zip(exchange.targets, exchange.rearrangements, strict=True):
        noise = DEVIATIONS * target.deviation
        opened = exchange.peak + error + noise
        for each in parts.values():
            stretch = float(each.stretches.max())
            units = sum(move.multiple for move in each.moves)
            wrapped = len(each.sources) * opened + len(each.targets) * (stretch * opened + units)
            total += 2.0 * wrapped / modulus + len(each.targets) * LIFT_FAILURE
    return total


def _share_failure(plan: SharesPlan, multiple: int) -> float:
    """Of one number that a user shared modulo 2^96, times a multiple."""
    peak = float(plan.rounding.peak)
    wrap = 2.0 * peak * multiple / plan.parameters.share_modulus
    return wrap + (peak + 1.0) / SHARE_MODULUS


def _print(deployment: SharesDeployment, report: dict[str, Any]) -> None:
    plan, settings = deployment.plan, deployment.settings
    title = (
        f"d = {settings.dim}, K = {settings.arms}, T = {settings.horizon}, "
        f"{report['security']} bits, profile shares, opener {plan.opener}"
    )
    print_table(title, columns=("choice", "value", "why"), rows=_choices(deployment, report))
    certificates = report["certificates"]
    print_table(
        "what it promises, at worst",
        columns=("certificate", "error", "of"),
        rows=[
            ("inverse", f"{certificates['inverse']:.3g}", "||V^(1/2) A V^(1/2) - I||"),
            (
                "estimate",
                f"{certificates['estimate']:.3g}",
                f"norm of w - V^-1 g in V; it is in the radius, {report['radius']:.3g} at the end",
            ),
            ("score", f"{certificates['score']:.3g}", "scores that are nearer may be ties"),
            (
                "failure",
                f"2^{math.log2(report['failure_probability']):.1f}",
                "probability that an opened share wraps, over the horizon; in updates the check "
                "notices it",
            ),
        ],
    )
    print_table("what it costs", columns=("", "", ""), rows=_costs(report))


def _choices(deployment: SharesDeployment, report: dict[str, Any]) -> list[tuple[str, str, str]]:
    plan = deployment.plan
    blocks = report["blocks"]
    schedule = "growth by reports alone"
    if plan.most_tested:
        schedule = f"the trace is tested up to {plan.most_tested} new reports, within "
        schedule += f"{report['test_resolution']:.2g} of C"
    checked = "nothing: users follow the protocol"
    if plan.opener == "authority":
        what = "sums with random signs" if deployment.sums_are_checked else "numbers"
        checked = f"{deployment.checked} {what} of every ask, in its own circuit"
    return [
        (
            "ring",
            f"N = {describe_ring(report['ring_dim'])}",
            f"log2(QP) is {report['log2_qp']} of at most {report['max_log2_qp']} for "
            f"{report['security']} bits (ePrint 2024/463, table 5.2)",
        ),
        (
            "primes",
            " + ".join(map(str, report["primes"])),
            "two products; two primes carry shares, one is left to be compared",
        ),
        (
            "contexts",
            f"{report['context_bits']} bits",
            "as many as leave room for the score in a polynomial of all users",
        ),
        (
            "score",
            f"{report['score_bits']} bits",
            f"two scores nearer than {report['resolution']:.2g} of the range may be ties",
        ),
        (
            "share",
            f"{report['share_bits']} bits",
            f"{plan.grid.low_bits} of them hold CKKS's error, which the circuit rounds away",
        ),
        ("ranges", plan.opener, f"checked: {checked}"),
        (
            "Newton",
            f"{report['newton_steps']} steps",
            "for one report that no test has seen; more at once take more",
        ),
        (
            "blocks",
            str(blocks),
            "one product of polynomials multiplies the matrices"
            if blocks == 1
            else "products of polynomials for one of matrices: 2 d^3 > N",
        ),
        ("updates", f"{report['updates']} at most", schedule),
    ]


def _costs(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        ("a round", f"{1e3 * report['estimated_seconds_per_round']:.3g} ms", "all parties"),
        (
            "an update",
            f"{1e3 * report['estimated_seconds_per_update']:.3g} ms",
            f"{report['products_per_update']} products, {report['reopenings_per_update']} "
            f"reopenings; {report['calibration']}",
        ),
        ("up", _size(report["bytes_up"]), "an ask and a report"),
        ("down", _size(report["bytes_down"]), "an answer"),
        ("evaluation keys", _size(report["evaluation_key_bytes"]), "at the server"),
        ("memory", _size(report["memory_bytes"]), "of an update, beside the program's own"),
        (
            "at once",
            _several(report["users_per_product"], "ask"),
            f"and {_several(report['reports_per_product'], 'report')} in one product",
        ),
    ]


def _several(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _size(count: float) -> str:
    return f"{count / 1e6:.3g} MB" if count >= 1e5 else f"{count / 1e3:.3g} kB"
