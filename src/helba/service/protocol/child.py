"""A process of one's own that answers calls through a pipe: the parent's half, and the child's.

It is started afresh (spawn: a fork would copy OpenFHE's random generator), without the secrets of
the parent's environment. Errors of the program come back as what they are, others as `RunFailed`.
When the parent ends, however it ends, so does the child: at once, or when the call is done that
holds its interpreter.

What a child says is read by pickle, which would run what it is told to: a parent that does not
trust its child names the classes that replies may have. Errors travel as names and plain values.

Goes with the old service.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import signal
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

from helba.errors import HelbaError, RunFailed

STOP_SECONDS = 10.0
COUNT = struct.Struct("<I")
CLOSED = None  # where other replies say whether the call was done
PLAIN = (str, bytes, int, float, bool, type(None))
# Of the environment: passphrases, invitations, and the store with its password.
SECRETS = ("HELBA_INVITATION", "HELBA_NEW_PASSPHRASE", "HELBA_PASSPHRASE", "HELBA_STORE")
_environment = threading.Lock()


class ChildEnded(RunFailed):
    """The process that was called has ended."""


class ChildTooSlow(ChildEnded):
    """The process that was called took too long, and was ended for it."""


class ChildProcess:
    """A child that runs `target` with a pipe and `arguments`; `what` names it in errors.

    The constructor returns when the child says that it is ready, or raises what it says instead.
    Calls are for one thread at a time. A call that takes more than `seconds`, if they are given,
    ends the child. So does a reply with anything but plain values, their containers and instances
    of the classes in `replies`; without `replies` the child is trusted. Close it after use.
    """

    def __init__(
        self,
        target: Callable[..., None],
        *arguments: object,
        what: str,
        seconds: float | None = None,
        replies: Collection[type] | None = None,
    ) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._what = what
        self._seconds = seconds
        self._replies = replies
        self._pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=target, args=(theirs, *arguments), daemon=True)
        with _hidden_secrets():
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
                    last = self._receive()
        except (ChildEnded, EOFError, OSError):  # it has said all
            pass
        finally:
            self.process.join(max(0.0, until - time.monotonic()))
            self.process.kill()
            self._pipe.close()
        if last is not None and last[0] is CLOSED and last[1] is not None:
            raise _make_error(last[1])

    def _wait(self, call: tuple[str, tuple[object, ...]] | None = None) -> Any:
        """The answer to `call`, or to what was sent before."""
        try:
            if call is not None:
                _send(self._pipe, call)
                if self._seconds is not None and not self._pipe.poll(self._seconds):
                    self.process.kill()
                    raise ChildTooSlow(f"the {self._what}'s process took too long")
            done, value = self._receive()
        except (EOFError, ConnectionError, OSError):
            raise ChildEnded(f"the {self._what}'s process has ended") from None
        if not done:
            raise _make_error(value)
        return value

    def _receive(self) -> tuple[bool | None, Any]:
        """What the child says; one that says what it may not is ended."""
        try:
            done, value = _receive(self._pipe, classes=self._replies)
            if done is not True and value is not None:
                _make_error(value)
        except (EOFError, OSError):
            raise
        except Exception:  # whatever is in it
            self.process.kill()
            raise ChildEnded(f"the {self._what}'s process was ended: it misbehaved") from None
        return done, value


def forget_secrets() -> None:
    """Drop the secrets from this process's environment, once it has read them."""
    for name in SECRETS:
        os.environ.pop(name, None)


@contextmanager
def _hidden_secrets() -> Iterator[None]:
    """Where they were not forgotten, let a process that is started in the block not have them."""
    with _environment:
        hidden = {name: os.environ.pop(name) for name in SECRETS if name in os.environ}
        try:
            yield
        finally:
            os.environ.update(hidden)


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
            _send(pipe, (False, _describe_error(error)))
        except Exception as error:  # what OpenFHE raises
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            failure = RunFailed(f"the {what} failed: {reason}")
            _send(pipe, (False, _describe_error(failure)))
    with suppress(OSError):  # nobody may be left who listens
        failed = _failure_of(finish)
        _send(pipe, (CLOSED, None if failed is None else _describe_error(failed)))


def fail_to_start(pipe: Connection, error: HelbaError) -> None:
    """Say, in place of `answer_calls`, why the child cannot start."""
    _send(pipe, (False, _describe_error(error)))


def _describe_error(error: HelbaError) -> tuple[list[str], tuple[object, ...]]:
    """The names of the error's class and of those above it, and what it was made of."""
    values = tuple(each if type(each) in PLAIN else str(each) for each in error.args)
    return [_name_of(each) for each in type(error).__mro__], values


def _make_error(described: Any) -> HelbaError:
    """The error again, of the first of its classes that is known here."""
    names, values = described
    known = {_name_of(each): each for each in _kinds_of(HelbaError)}
    return next(known[name] for name in names if name in known)(*values)


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _kinds_of(kind: type[HelbaError]) -> Iterator[type[HelbaError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _kinds_of(each)


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


def _receive(pipe: Connection, *, classes: Collection[type] | None = None) -> Any:
    """The value that was sent, with bytes where buffers were; of no other than `classes`."""
    data = pipe.recv_bytes()
    (count,) = COUNT.unpack_from(data)
    buffers = [pipe.recv_bytes() for _ in range(count)]
    text = memoryview(data)[COUNT.size :]
    if classes is None:
        return pickle.loads(text, buffers=buffers)
    return _Reader(io.BytesIO(text), classes=classes, buffers=buffers).load()


class _Reader(pickle.Unpickler):
    """Reads values of some classes, and finds nothing else that could be called."""

    def __init__(
        self, file: io.BytesIO, *, classes: Collection[type], buffers: list[bytes]
    ) -> None:
        super().__init__(file, buffers=buffers)
        self._classes = {_name_of(each): each for each in classes}

    def find_class(self, module: str, name: str) -> type:
        return self._classes[f"{module}.{name}"]
