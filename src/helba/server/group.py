"""Groups of asks or reports: what is refused together is tried again in smaller ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

_Item = TypeVar("_Item")


def root_up(count: int) -> int:
    """Return the square root, rounded up."""
    return math.isqrt(max(0, count - 1)) + 1


def split_group(items: Sequence[_Item], *, most: int) -> list[list[_Item]]:
    """Return smaller groups: of sqrt(most) items, or of one if there are not more than that.

    So whatever is wrong with one of `most` items is found in three groups that it is in.
    """
    size = root_up(most) if len(items) > root_up(most) else 1
    return [list(items[i : i + size]) for i in range(0, len(items), size)]
