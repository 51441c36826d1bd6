"""A server whose folder is in step with what it is told: who is enrolled, and what was counted.

Goes with the old service.
"""

from __future__ import annotations

from pathlib import Path

from helba.reference.protocol.enrolment import Enrolment
from helba.reference.protocol.serving.server import Server
from helba.service.protocol.serverfiles import drop_user, inward_path, write_enrolment, write_ledger
from helba.service.protocol.vault import write_private


class FolderServer:
    """`server` and its `folder`. What the server refuses changes no file.

    A folder that is deleted after the start stays away.
    """

    def __init__(self, server: Server, *, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self._counted = server.ledger.total

    def enrol(self, data: bytes) -> None:
        """Serve a user from now on, also after a new start."""
        self.server.enrol(data)
        if self.folder.is_dir():
            user = Enrolment.from_bytes(data, deployment=self.server.deployment).user
            write_enrolment(self.folder, user, data)

    def introduce(self, user: bytes, inward_key: bytes) -> None:
        """Take the user's key for data that arrives under its own, and keep it."""
        self.server.introduce(user, inward_key)
        if self.folder.is_dir():
            write_private(inward_path(self.folder, user), inward_key)

    def revoke(self, user: bytes) -> None:
        """Refuse a user from now on, and delete its keys."""
        self.server.revoke(user)
        if self.folder.is_dir():
            drop_user(self.folder, user)

    def count(self) -> None:
        """Write the bits that were told."""
        if self.folder.is_dir():
            write_ledger(self.server, self.folder)
            self._counted = self.server.ledger.total

    def count_new(self) -> None:
        """Write the bits that were told, if there are more than were written."""
        if self.server.ledger.total != self._counted:
            self.count()
