"""Figures of a run under load: counts, latencies, processor time and memory of both sides."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PERCENTILES = (50, 90, 95, 99)
SAMPLE = re.compile(
    r'^(helba_cpu_seconds_total|helba_resident_bytes)\{process="([^"]{1,80})"\} ([0-9.e+-]+)$'
)


@dataclass(kw_only=True)
class Tally:
    """What users did since the last tally; latencies in seconds.

    `acknowledged` counts rewards that the server acknowledged, `asked` recommendations.
    """

    asked: int = 0
    acknowledged: int = 0
    helped: int = 0
    retries: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    cpu_seconds: float = 0.0
    ask_seconds: list[float] = field(default_factory=list)
    reward_seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Count in what another tally has."""
        for name in ("asked", "acknowledged", "helped", "retries", "bytes_up", "bytes_down"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.cpu_seconds += other.cpu_seconds
        self.ask_seconds += other.ask_seconds
        self.reward_seconds += other.reward_seconds
        self.errors.update(other.errors)

    def describe(self, *, seconds: float) -> dict[str, Any]:
        """Return the report of a phase that took `seconds`."""
        return {
            "seconds": round(seconds, 3),
            "rounds": self.asked,
            "acknowledged_rewards": self.acknowledged,
            "rounds_per_second": self.acknowledged / seconds if seconds > 0 else None,
            "helped": self.helped,
            "retries": self.retries,
            "errors": dict(self.errors),
            "ask_ms": describe_latency(self.ask_seconds),
            "reward_ms": describe_latency(self.reward_seconds),
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "client_cpu_seconds": round(self.cpu_seconds, 3),
        }


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Processor time and memory of the server's processes, by their names."""

    cpu_seconds: Mapping[str, float]
    resident_bytes: Mapping[str, float]

    @property
    def total_cpu_seconds(self) -> float:
        """Of all processes together."""
        return sum(self.cpu_seconds.values())

    @property
    def total_resident_bytes(self) -> float:
        """Of all processes together."""
        return sum(self.resident_bytes.values())


def read_metrics(text: str) -> Metrics:
    """Return what a page of Prometheus says of the server's processes."""
    found: dict[str, dict[str, float]] = {"helba_cpu_seconds_total": {}, "helba_resident_bytes": {}}
    for line in text.splitlines():
        match = SAMPLE.match(line)
        if match is not None:
            try:
                found[match[1]][match[2]] = float(match[3])
            except ValueError:
                continue
    return Metrics(
        cpu_seconds=found["helba_cpu_seconds_total"], resident_bytes=found["helba_resident_bytes"]
    )


def describe_latency(seconds: Sequence[float]) -> dict[str, float | None]:
    """Return percentiles and the mean, in milliseconds; None where nothing was measured."""
    names = [f"p{each}" for each in PERCENTILES]
    if not seconds:
        return dict.fromkeys([*names, "mean", "max"])
    values = 1000.0 * np.asarray(seconds)
    found = dict(zip(names, np.percentile(values, PERCENTILES).tolist(), strict=True))
    return {**found, "mean": float(values.mean()), "max": float(values.max())}
