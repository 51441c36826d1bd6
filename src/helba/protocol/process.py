"""A server in a process of its own, which holds no secret key.

The process is started afresh (spawn: a fork would copy OpenFHE's random generator) on the folder of
`serverfiles`, and keeps it in step with what it is told: who is enrolled, and under which keys. A
folder that is deleted after the start stays away. Messages go through a pipe as bytes. Errors come
back as what they are.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from helba.errors import HelbaError, RunFailed
from helba.protocol.enrolment import Enrolment, Rotation
from helba.protocol.files import PUBLIC_KEY, ROTATION, delete_file, read_public
from helba.protocol.server import Server, Status
from helba.protocol.serverfiles import (
    PREVIOUS,
    drop_rotation,
    drop_user,
    inward_path,
    open_server,
    write_enrolment,
    write_ledger,
    write_rotated_files,
)
from helba.protocol.snapshot import save_server
from helba.protocol.vault import read_private, write_private

__all__ = ["ServerProcess"]

STOP_SECONDS = 10.0
CLOSED = None  # where other replies say whether the call was done


class ServerProcess:
    """A server elsewhere: the calls of `bandit.ServerLink`, and `save`. Close it after use.

    The bits that came back are counted in the folder's ledger after every message that told some,
    so that none is forgotten when the process is killed.
    """

    def __init__(
        self, folder: Path, *, allow_insecure: bool = False, state: bytes | None = None
    ) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(
            target=_serve, args=(theirs, folder, allow_insecure, state), daemon=True
        )
        self.process.start()
        theirs.close()
        self._wait()  # until the keys are loaded

    def receive(self, data: bytes) -> tuple[bytes, ...]:
        """Take a message in, return those to send back."""
        replies: tuple[bytes, ...] = self._call("receive", data)
        return replies

    def receive_asks(self, asks: Sequence[bytes]) -> tuple[bytes, ...]:
        """Answer several waiting users."""
        replies: tuple[bytes, ...] = self._call("receive_asks", list(asks))
        return replies

    def tasks(self, user: bytes) -> tuple[bytes, ...]:
        """Return what the server needs help with, for one helper."""
        tasks: tuple[bytes, ...] = self._call("tasks", user)
        return tasks

    def enrol(self, enrolment: bytes) -> None:
        """Serve a user from now on, or under new keys; also after a new start on the folder."""
        self._call("enrol", enrolment)

    def introduce(self, user: bytes, inward_key: bytes) -> None:
        """Take the user's own key for data that arrives under the user's key, and keep it."""
        self._call("introduce", user, inward_key)

    def revoke(self, user: bytes) -> None:
        """Refuse a user from now on, and delete its keys, also from the folder."""
        self._call("revoke", user)

    def rotate(self, rotation: bytes) -> tuple[bytes, ...]:
        """Go on under a new collective key; return what to send to users.

        The folder gets the new keys, and loses the rotation if it waited there. A state that was
        saved before is of the old key: save another.
        """
        replies: tuple[bytes, ...] = self._call("rotate", rotation)
        return replies

    def notice(self) -> bytes:
        """Return the terms of the batch that is served."""
        notice: bytes = self._call("notice")
        return notice

    def status(self) -> Status:
        """Return how far it is."""
        status: Status = self._call("status")
        return status

    def save(self) -> bytes:
        """Return its state (`snapshot`)."""
        state: bytes = self._call("save")
        return state

    def close(self) -> None:
        """End the process; what it counted is in the folder's ledger, or `RunFailed` says why not.

        One that has ended already, or does not end in time, counted after its last message.
        """
        if self._pipe.closed:
            return
        last: Any = None
        until = time.monotonic() + STOP_SECONDS
        try:
            if self.process.is_alive():
                self._pipe.send(None)
                while self._pipe.poll(max(0.0, until - time.monotonic())):
                    last = self._pipe.recv()
        except (EOFError, OSError):  # it has said all
            pass
        finally:
            self.process.join(max(0.0, until - time.monotonic()))
            self.process.kill()
            self._pipe.close()
        if last is not None and last[0] is CLOSED and last[1] is not None:
            raise last[1]

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _call(self, name: str, *arguments: object) -> Any:
        return self._wait((name, arguments))

    def _wait(self, call: tuple[str, tuple[object, ...]] | None = None) -> Any:
        """The answer to `call`, or to what was sent before."""
        try:
            if call is not None:
                self._pipe.send(call)
            done, value = self._pipe.recv()
        except (EOFError, ConnectionError):
            raise RunFailed("the server's process has ended") from None
        if not done:
            raise value
        return value


def _serve(pipe: Connection, folder: Path, allow_insecure: bool, state: bytes | None) -> None:
    """The process: open the files, then answer calls until told to stop.

    An interrupt from the keyboard is the caller's to handle.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        server = open_server(folder, allow_insecure=allow_insecure, state=state)
    except (HelbaError, OSError, ValueError) as error:
        pipe.send((False, RunFailed(f"the server cannot start: {error}")))
        return
    pipe.send((True, None))
    kept = _KeptServer(server, folder)
    calls: dict[str, Callable[..., Any]] = {
        "receive": kept.receive,
        "receive_asks": server.receive_asks,
        "tasks": server.tasks,
        "enrol": kept.enrol,
        "introduce": kept.introduce,
        "revoke": kept.revoke,
        "rotate": kept.rotate,
        "notice": server.notice,
        "status": server.status,
        "save": kept.save,
    }
    while (call := _next_call(pipe)) is not None:
        name, arguments = call
        try:
            pipe.send((True, calls[name](*arguments)))
        except HelbaError as error:
            pipe.send((False, error))
        except Exception as error:  # what OpenFHE raises: the state is as it was
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            pipe.send((False, RunFailed(f"the server failed: {reason}")))
    with suppress(OSError):  # nobody may be left who listens
        pipe.send((CLOSED, _failure_of(kept.count)))


def _failure_of(action: Callable[[], None]) -> HelbaError | None:
    try:
        action()
    except HelbaError as error:
        return error
    return None


class _KeptServer:
    """A server, and its folder in step with it. What the server refuses changes no file."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._counted = server.ledger.total

    @property
    def _there(self) -> bool:
        return self._folder.is_dir()

    def receive(self, message: bytes) -> tuple[bytes, ...]:
        try:
            return self._server.receive(message)
        finally:  # what is refused may have told bits, too
            if self._server.ledger.total != self._counted:
                with suppress(HelbaError, OSError):  # told when it closes, if it still fails then
                    self.count()

    def enrol(self, data: bytes) -> None:
        self._server.enrol(data)
        if self._there:
            user = Enrolment.from_bytes(data, deployment=self._server.deployment).user
            write_enrolment(self._folder, user, data)

    def introduce(self, user: bytes, inward_key: bytes) -> None:
        self._server.introduce(user, inward_key)
        if self._there:
            write_private(inward_path(self._folder, user), inward_key)

    def revoke(self, user: bytes) -> None:
        self._server.revoke(user)
        if self._there:
            drop_user(self._folder, user)

    def rotate(self, rotation: bytes) -> tuple[bytes, ...]:
        replies = self._server.rotate(rotation)
        if self._there:
            self._keep_rotation(rotation)
            self.count()
        return replies

    def _keep_rotation(self, rotation: bytes) -> None:
        """Write the new keys, unless the authority did: it may have written more since."""
        deployment, waiting = self._server.deployment, self._folder / ROTATION
        given = Rotation.from_bytes(rotation, deployment=deployment)
        if read_public(self._folder / PUBLIC_KEY) != given.public_key:
            write_rotated_files(rotation, self._folder, deployment=deployment)
        if waiting.exists() and read_private(waiting) == rotation:
            drop_rotation(self._folder)
        else:
            delete_file(self._folder / PREVIOUS)

    def save(self) -> bytes:
        state = save_server(self._server)
        self.count()
        return state

    def count(self) -> None:
        if self._there:
            write_ledger(self._server, self._folder)
            self._counted = self._server.ledger.total


def _next_call(pipe: Connection) -> Any:
    """The next call; None to stop, also when nobody is left who could call."""
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return None
