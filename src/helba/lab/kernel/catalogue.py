"""The kernels that `helba bench kernels` measures: every circuit, with an oracle from numpy."""

from __future__ import annotations

from collections.abc import Iterator

from helba.lab.kernel.kernel import Kernel
from helba.lab.kernel.matrix import matrix_kernels
from helba.lab.kernel.round import round_kernels
from helba.lab.kernel.update import update_kernels
from helba.reference.numerics.sign import cheapest_composition

RESOLUTION = 2.0**-6
SIGN_ERROR = 0.02
SIGN_LEVELS = 9


def all_kernels() -> Iterator[Kernel]:
    """Yield every kernel: those of a round, products of matrices, those of an update."""
    sign = cheapest_composition(resolution=RESOLUTION, error=SIGN_ERROR, depth=SIGN_LEVELS)
    yield from round_kernels(sign)
    yield from matrix_kernels()
    yield from update_kernels(sign)
