"""An app on a port: TLS, limits of the connection, and a stop that answers what is under way."""

import asyncio
import datetime
import ipaddress
import queue
import socket
import ssl
import threading
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from helba.errors import InvalidInput, RunFailed
from helba.service import listen
from helba.service.listen import run_app
from tests.service.app.calling import SECONDS, USER_HEADERS, app_of, listening, wait_until
from tests.service.app.faking import ASK, FakeTenant


def fail_if_ready(url: str) -> None:
    raise AssertionError(f"it serves at {url}")


def write_certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "helba")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = folder / "cert.pem", folder / "key.pem"
    cert_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert_path, key_path


def test_port_zero_is_a_free_one_and_ready_gets_it() -> None:
    with listening(app_of(FakeTenant())) as (url, _):
        assert httpx.get(f"{url}/v1/health", timeout=SECONDS).json()["status"] == "serving"
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/v1/health", timeout=SECONDS)


def test_response_does_not_say_what_serves_it() -> None:
    with listening(app_of(FakeTenant())) as (url, _):
        headers = httpx.get(f"{url}/v1/health", timeout=SECONDS).headers
    assert "server" not in headers


def test_head_has_no_body() -> None:
    with listening(app_of(FakeTenant())) as (url, _):
        answer = httpx.head(f"{url}/v1/status", timeout=SECONDS)
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


def test_tls_encrypts_with_the_certificate(tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    with listening(app_of(FakeTenant()), tls_cert=cert, tls_key=key) as (url, _):
        assert url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(cert))
        answer = httpx.get(f"{url}/v1/health", verify=trusting, timeout=SECONDS)
        assert answer.status_code == 200
        with pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
            httpx.get(f"{url}/v1/health", timeout=SECONDS)


def test_tls_of_damaged_files_fails_in_one_line(tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    wrong = write_certificate(other)[1]
    (tmp_path / "none.pem").write_text("nothing")
    for pair in [(cert, wrong), (tmp_path / "none.pem", key), (tmp_path / "absent.pem", key)]:
        with pytest.raises(RunFailed, match="cannot use the certificate") as caught:
            run_app(
                app_of(FakeTenant()),
                host="127.0.0.1",
                port=0,
                tls_cert=pair[0],
                tls_key=pair[1],
                ready=fail_if_ready,
            )
        assert "\n" not in str(caught.value)


def test_tls_needs_both_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--tls-key"):
        run_app(
            app_of(FakeTenant()),
            host="127.0.0.1",
            port=0,
            tls_cert=tmp_path / "cert.pem",
            ready=fail_if_ready,
        )


def test_port_that_is_taken_fails_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RunFailed, match=f"cannot listen on 127.0.0.1 port {port}"):
            run_app(app_of(FakeTenant()), host="127.0.0.1", port=port, ready=fail_if_ready)


@pytest.mark.parametrize(("host", "port"), [("999.1.1.1", 0), ("a" * 70, 0), ("", -1)])
def test_address_that_is_none_fails_in_one_line(host: str, port: int) -> None:
    with pytest.raises((RunFailed, InvalidInput)):
        run_app(app_of(FakeTenant()), host=host, port=port, ready=fail_if_ready)


def test_stop_answers_what_is_under_way_and_takes_nothing_new() -> None:
    tenant = FakeTenant()
    app = app_of(tenant)
    answers: list[httpx.Response] = []

    def ask(url: str) -> None:
        path = f"{url}/v1/tenants/main/rounds"
        answers.append(httpx.post(path, content=ASK, headers=USER_HEADERS, timeout=SECONDS))

    reader = threading.Event()

    class Waiting:
        async def wait(self) -> None:
            await asyncio.get_running_loop().run_in_executor(None, reader.wait, SECONDS)

    tenant.answering = Waiting()  # type: ignore[assignment]
    with listening(app) as (url, stopping):
        thread = threading.Thread(target=ask, args=(url,))
        thread.start()
        wait_until(lambda: "ask" in [name for name, *_ in tenant.calls])
        stopping.set()

        def is_closed() -> bool:
            try:
                socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 1).close()
            except OSError:
                return True
            return False

        wait_until(is_closed)
        assert not answers
        reader.set()
        thread.join(SECONDS)
    assert [each.status_code for each in answers] == [200]


def test_stop_does_not_wait_for_ever() -> None:
    tenant = FakeTenant()
    tenant.answering = asyncio.Event()
    outcome: queue.Queue[str] = queue.Queue()

    def ask(url: str) -> None:
        path = f"{url}/v1/tenants/main/rounds"
        try:
            answer = httpx.post(path, content=ASK, headers=USER_HEADERS, timeout=SECONDS)
            outcome.put(str(answer.status_code))
        except httpx.TransportError:
            outcome.put("closed")

    with listening(app_of(tenant), grace_seconds=1) as (url, stopping):
        thread = threading.Thread(target=ask, args=(url,))
        thread.start()
        wait_until(lambda: "ask" in [name for name, *_ in tenant.calls])
        stopping.set()
        assert outcome.get(timeout=SECONDS) in ("500", "closed")
        thread.join(SECONDS)


def test_upgrade_to_another_protocol_is_not_made() -> None:
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    with listening(app_of(FakeTenant())) as (url, _):
        answer = httpx.get(f"{url}/v1/health", headers=headers, timeout=SECONDS)
    assert answer.status_code == 200


def test_head_that_does_not_arrive_costs_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "HEAD_SECONDS", 0.2)
    with listening(app_of(FakeTenant())) as (url, _):
        port = int(url.rpartition(":")[2])
        for start in (b"", b"GET /v1/hea"):
            with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as client:
                client.sendall(start)
                assert client.recv(100) == b""
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as client:
            whole = b"GET /v1/health HTTP/1.1\r\nHost: helba\r\n\r\n"
            client.sendall(whole)
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
            client.sendall(whole[:10])
            while rest := client.recv(1 << 16):
                assert b"HTTP/1.1" not in rest


def test_head_that_is_too_long_is_refused() -> None:
    with listening(app_of(FakeTenant())) as (url, _):
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as client:
            client.sendall(b"GET / HTTP/1.1\r\nX-Long: " + b"a" * (listen.HEAD_BYTES + 1))
            assert client.recv(100).startswith(b"HTTP/1.1 400")
