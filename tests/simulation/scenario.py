"""A scenario is data: who takes part, what goes wrong how often, and what happens in which order.

The same scenario plays the same way every time: its seed decides what the network does, when a
party crashes, and every random byte that a party draws.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

FAILURES = Path(__file__).with_name("failures.jsonl")
# A wild ask or report is that of a user who does not follow the protocol: it is out of range, or
# its box cannot be opened.
KINDS = ("ask", "report", "wild ask", "wild report", "wait", "crash", "worker", "cut")
WEIGHTS = (12, 20, 1, 2, 10, 4, 2, 2)
PARTIES = ("server", "opener", "user")


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Something that happens: `kind` to `actor`, a user's number or a party, for `seconds`."""

    kind: str
    actor: int | str = 0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Chances: a message lost, sent twice, late, cut short; a crash at one that came."""

    lose: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0
    truncate: float = 0.0
    crash: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A whole play. `garbling` is clear, or real: then labels and offsets are looked at, too."""

    seed: int
    opener: str = "authority"
    schedule: str = "public"
    garbling: str = "clear"
    users: int = 2
    faults: Faults = field(default_factory=Faults)
    operations: tuple[Operation, ...] = ()

    def dump(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, line: str) -> Scenario:
        """Read what `dump` wrote."""
        told: dict[str, Any] = json.loads(line)
        told["faults"] = Faults(**told["faults"])
        told["operations"] = tuple(Operation(**each) for each in told["operations"])
        return cls(**told)


def draw_scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    luck = Random(f"scenario {seed}")
    faults = Faults(
        lose=luck.choice((0.0, 0.02, 0.1)),
        repeat=luck.choice((0.0, 0.05, 0.2)),
        delay=luck.choice((0.0, 0.1, 0.3)),
        truncate=luck.choice((0.0, 0.0, 0.02)),
        crash=luck.choice((0.0, 0.01, 0.04)),
    )
    users = luck.randint(1, 3)
    operations = []
    long = luck.random() < 0.1  # several updates, and faults that follow on each other
    for _ in range(luck.randint(15, 40) if long else luck.randint(2, 7)):
        kind = luck.choices(KINDS, weights=WEIGHTS)[0]
        actor: int | str = luck.randrange(users)
        if kind == "crash":
            actor = luck.choice(PARTIES)
        if kind == "cut":
            actor = luck.choice(("opener", 0))
        seconds = luck.choice((0.01, 0.1, 1.0, 7.0)) if kind in ("wait", "crash", "cut") else 0.0
        operations.append(Operation(kind=kind, actor=actor, seconds=seconds))
    return Scenario(
        seed=seed,
        opener=luck.choice(("authority", "authority", "users")),
        schedule=luck.choice(("public", "public", "trace")),
        garbling="real" if luck.random() < 0.01 else "clear",
        users=users,
        faults=faults,
        operations=tuple(operations),
    )


def shrink(scenario: Scenario, fails: Any) -> Scenario:
    """Leave operations and faults out as long as it still fails."""
    smaller = True
    while smaller:
        smaller = False
        for index in range(len(scenario.operations)):
            rest = scenario.operations[:index] + scenario.operations[index + 1 :]
            candidate = replace(scenario, operations=rest)
            if fails(candidate):
                scenario, smaller = candidate, True
                break
        for name, chance in asdict(scenario.faults).items():
            if chance and not smaller:
                candidate = replace(scenario, faults=replace(scenario.faults, **{name: 0.0}))
                if fails(candidate):
                    scenario, smaller = candidate, True
    return scenario


def read_failures() -> list[Scenario]:
    """Scenarios that once failed."""
    lines = FAILURES.read_text().splitlines() if FAILURES.exists() else []
    return [Scenario.load(line) for line in lines if line]
