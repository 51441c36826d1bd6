"""The authority's API as a user sees it: what is public, and how to be taken in."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import quote

from helba.errors import DamagedData, Unavailable
from helba.service.client.account import Account
from helba.service.client.transport import Patience

LOOK_SECONDS = 0.2
LONGEST_LOOK_SECONDS = 3.0


@dataclass(frozen=True, kw_only=True)
class Home:
    """Where the server is, which tenant, and the id of the collective key."""

    url: str
    tenant: str
    key: str


class Registry:
    """Calls of the authority of one account; they need no token."""

    def __init__(self, account: Account, *, patience: Patience | None = None) -> None:
        self._transport = account.connect(account.authority, patience=patience)

    def __enter__(self) -> Registry:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._transport.close()

    def deployment(self) -> Any:
        """Return the deployment in plain types."""
        return self._transport.request("GET", "v1/deployment").json()

    def public_key(self) -> bytes:
        """Return the collective public key."""
        return self._transport.request("GET", "v1/public-key").body

    def home(self) -> Home:
        """Return where users go on, and the id of the collective key."""
        found = self._transport.request("GET", "v1/server").json()
        try:
            return Home(url=str(found["url"]), tenant=str(found["tenant"]), key=str(found["key"]))
        except (KeyError, TypeError):
            raise DamagedData("the authority does not say where the server is") from None

    def enrol(
        self, name: str, *, public_key: bytes, token_hash: str, invitation: str | None = None
    ) -> None:
        """Have the user taken in, and return once the server knows it.

        The same call again is no error: an enrolment is known by its name and key. `Unavailable`
        if the server stays out of the authority's reach.
        """
        headers = {"Helba-Token-Sha256": token_hash}
        if invitation is not None:
            headers["Authorization"] = f"Bearer {invitation}"
        path = f"v1/enrolments?name={quote(name, safe='')}"
        found = self._transport.request("POST", path, body=public_key, headers=headers).json()
        user = found.get("user") if isinstance(found, dict) else None
        until = time.monotonic() + self._transport.patience.deadline_seconds
        wait = LOOK_SECONDS
        while not (isinstance(found, dict) and found.get("delivered") is True):
            if time.monotonic() + wait > until:
                raise Unavailable("the authority took the user in, but does not reach the server")
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_LOOK_SECONDS)
            path = f"v1/enrolments/{quote(str(user), safe='')}"
            found = self._transport.request("GET", path).json()
