"""Every circuit once more at 128 bits: planned cost, levels of OpenFHE, errors within the bound."""

from __future__ import annotations

import pytest

from helba.experiments.kernel_list import all_kernels
from helba.experiments.kernels import KERNEL_PARAMETERS, Kernel, measure_kernels

KERNELS = list(all_kernels())


def test_the_kernels_are_at_128_bits() -> None:
    assert all(kernel.parameters.security == 128 for kernel in KERNELS)
    assert KERNEL_PARAMETERS.ring_dim == 1 << 15


@pytest.mark.ckks
@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_circuit_keeps_its_promises_at_full_security(kernel: Kernel) -> None:
    # raises if the planned, the simulated and OpenFHE's own counts differ
    found = measure_kernels([kernel], repetitions=1)[kernel.name]
    assert found.levels == kernel.cost.levels
    assert 0.0 < found.error <= found.error_bound
