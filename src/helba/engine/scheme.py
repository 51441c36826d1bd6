"""A scheme makes keys and engines. `get_scheme` finds one by name and loads it when asked."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from helba.engine.engine import Engine
from helba.engine.keys import EvaluationKey, KeySet, PublicKey
from helba.engine.keyserialiser import KeySerialiser
from helba.errors import RunFailed, require_choice
from helba.planning.parameters import Parameters

__all__ = ["SCHEMES", "Scheme", "get_scheme"]

SCHEMES = ("ckks", "simulate")


class Scheme(KeySerialiser):
    """One way to encrypt.

    While evaluation keys are generated, loaded or written, no other thread of the process may
    compute: OpenFHE keeps them in maps of the whole process.
    """

    name: str

    @abstractmethod
    def generate_keys(
        self, parameters: Parameters, *, rotations: Iterable[int] = (), bootstrap_slots: int = 0
    ) -> KeySet:
        """Return fresh keys from the system's generator; `rotations` are steps to the left."""

    @abstractmethod
    def engine(
        self, public_key: PublicKey, *, evaluation_key: EvaluationKey | None = None
    ) -> Engine:
        """Return an engine that encrypts, and with an evaluation key also computes."""


def get_scheme(name: str) -> Scheme:
    """Return the scheme "ckks" or "simulate"; `RunFailed` where OpenFHE cannot be loaded."""
    require_choice("engine", name, SCHEMES)
    if name == "simulate":
        from helba.engine.simulator import SimulatorScheme

        return SimulatorScheme()
    try:
        from helba.engine.ckks import CkksScheme
    except ImportError as error:
        reason = str(error).splitlines()[0]
        raise RunFailed(
            f"OpenFHE cannot be loaded here ({reason}): it needs Linux on x86_64 with CPython "
            "3.10, or 3.12 and glibc 2.38; the simulator works without it"
        ) from error
    return CkksScheme()
