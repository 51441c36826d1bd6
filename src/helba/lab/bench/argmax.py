"""`helba bench argmax`: the largest of K shared scores in a garbled circuit, both parties."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from helba.errors import RunFailed, require_whole
from helba.garbling import (
    EvaluatorSession,
    GarblerSession,
    TablesMessage,
    TransferMessage,
    build_argmax,
    combine,
    read_indices,
)
from helba.lab.progress import Progress


def bench_argmax(
    arms: Sequence[int], *, lanes: int = 1, bits: int = 40, repetitions: int = 15
) -> dict[str, Any]:
    """Return seconds of both parties for each number of arms, transfer included; medians count.

    Messages go through bytes, which counts. The base transfers, once a session, are stated apart.
    """
    require_whole("lanes", lanes, least=1, most=1 << 12)
    require_whole("repetitions", repetitions, least=1, most=1000)
    garbler, evaluator = GarblerSession(), EvaluatorSession()
    began = time.perf_counter()
    garbler.complete(evaluator.answer(garbler.offer()))
    setup = time.perf_counter() - began
    results = []
    with Progress("argmax", total=len(arms), unit="circuits") as progress:
        for each in arms:
            results.append(
                _measure(garbler, evaluator, each, lanes=lanes, bits=bits, repetitions=repetitions)
            )
            progress.advance()
    return {"bits": bits, "lanes": lanes, "setup_seconds": setup, "results": results}


def _measure(
    garbler: GarblerSession,
    evaluator: EvaluatorSession,
    arms: int,
    *,
    lanes: int,
    bits: int,
    repetitions: int,
) -> dict[str, Any]:
    circuit, rng = build_argmax(arms, bits=bits), np.random.default_rng(arms)
    mine, theirs, sizes = [], [], (0, 0)
    for _ in range(repetitions + 1):
        values = rng.integers(-(1 << (bits - 2)), 1 << (bits - 2), (lanes, arms))
        masks = rng.integers(0, 1 << bits, (lanes, arms), dtype=np.uint64)
        opened = (values.astype(np.uint64) + masks) & np.uint64((1 << bits) - 1)
        start = time.perf_counter()
        up = evaluator.begin(circuit, shares=opened).to_bytes()
        begun = time.perf_counter()
        transfer = TransferMessage.from_bytes(up, circuit=circuit, lanes=lanes)
        garbled = garbler.garble(circuit, shares=masks, transfer=transfer)
        down = garbled.tables.to_bytes()
        made = time.perf_counter()
        tables = TablesMessage.from_bytes(down, circuit=circuit, lanes=lanes)
        evaluated = evaluator.evaluate(tables)
        end = time.perf_counter()
        found = read_indices(combine(garbled.decoding, evaluated.colours), arms=arms)
        if not np.array_equal(found, values.argmax(axis=1)):
            raise RunFailed(f"argmax of {arms}: the circuit names another arm than numpy")
        mine.append(made - begun)
        theirs.append(begun - start + end - made)
        sizes = len(up), len(down)
    garbler_seconds, evaluator_seconds = statistics.median(mine[1:]), statistics.median(theirs[1:])
    return {
        "arms": arms,
        "garbler_seconds": garbler_seconds,
        "evaluator_seconds": evaluator_seconds,
        "seconds_per_user": (garbler_seconds + evaluator_seconds) / lanes,
        "bytes": sum(sizes),
        "bytes_to_garbler": sizes[0],
        "bytes_to_evaluator": sizes[1],
        "and_gates": circuit.and_gates,
        "depth": circuit.depth,
    }
