"""What a process has freed of large blocks is the system's again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# Blocks of 8 MiB, with small ones between them that stay, and one large block freed before.
SCRIPT = """
import os, sys
from helba.service.memory import give_memory_back
if sys.argv[1] == "yes":
    assert give_memory_back()
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
first = bytearray(b"x") * (30 << 20)
del first
before, large, small = resident(), [], []
for _ in range(16):
    large.append(bytearray(b"x") * (8 << 20))
    small.append([bytearray(b"y") * 65536 for _ in range(4)])
del large
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc")
def test_large_blocks_that_were_freed_do_not_stay() -> None:
    def left(answer: str) -> int:
        command = [sys.executable, "-c", SCRIPT, answer]
        return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)

    assert left("yes") < 16 << 20  # the small ones
    assert left("no") > 64 << 20  # as it would be
