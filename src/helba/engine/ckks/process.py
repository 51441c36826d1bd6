"""Randomness belongs to one process.

OpenFHE's generator is copied by fork(): parent and child would then make the same ciphertexts and
the same secret keys. Whoever loads CKKS and forks gets an error in the child instead.
"""

from __future__ import annotations

import os

from helba.errors import EngineError

__all__ = ["require_own_randomness"]

_loaded_in = os.getpid()


def require_own_randomness() -> None:
    """Raise `EngineError` in a process that was forked after OpenFHE was loaded."""
    if os.getpid() != _loaded_in:
        raise EngineError(
            "this process was forked after OpenFHE was loaded and would repeat its parent's "
            "randomness: start processes with spawn"
        )
