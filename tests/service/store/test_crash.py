"""A server that is killed while it writes: the store holds one state, and none in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from helba.service.store import Store
from tests.service.store.contents import FINGERPRINT

ROOT = Path(__file__).parents[3]
# Each checkpoint has two parts that say its number; with it comes the round of that number, and
# the one before gets its reward. What is printed was acknowledged.
WRITER = """
import sys
from tests.service.store.contents import NOW, answered, checkpoint_of
from helba.service.store import Store
store = Store(sys.argv[1])
for number in range(1, 100000):
    name = b"%d" % number
    store.commit(
        "main",
        checkpoint=checkpoint_of(number, name * 20000, name * 3),
        answered=answered(name),
        reported=[b"%d" % (number - 1)] if number > 1 else [],
        at=NOW,
    )
    print(number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("wait", [1, 7, 23])
def test_store_of_a_killed_server_is_one_state(store_url: str, wait: int) -> None:
    with Store(store_url) as store:
        store.open_tenant("main", fingerprint=FINGERPRINT)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, store_url],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(wait)]
        process.send_signal(signal.SIGKILL)
        told += [int(line) for line in process.stdout]
    with Store(store_url) as store:
        saved = store.load("main")
        assert saved is not None
        name = b"%d" % saved.number
        assert saved.number in (told[-1], told[-1] + 1)  # the last may be in, and nobody knows
        assert saved.parts == (name * 20000, name * 3)
        assert list(saved.rounds) == [name]
        counts = store.counts("main")
        assert (counts.answered, counts.reported) == (saved.number, saved.number - 1)
