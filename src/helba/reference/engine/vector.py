"""The encrypted value that engines return: it tells its shape, never its content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from helba.reference.planning.parameters import Parameters


@dataclass(frozen=True, eq=False)
class Body:
    """One form of a value: `payload` at `level`, its scale to the power `degree`.

    A product leaves degree 2 and `linear` False; relinearising and rescaling bring it to degree 1
    one level down.
    """

    payload: Any
    level: int
    degree: int = 1
    linear: bool = True


class EncryptedVector:
    """An immutable vector of `slots` numbers, encrypted.

    `level` counts the levels used so far, so `levels_left` products can still follow.
    """

    __slots__ = ("_body", "_lowered", "parameters", "slots", "tag")

    def __init__(self, body: Body, *, slots: int, parameters: Parameters, tag: str) -> None:
        self._body = body
        self._lowered: dict[int, Body] = {}  # the same value at other levels, made when needed
        self.slots = slots
        self.parameters = parameters
        self.tag = tag

    @property
    def level(self) -> int:
        """Levels used, a rescaling that is still to come included."""
        return self._body.level + self._body.degree - 1

    @property
    def levels_left(self) -> int:
        """Products that can still follow one another."""
        return self.parameters.depth - self.level

    @property
    def log2_scale(self) -> float:
        """Bits of the scale, nominally: fixed-point digits of the numbers."""
        return float(self.parameters.scale_bits)

    def __repr__(self) -> str:
        return (
            f"<EncryptedVector slots={self.slots} level={self.level}/{self.parameters.depth} "
            f"log2_scale={self.log2_scale:.0f}>"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("an encrypted vector cannot be pickled; serialise it with its engine")
