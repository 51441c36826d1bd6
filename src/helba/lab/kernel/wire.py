"""Ciphertexts as bytes: size against entropy, seconds to write and to read."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from helba.lab.kernel.kernel import KERNEL_PARAMETERS
from helba.reference.engine import get_scheme

SLOTS = 1024


@dataclass(frozen=True, kw_only=True)
class MessageResult:
    """Bytes of a vector of `level`, over the entropy of its residues; seconds of both ways.

    `sum_ratio` is the time of a sum of what was read over that of fresh encryptions: 1, or what is
    read is copied more slowly than what the library made (see `engine.ckks.wire`).
    """

    level: int
    bytes: int
    over_entropy: float
    write_seconds: float
    read_seconds: float
    sum_ratio: float


def measure_messages(*, repetitions: int = 5) -> list[MessageResult]:
    """Write and read vectors at three levels; the fastest run counts, the first makes a template.

    The entropy of residues that are uniform modulo q is log2(q) bits each; primes are counted with
    their nominal size, which they miss by less than a thousandth.
    """
    parameters = KERNEL_PARAMETERS
    scheme = get_scheme("ckks")
    engine = scheme.engine(scheme.generate_keys(parameters).public)
    values = np.random.default_rng().uniform(-1.0, 1.0, SLOTS)
    found = []
    for level in (0, parameters.depth // 2, parameters.depth):
        vector = engine.encrypt(values, level=level)
        written, read = [], []
        sums: list[float] = []
        sums_of_read: list[float] = []
        for _ in range(repetitions + 1):
            began = time.perf_counter()
            data = engine.vector_to_bytes(vector)
            between = time.perf_counter()
            again = engine.vector_from_bytes(data)
            read.append(time.perf_counter() - between)
            written.append(between - began)
            for summand, seconds in ((vector, sums), (again, sums_of_read)):
                began = time.perf_counter()
                engine.add(summand, summand)
                seconds.append(time.perf_counter() - began)
        bits = parameters.first_bits + (parameters.depth - level) * parameters.scale_bits
        entropy = 2 * parameters.ring_dim * bits / 8
        found.append(
            MessageResult(
                level=level,
                bytes=len(data),
                over_entropy=len(data) / entropy - 1.0,
                write_seconds=min(written),
                read_seconds=min(read),
                sum_ratio=min(sums_of_read) / min(sums),
            )
        )
    return found
