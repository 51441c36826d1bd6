"""Who owns the entries of OpenFHE's maps of evaluation keys.

The maps belong to the process and go by key tag. An entry stays as long as one `EvaluationKey` of
its tag is in use (the same key may have been loaded twice), and is removed with the last one.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from typing import Any

import openfhe as fhe

from helba.engine.keys import EvaluationKey

__all__ = ["forget_keys", "own_keys"]

_owners: Counter[str] = Counter()
_lock = threading.RLock()


def own_keys(key: EvaluationKey) -> None:
    """Keep the entries of this tag until `key`, and every other owner, is no longer in use."""
    with _lock:
        _owners[key.tag] += 1
    weakref.finalize(key, _disown_keys, key.tag).atexit = False


def _disown_keys(tag: str) -> None:
    with _lock:
        _owners[tag] -= 1
        if _owners[tag] <= 0:
            del _owners[tag]
            forget_keys(tag)


def forget_keys(tag: str) -> None:
    """Remove one owner's evaluation keys from the maps of the process."""
    maps: Any = fhe.CryptoContext
    with _lock:
        products = dict(maps.GetAllEvalMultKeys())
        rotations = dict(maps.GetAllEvalAutomorphismKeys())
        fhe.ClearEvalMultKeys()
        maps.ClearEvalAutomorphismKeys()
        for owner, keys in products.items():
            if owner != tag:
                maps.InsertEvalMultKey(keys, owner)
        for owner, keys in rotations.items():
            if owner != tag:
                maps.InsertEvalAutomorphismKey(keys, owner)
