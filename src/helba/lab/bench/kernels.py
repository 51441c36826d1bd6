"""`helba bench kernels`: every circuit at 128 bits, how levels come back, and the calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from helba.errors import InvalidInput
from helba.lab.bench.calibrate import measure_operations, measure_timing
from helba.lab.kernel.catalogue import all_kernels
from helba.lab.kernel.kernel import KERNEL_PARAMETERS, KernelResult, measure_kernels
from helba.lab.kernel.renewal import (
    BOOTSTRAP_PARAMETERS,
    RenewalResult,
    measure_bootstrap,
    measure_refresh,
)
from helba.lab.kernel.ring import (
    RING_PARAMETERS,
    RingKernelResult,
    measure_ring_kernels,
    ring_kernel_names,
)
from helba.lab.kernel.wire import MessageResult, measure_messages
from helba.lab.plan.timing import save_timing
from helba.lab.report import print_table
from helba.reference.planning.cost.calibration import save_calibration
from helba.reference.planning.parameters import Parameters


@dataclass(frozen=True, kw_only=True)
class KernelReport:
    """Measurements of each kernel, by name, and the file of the calibration, if one was made."""

    kernels: dict[str, KernelResult | RenewalResult | RingKernelResult]
    messages: list[MessageResult]
    calibration: Path | None

    def as_json(self) -> dict[str, Any]:
        """Return plain numbers, with the parameters that were used."""
        found = {}
        for name, result in self.kernels.items():
            found[name] = asdict(result)
            if isinstance(result, KernelResult | RingKernelResult):
                found[name]["simulator_ratio"] = result.seconds / result.simulator_seconds
        parameters = {"kernels": _describe(KERNEL_PARAMETERS)}
        parameters["ring"] = {
            "ring_dim": RING_PARAMETERS.ring_dim,
            "log2_qp": RING_PARAMETERS.log2_qp,
            "security": RING_PARAMETERS.security,
        }
        if "bootstrap" in self.kernels:
            parameters["bootstrap"] = _describe(BOOTSTRAP_PARAMETERS)
        return {
            "kernels": found,
            "messages": [asdict(message) for message in self.messages],
            "geometric_mean_simulator_ratio": self._simulator_ratio(),
            "parameters": parameters,
            "calibration": None if self.calibration is None else str(self.calibration),
        }

    def _simulator_ratio(self) -> float | None:
        ratios = [
            result.seconds / result.simulator_seconds
            for result in self.kernels.values()
            if isinstance(result, KernelResult | RingKernelResult)
        ]
        return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def bench_kernels(
    *, only: str = "", repetitions: int = 3, bootstrap: bool = True, calibrate: bool = False
) -> KernelReport:
    """Measure the kernels whose name contains `only`; keep a calibration of this machine if asked.

    Bootstrapping is at N = 2^16 and takes as long as all the rest, and 5 GiB: it can be left out.
    """
    chosen = [kernel for kernel in all_kernels() if only in kernel.name]
    kernels: dict[str, KernelResult | RenewalResult | RingKernelResult] = {}
    if chosen:
        kernels.update(measure_kernels(chosen, repetitions=repetitions))
    names = ring_kernel_names(only)
    if names:
        kernels.update(measure_ring_kernels(names, repetitions=5 * repetitions))
    if only in "refresh":
        kernels["refresh"] = measure_refresh()
    if bootstrap and only in "bootstrap":
        kernels["bootstrap"] = measure_bootstrap()
    messages = measure_messages() if only in "messages" else []
    if not kernels and not messages and not calibrate:
        raise InvalidInput("only", repr(only), "part of a kernel's name")
    path = save_calibration(measure_operations()) if calibrate else None
    if calibrate:
        save_timing(measure_timing())
    return KernelReport(kernels=kernels, messages=messages, calibration=path)


def print_kernels(report: Mapping[str, Any]) -> None:
    """Print what `KernelReport.as_json` returned, for people."""
    headings = {
        "seconds": "seconds",
        "levels": "levels",
        "products": "products",
        "rotations": "rotations",
        "error": "error",
        "error_bound": "at most",
        "overhead": "overhead",
        "simulator_ratio": "simulator",
    }
    ring = {name: row for name, row in report["kernels"].items() if "bytes" in row}
    slots = {name: row for name, row in report["kernels"].items() if name not in ring}
    if slots:
        used = report["parameters"]["kernels"]
        print_table(
            f"N = {used['ring_dim']}, log2(QP) = {used['log2_qp']}, {used['security']} bits",
            columns=("kernel", *headings.values()),
            rows=[
                (name, *(found.get(column) for column in headings)) for name, found in slots.items()
            ],
        )
    if ring:
        used = report["parameters"]["ring"]
        columns = {"seconds": "seconds", "library_seconds": "in OpenFHE", "bytes": "bytes sent"}
        columns |= {key: headings[key] for key in ("error", "error_bound", "overhead")}
        columns["simulator_ratio"] = headings["simulator_ratio"]
        print_table(
            f"ring: N = {used['ring_dim']}, log2(QP) = {used['log2_qp']}, {used['security']} bits",
            columns=("kernel", *columns.values()),
            rows=[(name, *(row[column] for column in columns)) for name, row in ring.items()],
        )
    if report["kernels"]:
        print("overhead: wall time over OpenFHE's own; simulator: how many times faster it is")
    if report["messages"]:
        fields = ("level", "bytes", "over_entropy", "write_seconds", "read_seconds", "sum_ratio")
        print_table(
            "a ciphertext as bytes",
            columns=[field.replace("_", " ") for field in fields],
            rows=[[message[field] for field in fields] for message in report["messages"]],
        )
    if report["calibration"] is not None:
        print(f"calibration: {report['calibration']}")


def _describe(parameters: Parameters) -> dict[str, Any]:
    return {
        "ring_dim": parameters.ring_dim,
        "log2_qp": parameters.log2_qp,
        "depth": parameters.depth,
        "scale_bits": parameters.scale_bits,
        "digits": parameters.digits,
        "secret": parameters.secret,
        "security": parameters.security,
    }
