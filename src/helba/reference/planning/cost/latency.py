"""Predicted seconds of a chain of steps under given parameters.

Every operation is priced at the middle of its step's levels: what is done early in a step costs
more than predicted, what is done late costs less. Sums of products relinearise once where the
prediction counts each, so it errs on the slow side.
"""

from __future__ import annotations

from collections.abc import Sequence

from helba.reference.planning.cost.calibration import Calibration
from helba.reference.planning.cost.chain import Chain, Step
from helba.reference.planning.parameters import Parameters


def step_seconds(
    step: Step, *, parameters: Parameters, calibration: Calibration, level: int
) -> float:
    """Return the seconds of a step that starts with `level` levels used."""
    middle = level + max(0, step.cost.levels - 1) / 2.0

    def price(kind: str) -> float:
        return calibration.seconds(kind, parameters=parameters, level=middle)

    cost = step.cost
    total = cost.products * (price("multiply") + price("relinearise") + price("rescale"))
    total += cost.plain_products * (price("multiply_plain") + price("add"))
    single = cost.rotations
    for count in step.groups:
        if count > 1:
            total += price("hoist") + count * price("rotate_extended") + price("shrink")
            single -= count
    return total + max(0, single) * price("rotate")


def chain_seconds(
    chain: Chain,
    *,
    parameters: Parameters,
    calibration: Calibration,
    refresh: str,
    start: int,
    reserved: int = 0,
) -> float:
    """Return the seconds of a chain that starts, and after each refresh restarts, at `start`.

    Where a last piece needs fewer levels than there are, it is run on the lowest ones that leave
    `reserved` for a refresh of its result (`circuits.levels.sink`): quicker.
    """
    renewal = calibration.seconds(refresh, parameters=parameters) if chain.refreshes else 0.0
    total = chain.refreshes * renewal
    for index, piece in enumerate(chain.pieces):
        last = index == len(chain.pieces) - 1
        level = parameters.depth - reserved - _levels(piece) if last else start
        for step in piece:
            total += step_seconds(
                step, parameters=parameters, calibration=calibration, level=max(start, level)
            )
            level += step.cost.levels
    return total


def _levels(piece: Sequence[Step]) -> int:
    return sum(step.cost.levels for step in piece)
