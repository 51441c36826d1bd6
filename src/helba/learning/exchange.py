"""Stacks of polynomials that are reopened, and opened values that are compared.

Computations on ciphertexts are generators of the server (`helba.learning.update`). They yield a
`Reopen`, a `Compare` or an `EncryptPads` where they need the opener, and are sent the outcome. The
driver (`helba.server.conversation`) opens the ciphertexts, sends messages, and takes masks off.
Both sides derive the moves and the noise from the plan and the step's public numbers: an `Exchange`
for every stack that is opened. So a message names a step and carries ciphertexts, and the opener
does nothing that the plan does not say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from helba.errors import EngineError
from helba.ring import Ciphertext, Mask, Move, Opening, Rearrangement, Recipient, Ring
from helba.ring.sharing.integer import Places


@dataclass(frozen=True, eq=False)
class Stack:
    """Ciphertexts of the polynomials of an arrangement; those that are not there are zero."""

    parts: Mapping[int, Ciphertext]

    @property
    def only(self) -> Ciphertext:
        """The one ciphertext of a stack of one polynomial."""
        (ciphertext,) = self.parts.values()
        return ciphertext

    def each(self, change: Callable[[Ciphertext], Ciphertext]) -> Stack:
        """Return the stack of the changed ciphertexts."""
        return Stack({k: change(part) for k, part in self.parts.items()})

    @property
    def failure(self) -> float:
        """The probability that one of them was reopened wrongly."""
        return math.fsum(part.failure for part in self.parts.values())


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """One array of numbers that a reopening makes.

    `scale` is theirs; `peak` and `norm` bound them in the ring's integers, where an analysis knows
    better than the bounds that are carried along. `deviation` is that of the opener's noise.
    """

    name: str
    moves: tuple[Move, ...]
    scale: float
    peak: float | None = None
    norm: float | None = None
    deviation: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Exchange:
    """One stack that is opened and reopened as `targets`.

    `peak` is the plan's bound of the integers that are opened, `noise` that of their error, which
    the deviations rely on.
    """

    ring_dim: int
    targets: tuple[Target, ...]
    peak: float = math.inf
    noise: float = math.inf

    @cached_property
    def places(self) -> dict[int, Places]:
        """The coefficients that are opened, by polynomial."""
        sources = np.unique(
            np.concatenate([move.source for target in self.targets for move in target.moves])
        )
        numbers, coefficients = np.divmod(sources, self.ring_dim)
        return {int(k): coefficients[numbers == k] for k in np.unique(numbers)}

    @cached_property
    def rearrangements(self) -> tuple[dict[int, Rearrangement], ...]:
        """For each target, by polynomial: what is encrypted again."""
        return tuple(self._rearrange(target) for target in self.targets)

    def _rearrange(self, target: Target) -> dict[int, Rearrangement]:
        parts: dict[int, list[Move]] = {}
        for move in target.moves:
            numbers, coefficients = np.divmod(move.target, self.ring_dim)
            for k in np.unique(numbers):
                here = numbers == k
                part = replace(move, source=move.source[here], target=coefficients[here])
                parts.setdefault(int(k), []).append(part)
        return {k: Rearrangement(moves, scale=target.scale) for k, moves in sorted(parts.items())}


@dataclass(frozen=True, kw_only=True, eq=False)
class Reopen:
    """The server's computation needs these stacks reopened, as the step's exchanges say."""

    step: str
    stacks: tuple[Stack, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Compare:
    """The server's computation needs a comparison of these values, which have one prime left.

    Places, circuit and the opener's noise are those of the plan. `shares` are the garbler's parts
    of values that were shared from the start, for the circuit's last groups.
    """

    values: tuple[Ciphertext, ...]
    shares: tuple[Any, ...] = field(default=(), repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class EncryptPads:
    """The server's computation needs the pads of these sealed seeds, encrypted by the opener."""

    boxes: tuple[bytes, ...] = field(repr=False)


Steps = Generator[Reopen | Compare | EncryptPads, Any, Any]


def open_stack(
    ring: Ring, stack: Stack, exchange: Exchange, *, to: Recipient | None
) -> tuple[list[Opening], Mask]:
    """Open a stack: the openings for the opener, in order, and the server's mask."""
    if not exchange.places.keys() <= stack.parts.keys():
        raise EngineError("expected a ciphertext for every polynomial that is opened")
    opened = ring.run_all(
        [
            partial(ring.open, stack.parts[number].within(peak=exchange.peak), places=places, to=to)
            for number, places in exchange.places.items()
        ]
    )
    found = max(mask.carried.noise for _, mask in opened)
    if found > exchange.noise:
        raise EngineError(
            f"expected noise of at most {exchange.noise:.3g} by the plan, got {found:.3g}"
        )
    masks = dict(zip(exchange.places, (mask for _, mask in opened), strict=True))
    return [opening for opening, _ in opened], Mask.join(masks)


def take_replies(
    ring: Ring, mask: Mask, replies: Sequence[Ciphertext], exchange: Exchange
) -> list[Stack]:
    """Take the mask off: one stack for each target."""
    keys, rearrangements, added = [], [], []
    for index, parts in enumerate(exchange.rearrangements):
        for number, rearrangement in parts.items():
            keys.append((index, number))
            rearrangements.append(rearrangement)
            added.append(exchange.targets[index].deviation)
    fresh = ring.reopen(mask, replies, rearrangements=rearrangements, added=added, renew=True)
    stacks: list[dict[int, Ciphertext]] = [{} for _ in exchange.targets]
    for (index, number), ciphertext in zip(keys, fresh, strict=True):
        target = exchange.targets[index]
        # What failed before is what a check is for; a bound that went on would double each step.
        failure = max(0.0, ciphertext.failure - mask.carried.failure)
        bounded = ciphertext.within(peak=target.peak, norm=target.norm)
        stacks[index][number] = replace(bounded, failure=failure)
    return [Stack(parts) for parts in stacks]
