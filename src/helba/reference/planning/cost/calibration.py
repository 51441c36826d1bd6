"""How long the operations of an engine take: one coefficient for each kind, times its work.

`Calibration.seconds(kind, parameters, level)` predicts one operation. The work of a kind grows with
the ring, the primes left and the digits of key switching as its number-theoretic transforms do
(`work`); a coefficient is the geometric mean of measured seconds over work, so that one machine
needs a few measurements only. What ships was measured on 2 cores with OpenFHE 1.6.1, and predicts
its own measurements within 40% (decryption, which weighs little, within 130%). How key
switching grows with the digits (2 and 3 of them at depth 11) it predicts within 15%.

`save_calibration` keeps a machine's own measurements in the cache directory; `load_calibration`
returns them, or what ships and the reason.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from helba.errors import InvalidInput, require_choice, require_positive, require_whole
from helba.reference.numerics.store import cache_directory, write_atomically
from helba.reference.planning.parameters import Parameters

FORMAT_VERSION = 1
_LINEAR = ("multiply", "multiply_plain", "multiply_scalar", "add")
KINDS = (
    *_LINEAR,
    "rescale",
    "encode",
    "encrypt",
    "decrypt",
    "relinearise",
    "rotate",
    "hoist",
    "rotate_hoisted",
    "rotate_extended",
    "shrink",
    "refresh",
    "bootstrap",
)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Seconds of one operation of `kind` on a ciphertext of `level`, under such parameters."""

    kind: str
    seconds: float
    ring_dim: int
    depth: int
    digits: int
    auxiliary_primes: int
    level: int = 0

    def __post_init__(self) -> None:
        require_choice("kind", self.kind, KINDS)
        require_positive("seconds", self.seconds)
        require_whole("ring_dim", self.ring_dim, least=2, most=1 << 20)
        require_whole("depth", self.depth, least=1, most=100)
        require_whole("digits", self.digits, least=1, most=self.depth + 1)
        require_whole("auxiliary_primes", self.auxiliary_primes, least=1, most=100)
        require_whole("level", self.level, least=0, most=self.depth)

    @classmethod
    def of(
        cls, kind: str, *, seconds: float, parameters: Parameters, level: int = 0
    ) -> Measurement:
        """Return a measurement made under `parameters`."""
        return cls(
            kind=kind,
            seconds=seconds,
            ring_dim=parameters.ring_dim,
            depth=parameters.depth,
            digits=parameters.digits,
            auxiliary_primes=parameters.auxiliary_primes,
            level=level,
        )

    @property
    def work(self) -> float:
        """The work of the operation, in the units of its kind."""
        return _work(
            self.kind, self.ring_dim, self.depth, self.digits, self.auxiliary_primes, self.level
        )


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Seconds a unit of work for each kind; `note` says where they come from."""

    coefficients: Mapping[str, float]
    note: str

    def seconds(self, kind: str, *, parameters: Parameters, level: float = 0.0) -> float:
        """Return the predicted seconds of one operation; between two levels, in proportion."""
        lower = min(math.floor(level), parameters.depth)
        upper = min(lower + 1, parameters.depth)
        sizes = (
            parameters.ring_dim,
            parameters.depth,
            parameters.digits,
            parameters.auxiliary_primes,
        )
        below, above = _work(kind, *sizes, lower), _work(kind, *sizes, upper)
        return self.coefficients[kind] * (below + (level - lower) * (above - below))


def fit_calibration(measurements: Iterable[Measurement], *, note: str) -> Calibration:
    """Return the geometric mean of seconds over work for each kind that was measured.

    A kind that was not measured keeps the shipped coefficient.
    """
    logarithms: dict[str, list[float]] = {}
    for found in measurements:
        logarithms.setdefault(found.kind, []).append(math.log(found.seconds / found.work))
    if not logarithms:
        raise InvalidInput("measurements", "none", "at least one")
    fitted = {kind: math.exp(sum(each) / len(each)) for kind, each in logarithms.items()}
    missing = set(KINDS) - set(fitted)
    if missing:
        shipped = shipped_calibration().coefficients
        fitted |= {kind: shipped[kind] for kind in missing}
    return Calibration(coefficients=fitted, note=note)


@lru_cache(maxsize=1)
def shipped_calibration() -> Calibration:
    """Return the calibration that ships: 2 cores, OpenFHE 1.6.1."""
    bootstrapping = {"ring_dim": 1 << 16, "depth": 20, "digits": 3, "auxiliary_primes": 7}
    measured = [
        Measurement(kind=kind, seconds=milliseconds / 1e3, **where)
        for kind, row in _SHIPPED.items()
        for where, milliseconds in zip(_SHIPPED_AT, row, strict=True)
    ]
    measured.append(
        Measurement(kind="bootstrap", seconds=_SHIPPED_BOOTSTRAP_SECONDS, **bootstrapping)
    )
    return fit_calibration(measured, note="shipped: 2 cores, OpenFHE 1.6.1")


def calibration_path() -> Path:
    """The file that holds this machine's own measurements, whether it exists or not."""
    return cache_directory() / "calibration.json"


def save_calibration(measurements: Iterable[Measurement]) -> Path:
    """Keep measurements of this machine for `load_calibration`; the file appears whole."""
    made = list(measurements)
    fit_calibration(made, note="")  # refuses none at all
    text = json.dumps({"version": FORMAT_VERSION, "measurements": [asdict(m) for m in made]})
    path = calibration_path()
    write_atomically(path, text)
    return path


def load_calibration() -> Calibration:
    """Return this machine's calibration; what ships, with the reason in its note, if there is none.

    A file of another version, or with anything in it that no measurement can be, counts as none.
    """
    shipped, path = shipped_calibration(), calibration_path()
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return shipped
    except (OSError, ValueError, RecursionError):
        return _explained(shipped, f"{path} cannot be read")
    if not isinstance(stored, dict) or stored.get("version") != FORMAT_VERSION:
        return _explained(shipped, f"{path} is of another version")
    try:
        made = [Measurement(**record) for record in stored["measurements"]]
        return fit_calibration(made, note=f"measured on this machine: {path}")
    except (KeyError, TypeError, InvalidInput):
        return _explained(shipped, f"{path} is damaged")


@lru_cache(maxsize=1 << 16)
def _work(
    kind: str, ring_dim: int, depth: int, digits: int, auxiliary_primes: int, level: int
) -> float:
    """Work of one operation, in multiplications modulo a prime.

    A transform takes T = log2(N)/2 of them for each coefficient and prime. Key switching cuts the
    primes that are left into digits of w, brings each to all E primes (those of P included), which
    takes (E - w)(T + w) + w T, and divides by P, p primes, in the end: 2 (p T + left (T + p)). The
    products with the key are 2 E for each digit.
    """
    left = depth + 1 - level
    if kind in _LINEAR:
        return float(ring_dim * left)
    transform, extended = math.log2(ring_dim) / 2.0, left + auxiliary_primes
    width = math.ceil((depth + 1) / digits)
    widths = [min(width, left - start) for start in range(0, left, width)]
    up = sum((extended - w) * (transform + w) + w * transform for w in widths)
    down = 2.0 * (auxiliary_primes * transform + left * (transform + auxiliary_primes))
    keys = 2.0 * len(widths) * extended
    units = {
        "hoist": up,
        "rotate": up + keys + down,
        "relinearise": up + keys + down,
        "rotate_hoisted": keys + down,
        "rotate_extended": keys,
        "shrink": down,
        "bootstrap": extended * transform,
        "rescale": left * transform,
        "encode": left * transform,
        "encrypt": left * transform,
    }
    # Decryption and the masked refresh work on the last primes; encrypting again weighs little.
    return ring_dim * units.get(kind, transform)


def _explained(shipped: Calibration, reason: str) -> Calibration:
    return Calibration(coefficients=shipped.coefficients, note=f"{shipped.note} ({reason})")


# Where the columns of _SHIPPED were measured, and milliseconds of one operation there.
_SHIPPED_AT = (
    {"ring_dim": 1 << 14, "depth": 6, "digits": 4, "auxiliary_primes": 2, "level": 0},
    {"ring_dim": 1 << 14, "depth": 6, "digits": 4, "auxiliary_primes": 2, "level": 3},
    {"ring_dim": 1 << 15, "depth": 12, "digits": 3, "auxiliary_primes": 4, "level": 0},
    {"ring_dim": 1 << 15, "depth": 12, "digits": 3, "auxiliary_primes": 4, "level": 6},
)
_SHIPPED = {
    "multiply": (0.963, 0.373, 2.94, 1.51),
    "multiply_plain": (0.493, 0.247, 1.76, 1.03),
    "multiply_scalar": (0.41, 0.264, 1.43, 0.724),
    "add": (0.346, 0.155, 1.06, 0.644),
    "rescale": (3.04, 1.68, 9.4, 6.56),
    "encode": (1.38, 0.834, 4.84, 2.54),
    "encrypt": (9.56, 6.63, 34.3, 21.7),
    "decrypt": (11.8, 7.16, 63.7, 24.2),
    "relinearise": (15.9, 5.08, 52.3, 23.8),
    "rotate": (13.6, 5.34, 45.8, 23.7),
    "hoist": (8.79, 2.15, 21.5, 9.97),
    "rotate_hoisted": (7.25, 3.16, 23.6, 15.6),
    "rotate_extended": (3.16, 0.988, 8.03, 5.25),
    "shrink": (4.5, 2.25, 15.7, 9.81),
    "refresh": (20.8, 20, 58.9, 63.5),
}
_SHIPPED_BOOTSTRAP_SECONDS = 7.1
