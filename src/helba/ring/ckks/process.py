"""The state that OpenFHE has once a process: its random generator, and its maps of keys.

The generator is copied by fork(): parent and child would then make the same ciphertexts and the
same secret keys. Whoever loads CKKS and forks gets an error in the child instead. It cannot see a
fork that came before it was loaded: do not use openfhe directly, fork, and then load helba.

The maps, by key tag, can only be emptied as a whole and filled again, which no computation of
another thread survives. Whoever puts keys in or takes them out holds `map_lock`, so that no key
gets lost.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection
from typing import Any

import openfhe as fhe

from helba.errors import EngineError

map_lock = threading.RLock()
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


def forget_keys(tags: Collection[str]) -> None:
    """Remove the evaluation keys of these tags from the maps of the process."""
    maps: Any = fhe.CryptoContext
    with map_lock:
        products = dict(maps.GetAllEvalMultKeys())
        rotations = dict(maps.GetAllEvalAutomorphismKeys())
        fhe.ClearEvalMultKeys()
        maps.ClearEvalAutomorphismKeys()
        for owner, keys in products.items():
            if owner not in tags:
                maps.InsertEvalMultKey(keys, owner)
        for owner, keys in rotations.items():
            if owner not in tags:
                maps.InsertEvalAutomorphismKey(keys, owner)
