"""What a server measures of itself, as Prometheus reads it.

Requests, rounds and rewards count from the start of the process. The rest is read from tenants, and
from /proc where there is one, when somebody asks.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from helba.reference.protocol.wire.frame import HEADER
from helba.reference.protocol.wire.messages import Answer, Receipt
from helba.service.link import TenantLink
from helba.service.meter import BOUNDS

FORMAT = "text/plain; version=0.0.4; charset=utf-8"
PROC = Path("/proc")
# Gauges, by the name that a tenant's report has for them.
GAUGES = {
    "waiting": ("helba_waiting", "requests that wait for a tenant"),
    "open_rounds": ("helba_open_rounds", "rounds that have no reward yet"),
    "bits": ("helba_bits_told", "bits that users told of what they decrypted"),
    "bit_budget": ("helba_bit_budget", "bits that may be told under one collective key"),
}


class Metrics:
    """The measurements of one server, in a registry of its own."""

    def __init__(self, tenants: Mapping[str, TenantLink]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "helba_requests", "requests", ["route", "status"], registry=self._registry
        )
        self._rounds = self._counter("helba_rounds", "rounds that were answered")
        self._rewards = self._counter("helba_rewards", "rewards that were acknowledged")
        for name in tenants:
            self._rounds.labels(name)
            self._rewards.labels(name)
        self._registry.register(_Tenants(tenants))
        self._registry.register(_Processes(tenants))

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, ["tenant"], registry=self._registry)

    def count_request(self, route: str, status: int, seconds: float) -> None:  # noqa: ARG002
        """Count a request by the template of its route."""
        self._requests.labels(route, status).inc()

    def count_messages(self, messages: Sequence[bytes], *, tenant: str) -> None:
        """Count the answers and receipts that leave."""
        kinds = [_kind_of(each) for each in messages]
        self._rounds.labels(tenant).inc(kinds.count(Answer.kind))
        self._rewards.labels(tenant).inc(kinds.count(Receipt.kind))

    def as_text(self) -> bytes:
        """Return everything, in the format `FORMAT`."""
        return generate_latest(self._registry)


def _kind_of(message: bytes) -> int | None:
    try:
        return int(HEADER.unpack_from(message)[2])
    except struct.error:
        return None


class _Tenants(Collector):
    def __init__(self, tenants: Mapping[str, TenantLink]) -> None:
        self._tenants = tenants

    def collect(self) -> Iterable[Metric]:
        up = GaugeMetricFamily("helba_tenant_up", "1 if it serves", labels=["tenant"])
        updates = CounterMetricFamily("helba_updates", "models that were made", labels=["tenant"])
        gauges = {
            name: GaugeMetricFamily(metric, text, labels=["tenant"])
            for name, (metric, text) in GAUGES.items()
        }
        seconds = HistogramMetricFamily(
            "helba_round_seconds",
            "from a round's question to its answer, with the user's part where it has one",
            labels=["tenant"],
        )
        bounds = (*map(str, BOUNDS), "+Inf")
        for tenant in self._tenants.values():
            found = tenant.round_seconds()
            buckets = list(zip(bounds, map(float, found.within), strict=True))
            seconds.add_metric([tenant.name], buckets, sum_value=found.seconds)
            up.add_metric([tenant.name], float(tenant.state == "serving"))
            report = tenant.report()
            updates.add_metric([tenant.name], float(report.get("updates") or 0))
            for name, gauge in gauges.items():
                gauge.add_metric([tenant.name], float(report.get(name) or 0))
        return [up, updates, seconds, *gauges.values()]


class _Processes(Collector):
    def __init__(self, tenants: Mapping[str, TenantLink]) -> None:
        self._tenants = tenants

    def collect(self) -> Iterable[Metric]:
        seconds = CounterMetricFamily(
            "helba_cpu_seconds", "processor time of a process", labels=["process"]
        )
        resident = GaugeMetricFamily(
            "helba_resident_bytes", "memory of a process", labels=["process"]
        )
        for name, process in self._processes():
            used, held = _cpu_seconds(process), _resident_bytes(process)
            if used is not None:
                seconds.add_metric([name], used)
            if held is not None:
                resident.add_metric([name], held)
        return [seconds, resident]

    def _processes(self) -> Iterator[tuple[str, int]]:
        yield "front", os.getpid()
        for tenant in self._tenants.values():
            for name, process in tenant.processes().items():
                whole = name if name.endswith(f"-{tenant.name}") else f"{name}-{tenant.name}"
                yield whole, process


def _cpu_seconds(process: int) -> float | None:
    try:
        text = (PROC / str(process) / "stat").read_text()
        fields = text[text.rindex(")") + 2 :].split()  # the name before may hold anything
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _resident_bytes(process: int) -> float | None:
    try:
        pages = (PROC / str(process) / "statm").read_text().split()[1]
        return float(int(pages) * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, IndexError):
        return None
