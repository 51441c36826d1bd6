"""A server in a process of its own, which holds no secret key.

The process is started afresh (spawn: a fork would copy OpenFHE's random generator) on a folder with
three files: the deployment, the public key and the evaluation key. Messages go through a pipe as
bytes. Errors come back as what they are.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from helba.engine import get_scheme
from helba.errors import HelbaError, RunFailed
from helba.protocol.authority import Authority
from helba.protocol.deployment import Deployment
from helba.protocol.server import Server, Status
from helba.protocol.snapshot import restore_server, save_server

__all__ = ["ServerProcess", "open_server", "write_server_files"]

DEPLOYMENT, PUBLIC_KEY, EVALUATION_KEY = "deployment.json", "public.key", "evaluation.key"
STOP_SECONDS = 10.0


def write_server_files(authority: Authority, folder: Path) -> None:
    """Write all that a server needs into `folder`: nothing of it is secret."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(authority.deployment.as_json(), indent=1)
    (folder / DEPLOYMENT).write_text(text, encoding="utf-8")
    (folder / PUBLIC_KEY).write_bytes(authority.public_key_bytes())
    (folder / EVALUATION_KEY).write_bytes(authority.evaluation_key_bytes())


def open_server(
    folder: Path, *, allow_insecure: bool = False, state: bytes | None = None
) -> Server:
    """Return the server of the files in `folder`, from `state` if that is given."""
    data = json.loads((folder / DEPLOYMENT).read_text(encoding="utf-8"))
    deployment = Deployment.from_json(data, allow_insecure=allow_insecure)
    scheme = get_scheme(deployment.scheme)
    options: dict[str, Any] = {
        "parameters": deployment.parameters,
        "allow_insecure": allow_insecure,
    }
    public = scheme.public_key_from_bytes((folder / PUBLIC_KEY).read_bytes(), **options)
    evaluation = scheme.evaluation_key_from_bytes(
        (folder / EVALUATION_KEY).read_bytes(),
        rotations=deployment.rotations,
        bootstrap_slots=deployment.bootstrap_slots,
        **options,
    )
    engine = scheme.engine(public, evaluation_key=evaluation)
    if state is None:
        return Server(deployment, engine=engine)
    return restore_server(state, deployment=deployment, engine=engine)


class ServerProcess:
    """A server elsewhere: the calls of `bandit.ServerLink`, and `save`. Close it after use."""

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

    def tasks(self) -> tuple[bytes, ...]:
        """Return what the server needs help with."""
        tasks: tuple[bytes, ...] = self._call("tasks")
        return tasks

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
        """End the process."""
        if self.process.is_alive():
            with suppress(OSError):
                self._pipe.send(None)
            self.process.join(STOP_SECONDS)
            self.process.kill()
        self._pipe.close()

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
    calls: dict[str, Callable[..., Any]] = {
        "receive": server.receive,
        "receive_asks": server.receive_asks,
        "tasks": server.tasks,
        "notice": server.notice,
        "status": server.status,
        "save": lambda: save_server(server),
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


def _next_call(pipe: Connection) -> Any:
    """The next call; None to stop, also when nobody is left who could call."""
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return None
