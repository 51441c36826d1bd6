"""A server in a process of its own (`child`), which holds no secret key.

It works on the folder of `serverfiles`, and keeps it in step with what it is told: who is enrolled,
and under which keys. A folder that is deleted after the start stays away. Messages go through a
pipe as bytes.

Goes with the old service.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any

from helba.errors import HelbaError, RunFailed
from helba.reference.protocol.enrolment import Rotation
from helba.reference.protocol.serving.server import Status
from helba.service.protocol.child import ChildProcess, answer_calls, fail_to_start, prepare_child
from helba.service.protocol.files import PUBLIC_KEY, ROTATION, delete_file, read_public
from helba.service.protocol.folderserver import FolderServer
from helba.service.protocol.serverfiles import (
    PREVIOUS,
    drop_rotation,
    open_server,
    write_rotated_files,
)
from helba.service.protocol.snapshot import save_server
from helba.service.protocol.vault import read_private


class ServerProcess:
    """A server elsewhere: the calls of `bandit.ServerLink`, and `save`. Close it after use.

    The bits that came back are counted in the folder's ledger after every message that told some,
    so that none is forgotten when the process is killed.
    """

    def __init__(
        self, folder: Path, *, allow_insecure: bool = False, state: bytes | None = None
    ) -> None:
        self._child = ChildProcess(_serve, folder, allow_insecure, state, what="server")

    @property
    def process(self) -> BaseProcess:
        """The process itself."""
        return self._child.process

    def receive(self, data: bytes) -> tuple[bytes, ...]:
        """Take a message in, return those to send back."""
        replies: tuple[bytes, ...] = self._child.call("receive", data)
        return replies

    def tasks(self, user: bytes) -> tuple[bytes, ...]:
        """Return what the server needs help with, for one helper."""
        tasks: tuple[bytes, ...] = self._child.call("tasks", user)
        return tasks

    def enrol(self, enrolment: bytes) -> None:
        """Serve a user from now on, or under new keys; also after a new start on the folder."""
        self._child.call("enrol", enrolment)

    def introduce(self, user: bytes, inward_key: bytes) -> None:
        """Take the user's own key for data that arrives under the user's key, and keep it."""
        self._child.call("introduce", user, inward_key)

    def revoke(self, user: bytes) -> None:
        """Refuse a user from now on, and delete its keys, also from the folder."""
        self._child.call("revoke", user)

    def rotate(self, rotation: bytes) -> tuple[bytes, ...]:
        """Go on under a new collective key; return what to send to users.

        The folder gets the new keys, and loses the rotation if it waited there. A state that was
        saved before is of the old key: save another.
        """
        replies: tuple[bytes, ...] = self._child.call("rotate", rotation)
        return replies

    def notice(self) -> bytes:
        """Return the terms of the batch that is served."""
        notice: bytes = self._child.call("notice")
        return notice

    def status(self) -> Status:
        """Return how far it is."""
        status: Status = self._child.call("status")
        return status

    def save(self) -> bytes:
        """Return its state (`snapshot`)."""
        state: bytes = self._child.call("save")
        return state

    def close(self) -> None:
        """End the process; what it counted is in the folder's ledger, or `RunFailed` says why not.

        One that has ended already, or does not end in time, counted after its last message.
        """
        self._child.close()

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _serve(pipe: Connection, folder: Path, allow_insecure: bool, state: bytes | None) -> None:
    """The process: open the files, then answer calls until told to stop."""
    prepare_child()
    try:
        server = open_server(folder, allow_insecure=allow_insecure, state=state)
    except (HelbaError, OSError, ValueError) as error:
        fail_to_start(pipe, RunFailed(f"the server cannot start: {error}"))
        return
    kept = _ProcessServer(server, folder=folder)
    calls: dict[str, Callable[..., Any]] = {
        "receive": kept.receive,
        "tasks": server.tasks,
        "enrol": kept.enrol,
        "introduce": kept.introduce,
        "revoke": kept.revoke,
        "rotate": kept.rotate,
        "notice": server.notice,
        "status": server.status,
        "save": kept.save,
    }
    answer_calls(pipe, calls, what="server", finish=kept.count)


class _ProcessServer(FolderServer):
    """The server, its folder, and what else calls may do."""

    def receive(self, message: bytes) -> tuple[bytes, ...]:
        """Take a message in, and count the bits that it told."""
        try:
            return self.server.receive(message)
        finally:  # what is refused may have told bits, too
            with suppress(HelbaError, OSError):  # told when it closes, if it still fails then
                self.count_new()

    def rotate(self, rotation: bytes) -> tuple[bytes, ...]:
        """Go on under a new collective key; the folder has it, too."""
        replies = self.server.rotate(rotation)
        if self.folder.is_dir():
            self._keep_rotation(rotation)
            self.count()
        return replies

    def _keep_rotation(self, rotation: bytes) -> None:
        """Write the new keys, unless the authority did: it may have written more since."""
        deployment, waiting = self.server.deployment, self.folder / ROTATION
        given = Rotation.from_bytes(rotation, deployment=deployment)
        if read_public(self.folder / PUBLIC_KEY) != given.public_key:
            write_rotated_files(rotation, self.folder, deployment=deployment)
        if waiting.exists() and read_private(waiting) == rotation:
            drop_rotation(self.folder)
        else:
            delete_file(self.folder / PREVIOUS)

    def save(self) -> bytes:
        """Return the state, and count."""
        state = save_server(self.server)
        self.count()
        return state
