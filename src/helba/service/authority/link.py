"""What the authority says to the server: over HTTP, with its token.

Enrolments and rotations hold re-encryption keys, and the token lets who has it enrol anybody. Plain
HTTP is therefore for servers on the same machine, unless it is asked for; no proxy of the
environment is used.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from helba.errors import InvalidInput, Refused, RunFailed, Unavailable
from helba.reference.protocol.wire.messages import ID_BYTES

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 30.0
ROTATION_SECONDS = 600.0  # the server reads new keys, and moves its model
MOST_DETAIL = 200


@dataclass(frozen=True, kw_only=True)
class Known:
    """What a server says that it has: a collective key, and users with their tokens' hashes."""

    key: bytes
    enrolled: Mapping[bytes, str | None]

    def __repr__(self) -> str:
        return f"<Known: {len(self.enrolled)} users under {self.key.hex()}>"


class Link:
    """Requests to one tenant of one server.

    Every call raises `Unavailable` where the server is away or busy, and `Refused` where it says
    no.
    """

    def __init__(
        self,
        url: str,
        *,
        tenant: str,
        token: str,
        ca: Path | None = None,
        plain_http: bool = False,
    ) -> None:
        self.url = require_safe_url(url, plain_http=plain_http)
        self.tenant = tenant
        self._path = f"{self.url}/v1/tenants/{quote(tenant, safe='')}"
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            verify=_trust(self.url, ca),
            trust_env=False,
            follow_redirects=False,
        )

    def __repr__(self) -> str:
        return f"<Link to {self.tenant} at {self.url}>"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def members(self) -> Known:
        """Return what the server has."""
        answer = self._send("GET", "/members")
        try:
            data = answer.json()
            if data["key"] is None:
                raise Unavailable(f"the server at {self.url} is starting")
            users = {_id(user): _hash(hash) for user, hash in data["enrolled"].items()}
            return Known(key=_id(data["key"]), enrolled=users)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Refused(f"{self.url} does not answer as a server of helba does") from None

    def enrol(self, user: bytes, *, enrolment: bytes, token_hash: str) -> None:
        """Let the server serve a user."""
        headers = {"Helba-Token-Sha256": token_hash}
        self._send("PUT", f"/members/{user.hex()}", body=enrolment, headers=headers)

    def revoke(self, user: bytes) -> None:
        """Let the server forget a user, and refuse it."""
        self._send("DELETE", f"/members/{user.hex()}")

    def rotate(self, rotation: bytes) -> None:
        """Bring the server under a new collective key."""
        self._send("PUT", "/rotation", body=rotation, seconds=ROTATION_SECONDS)

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> httpx.Response:
        given = dict(headers or {})
        if body is not None:
            given["Content-Type"] = "application/octet-stream"
        try:
            answer = self._client.request(
                method,
                self._path + path,
                content=body,
                headers=given,
                timeout=httpx.Timeout(seconds, connect=CONNECT_SECONDS),
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(
                f"the server at {self.url} cannot be reached: {type(error).__name__}"
            ) from None
        if answer.status_code in (200, 201, 202, 204):
            return answer
        if answer.status_code in (401, 403):
            raise Refused(
                f"the server at {self.url} does not know the authority's token: its folder needs "
                "the authority.sha256 of this authority's"
            )
        text = f"the server at {self.url} answers {answer.status_code}: {_detail(answer)}"
        if answer.status_code >= 500 or answer.status_code in (408, 429):
            raise Unavailable(text)
        raise Refused(text)


def require_safe_url(url: str, *, plain_http: bool = False) -> str:
    """Return a server's address without a slash at its end.

    Raises `InvalidInput` for what is none, and for plain HTTP to another machine unless allowed.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise InvalidInput("--server", "something else", "an address like https://host:8700")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("--server", "one with a password", "an address without")
    if parts.scheme == "http" and not plain_http and not _is_here(host):
        raise InvalidInput(
            "--server", url, "https where it is another machine, or allowed with --plain-http"
        )
    return url.rstrip("/")


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _trust(url: str, ca: Path | None) -> ssl.SSLContext | bool:
    if not url.startswith("https:") or ca is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca))
    except OSError as error:  # ssl.SSLError is one
        raise RunFailed(f"cannot use the certificates in {ca}: {error.strerror}") from error


def _detail(answer: httpx.Response) -> str:
    """The line that a problem of the server says, or nothing."""
    try:
        found: Any = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return "no reason"
    return " ".join(str(found).split())[:MOST_DETAIL]


def _id(text: str) -> bytes:
    found = bytes.fromhex(text)
    if len(found) != ID_BYTES:
        raise ValueError("not an id")
    return found


def _hash(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
