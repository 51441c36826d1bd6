"""What a numeric promises: where it holds, how wrong it may be, how many levels it costs.

Levels are multiplicative depth under CKKS: a product of two encrypted values costs one, and so
does a product with a plaintext that is not an integer (erratum 6 of the paper: those are not free).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The error of a result is at most `error` whenever its input lies in `interval`.

    `quantity` says in words what is measured (for instance "spectral norm of X - V^-1").
    """

    quantity: str
    interval: tuple[float, float]
    error: float
    levels: int

    def __str__(self) -> str:
        low, high = self.interval
        return (
            f"{self.quantity} <= {self.error:.3g} on [{low:.3g}, {high:.3g}], {self.levels} levels"
        )


@dataclass(frozen=True, kw_only=True)
class Certified(Generic[Value]):
    """A value together with the certificate it was computed under."""

    value: Value
    certificate: Certificate
