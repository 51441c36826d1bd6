"""Every exception that helba raises on purpose.

    HelbaError
    ├── InvalidInput         a value the caller gave is not admissible; names it and what is allowed
    ├── RunFailed            the work itself could not be finished
    │   ├── Interrupted      somebody ended it; what was finished before is kept
    │   ├── MissingPackage   a package that it needs is not installed; names the command
    │   └── Unavailable      what it needs is not there at the moment: try again
    ├── Refused              the caller may not have it: its key is not enrolled, or was revoked
    └── EngineError          an operation on encrypted vectors is not possible
        ├── LevelsExhausted  no level is left for it: refresh first, or plan more depth
        ├── MissingKey       the evaluation keys do not hold what it needs
        ├── OutOfRange       a value would wrap around the modulus
        ├── SessionSpent     a garbling session has had all its openings: make a new one
        ├── NoRoom           the openings that wait take all the memory they may: end some
        ├── WrongVector      operands of different slots, schemes, keys or parameters
        └── DamagedData      bytes that are no ciphertext or key of these parameters

An error carries one line, for a person. It never carries contexts, rewards or keys: a value is
named only where it is a setting, or a norm of data that the caller itself holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral


class HelbaError(Exception):
    """Base of every exception that helba raises on purpose."""


class InvalidInput(HelbaError, ValueError):
    """An argument is not admissible: `name` got `value`; `allowed` says what may stand there."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(name, value, allowed)
        self.name = name
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        return f"{self.name} must be {self.allowed}, got {self.value}"


class RunFailed(HelbaError, RuntimeError):
    """The work could not be finished; what was finished before is kept."""


class Interrupted(RunFailed):
    """Somebody ended the work, by Ctrl-C or by a signal; what was finished before is kept."""


class MissingPackage(RunFailed):
    """A package that the work needs is not installed; the message names the command for it."""


class Unavailable(RunFailed):
    """Something that the work needs is not there at the moment; the same call may pass later."""


class Refused(HelbaError):
    """The caller may not have it: its key is not enrolled, or was revoked."""


class EngineError(HelbaError):
    """An operation on encrypted vectors is not possible."""


class LevelsExhausted(EngineError):
    """No level is left for the operation."""


class MissingKey(EngineError):
    """The evaluation keys at hand do not allow the operation."""


class OutOfRange(EngineError):
    """A value would wrap around the modulus. Only the simulator can notice."""


class SessionSpent(EngineError):
    """A garbling session has had all its openings: make a new one."""


class NoRoom(EngineError):
    """The openings that wait take all the memory that they may: end some."""


class WrongVector(EngineError):
    """An operand has other slots, or belongs to another scheme, key or set of parameters."""


class DamagedData(EngineError, ValueError):
    """Bytes that are not a ciphertext or key of these parameters."""


def require_at_least(name: str, value: float, minimum: float) -> None:
    """Raise `InvalidInput` unless `value` is a finite number of at least `minimum`."""
    if not math.isfinite(value):
        raise InvalidInput(name, value, f"finite and at least {minimum}")
    if value < minimum:
        raise InvalidInput(name, value, f"at least {minimum}")


def require_whole(name: str, value: object, *, least: int, most: int) -> None:
    """Raise `InvalidInput` unless `value` is an integer in [least, most]; True is none."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidInput(name, repr(value), "a whole number")
    if int(value) < least:
        raise InvalidInput(name, value, f"at least {least}")
    if int(value) > most:
        raise InvalidInput(name, value, f"at most {most}")


def require_positive(name: str, value: float) -> None:
    """Raise `InvalidInput` unless `value` is finite and greater than 0."""
    if not math.isfinite(value) or value <= 0:
        raise InvalidInput(name, value, "finite and greater than 0")


def require_between(name: str, value: float, low: float, high: float) -> None:
    """Raise `InvalidInput` unless `low < value < high`."""
    if not low < value < high:
        raise InvalidInput(name, value, f"strictly between {low} and {high}")


def require_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """Raise `InvalidInput` unless `value` is one of `choices`."""
    options = list(choices)
    if value not in options:
        raise InvalidInput(name, repr(value), "one of " + ", ".join(options))
