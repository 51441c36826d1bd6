"""Every circuit once more at 128 bits: planned cost, levels of OpenFHE, errors within the bound.

Other sizes of a circuit, and circuits that another one contains or that run under a plan of 128
bits in `planning/test_plan`, are measured in `make soak`. They run on OpenFHE in rings without
security, and in the clear at this one, every time.
"""

from __future__ import annotations

import numpy as np
import pytest

from helba.errors import RunFailed
from helba.lab.kernel import kernel as kernels
from helba.lab.kernel.catalogue import all_kernels
from helba.lab.kernel.kernel import KERNEL_PARAMETERS, Kernel, first_level, measure_kernels
from tests.engines import open_keyed
from tests.reference.circuits.circuit_checks import assert_uses_every_key, measure
from tests.sweep import in_soak, sweep

KERNELS = list(all_kernels())
IN_SOAK = {
    "scores d=16 K=16 by arms",
    "scores d=8 K=8 by pairs",  # these three for d = 2: `test_plan` runs a planned round
    "sign",
    "argmax K=2",
    "argmax K=16 by sum",
    "argmax K=16 by product",
    "matrix product d=5",
    "matrix product d=8",
    "matrix product d=16",
    "Jiang product d=16",
    "warm inverse d=8, 4 steps",  # from here for d = 2: `test_plan` runs a planned update
    "estimate d=8",
    "refined estimate d=8",
    "model d=8 K=8 in 1 level",
    "model d=16 K=16 in 2 levels",
}


def test_the_kernels_are_at_128_bits() -> None:
    assert all(kernel.parameters.security == 128 for kernel in KERNELS)
    assert KERNEL_PARAMETERS.ring_dim == 1 << 15
    assert {kernel.name for kernel in KERNELS} >= IN_SOAK


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_kernel_runs_in_the_clear_with_its_keys_and_no_more(kernel: Kernel) -> None:
    keyed = open_keyed("simulate", parameters=kernel.parameters, rotations=kernel.rotations)
    level = first_level(kernel)
    held = [keyed.engine.encrypt(values, level=level) for values in kernel.inputs]
    with measure(keyed) as measured, assert_uses_every_key(keyed):
        result = kernel.run(keyed.engine, held)
    assert measured.at(level, result) == kernel.cost
    values = keyed.open(result)
    np.testing.assert_allclose(values, kernel.expected, atol=kernel.error + 1e-9)
    if kernel.check is not None:
        kernel.check(values, 0.0)


CHECKED = [kernel for kernel in KERNELS if kernel.check is not None]


@pytest.mark.parametrize("kernel", CHECKED, ids=lambda kernel: kernel.name)
def test_check_of_a_kernel_refuses_the_opposite(kernel: Kernel) -> None:
    assert kernel.check is not None
    with pytest.raises(RunFailed):
        kernel.check(-kernel.expected, 0.0)


@pytest.mark.ckks
@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [
        in_soak(kernel, id=kernel.name)
        if kernel.name in IN_SOAK
        else pytest.param(kernel, id=kernel.name)
        for kernel in KERNELS
    ],
)
def test_circuit_keeps_its_promises_at_full_security(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    # it repeats to tell its time, which is of no matter here
    monkeypatch.setattr(kernels, "SIMULATOR_REPETITIONS", sweep(1, long=5))
    # raises if the planned, the simulated and OpenFHE's own counts differ
    found = measure_kernels([kernel], repetitions=1)[kernel.name]
    assert found.levels == kernel.cost.levels
    assert 0.0 < found.error <= found.error_bound
