"""Who owns the entries of OpenFHE's maps of evaluation keys.

The maps belong to the process and go by key tag alone. Under one tag there is what one generation
or one load has put there, of one ring and one owner; it stays as long as one `EvaluationKey` of the
tag is in use (the same key may have been loaded twice).

The maps can only be emptied as a whole and filled again, which no computation survives. Garbage is
collected at any time and in any thread, so a key that is no longer in use is only noted then. Its
entries go when keys are next generated or loaded, which must not be while another thread computes.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from helba.reference.engine.keys import EvaluationKey
from helba.reference.engine.wire.description import Description
from helba.ring.ckks.process import forget_keys, map_lock


@dataclass
class _Entry:
    description: Description
    owners: int = 0


_entries: dict[str, _Entry] = {}
_unused: deque[str] = deque()  # the tag of every key that was collected


@contextmanager
def changing_maps() -> Iterator[None]:
    """Have the maps alone, without what is no longer in use: to put keys in and to own them."""
    with map_lock:
        remove_unused_keys()
        yield


def find_entry(tag: str) -> Description | None:
    """Return what the maps hold under this tag."""
    entry = _entries.get(tag)
    return None if entry is None else entry.description


def own_keys(key: EvaluationKey) -> None:
    """Keep the entries of this tag until `key`, and every other owner, is no longer in use.

    The first owner says what the entries are.
    """
    with map_lock:
        if key.tag not in _entries:
            _entries[key.tag] = _Entry(
                Description(
                    parameters=key.parameters,
                    identity=key.identity,
                    rotations=tuple(sorted(key.rotations)),
                    bootstrap_slots=key.bootstrap_slots,
                )
            )
        _entries[key.tag].owners += 1
    weakref.finalize(key, _unused.append, key.tag).atexit = False


def remove_unused_keys() -> None:
    """Remove the entries whose last owner is gone."""
    with map_lock:
        ownerless = set()
        while _unused:
            tag = _unused.popleft()
            _entries[tag].owners -= 1
            if _entries[tag].owners == 0:
                del _entries[tag]
                ownerless.add(tag)
        if ownerless:
            forget_keys(ownerless)
