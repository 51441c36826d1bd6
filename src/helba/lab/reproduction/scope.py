"""The scope of a reproduction: how much of it, from which seed, on which engine.

Everything a section plans follows from here, so that the same scope gives the same units. A quick
reproduction plays the same repetitions as a full one; it spares ciphertexts, which cost nearly all
of the time, and every section says what it spared.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from helba.errors import InvalidInput, require_choice, require_whole
from helba.lab.comparison.tuning import MOST_SEED, SEED_OFFSET

ENCRYPTED_ENGINES = ("ckks", "simulate")
KAPPAS = (128, 192, 256)
REPETITIONS = 25
HORIZON, MOST_HORIZON = 130, 100_000
FULL_REPETITIONS, QUICK_REPETITIONS = 2, 1
# What a quick reproduction plays on ciphertexts where a full one plays every round.
QUICK_SQRT_ROUNDS = 3
QUICK_KAPPA_ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class Scope:
    """A request for a reproduction, checked. Repetition r plays the problem drawn from `seed + r`.

    `encrypted_repetitions` of the quadratic bonus play on ciphertexts, the rest in the simulator.
    `engine` is what encrypted units run on: with `simulate` none of them is encrypted, for machines
    without OpenFHE, and the report says so.
    """

    quick: bool = False
    seed: int = 0
    repetitions: int = REPETITIONS
    horizon: int = HORIZON
    encrypted_repetitions: int = FULL_REPETITIONS
    engine: str = "ckks"

    def __post_init__(self) -> None:
        require_whole("seed", self.seed, least=0, most=MOST_SEED)
        require_whole("repetitions", self.repetitions, least=1, most=SEED_OFFSET - 1)
        require_whole("horizon", self.horizon, least=2, most=MOST_HORIZON)
        require_whole("encrypted", self.encrypted_repetitions, least=0, most=SEED_OFFSET - 1)
        require_choice("engine", self.engine, ENCRYPTED_ENGINES)
        if self.encrypted_repetitions > self.repetitions:
            allowed = f"at most the {self.repetitions} repetitions"
            raise InvalidInput("encrypted", self.encrypted_repetitions, allowed)

    @property
    def really_encrypted(self) -> bool:
        """True if encrypted units run on ciphertexts."""
        return self.engine == "ckks"

    @property
    def sqrt_repetitions(self) -> int:
        """Repetitions of the square-root bonus that play every round on ciphertexts."""
        return 0 if self.quick else min(1, self.encrypted_repetitions)

    @property
    def sqrt_sample_rounds(self) -> int:
        """Rounds of the square-root bonus on ciphertexts where no repetition plays them all."""
        wanted = self.encrypted_repetitions > 0 and self.sqrt_repetitions == 0
        return min(self.horizon, QUICK_SQRT_ROUNDS) if wanted else 0

    @property
    def kappa_rounds(self) -> int:
        """Rounds that are played at every level of security, for Figure 2 and Table 1."""
        return min(self.horizon, QUICK_KAPPA_ROUNDS) if self.quick else self.horizon

    def describe(self) -> str:
        """Return what was asked for, in a line."""
        kind = "a quick reproduction" if self.quick else "the full reproduction"
        engine = "" if self.really_encrypted else ", in the simulator: nothing is encrypted"
        return (
            f"{kind}, {self.repetitions} repetitions of {self.horizon} rounds from seed "
            f"{self.seed}{engine}"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the scope as plain values, with what follows from it."""
        return {
            **asdict(self),
            "sqrt_repetitions": self.sqrt_repetitions,
            "sqrt_sample_rounds": self.sqrt_sample_rounds,
            "kappa_rounds": self.kappa_rounds,
        }


def ciphertext_repetitions(*, quick: bool, repetitions: int) -> int:
    """Return how many repetitions play on ciphertexts unless told otherwise."""
    return min(repetitions, QUICK_REPETITIONS if quick else FULL_REPETITIONS)
