"""Security levels of plans: what the table allows is taken, what it does not is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import pytest

from helba.errors import InvalidInput
from helba.reference.planning.parameters import Parameters, insecure_parameters
from helba.reference.planning.planner import make_plan
from helba.reference.planning.request import PlanRequest
from helba.reference.planning.selection import choose_parameters, largest_scale, possible_digits
from helba.ring.security import RING_DIMS, SECURITY_LEVELS, max_log2_qp
from tests.sweep import in_soak

# Table 5.2 of ePrint 2024/463 for N = 2^13 to 2^17.
TABLE = {
    128: (214, 430, 868, 1747, 3523),
    192: (147, 297, 597, 1199, 2411),
    256: (114, 230, 462, 929, 1866),
}
CELLS = [
    (level, ring_dim, limit)
    for level in TABLE
    for ring_dim, limit in zip(RING_DIMS, TABLE[level], strict=True)
]
SCALE_BITS = 40
TOY = {"dim": 2, "arms": 2, "horizon": 130}


def at_levels(
    *cases: tuple[object, ...], everywhere: tuple[object, ...]
) -> list[tuple[object, ...]]:
    """One case at every level, and each of the others at one; in `make soak` all at all."""
    found = [(level, *everywhere) for level in SECURITY_LEVELS]
    for number, case in enumerate(cases):
        chosen = SECURITY_LEVELS[number % len(SECURITY_LEVELS)]
        found += [
            (level, *case) if level == chosen else in_soak(level, *case)
            for level in SECURITY_LEVELS
        ]
    return found


@lru_cache(maxsize=32)
def deepest(level: int, ring_dim: int) -> Parameters | None:
    """The parameters with the most levels of `SCALE_BITS`, None if not even one fits."""
    found = None
    for depth in range(1, 101):
        fitting = [
            parameters
            for digits in possible_digits(depth)
            if (
                parameters := largest_scale(
                    ring_dim=ring_dim,
                    depth=depth,
                    digits=digits,
                    security=level,
                    scale_bits=SCALE_BITS,
                )
            )
        ]
        if not fitting:
            break
        found = fitting[-1]
    return found


@pytest.mark.parametrize(("level", "ring_dim", "limit"), CELLS)
def test_deepest_parameters_use_the_table_up_to_its_limit(level, ring_dim, limit):
    assert max_log2_qp(ring_dim, security=level) == limit
    found = deepest(level, ring_dim)
    depth = 0
    if found is not None:
        assert found.security == level
        assert found.log2_qp <= limit
        depth = found.depth
    for digits in possible_digits(depth + 1):
        fields = {"ring_dim": ring_dim, "depth": depth + 1, "scale_bits": SCALE_BITS}
        assert insecure_parameters(**fields, digits=digits).log2_qp > limit
        words = rf"at most {limit} at N = .* for {level} bits \(ePrint 2024/463\)"
        with pytest.raises(InvalidInput, match=words):
            Parameters(**fields, digits=digits, security=level)


@pytest.mark.parametrize("level", SECURITY_LEVELS)
def test_chosen_parameters_meet_their_level_until_no_ring_does(level):
    most = deepest(level, RING_DIMS[-1]).depth
    for depth in (1, 4, 8, 12, 20, most):
        chosen = choose_parameters(depth=depth, security=level)
        assert chosen.security == level
        assert chosen.log2_qp <= TABLE[level][RING_DIMS.index(chosen.ring_dim)]
    with pytest.raises(InvalidInput, match=f"at most {most} with 40 scale bits at {level} bits"):
        choose_parameters(depth=most + 1, security=level)


@pytest.mark.parametrize(
    ("level", "fields"),
    at_levels(
        ({"horizon": 130, "profile": "paper", "bonus": "sqrt"},),
        ({"horizon": 3, "refresh": "none"},),
        ({"horizon": 3, "refresh": "bootstrap"},),
        ({"dim": 8, "arms": 8, "horizon": 100},),
        ({"horizon": 3},),
        everywhere=({"horizon": 130},),
    ),
    ids=str,
)
def test_plan_meets_the_level_that_was_asked_for(level, fields):
    plan = make_plan(PlanRequest(**{**TOY, **fields}, security=level))
    parameters = plan.parameters
    assert parameters.security == plan.security == level
    assert parameters.log2_qp <= TABLE[level][RING_DIMS.index(parameters.ring_dim)]


@pytest.mark.parametrize(("level", "ring_dim", "limit"), CELLS)
def test_plan_with_one_level_too_many_is_refused_with_the_table(level, ring_dim, limit):
    found = deepest(level, ring_dim)
    depth = 1 if found is None else found.depth + 1
    request = PlanRequest(
        **TOY, security=level, ring_dim=ring_dim, depth=depth, scale_bits=SCALE_BITS
    )
    words = rf"at most {limit} at N = .* for {level} bits .* it needs (about )?N = 2\^1[4-8]"
    with pytest.raises(InvalidInput, match=words) as caught:
        make_plan(request)
    assert caught.value.name == "log2(QP)"


@pytest.mark.parametrize(
    ("level", "fields", "name"),
    at_levels(
        ({"refresh": "none"}, "horizon"),
        ({"ring_dim": 1 << 13}, "ring_dim"),
        ({"depth": 95}, "depth"),
        ({"depth": 5}, "depth"),
        ({"scale_bits": 35}, "scale_bits"),
        ({"depth": 4}, "depth"),
        ({"refresh": "bootstrap", "horizon": 3, "ring_dim": 1 << 15}, "ring_dim"),
        everywhere=({"ring_dim": 1 << 14}, "ring_dim"),
    ),
    ids=str,
)
def test_refusal_names_the_level_and_the_nearest_request(level, fields, name):
    request = PlanRequest(**{**TOY, **fields}, security=level)
    with pytest.raises(InvalidInput, match=f"at {level} bits") as caught:
        make_plan(request)
    assert caught.value.name == name
    bound, number = re.search(r"at (most|least) about (\d+)", caught.value.allowed).groups()
    nearest, asked = int(number), getattr(request, name)
    assert nearest < asked if bound == "most" else nearest > asked
    plan = make_plan(replace(request, **{name: nearest}))
    assert plan.parameters.security == level
    assert plan.parameters.log2_qp <= plan.max_log2_qp
    if name == "ring_dim":
        beyond = nearest // 2
    else:
        beyond = nearest + (1 if bound == "most" else -1)
    with pytest.raises(InvalidInput):
        make_plan(replace(request, **{name: beyond}))


def test_fields_that_are_impossible_together_are_refused_together():
    request = PlanRequest(**TOY, security=256, ring_dim=1 << 15, depth=6)
    with pytest.raises(InvalidInput, match=r"about (\d+) and (\d+) at 256 bits") as caught:
        make_plan(request)
    assert caught.value.name == "depth and ring_dim"
    depth, ring_dim = map(int, re.findall(r"\d+", caught.value.allowed)[:2])
    plan = make_plan(replace(request, depth=depth, ring_dim=ring_dim))
    assert (plan.parameters.depth, plan.parameters.ring_dim) == (depth, ring_dim)


@pytest.mark.ckks
@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "ring_dim", "limit"),
    [cell if cell[1] <= 1 << 15 else in_soak(*cell) for cell in CELLS],
)
def test_openfhe_accepts_the_deepest_parameters(level, ring_dim, limit):
    from helba.reference.engine.ckks.context import open_context

    found = deepest(level, ring_dim)
    if found is not None:
        # raises unless OpenFHE's own check passes, and the primes it chose stay below the limit
        assert open_context(found).GetRingDimension() == ring_dim
        assert found.log2_qp <= limit


@pytest.mark.ckks
@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "refresh"), at_levels(("none",), ("bootstrap",), everywhere=("client",))
)
def test_openfhe_accepts_what_is_planned(level, refresh):
    from helba.reference.engine.ckks.context import open_context

    request = PlanRequest(dim=2, arms=2, horizon=3, security=level, refresh=refresh)
    parameters = make_plan(request).parameters
    assert open_context(parameters).GetRingDimension() == parameters.ring_dim
