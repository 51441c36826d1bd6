"""The transport: what it sends again, what it gives up on, and where a token may travel."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from helba.errors import DamagedData, InvalidInput, RunFailed, Unavailable
from helba.service.client.transport import Patience, Rejected, Transport, check_url
from tests.service.client.fake import QUICK, Fake, serving, write_certificate

TOKEN = "helba_u_" + 43 * "x"


@pytest.fixture(scope="module")
def fake() -> Iterator[Fake]:
    with serving(Fake()) as found:
        yield found


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8700", "http://localhost:1/", "http://[::1]:9", "https://example.org/h"],
)
def test_url_of_this_machine_or_with_tls_is_taken(url: str) -> None:
    assert check_url(url) == url.rstrip("/")


@pytest.mark.parametrize(
    ("url", "one_form"),
    [
        ("https://Example.ORG:443/", "https://example.org"),
        ("http://127.0.0.1:80", "http://127.0.0.1"),
        ("https://example.org:8701//", "https://example.org:8701"),
    ],
)
def test_url_has_one_form(url: str, one_form: str) -> None:
    assert check_url(url) == one_form == check_url(one_form)


def test_plain_http_to_another_machine_is_refused_unless_allowed() -> None:
    for url in ("http://192.0.2.7:8700", "http://example.org", "http://localhost.example.org"):
        with pytest.raises(InvalidInput, match="reads the token"):
            Transport(url, token=TOKEN)
        with Transport(url, token=TOKEN, allow_plain_http=True) as transport:
            assert transport.url == url


@pytest.mark.parametrize(
    "url", ["", "ftp://example.org", "example.org", "https://u:p@example.org", "https://e.org/?q=1"]
)
def test_other_urls_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_url(url)
    assert "u:p" not in str(caught.value)


def test_missing_certificates_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="certificates"):
        Transport("https://example.org", ca=tmp_path / "none.pem")


def test_tls_is_believed_only_with_the_certificate_that_was_given(tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path / "fake.pem")
    hurried = Patience(deadline_seconds=0.3)
    with serving(Fake(), certificate=certificate) as fake:
        with Transport(fake.url, token=TOKEN, ca=certificate, patience=QUICK) as transport:
            assert transport.request("GET", "v1/server").json()["url"] == fake.url
        with Transport(fake.url, token=TOKEN, patience=hurried) as stranger:
            with pytest.raises(Unavailable, match="certificate"):
                stranger.request("GET", "v1/server")
            assert stranger.bytes_up == 0


def test_server_that_is_away_is_unavailable_before_the_deadline_passes() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # nobody listens
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        patience = Patience(deadline_seconds=0.3, first_wait_seconds=0.02)
        with Transport(url, token=TOKEN, patience=patience) as transport:
            with pytest.raises(Unavailable, match="cannot connect") as caught:
                transport.request("GET", "v1/health")
            assert transport.retries > 1
            assert TOKEN not in f"{caught.value} {transport!r}"


def test_silent_server_is_unavailable_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        patience = Patience(deadline_seconds=0.3, reply_seconds=10.0)
        with (
            Transport(url, patience=patience) as transport,
            pytest.raises(Unavailable, match="in time"),
        ):
            transport.request("GET", "v1/health")


def test_retry_after_beyond_the_deadline_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from helba.service.client import transport as module

    fake, slept = Fake(), list[float]()
    monkeypatch.setattr(module.time, "sleep", slept.append)
    with serving(fake), Transport(fake.url, patience=QUICK) as transport:
        fake.order("GET", "server", "busy")
        monkeypatch.setattr(module, "_wait_asked", lambda _: 3600.0)
        with pytest.raises(Unavailable, match="ordered: busy"):
            transport.request("GET", "v1/server")
    assert 3600.0 not in slept


@pytest.mark.parametrize("fault", ["busy", "slow", "cut"])
def test_request_is_sent_again_and_counted(fake: Fake, fault: str) -> None:
    with Transport(fake.url, patience=QUICK) as transport:
        fake.order("GET", "server", fault, fault)
        assert transport.request("GET", "v1/server").json()["tenant"] == "main"
        assert transport.retries == 2
        assert transport.bytes_down > 0


def test_broken_server_is_unavailable_at_once(fake: Fake) -> None:
    with Transport(fake.url, patience=QUICK) as transport:
        fake.order("GET", "server", "broken")
        with pytest.raises(Unavailable, match="ordered: broken"):
            transport.request("GET", "v1/server")
        assert transport.retries == 0


def test_refusal_has_status_and_one_line(fake: Fake) -> None:
    with Transport(fake.url, token=TOKEN, patience=QUICK) as transport:
        with pytest.raises(Rejected, match="token that is known") as caught:
            transport.request("POST", "v1/tenants/main/terms", body=b"")
        assert caught.value.status == 401
        with pytest.raises(Rejected) as missing:
            transport.request("GET", "v1/nothing")
        assert missing.value.status == 404


def test_damaged_message_and_inadmissible_one_differ(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake.new_client("tim") as client:
        with pytest.raises(DamagedData):
            client.transport.request("POST", "v1/tenants/main/rounds", body=b"junk")

        def refuse(_: bytes) -> None:
            raise InvalidInput("slot", 9, "below 1")

        monkeypatch.setattr(fake.server, "receive", refuse)
        with pytest.raises(InvalidInput, match="below 1"):
            client.recommend([[1.0, 0.2], [-0.5, 0.6]])


def test_reply_that_is_too_long_is_refused(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    from helba.service.client import transport as module

    monkeypatch.setattr(module, "MOST_REPLY_BYTES", 10)
    with (
        Transport(fake.url, patience=QUICK) as transport,
        pytest.raises(DamagedData, match="more than 10"),
    ):
        transport.request("GET", "v1/server")
