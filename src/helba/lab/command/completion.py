"""Values that a shell completes. Nothing is loaded for them; a test compares them with the code.

`values_of("profile")` is what typer calls with the letters typed so far.
"""

from __future__ import annotations

from collections.abc import Callable

from helba.lab.algorithm import ALGORITHMS

CHOICES: dict[str, tuple[str, ...]] = {
    "algorithm": ALGORITHMS,
    "argmax": ("auto", "product", "sum"),
    "bonus": ("quadratic", "sqrt"),
    "engine": ("plain", "ckks", "simulate"),
    "keys": ("own", "shared", "switched"),
    "log level": ("debug", "info", "warning", "error"),
    "opener": ("users", "authority"),
    "problem": ("toy", "synthetic", "fixed-arms", "replay"),
    "profile": ("shares", "ciphertext", "paper"),
    "refresh": ("client", "bootstrap", "none"),
    "schedule": ("trace", "public"),
    "security": ("128", "192", "256"),
}

Completion = Callable[[str], list[str]]


def values_of(name: str, *, but: tuple[str, ...] = ()) -> Completion:
    """Return the completion of an option that takes one of the choices called `name`."""
    choices = [choice for choice in CHOICES[name] if choice not in but]

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete


def list_of(name: str) -> Completion:
    """Return the completion of an option that takes several of the choices, with commas."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        return [
            before + comma + choice
            for choice in CHOICES[name]
            if choice.startswith(last) and choice not in taken
        ]

    return complete
