"""A process of one's own that answers calls through a pipe: the parent's half, and the child's.

It is started afresh (spawn: a fork would copy OpenFHE's random generator). Errors of the program
come back as what they are, others as `RunFailed`. When the parent ends, however it ends, so does
the child: at once, or when the call is done that holds its interpreter.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from helba.errors import HelbaError, RunFailed

__all__ = ["ChildEnded", "ChildProcess", "answer_calls", "fail_to_start", "prepare_child"]

STOP_SECONDS = 10.0
COUNT = struct.Struct("<I")
CLOSED = None  # where other replies say whether the call was done


class ChildEnded(RunFailed):
    """The process that was called has ended."""


class ChildProcess:
    """A child that runs `target` with a pipe and `arguments`; `what` names it in errors.

    The constructor returns when the child says that it is ready, or raises what it says instead.
    Calls are for one thread at a time. A call that takes more than `seconds`, if they are given,
    ends the child. Close it after use.
    """

    def __init__(
        self,
        target: Callable[..., None],
        *arguments: object,
        what: str,
        seconds: float | None = None,
    ) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._what = what
        self._seconds = seconds
        self._pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=target, args=(theirs, *arguments), daemon=True)
        self.process.start()
        theirs.close()
        self._wait()

    def call(self, name: str, *arguments: object) -> Any:
        """Return what the child's call of that name returns, or raise what it raises."""
        return self._wait((name, arguments))

    def close(self, *, seconds: float = STOP_SECONDS) -> None:
        """End the process; what failed at its end is raised.

        One that does not end in time is killed.
        """
        if self._pipe.closed:
            return
        last: Any = None
        until = time.monotonic() + seconds
        try:
            if self.process.is_alive():
                _send(self._pipe, None)
                while self._pipe.poll(max(0.0, until - time.monotonic())):
                    last = _receive(self._pipe)
        except (EOFError, OSError):  # it has said all
            pass
        finally:
            self.process.join(max(0.0, until - time.monotonic()))
            self.process.kill()
            self._pipe.close()
        if last is not None and last[0] is CLOSED and last[1] is not None:
            raise last[1]

    def _wait(self, call: tuple[str, tuple[object, ...]] | None = None) -> Any:
        """The answer to `call`, or to what was sent before."""
        try:
            if call is not None:
                _send(self._pipe, call)
                if self._seconds is not None and not self._pipe.poll(self._seconds):
                    self.process.kill()
            done, value = _receive(self._pipe)
        except (EOFError, ConnectionError, OSError):
            raise ChildEnded(f"the {self._what}'s process has ended") from None
        if not done:
            raise value
        return value


def prepare_child() -> None:
    """Leave interrupts to the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def answer_calls(
    pipe: Connection,
    calls: Mapping[str, Callable[..., Any]],
    *,
    what: str,
    finish: Callable[[], None] = lambda: None,
) -> None:
    """Say that the child is ready, and answer calls until told to stop; then `finish`.

    The state of the child must be whole whatever a call raises.
    """
    _send(pipe, (True, None))
    while (call := _next_call(pipe)) is not None:
        name, arguments = call
        try:
            _send(pipe, (True, calls[name](*arguments)))
        except HelbaError as error:
            _send(pipe, (False, error))
        except Exception as error:  # what OpenFHE raises
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            _send(pipe, (False, RunFailed(f"the {what} failed: {reason}")))
    with suppress(OSError):  # nobody may be left who listens
        _send(pipe, (CLOSED, _failure_of(finish)))


def fail_to_start(pipe: Connection, error: HelbaError) -> None:
    """Say, in place of `answer_calls`, why the child cannot start."""
    _send(pipe, (False, error))


def _failure_of(action: Callable[[], None]) -> HelbaError | None:
    try:
        action()
    except HelbaError as error:
        return error
    return None


def _next_call(pipe: Connection) -> Any:
    """The next call; None to stop, also when nobody is left who could call."""
    try:
        return _receive(pipe)
    except (EOFError, OSError):
        return None


def _send(pipe: Connection, value: object) -> None:
    """Send a value; `pickle.PickleBuffer`s in it follow as they are, without a copy."""
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    pipe.send_bytes(COUNT.pack(len(buffers)) + text)
    for buffer in buffers:
        pipe.send_bytes(buffer.raw())


def _receive(pipe: Connection) -> Any:
    """The value that was sent, with bytes where buffers were."""
    data = pipe.recv_bytes()
    (count,) = COUNT.unpack_from(data)
    buffers = [pipe.recv_bytes() for _ in range(count)]
    return pickle.loads(memoryview(data)[COUNT.size :], buffers=buffers)
