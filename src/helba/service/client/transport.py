"""HTTP to one party: patient with what passes, plain about what does not.

    with Transport("https://helba.example", token=token) as transport:
        reply = transport.request("POST", "v1/tenants/main/terms")

A request is sent again, after a wait that doubles and is drawn at random below its limit, when the
connection fails or times out, and on 408, 429, 502, 503 and 504, where `Retry-After` may ask for a
longer wait; `Patience` bounds all of it by a deadline. Sending twice is safe, because every request
of this API is idempotent: asks and reports by the id of their round, shares and test bits by the id
of their task or test, an enrolment by key and token; all others read, replace or delete.

What the other side says no to becomes an error of helba, with its reason in one line:

    401, 403, 404, 409 ...   Rejected, a Refused with the status
    400                      DamagedData
    422                      InvalidInput
    5xx, unreachable         Unavailable

Not all that answers is helba: a proxy on the way says no in its own words. What helba itself says
comes as a problem (RFC 9457); `find_refusal` tells which.

A token would be read by anybody on the way where HTTP is plain: only the loopback may do without
TLS, unless `allow_plain_http` says so. Redirects are not followed, proxies of the environment are
not used, and a reply has a length that it may not pass. Nothing is compressed: each piece of a
reply is looked at as it arrives.

httpx is loaded with the first URL, so that `helba.Client` has its name without it.
"""

from __future__ import annotations

import ipaddress
import json
import math
import random
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeGuard

from helba.errors import (
    DamagedData,
    HelbaError,
    InvalidInput,
    Refused,
    RunFailed,
    Unavailable,
    require_positive,
)
from helba.extras import require_extra
from helba.service.client.waiting import log

if TYPE_CHECKING:
    import httpx

TOO_MANY = 429  # without Retry-After: waiting does not help
AGAIN = frozenset({408, TOO_MANY, 502, 503, 504})
MOST_REPLY_BYTES = 1 << 28
MOST_REASON = 300
LEAST_SECONDS = 0.01
MOST_DIGITS = 9  # of a number in a header
TELL_SECONDS = 3.0  # who waits longer is told why
BINARY, PROBLEM = "application/octet-stream", "application/problem+json"


class Rejected(Refused):
    """The other side says no, and asking again as it is will not help; `status` is HTTP's.

    `by_helba` is False where somebody else on the way says so.
    """

    def __init__(self, reason: str, *, status: int, by_helba: bool = True) -> None:
        super().__init__(reason)
        self.status = status
        self.by_helba = by_helba


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a request may take, with all its repetitions, and a single one of them."""

    deadline_seconds: float = 300.0
    connect_seconds: float = 10.0
    reply_seconds: float = 120.0
    first_wait_seconds: float = 0.1
    longest_wait_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            require_positive(name, value)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A successful reply; what the headers did not say is None."""

    status: int
    body: bytes = field(repr=False)
    help_wanted: bool = False
    batch: int | None = None

    def json(self) -> Any:
        """Return the JSON of the body, or raise `DamagedData`."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise DamagedData("the reply is no JSON") from None


class Transport:
    """Sends requests to one URL, one at a time. `retries` and bytes are counted, bodies only."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        ca: Path | None = None,
        allow_plain_http: bool = False,
        patience: Patience | None = None,
    ) -> None:
        self.url = check_url(url, allow_plain_http=allow_plain_http)
        import httpx

        self.patience = Patience() if patience is None else patience
        self.retries = 0
        self.bytes_up = 0
        self.bytes_down = 0
        headers = {"Accept-Encoding": "identity"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._client = httpx.Client(
            base_url=self.url + "/",
            headers=headers,
            verify=_trust(self.url, ca=ca),
            trust_env=False,
            follow_redirects=False,
        )

    def __repr__(self) -> str:
        return f"<Transport to {self.url}>"

    def __enter__(self) -> Transport:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        deadline_seconds: float | None = None,
    ) -> Reply:
        """Return the reply to a request, sent again where that may help; or raise.

        A `body` of bytes is sent as it is, one of fields as JSON.
        """
        content, sent = _content(body)
        sent.update(headers or {})
        limit = self.patience.deadline_seconds if deadline_seconds is None else deadline_seconds
        tell = time.monotonic() + TELL_SECONDS
        until, longest = time.monotonic() + limit, self.patience.first_wait_seconds
        while True:
            found = self._send(method, path, content=content, headers=sent, until=until)
            if isinstance(found, Reply):
                return found
            wait = max(found.after or 0.0, random.uniform(longest / 2, longest))
            if time.monotonic() + wait > until:
                raise Unavailable(f"{self.url}: {found.reason}")
            if time.monotonic() + wait > tell:
                log.info("%s: %s; trying again, for %.0f s at most", self.url, found.reason, limit)
                tell = math.inf
            longest = min(2 * longest, self.patience.longest_wait_seconds)
            self.retries += 1
            time.sleep(wait)

    def _timeout(self, left: float) -> httpx.Timeout:
        """Of one sending; each wait in it ends with the deadline."""
        import httpx

        left = max(left, LEAST_SECONDS)
        patience = self.patience
        return httpx.Timeout(
            min(patience.reply_seconds, left), connect=min(patience.connect_seconds, left)
        )

    def _send(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None,
        headers: Mapping[str, str],
        until: float,
    ) -> Reply | _TryAgain:
        import httpx

        timeout = self._timeout(until - time.monotonic())
        try:
            with self._client.stream(
                method, path, content=content, headers=headers, timeout=timeout
            ) as response:
                self.bytes_up += len(content or b"")
                found = self._read(response, until=until)
                self.bytes_down += len(found)
        except httpx.TimeoutException:
            return _TryAgain(reason="no reply in time")
        except httpx.TransportError as error:
            return _TryAgain(reason=_describe(error))
        except httpx.HTTPError as error:
            raise RunFailed(f"{self.url}: {_one_line(str(error))}") from None
        if response.is_success:
            return _reply(response, found)
        reason, by_helba = _reason(response, found)
        after = _wait_asked(response)
        if response.status_code in AGAIN and (
            response.status_code != TOO_MANY or after is not None
        ):
            return _TryAgain(reason=reason, after=after)
        if not by_helba:
            reason = f"{self.url}: {reason}, which is no answer of helba's"
        raise _error(response.status_code, reason, url=self.url, by_helba=by_helba)

    def _read(self, response: httpx.Response, *, until: float) -> bytes:
        """The body, as it travels: a piece now and then does not put the deadline off."""
        import httpx

        parts, length = [], 0
        for part in response.iter_raw():
            if time.monotonic() > until:
                raise httpx.ReadTimeout("the deadline is over")
            length += len(part)
            if length > MOST_REPLY_BYTES:
                raise DamagedData(f"{self.url}: a reply of more than {MOST_REPLY_BYTES} bytes")
            parts.append(part)
        return b"".join(parts)


@dataclass(frozen=True, kw_only=True)
class _TryAgain:
    """Why a request may pass when it is sent again, and after how many seconds if that was said."""

    reason: str
    after: float | None = None


def find_refusal(error: BaseException) -> Rejected | None:
    """Return what the other side said no with, if an error of a request is about that."""
    found = error if isinstance(error, Rejected) else error.__cause__
    return found if isinstance(found, Rejected) else None


def check_url(url: str, *, allow_plain_http: bool = False) -> str:
    """Return the URL of a party in its one form, or raise `InvalidInput`.

    That is without the last slash and the port that goes without saying, the host in small letters.
    `MissingPackage` where httpx is not installed.
    """
    require_extra("service", purpose="a client of the service", only="httpx")
    import httpx

    try:
        found = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        raise InvalidInput("URL", "something else", "of the form https://host:port") from None
    if found.scheme not in ("http", "https") or not found.host:
        raise InvalidInput("URL", repr(url[:80]), "of the form https://host:port")
    if found.userinfo or found.query or found.fragment:
        raise InvalidInput("URL", "one with more", "of the form https://host:port")
    if found.scheme == "http" and not allow_plain_http and not _is_loopback(found.host):
        allowed = "https: over plain http to another machine anybody on the way reads the token"
        raise InvalidInput("URL", f"http to {found.host}", allowed)
    return str(found).rstrip("/")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _trust(url: str, *, ca: Path | None) -> ssl.SSLContext:
    """Whom to believe; where there is no TLS, nobody."""
    if url.startswith("http:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError as error:
        raise RunFailed(f"cannot read certificates of {ca}: {error.strerror}") from error


def _content(body: bytes | Mapping[str, Any] | None) -> tuple[bytes | None, dict[str, str]]:
    if body is None:
        return None, {}
    if isinstance(body, bytes):
        return body, {"Content-Type": BINARY}
    return json.dumps(body).encode(), {"Content-Type": "application/json"}


def _reply(response: httpx.Response, body: bytes) -> Reply:
    return Reply(
        status=response.status_code,
        body=body,
        help_wanted=response.headers.get("Helba-Help") == "1",
        batch=_number(response.headers.get("Helba-Batch")),
    )


def _number(text: str | None) -> int | None:
    return int(text) if _is_number(text) and len(text) <= MOST_DIGITS else None


def _is_number(text: str | None) -> TypeGuard[str]:
    return text is not None and text.isascii() and text.isdecimal()


def _wait_asked(response: httpx.Response) -> float | None:
    """The seconds of `Retry-After`; a date, which HTTP also allows, counts as none."""
    text = response.headers.get("Retry-After")
    if not _is_number(text):
        return None
    seconds = _number(text)
    return math.inf if seconds is None else float(seconds)


def _reason(response: httpx.Response, body: bytes) -> tuple[str, bool]:
    """Why it says no, and whether this is a problem as helba puts it.

    The reason is the detail of the problem, or the name of the status.
    """
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    with suppress(ValueError, RecursionError):
        problem = json.loads(body)
        if isinstance(problem, dict):
            by_helba = kind == PROBLEM and problem.get("status") == response.status_code
            for name in ("detail", "title"):
                if isinstance(problem.get(name), str) and problem[name].strip():
                    return _one_line(problem[name]), by_helba
    return _one_line(f"HTTP {response.status_code} {response.reason_phrase}"), False


def _one_line(text: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= MOST_REASON else line[:MOST_REASON] + "..."


def _describe(error: httpx.TransportError) -> str:
    """What failed, in words; the library's own may be empty."""
    import httpx

    text = _one_line(str(error))
    if isinstance(error, httpx.ConnectError):
        return f"cannot connect ({text})" if text else "cannot connect"
    return f"the connection broke off ({text})" if text else "the connection broke off"


def _error(status: int, reason: str, *, url: str, by_helba: bool) -> HelbaError:
    """What a status means; an error of another kind has the refusal as its cause."""
    if status >= 500:
        return Unavailable(f"{url}: {reason}" if by_helba else reason)
    if status < 400:
        return RunFailed(f"{url}: HTTP {status}, which helba does not expect")
    refusal = Rejected(reason, status=status, by_helba=by_helba)
    error: HelbaError = refusal
    if status == 400:
        error = DamagedData(reason)
    elif status == 422:
        error = InvalidInput("request", "one that is not", f"admissible ({reason})")
    if error is not refusal:
        error.__cause__ = refusal
    return error
