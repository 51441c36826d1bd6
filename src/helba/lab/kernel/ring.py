"""The ring's kernels at 128 bits: seconds, bytes and error, beside OpenFHE's own operations.

Each kernel runs in turns on OpenFHE and in the simulator; medians count. `library_seconds` is what
the same runs spent in OpenFHE's operations, `overhead` the wall time over that. Errors are against
Python's integers, in the ring's integers.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from helba.errors import RunFailed, require_whole
from helba.lab.kernel.clock import TimedContext
from helba.lab.progress import Progress
from helba.ring import (
    Ciphertext,
    Mask,
    Move,
    Opening,
    Rearrangement,
    Ring,
    Share,
    choose_parameters,
)
from helba.ring.secret import KeyPair, Opener, make_keys
from helba.ring.wire import dump_ciphertext, dump_opening

RING_PARAMETERS = choose_parameters(security=128)
NUMBERS = 64  # that are opened and rearranged: a matrix at d = 8
VALUES = 2**40
AUTOMORPHISM = 9


@dataclass(frozen=True, kw_only=True)
class RingKernelResult:
    """Seconds of a kernel on one core, bytes that it sends, and its error."""

    seconds: float
    library_seconds: float
    overhead: float
    simulator_seconds: float
    bytes: int
    error: float
    error_bound: float


@dataclass(frozen=True, kw_only=True)
class _Done:
    """The result of a run: bytes sent, numbers found and expected, and their certified distance."""

    sent: int
    found: Any
    exact: Sequence[float]
    error_bound: float


class _Parties:
    """All parties of one backend, with ciphertexts to work on."""

    def __init__(self, backend: str) -> None:
        self.keys: KeyPair = make_keys(RING_PARAMETERS, backend=backend, automorphism=AUTOMORPHISM)
        self.engine = self.keys.public.backend
        self.ring = Ring(self.keys.public, evaluation_key=self.keys.evaluation)
        self.opener = Opener(self.keys.secret, public_key=self.keys.public)
        rng = np.random.default_rng(0)
        self.places = np.arange(NUMBERS)
        self.values = rng.integers(-VALUES, VALUES, NUMBERS)
        self.fresh = self.encrypt(3)
        self.factor = self.ring.encrypt([VALUES], places=[0], scale=1.0, peak=float(VALUES))
        self.moved = [Rearrangement([Move(self.places, 3 * self.places, factor=0.37)], scale=1.0)]

    def encrypt(self, primes: int) -> Ciphertext:
        return self.ring.encrypt(
            self.values, places=self.places, scale=1.0, peak=float(VALUES), primes=primes
        )

    def done(
        self,
        ciphertext: Ciphertext,
        exact: Sequence[float],
        *,
        places: Any = None,
        sent: int | None = None,
    ) -> _Done:
        if sent is None:
            sent = len(dump_ciphertext(ciphertext, backend=self.engine))
        read = self.opener.decrypt(ciphertext, places=self.places if places is None else places)
        return _Done(sent=sent, found=read, exact=exact, error_bound=ciphertext.error_bound)

    def times(self, factor: float) -> list[float]:
        return [int(each) * factor for each in self.values]


# A kernel prepares its operands, and returns the part that is timed and the part that checks.
_Timed = Callable[[], Any]
_Check = Callable[[Any], _Done]


def _encrypt(primes: int) -> Callable[[_Parties], tuple[_Timed, _Check]]:
    def prepare(parties: _Parties) -> tuple[_Timed, _Check]:
        exact = parties.times(1.0)
        return lambda: parties.encrypt(primes), lambda made: parties.done(made, exact)

    return prepare


def _product(primes: int) -> Callable[[_Parties], tuple[_Timed, _Check]]:
    def prepare(parties: _Parties) -> tuple[_Timed, _Check]:
        first = parties.ring.drop(parties.fresh, primes=primes)
        second = parties.ring.drop(parties.factor, primes=primes)
        exact = parties.times(VALUES / RING_PARAMETERS.moduli[primes - 1])
        return (
            lambda: parties.ring.product(first, second, terms=1),
            lambda made: parties.done(made, exact, sent=0),
        )

    return prepare


def _outer(parties: _Parties) -> tuple[_Timed, _Check]:
    count = AUTOMORPHISM - 1
    values = [int(each) for each in parties.values[:count]]
    report = parties.ring.encrypt(values, places=np.arange(count), scale=1.0, peak=float(VALUES))
    prime = RING_PARAMETERS.moduli[2]
    exact = [values[i] * values[j] / prime for i in range(count) for j in range(count)]
    places = [i + AUTOMORPHISM * j for i in range(count) for j in range(count)]
    return (
        lambda: parties.ring.product(report, parties.ring.automorphism(report), terms=1),
        lambda made: parties.done(made, exact, places=places, sent=0),
    )


def _open(parties: _Parties) -> tuple[_Timed, _Check]:
    low = parties.ring.drop(parties.fresh, primes=1)

    def check(opened: Any) -> _Done:
        opening, mask = opened
        share = parties.opener.receive(opening, places=parties.places)
        sent = len(dump_opening(opening, backend=parties.engine))
        return _compared(parties, share, mask, sent=sent)

    return lambda: parties.ring.open(low, places=parties.places), check


def _receive(parties: _Parties) -> tuple[_Timed, _Check]:
    low = parties.ring.drop(parties.fresh, primes=1)
    opening, mask = parties.ring.open(low, places=parties.places)
    return (
        lambda: parties.opener.receive(opening, places=parties.places),
        lambda share: _compared(parties, share, mask, sent=0),
    )


def _compared(parties: _Parties, share: Share, mask: Mask, *, sent: int) -> _Done:
    """Share minus mask, in the ring's integers, and what they should be."""
    bits = 54
    unit = RING_PARAMETERS.moduli[0] / 2.0**bits
    error = mask.error(bits=bits) * unit
    difference = share.modulo(bits=bits) - mask.take_modulo(bits=bits)
    signed = (difference << np.uint64(64 - bits)).astype(np.int64) >> (64 - bits)
    return _Done(sent=sent, found=signed * unit, exact=parties.times(1.0), error_bound=error)


def _reopen(parties: _Parties) -> tuple[_Timed, _Check]:
    low = parties.ring.drop(parties.fresh, primes=2)

    def run() -> tuple[Opening, Ciphertext]:
        opening, mask = parties.ring.open(low, places=parties.places)
        share = parties.opener.receive(opening, places=parties.places)
        replies = parties.opener.reopen([(share, each) for each in parties.moved])
        (fresh,) = parties.ring.reopen(mask, replies, rearrangements=parties.moved)
        return opening, fresh

    def check(done: Any) -> _Done:
        opening, fresh = done
        sent = len(dump_opening(opening, backend=parties.engine))
        sent += len(dump_ciphertext(fresh, backend=parties.engine))
        return parties.done(fresh, parties.times(0.37), places=3 * parties.places, sent=sent)

    return run, check


_KERNELS: dict[str, Callable[[_Parties], tuple[_Timed, _Check]]] = {
    "ring encrypt, 2 primes": _encrypt(2),
    "ring encrypt, 3 primes": _encrypt(3),
    "ring product, 2 primes": _product(2),
    "ring product, 3 primes": _product(3),
    "ring outer product": _outer,
    "ring open, server": _open,
    "ring open, opener": _receive,
    "ring reopen, both": _reopen,
}


def ring_kernel_names(only: str = "") -> list[str]:
    """Return the names of the ring's kernels that contain `only`."""
    return [name for name in _KERNELS if only in name]


def measure_ring_kernels(
    names: Sequence[str], *, repetitions: int = 15
) -> dict[str, RingKernelResult]:
    """Run these kernels in turns on both backends, on one thread."""
    require_whole("repetitions", repetitions, least=1, most=1000)
    parties = {name: _Parties(name) for name in ("openfhe", "simulate")}
    from helba.ring.ckks.thread import set_threads  # it loads OpenFHE, as the parties did

    found = {}
    engine: Any = parties["openfhe"].engine
    engine.context = clock = TimedContext(engine.context)
    set_threads("1")
    try:
        with Progress("ring", total=len(names), unit="kernels") as progress:
            for name in names:
                found[name] = _measure(name, parties, clock=clock, repetitions=repetitions)
                progress.advance()
    finally:
        set_threads(os.environ.get("OMP_NUM_THREADS"))
        engine.context = clock.context
    return found


def _measure(
    name: str, parties: dict[str, _Parties], *, clock: TimedContext, repetitions: int
) -> RingKernelResult:
    kernels = {backend: _KERNELS[name](each) for backend, each in parties.items()}
    seconds: dict[str, list[float]] = {backend: [] for backend in kernels}
    library = []
    for turn in range(repetitions + 1):
        for backend, (run, _) in kernels.items():
            before, began = clock.seconds, time.perf_counter()
            made = run()
            taken = time.perf_counter() - began
            if turn == 0:  # the first one warms up, and is checked
                done = kernels[backend][1](made)
                error = _check(name, done)
                if backend == "openfhe":
                    checked = error, done
                continue
            seconds[backend].append(taken)
            if backend == "openfhe":
                library.append(clock.seconds - before)
    error, done = checked
    wall, bare = statistics.median(seconds["openfhe"]), statistics.median(library)
    return RingKernelResult(
        seconds=wall,
        library_seconds=bare,
        overhead=wall / bare,
        simulator_seconds=statistics.median(seconds["simulate"]),
        bytes=done.sent,
        error=error,
        error_bound=done.error_bound,
    )


def _check(name: str, done: _Done) -> float:
    error = max(abs(float(a - b)) for a, b in zip(done.found, done.exact, strict=True))
    if error > done.error_bound:
        raise RunFailed(f"{name}: off by {error:g}, certified {done.error_bound:g}")
    return error
