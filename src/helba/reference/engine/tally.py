"""What an engine did: how many operations of each kind, at which level."""

from __future__ import annotations

from collections import Counter, defaultdict
from threading import Lock


class Tally:
    """Counts of operations by (kind, level), and the seconds that a real library spent in them.

    `encodings` counts plaintexts that were encoded; engines keep them, so it says little of a
    circuit and is no operation of it.
    """

    def __init__(self) -> None:
        self.operations: Counter[tuple[str, int]] = Counter()
        self.seconds_by_kind: defaultdict[str, float] = defaultdict(float)
        self.encodings = 0
        self._lock = Lock()  # several threads may compute with one engine

    def add(self, kind: str, *, level: int, count: int = 1) -> None:
        """Count an operation on a ciphertext of `level`."""
        with self._lock:
            self.operations[kind, level] += count

    def spend(self, kind: str, *, seconds: float) -> None:
        """Add time that the library spent in operations of a kind."""
        with self._lock:
            self.seconds_by_kind[kind] += seconds

    def include(self, other: Tally) -> None:
        """Add all that `other` counted."""
        self.operations.update(other.operations)
        for kind, seconds in other.seconds_by_kind.items():
            self.seconds_by_kind[kind] += seconds
        self.encodings += other.encodings

    @property
    def seconds(self) -> float:
        """Time spent in the library, all kinds together; 0 for the simulator."""
        return sum(self.seconds_by_kind.values())

    def of(self, *kinds: str) -> int:
        """How many operations of these kinds there were."""
        return sum(count for (kind, _), count in self.operations.items() if kind in kinds)

    @property
    def products(self) -> int:
        """Products of two encrypted vectors."""
        return self.of("multiply")

    @property
    def plain_products(self) -> int:
        """Products with a vector or a number that is not encrypted."""
        return self.of("multiply_plain", "multiply_scalar")

    @property
    def rotations(self) -> int:
        """Rotations, hoisted ones included."""
        return self.of("rotate", "rotate_hoisted", "rotate_extended")

    def __repr__(self) -> str:
        return (
            f"<Tally products={self.products} plain_products={self.plain_products} "
            f"rotations={self.rotations}>"
        )
