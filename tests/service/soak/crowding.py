"""Many users at once for a while: throughput beside one user at a time, memory, and the sums."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.service.soak.audit import Reward, audit
from tests.service.soak.service import Service, Setting, serving

SAMPLE_SECONDS = 1.0
# The part of the samples that is after the warm-up, and the growth in it that counts as none.
LAST, FLAT = 0.6, 0.05


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A moment: memory of the server's processes, and rewards that wait for an update."""

    at: float
    resident_bytes: Mapping[str, float]
    held: int


def run_crowd(
    folder: Path,
    *,
    setting: Setting,
    users: int,
    seconds: float,
    alone_seconds: float,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Run the load generator on a service of its own; the report."""
    with serving(folder, setting=setting) as service:
        say("serving; the load begins")
        with _sampling(service) as samples:
            load = service.run_load(
                folder / "load", users=users, seconds=seconds, alone_seconds=alone_seconds
            )
        codes = {name: service.stop(name) for name in ("authority", "server")}
        lines = (folder / "load" / "acknowledged.jsonl").read_text().splitlines()
        found = audit(service, [Reward(**json.loads(line)) for line in lines])
        faults = list(found.pop("faults"))
        if load["unsure_rewards"]:
            faults.append(f"{load['unsure_rewards']} rewards have no receipt in the end")
        together = load["together"]
        if together["errors"]:
            faults.append(f"users met errors: {together['errors']}")
        during = _of_the_crowd(samples, seconds=together["seconds"])
        memory = describe_memory([(each.at, each.resident_bytes) for each in during])
        held = [each.held for each in during]
        why = f" ({held[0]} rewards were held for updates, then {held[-1]})"
        growing = [name for name, each in memory.items() if each["grows"]]
        faults += [f"the memory of {name} grows{why}" for name in growing]
        faults += [f"the {name} ended with {code}" for name, code in codes.items() if code != 0]
        faults += service.complaints()
        return {
            "insecure": setting.insecure,
            "users": users,
            "enrol_seconds": load["enrol_seconds"],
            "alone": load.get("alone"),
            "together": together,
            "speedup": load["speedup"],
            "unsure_rewards": load["unsure_rewards"],
            **found,
            "held_rewards": {"first": held[0], "most": max(held), "last": held[-1]},
            "memory": memory,
            "statuses": service.statuses(),
            "faults": faults,
            "verdict": "sound" if not faults else "not sound",
        }


def describe_memory(samples: Sequence[tuple[float, Mapping[str, float]]]) -> dict[str, Any]:
    """How the memory of each process went: its slope in the last part, and whether it grows."""
    last = samples[round((1 - LAST) * len(samples)) :]
    report = {}
    for name in sorted({name for _, held in last for name in held}):
        points = [(at, held[name]) for at, held in last if name in held]
        if len(points) < 3:
            continue
        times, held = np.array(points).T
        slope = float(np.polyfit(times - times[0], held, 1)[0])
        growth = slope * float(times[-1] - times[0]) / float(held.mean())
        report[name] = {
            "samples": len(points),
            "first_mib": round(held[0] / 2**20, 1),
            "last_mib": round(held[-1] / 2**20, 1),
            "most_mib": round(held.max() / 2**20, 1),
            "mib_a_minute": round(60 * slope / 2**20, 3),
            "growth": round(growth, 4),
            "grows": growth > FLAT,
        }
    return report


def _of_the_crowd(samples: Sequence[Sample], *, seconds: float) -> list[Sample]:
    """Those of the phase in which all played, which is the last."""
    return [each for each in samples if each.at >= samples[-1].at - seconds]


@contextmanager
def _sampling(service: Service) -> Iterator[list[Sample]]:
    """Memory of the server's processes, while the block lasts."""
    samples: list[Sample] = []
    ending = threading.Event()

    def sample() -> None:
        while not ending.wait(SAMPLE_SECONDS):
            metrics, tenant = service.metrics(), service.get("server", "/v1/tenants/main")
            if metrics is not None and tenant is not None:
                held = int(tenant.json().get("held") or 0)
                samples.append(
                    Sample(at=time.monotonic(), resident_bytes=metrics.resident_bytes, held=held)
                )

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        ending.set()
        thread.join()
