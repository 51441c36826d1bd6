"""Steps that follow one another, the refreshes between them, and the seconds they take.

A chain starts with all levels; a refresh gives all of them back but takes `REFRESH_LEVELS` itself.
Greedy cutting, as late as possible, needs the fewest refreshes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from helba.reference.planning.cost.calibration import Calibration
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.parameters import Parameters

# What a masked refresh needs left: the scale is adjusted, and two primes remain.
REFRESH_LEVELS = 2


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step: its cost, and how many ciphertexts (`state`) a refresh before it has to renew.

    `groups` lists the rotations that are summed from one decomposition, by their numbers; the rest
    of the cost's rotations are single ones. A step that `starts_fresh` begins a piece unless the
    levels suffice for all that is left; with `state` 0, because it works on vectors that are fresh
    anyway, it always does, and what comes before it needs no refresh.
    """

    name: str
    cost: Cost
    state: int = 1
    groups: tuple[int, ...] = ()
    starts_fresh: bool = False


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Steps in pieces; between two pieces the state of the later one's first step is refreshed."""

    pieces: tuple[tuple[Step, ...], ...]

    @property
    def refreshes(self) -> int:
        """Ciphertexts that are refreshed on the way."""
        return sum(piece[0].state for piece in self.pieces[1:])

    @property
    def points(self) -> tuple[str, ...]:
        """The steps before which a refresh comes."""
        return tuple(piece[0].name for piece in self.pieces[1:] if piece[0].state)

    @property
    def levels(self) -> int:
        """Levels of the deepest piece, the refresh after it included."""
        last = len(self.pieces) - 1
        return max(
            levels_of(piece) + (REFRESH_LEVELS if index < last else 0)
            for index, piece in enumerate(self.pieces)
        )


def levels_of(steps: Iterable[Step]) -> int:
    """Return the levels that steps use one after the other."""
    return sum(step.cost.levels for step in steps)


def cut_chain(
    steps: Sequence[Step], *, levels: int, reserved: int = REFRESH_LEVELS, ends_fresh: bool = False
) -> Chain | None:
    """Return the chain with the fewest refreshes within `levels` a piece, or None if none fits.

    Every piece that a refresh follows leaves `reserved` levels for it; the last one does if it
    `ends_fresh`, because its result is refreshed as well.
    """
    pieces: list[tuple[Step, ...]] = []
    left = list(steps)
    while left:
        run = _count_joined(left)
        whole = levels_of(left[:run]) + (reserved if ends_fresh and run == len(left) else 0)
        if whole <= levels:
            pieces.append(tuple(left[:run]))
            left = left[run:]
            continue
        count = 0
        while count < run and levels_of(left[: count + 1]) + reserved <= levels:
            if count and left[count].starts_fresh:
                break
            count += 1
        if count == 0:
            return None
        pieces.append(tuple(left[:count]))
        left = left[count:]
    return Chain(pieces=tuple(pieces))


def _count_joined(steps: Sequence[Step]) -> int:
    """How many steps work on the vectors of the first, before one that has fresh ones."""
    for count, step in enumerate(steps):
        if count and step.starts_fresh and step.state == 0:
            return count
    return len(steps)


def _step_seconds(
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

    Every operation is priced at the middle of its step's levels: what is done early in a step costs
    more than predicted, what is done late costs less. Sums of products relinearise once where the
    prediction counts each, so it errs on the slow side.

    Where a last piece needs fewer levels than there are, it is run on the lowest ones that leave
    `reserved` for a refresh of its result (`circuits.levels.sink`): quicker.
    """
    renewal = calibration.seconds(refresh, parameters=parameters) if chain.refreshes else 0.0
    total = chain.refreshes * renewal
    for index, piece in enumerate(chain.pieces):
        last = index == len(chain.pieces) - 1
        level = parameters.depth - reserved - levels_of(piece) if last else start
        for step in piece:
            total += _step_seconds(
                step, parameters=parameters, calibration=calibration, level=max(start, level)
            )
            level += step.cost.levels
    return total
