"""Work in a fresh process that has the machine to itself: its memory goes with it.

What the work says on stderr comes back line by line. The process ends when its parent does; an
interrupt reaches the parent only, which ends it.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from helba.errors import RunFailed
from helba.lab.reproduction.contention import waiting_share
from helba.lab.reproduction.unit import Unit

SECONDS_BETWEEN_TICKS = 1.0
SECONDS_TO_END = 5.0


def run_alone(
    unit: Unit, *, say: Callable[[str], None], tick: Callable[[], None]
) -> dict[str, Any]:
    """Return what the unit's work returns; `RunFailed` names the unit where it fails.

    "waiting_share" is added to it: see `contention`. `say` gets the lines that the work prints on
    stderr, `tick` is called about once a second.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, unit))
    with _interrupts_blocked():
        process.start()
    sender.close()
    try:
        while True:
            while not receiver.poll(SECONDS_BETWEEN_TICKS):
                tick()
            kind, content = receiver.recv()
            if kind == "said":
                say(content)
            elif kind == "failed":
                raise RunFailed(f"{unit.title} failed: {content}")
            else:
                returned: dict[str, Any] = content
                return returned
    except EOFError:
        text = f"{unit.title}: its process ended unexpectedly (out of memory?)"
        raise RunFailed(f"{text}; finished units are kept") from None
    finally:
        receiver.close()
        _end(process)


def _end(process: Any) -> None:
    process.join(0.0 if process.is_alive() and sys.exc_info()[0] else SECONDS_TO_END)
    for stop in (process.terminate, process.kill):
        if process.is_alive():
            stop()
            process.join(SECONDS_TO_END)


def _work(sender: Connection, unit: Unit) -> None:
    """Do the work in the process, and send its lines and its end to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()
    with contextlib.redirect_stderr(_Lines(sender)):
        try:
            returned = unit.work(**unit.arguments)
            answer: tuple[str, Any] = ("done", {**returned, "waiting_share": waiting_share()})
        except Exception as error:
            answer = ("failed", " ".join(str(error).split()) or type(error).__name__)
    sender.send(answer)


def _follow(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


class _Lines(io.TextIOBase):
    """A stderr whose lines are sent on."""

    def __init__(self, sender: Connection) -> None:
        self._sender = sender
        self._part = ""

    def write(self, text: str) -> int:
        *lines, self._part = (self._part + text).split("\n")
        for line in lines:
            if line.strip():
                self._sender.send(("said", line.strip()))
        return len(text)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A process started in here never sees SIGINT, not even while it is starting."""
    mask = getattr(signal, "pthread_sigmask", None)
    old = mask(signal.SIG_BLOCK, {signal.SIGINT}) if mask else None
    try:
        yield
    finally:
        if mask:
            mask(signal.SIG_SETMASK, old)
