"""OpenFHE's maps of evaluation keys: one for the process, by key tag.

The maps can only be emptied as a whole and filled again, which no computation of another thread
survives. Whoever puts keys in or takes them out holds `map_lock`, so that no key gets lost.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

import openfhe as fhe

map_lock = threading.RLock()


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
