"""The circuits one by one at 128 bits: what they take on CKKS, beside the operations they perform.

Every kernel runs twice in one go: on OpenFHE, where wall time is compared with the time spent
inside OpenFHE's operations (`overhead`), and in the simulator, which must use the same levels and
operations. Errors are against numpy, in every slot; where a circuit promises more than its numbers,
the right arm or the right bit, a check of its own says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from helba.errors import RunFailed, require_whole
from helba.lab.progress import Progress
from helba.reference.engine import EncryptedVector, Engine, Tally, get_scheme
from helba.reference.engine.simulator import SimulatedEngine
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.parameters import Parameters

Array = NDArray[np.float64]

# One ring for all circuits, as a server has it. A circuit starts where the round or the update that
# it is part of has it; the last one of a round as deep as it can.
KERNEL_PARAMETERS = Parameters(ring_dim=1 << 15, depth=14, scale_bits=40, digits=3, security=128)


# Takes the decrypted slots and the noise they may carry; raises `RunFailed` if they are wrong.
Check = Callable[[Array, float], None]


# Milliseconds are noisy: the simulator runs this many times more often.
SIMULATOR_REPETITIONS = 5


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A circuit with inputs, what it should give, and what planning says it costs."""

    name: str
    inputs: Sequence[Array]
    run: Callable[[Engine, Sequence[EncryptedVector]], EncryptedVector]
    expected: Array  # of all slots
    cost: Cost
    error: float = 0.0  # certified, without the noise of CKKS
    rotations: Sequence[int] = ()  # those that it uses, no more
    level: int | None = None  # at which it starts; as deep as it can unless told
    check: Check | None = None
    parameters: Parameters = KERNEL_PARAMETERS


@dataclass(frozen=True, kw_only=True)
class KernelResult:
    """Times of a kernel: `overhead` is wall time over the sum of its OpenFHE operations."""

    seconds: float
    level: int
    levels: int
    products: int
    rotations: int
    plain_products: int
    error: float
    error_bound: float
    overhead: float
    library_seconds: float
    simulator_seconds: float
    rotation_keys: int


def measure_kernels(kernels: Iterable[Kernel], *, repetitions: int = 3) -> dict[str, KernelResult]:
    """Run every kernel on both engines; the fastest of `repetitions` runs counts."""
    require_whole("repetitions", repetitions, least=1, most=1000)
    chosen = list(kernels)
    found = {}
    with Progress("kernels", total=len(chosen), unit="circuits") as progress:
        for kernel in chosen:
            found[kernel.name] = _measure(kernel, repetitions=repetitions)
            progress.advance()
    return found


def _measure(kernel: Kernel, *, repetitions: int) -> KernelResult:
    runs, errors, noise = [], [], None
    for name in ("simulate", "ckks"):
        scheme = get_scheme(name)
        keys = scheme.generate_keys(kernel.parameters, rotations=kernel.rotations)
        engine = scheme.engine(keys.public, evaluation_key=keys.evaluation)
        runs_of_it = repetitions if name == "ckks" else SIMULATOR_REPETITIONS * repetitions
        best, vector = _fastest(kernel, engine, repetitions=runs_of_it)
        values = engine.decrypt(vector, secret_key=keys.secret)
        if values.shape != kernel.expected.shape:
            expected = len(kernel.expected)
            raise RunFailed(f"{kernel.name}: {len(values)} slots came out, not {expected}")
        if isinstance(engine, SimulatedEngine):
            noise = engine.noise_bound(vector)
        assert noise is not None
        if kernel.check is not None:
            kernel.check(values, noise)
        errors.append(float(np.abs(values - kernel.expected).max()))
        runs.append(best)
    (simulator_seconds, predicted, _), (seconds, done, levels) = runs
    if predicted.operations != done.operations:
        raise RunFailed(f"{kernel.name}: the simulator counted other operations than CKKS did")
    found = Cost(
        levels=levels,
        products=done.products,
        plain_products=done.plain_products,
        rotations=done.rotations,
    )
    if found != kernel.cost:
        raise RunFailed(f"{kernel.name}: {kernel.cost} was planned, {found} was done")
    assert noise is not None
    return KernelResult(
        seconds=seconds,
        level=first_level(kernel),
        levels=levels,
        products=done.products,
        rotations=done.rotations,
        plain_products=done.plain_products,
        error=errors[1],
        error_bound=kernel.error + noise,
        overhead=seconds / done.seconds,
        library_seconds=done.seconds,
        simulator_seconds=simulator_seconds,
        rotation_keys=len(set(kernel.rotations)),
    )


def _fastest(
    kernel: Kernel, engine: Engine, *, repetitions: int
) -> tuple[tuple[float, Tally, int], EncryptedVector]:
    """The quickest run: seconds, tally, levels."""
    start = first_level(kernel)
    best: tuple[float, Tally, int] | None = None
    for _ in range(repetitions):
        held = [engine.encrypt(values, level=start) for values in kernel.inputs]
        with engine.count() as tally:
            began = time.perf_counter()
            vector = kernel.run(engine, held)
            vector = engine.lower(vector, vector.level)  # a product that is pending is made
            seconds = time.perf_counter() - began
        if best is None or seconds < best[0]:
            best = (seconds, tally, vector.level - start)
    assert best is not None
    return best, vector


def first_level(kernel: Kernel) -> int:
    """Return the level of the kernel's inputs."""
    deepest = kernel.parameters.depth - kernel.cost.levels
    return deepest if kernel.level is None else kernel.level
