"""Memory of large blocks goes back to the system as soon as they are freed: bodies, residues."""

from __future__ import annotations

import ctypes
from contextlib import suppress

# Of `mallopt` in glibc's malloc.h. By itself glibc raises the size to that of the largest block
# that was freed, and bodies of many megabytes lie scattered among small things from then on.
M_MMAP_THRESHOLD = -3
LARGE_BYTES = 1 << 20


def give_memory_back() -> bool:
    """Let every large block of this process be one of its own; False where that is not possible."""
    with suppress(AttributeError, OSError):  # another system than Linux, or another C library
        return bool(ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BYTES))
    return False
