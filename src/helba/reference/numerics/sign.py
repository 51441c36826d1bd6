"""The sign on [-1, 1] outside a gap around zero, by composed minimax polynomials.

`best_composition` composes stages of given degrees so that |P(x) - sign(x)| is least for
resolution <= |x| <= 1; `cheapest_composition` also chooses the degrees, for a wanted error within a
depth: fewest encrypted products, then fewest levels, then least error. Error, range and slopes are
proven by `composite`. P ripples around 1; where the order of inputs must survive, use `monotone`.

Every stage is the minimax odd polynomial for the proven range of the stage before it, which is the
best composition there is (Lee, Lee and No, ePrint 2020/834).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from helba.errors import InvalidInput, RunFailed, require_at_least, require_between
from helba.reference.numerics.composite import CompositeSign, certify, require_resolution
from helba.reference.numerics.degrees import Step, cheapest_degrees, least_error
from helba.reference.numerics.division import require_degree
from helba.reference.numerics.remez import minimax_odd
from helba.reference.numerics.stage import Stage, greatest_on, next_low, stays_below_one
from helba.reference.numerics.store import remembered

_MAX_STAGES = 32
_MAX_DEPTH = 64
_SHRINK = 1e-13  # past the proven maximum, so that rounding of the coefficients stays below 1


def best_composition(*, resolution: float, degrees: Sequence[int]) -> CompositeSign:
    """The composition of the given odd degrees with the least error on [resolution, 1]."""
    require_resolution(resolution)
    return _best(float(resolution), require_degrees(degrees))


def cheapest_composition(*, resolution: float, error: float, depth: int) -> CompositeSign:
    """The cheapest composition of degrees 3 to 31 with the wanted error, within `depth` levels."""
    require_request(resolution=resolution, error=error, depth=depth)
    return _cheapest(float(resolution), float(error), int(depth))


@lru_cache(maxsize=1024)
def _cheapest(resolution: float, error: float, depth: int) -> CompositeSign:
    return choose_cheapest(
        resolution=resolution,
        error=error,
        depth=depth,
        start=(1 - resolution) / (1 + resolution),
        step=_error_after,
        build=_best,
        kind="minimax",
    )


def require_degrees(degrees: Sequence[int]) -> tuple[int, ...]:
    """The degrees as a tuple, or `InvalidInput`."""
    if not 1 <= len(degrees) <= _MAX_STAGES:
        raise InvalidInput("degrees", tuple(degrees), f"a list of 1 to {_MAX_STAGES} degrees")
    for degree in degrees:
        require_degree("degree", degree)
    return tuple(int(degree) for degree in degrees)


def require_request(*, resolution: float, error: float, depth: int) -> None:
    """Raise `InvalidInput` unless all three are admissible."""
    require_resolution(resolution)
    require_between("error", error, 0.0, 1.0)
    require_at_least("depth", depth, 2)
    if depth > _MAX_DEPTH or int(depth) != depth:
        raise InvalidInput("depth", depth, f"a whole number from 2 to {_MAX_DEPTH}")


def choose_cheapest(
    *,
    resolution: float,
    error: float,
    depth: int,
    start: float,
    step: Step,
    build: Callable[[float, tuple[int, ...]], CompositeSign],
    kind: str,
) -> CompositeSign:
    """The first of the cheapest candidates whose proven error is at most `error`."""

    def search() -> CompositeSign:
        best = least_error(start=start, depth=depth, step=step)
        if best.error <= error:
            for candidate in cheapest_degrees(start=start, target=error, depth=depth, step=step):
                made = build(resolution, candidate.degrees)
                if made.error <= error:
                    return made
        least = build(resolution, best.degrees).error
        allowed = f"at least {least:.3g} at resolution {resolution:.3g} and depth {depth}"
        for more in range(depth + 1, _MAX_DEPTH + 1):
            if least_error(start=start, depth=more, step=step).error < 0.999 * error:
                allowed += f" (depth {more} reaches it)"
                break
        raise InvalidInput("error", error, allowed)

    request = {
        "kind": f"cheapest {kind}",
        "resolution": resolution,
        "error": error,
        "depth": depth,
    }
    return remembered(
        request, compute=search, encode=CompositeSign.to_record, decode=CompositeSign.from_record
    )


@lru_cache(maxsize=1024)
def _best(resolution: float, degrees: tuple[int, ...]) -> CompositeSign:
    request = {"kind": "minimax", "resolution": resolution, "degrees": degrees}
    return remembered(
        request,
        compute=lambda: _compose(resolution, degrees),
        encode=CompositeSign.to_record,
        decode=CompositeSign.from_record,
    )


def _compose(resolution: float, degrees: tuple[int, ...]) -> CompositeSign:
    stages: list[Stage] = []
    low = resolution
    for number, degree in enumerate(degrees):
        best = minimax_odd(degree, low=low)
        stage = best.coefficients
        if number < len(degrees) - 1:
            stage = _below_one(stage, tightness=best.error)
            low = next_low(stage, low=low)
        stages.append(stage)
    return certify(tuple(stages), resolution=resolution)


def _below_one(stage: Stage, *, tightness: float) -> Stage:
    """The stage over its largest value on [0, 1], proven to stay below 1."""
    largest = greatest_on(stage, 1.0, tightness=tightness)
    scaled = tuple(c / (largest * (1 + _SHRINK)) for c in stage)
    if not stays_below_one(scaled):
        raise RunFailed("a stage of the sign could not be scaled below 1")
    return scaled


def _error_after(degree: int, error: float) -> float:
    """Error of the minimax stage of `degree` on the range [1 - error, 1 + error]."""
    return minimax_odd(degree, low=(1 - error) / (1 + error)).error
