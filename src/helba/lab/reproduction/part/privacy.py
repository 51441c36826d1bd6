"""Local differential privacy beside HELBA: on the horizon of the comparison, and on a longer one.

On the paper's horizon LDP has no time to learn at any usual epsilon. How it fares with more time,
and with a smaller radius than its theory asks for, is played too, so that nobody need wonder.
"""

from __future__ import annotations

from typing import Any

from helba.lab.reproduction.plaintext import clear_unit
from helba.lab.reproduction.scope import Scope
from helba.lab.reproduction.section import Table
from helba.lab.reproduction.unit import Results, Unit

PROBLEM = "toy"
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
RADIUS_SCALES = (1.0, 0.1)
# Rounds and draws of the longer horizon, in a full and in a quick report.
LONG = ((10_000, 8), (2_000, 5))
BESIDE = {"helba": "HELBA, profile ciphertext", "uniform": "uniform choice"}
NUMBER_BYTES = 8


def private_name(epsilon: float) -> str:
    """Return the name of the unit on the comparison's own horizon."""
    return f"comparison-ldp-{epsilon:g}"


def private_units(scope: Scope) -> list[Unit]:
    """Return the runs of LDP, and those beside it on the longer horizon."""
    found = [
        clear_unit(
            private_name(epsilon),
            problem=PROBLEM,
            horizon=scope.horizon,
            algorithm="ldp",
            seed=scope.seed,
            repetitions=scope.repetitions,
            epsilon=epsilon,
        )
        for epsilon in EPSILONS
    ]
    horizon, repetitions = LONG[scope.quick]
    long: dict[str, dict[str, Any]] = {
        _long_name(epsilon, radius): {
            "algorithm": "ldp",
            "epsilon": epsilon,
            "radius_scale": radius,
        }
        for epsilon in EPSILONS
        for radius in RADIUS_SCALES
    }
    long |= {f"comparison-long-{name}": {"algorithm": name} for name in BESIDE}
    for name, options in long.items():
        found.append(
            clear_unit(
                name,
                problem=PROBLEM,
                horizon=horizon,
                seed=scope.seed,
                repetitions=repetitions,
                **options,
            )
        )
    return found


def private_bytes(*, dim: int) -> tuple[int, int]:
    """Return the bytes of a private round: the noisy report, then the model that the user plays.

    A user whose contexts are private chooses at home: it gets estimate, inverse and radius, and
    sends x x^T and r x; of a symmetric matrix one half travels.
    """
    report = dim * (dim + 1) // 2 + dim
    return NUMBER_BYTES * report, NUMBER_BYTES * (report + 1)


def private_table(results: Results) -> Table:
    """Return what LDP reaches with more time."""
    chance = results["comparison-long-uniform"]
    rows: list[list[Any]] = []
    for epsilon in EPSILONS:
        for radius in RADIUS_SCALES:
            found = results[_long_name(epsilon, radius)]
            rows.append([f"LDP, epsilon = {epsilon:g}", radius, *_regret(found, chance=chance)])
    for name, label in BESIDE.items():
        found = results[f"comparison-long-{name}"]
        rows.append([label, None, *_regret(found, chance=chance)])
    return Table(
        name="comparison-ldp",
        caption=(
            f"With more time: {chance['horizon']:,} rounds of the toy problem, mean over "
            f"{chance['repetitions']} draws, all in the clear. The radius is that of LDP's own "
            "theory times the factor; the last column compares with choosing at random."
        ),
        columns=("algorithm", "radius ×", "regret", "± se", "share of uniform's regret"),
        rows=rows,
    )


def _long_name(epsilon: float, radius: float) -> str:
    return f"comparison-long-ldp-{epsilon:g}-radius-{radius:g}"


def _regret(found: dict[str, Any], *, chance: dict[str, Any]) -> list[Any]:
    return [found["regret"], found["regret_se"], found["regret"] / chance["regret"]]
