"""What a circuit costs: levels in sequence, and how many of each costly operation in all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Levels used, products of ciphertexts, products with plaintexts, rotations.

    `a + b` is a after b: levels add up. `a | b` is a beside b: the deeper one counts.
    """

    levels: int = 0
    products: int = 0
    plain_products: int = 0
    rotations: int = 0

    def __add__(self, other: Cost) -> Cost:
        return self._with(other, levels=self.levels + other.levels)

    def __or__(self, other: Cost) -> Cost:
        return self._with(other, levels=max(self.levels, other.levels))

    def times(self, count: int) -> Cost:
        """Return the cost of doing it `count` times in sequence."""
        return Cost(
            levels=self.levels * count,
            products=self.products * count,
            plain_products=self.plain_products * count,
            rotations=self.rotations * count,
        )

    def _with(self, other: Cost, *, levels: int) -> Cost:
        return Cost(
            levels=levels,
            products=self.products + other.products,
            plain_products=self.plain_products + other.plain_products,
            rotations=self.rotations + other.rotations,
        )
