"""The server's API as one user sees it: messages go out and come back as bytes.

Nothing is encrypted, decrypted or kept here. `help_wanted` and `batch` are what the last reply said
of the server.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from helba.errors import DamagedData
from helba.service.body import unpack_messages
from helba.service.client.transport import Rejected, Reply, Transport

GONE = (404, 410)


class ServerLink:
    """Calls of one tenant, with the token of one user."""

    def __init__(self, transport: Transport, *, tenant: str) -> None:
        self.transport = transport
        self.tenant = tenant
        self.help_wanted = False
        self.batch: int | None = None
        self._path = f"v1/tenants/{quote(tenant, safe='')}"

    def __repr__(self) -> str:
        return f"<ServerLink to {self.tenant} at {self.transport.url}>"

    # -- rounds

    def terms(self) -> bytes:
        """Return the notice of the batch that is served."""
        return self._call("POST", "terms", body=b"").body

    def ask(self, ask: bytes) -> list[bytes]:
        """Return the answer to an ask, or the tasks on the way to it."""
        return unpack_messages(self._call("POST", "rounds", body=ask).body)

    def report(self, report: bytes) -> bytes:
        """Return the receipt of a report."""
        replies = unpack_messages(self._call("POST", "rewards", body=report).body)
        if len(replies) != 1:
            raise DamagedData("a report is answered by one receipt")
        return replies[0]

    def send_test(self, reply: bytes, *, deadline_seconds: float | None = None) -> None:
        """Send the bit of an update test."""
        self._call("POST", "tests", body=reply, deadline_seconds=deadline_seconds)

    def open_rounds(self) -> list[str]:
        """Return the ids of this user's rounds that wait for a reward."""
        found = self._call("GET", "rounds").json()
        try:
            return [str(each["round"]) for each in found["rounds"]]
        except (KeyError, TypeError):
            raise DamagedData("the reply is no list of rounds") from None

    def drop_round(self, round: str, *, deadline_seconds: float | None = None) -> bool:
        """Give a round up; False if the server has no such round."""
        path = f"rounds/{quote(round, safe='')}"
        try:
            self._call("DELETE", path, deadline_seconds=deadline_seconds)
        except Rejected as error:
            if error.status not in GONE or not error.by_helba:
                raise
            return False
        return True

    # -- help

    def tasks(self) -> list[bytes]:
        """Return what this user may help with now."""
        return unpack_messages(self._call("GET", "tasks").body)

    def send_share(self, reply: bytes) -> list[bytes]:
        """Send the share of a task; return an answer, the next tasks, or nothing."""
        return unpack_messages(self._call("POST", "tasks", body=reply).body)

    # -- keys and figures

    def introduce(self, inward_key: bytes) -> None:
        """Give the server the key that switches this user's data."""
        self._call("PUT", "inward-key", body=inward_key)

    def public_key(self) -> bytes:
        """Return the collective public key that the server has."""
        return self._call("GET", "public-key").body

    def report_of_tenant(self) -> dict[str, Any]:
        """Return what the server tells everybody of this tenant."""
        reply = self.transport.request("GET", self._path)
        found = reply.json()
        if not isinstance(found, dict):
            raise DamagedData("the reply is no report")
        return found

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        deadline_seconds: float | None = None,
    ) -> Reply:
        reply = self.transport.request(
            method, f"{self._path}/{path}", body=body, deadline_seconds=deadline_seconds
        )
        self.help_wanted = reply.help_wanted
        self.batch = reply.batch
        return reply
