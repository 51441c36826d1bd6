"""Randomness belongs to one process.

OpenFHE's generator is copied by fork(): parent and child would then make the same ciphertexts and
the same secret keys. Whoever loads CKKS and forks gets an error in the child instead. It cannot see
a fork that came before it was loaded: do not use openfhe directly, fork, and then load helba.
"""

from __future__ import annotations

import os

from helba.errors import EngineError

_loaded_in = os.getpid()
_forked = False


def _remember_fork() -> None:
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_remember_fork)


def require_own_randomness() -> None:
    """Raise `EngineError` in a process that was forked after OpenFHE was loaded."""
    if _forked or os.getpid() != _loaded_in:
        raise EngineError(
            "this process was forked after OpenFHE was loaded and would repeat its parent's "
            "randomness: start processes with spawn"
        )
