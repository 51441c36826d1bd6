"""The authority's HTTP: what users get, and what is turned away."""

from __future__ import annotations

import json
import logging
import socket
import threading
from io import StringIO
from pathlib import Path

import httpx
import jsonschema_rs
import pytest
import schemathesis

from helba.reference.protocol.deployment import Deployment
from helba.service.log import LIBRARIES, configure_logs
from helba.service.protocol.authorityfiles import locked
from helba.service.protocol.authoritystate import collective_id
from helba.service.protocol.keyinfo import describe_key
from helba.service.protocol.keystore import revoke_member
from helba.service.protocol.tokens import hash_token, make_token
from tests.reference.protocol.folders import WORDS, rotate
from tests.service.authority.fakeserver import free_port
from tests.service.authority.office import (
    ask,
    code_for,
    fake_server,
    new_hash,
    open_enroller,
    public_key_of,
    serving,
    wait_until,
)


def require_problem(answer: httpx.Response, status: int, words: str = "") -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert set(body) == {"title", "status", "detail"}
    assert body["status"] == status
    assert words in body["detail"]


# -- what is public


def test_public_parts_are_those_of_the_folder(folder: Path) -> None:
    enroller = open_enroller(folder)
    with serving(enroller) as client:
        found = Deployment.from_json(client.get("/v1/deployment").json(), allow_insecure=True)
        assert found == enroller.deployment
        for _ in range(2):
            answer = client.get("/v1/public-key")
            assert answer.headers["content-type"] == "application/octet-stream"
            assert describe_key(answer.content).owner == collective_id(folder)
            home = client.get("/v1/server").json()
            assert (home["tenant"], home["key"]) == ("main", collective_id(folder).hex())
            rotate(folder)
            (folder / "server" / "rotation.key").unlink()
        health = client.get("/v1/health").json()
        assert health["status"] == "serving"
        require_problem(client.get("/v1/nothing"), 404)


def test_health_says_whether_the_server_is_in_step(folder: Path) -> None:
    enroller, port = open_enroller(folder), free_port()
    server = fake_server(enroller)
    with serving(enroller, server=f"http://127.0.0.1:{port}") as client:
        wait_until(lambda: client.get("/v1/health").json()["server"] == "away")
        with server.serving(port=port):
            wait_until(lambda: client.get("/v1/health").json()["server"] == "in step")
            text = client.get("/metrics").text
            assert "helba_authority_in_step 1.0" in text
            assert 'helba_authority_deliveries_total{state="away"}' in text


# -- enrolments


@pytest.mark.parametrize("scheme", ["simulate", pytest.param("ckks", marks=pytest.mark.ckks)])
def test_user_is_enrolled_and_the_server_has_it(folder: Path, scheme: str) -> None:
    enroller = open_enroller(folder, scheme=scheme, open=True)
    server, key, text = fake_server(enroller), public_key_of(enroller.deployment), new_hash()
    with server.serving() as url, serving(enroller, server=url) as client:
        answers = [ask(client, "ann", public_key=key, token_hash=text) for _ in range(2)]
        user = describe_key(key).owner.hex()
        for answer in answers:
            assert answer.status_code == 201, answer.text
            assert answer.json() == {
                "user": user,
                "name": "ann",
                "server": url,
                "tenant": "main",
                "delivered": True,
            }
        assert server.enrolled == {user: text}
        assert server.calls == ["PUT"]
        assert client.get(answers[0].headers["location"]).json() == {"delivered": True}
        assert "helba_authority_enrolments_total 2.0" in client.get("/metrics").text
        wrong = public_key_of(enroller.deployment)
        require_problem(ask(client, "ann", public_key=wrong), 409, "another key")


def test_user_is_accepted_while_the_server_is_away(folder: Path) -> None:
    enroller, port = open_enroller(folder, open=True), free_port()
    server, key = fake_server(enroller), public_key_of(enroller.deployment)
    with serving(enroller, server=f"http://127.0.0.1:{port}") as client:
        answer = ask(client, "ann", public_key=key)
        assert (answer.status_code, answer.json()["delivered"]) == (202, False)
        place = answer.headers["location"]
        assert client.get(place).json() == {"delivered": False}
        with server.serving(port=port):
            wait_until(lambda: client.get(place).json()["delivered"] is True)
            assert set(server.enrolled) == {answer.json()["user"]}
        revoke_member(folder, "ann", allow_insecure=True)
        require_problem(client.get(place), 404, "nobody of this id")
        require_problem(client.get("/v1/enrolments/00"), 400, "hexadecimal")


def test_invitation_is_needed_unless_the_enroller_is_open(folder: Path) -> None:
    enroller = open_enroller(folder)
    server, key = fake_server(enroller), public_key_of(enroller.deployment)
    code, other = code_for(folder, "ann"), code_for(folder, "bob")
    with server.serving() as url, serving(enroller, server=url) as client:
        answer = ask(client, "ann", public_key=key)
        require_problem(answer, 401, "an invitation is needed")
        assert answer.headers["www-authenticate"] == "Bearer"
        for wrong in (other, make_token("invitation"), make_token("user"), "x"):
            require_problem(ask(client, "ann", public_key=key, code=wrong), 403)
        answer = client.post(
            "/v1/enrolments",
            params={"name": "ann"},
            content=key,
            headers={"Helba-Token-Sha256": new_hash(), "Authorization": "Basic eA=="},
        )
        require_problem(answer, 401, "Bearer")
        require_problem(ask(client, "ann", public_key=key[:-1], code=code), 400)
        for _ in range(2):
            assert ask(client, "ann", public_key=key, code=code).status_code == 201
        thief = public_key_of(enroller.deployment)
        require_problem(ask(client, "ann", public_key=thief, code=code), 409, "another key")
        over = code_for(folder, "bob", days=1e-9)
        require_problem(ask(client, "bob", public_key=thief, code=over), 403, "ended at")
    assert [each.name for each in enroller.records()] == ["ann"]


def test_many_enrol_at_once_and_each_is_delivered(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    server = fake_server(enroller)
    keys = [public_key_of(enroller.deployment) for _ in range(12)]
    found: list[httpx.Response] = []
    with server.serving() as url, serving(enroller, server=url) as client:
        threads = [
            threading.Thread(
                target=lambda n=number, key=key: found.append(
                    ask(client, f"user {n}", public_key=key)
                )
            )
            for number, key in enumerate(keys)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [each.status_code for each in found] == [201] * len(keys)
        assert set(server.enrolled) == {describe_key(key).owner.hex() for key in keys}


# -- what it says of itself


def test_document_says_what_is_sent_and_taken(folder: Path) -> None:
    enroller = open_enroller(folder)
    with serving(enroller) as client:
        document = client.get("/v1/openapi.json").json()
        schemathesis.openapi.from_dict(document).validate()
        paths = document["paths"]
        assert set(paths) == {
            *("/v1/health", "/v1/deployment", "/v1/public-key", "/v1/server", "/metrics"),
            *("/v1/enrolments", "/v1/enrolments/{user}"),
        }
        enrol = paths["/v1/enrolments"]["post"]
        assert list(enrol["requestBody"]["content"]) == ["application/octet-stream"]
        assert enrol["security"] == [{"invitation": []}]
        assert {"201", "202", "400", "401", "403", "409", "413", "415", "422", "429", "503"} <= set(
            enrol["responses"]
        )
        for operations in paths.values():
            for operation in operations.values():
                for status, response in operation["responses"].items():
                    problem = list(response["content"]) == ["application/problem+json"]
                    assert problem == (status >= "400")
        for path in ("health", "server", "enrolments/" + "00" * 16):
            answer = client.get(f"/v1/{path}")
            place = path.replace("00" * 16, "{user}")
            said = paths[f"/v1/{place}"]["get"]["responses"][str(answer.status_code)]["content"]
            ((kind, content),) = said.items()
            assert answer.headers["content-type"] == kind
            schema = {**content["schema"], "components": document["components"]}
            jsonschema_rs.validator_for(schema).validate(answer.json())


def test_responses_have_the_headers_of_the_service(folder: Path) -> None:
    with serving(open_enroller(folder)) as client:
        for path in ("/v1/health", "/v1/nothing", "/v1/public-key"):
            headers = client.get(path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"


def test_slash_at_the_end_leads_nowhere(folder: Path) -> None:
    with serving(open_enroller(folder)) as client:
        require_problem(client.get("/v1/health/"), 404)


# -- what is turned away


def test_address_that_gets_the_key_too_often_waits(folder: Path) -> None:
    with serving(open_enroller(folder), rate_per_second=0.01, burst=2) as client:
        codes = [client.get("/v1/public-key").status_code for _ in range(3)]
        assert codes == [200, 200, 429]
        assert client.get("/v1/server").status_code == 200


def test_bodies_that_are_no_key_are_turned_away(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    key = public_key_of(enroller.deployment)
    most = enroller.most_key_bytes
    assert len(key) < most < 1 << 20
    with serving(enroller) as client:
        for bad in (b"", b"\0" * 100, key[:-1], key + b"\0", b"\0" * most):
            require_problem(ask(client, "ann", public_key=bad), 400)
        require_problem(ask(client, "ann", public_key=b"\0" * (most + 1)), 413, str(most))
        require_problem(ask(client, "x" * 65, public_key=key), 422, "printable")
        require_problem(ask(client, "x" * 257, public_key=key), 422)
        require_problem(ask(client, "ann", public_key=key, token_hash="ab"), 422, "hexadecimal")
        require_problem(client.post("/v1/enrolments?name=ann", content=key), 422, "hexadecimal")
        headers = {"Helba-Token-Sha256": new_hash(), "Content-Type": "text/plain"}
        answer = client.post("/v1/enrolments?name=ann", content=key, headers=headers)
        require_problem(answer, 415)
    assert enroller.records() == []


def test_body_is_not_waited_for_of_who_is_not_invited(folder: Path) -> None:
    enroller = open_enroller(folder)
    head = (
        "POST /v1/enrolments?name=ann HTTP/1.1\r\nHost: here\r\nContent-Length: 1000\r\n"
        f"Helba-Token-Sha256: {new_hash()}\r\n\r\n"
    )
    with serving(enroller) as client:
        place = ("127.0.0.1", client.base_url.port)
        with socket.create_connection(place, timeout=10.0) as connection:
            connection.sendall(head.encode())
            assert connection.recv(1 << 12).startswith(b"HTTP/1.1 401 ")
    assert enroller.records() == []


def test_address_that_asks_too_often_waits(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    with serving(enroller, rate_per_second=0.01, burst=2) as client:
        for _ in range(2):
            require_problem(ask(client, "ann", public_key=b""), 400)
        answer = ask(client, "ann", public_key=b"")
        require_problem(answer, 429)
        assert int(answer.headers["retry-after"]) >= 1
        assert client.get("/v1/health").status_code == 200


def test_folder_that_is_locked_for_long_is_unavailable(folder: Path) -> None:
    enroller = open_enroller(folder, open=True, wait_seconds=0.1)
    key = public_key_of(enroller.deployment)
    with serving(enroller) as client:
        with locked(folder):
            answer = ask(client, "ann", public_key=key)
        require_problem(answer, 503, "another command")
        assert "retry-after" in answer.headers
        assert str(folder) not in answer.text
        assert ask(client, "ann", public_key=key).status_code == 202


def test_fault_of_the_folder_is_told_by_reference_only(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    key = public_key_of(enroller.deployment)
    (folder / "members.json").write_text("nonsense")
    with serving(enroller) as client:
        answer = ask(client, "ann", public_key=key)
        require_problem(answer, 500, "the log has it")
        assert str(folder) not in answer.text


# -- secrets


def test_secrets_are_in_no_log_and_no_response(folder: Path) -> None:
    enroller = open_enroller(folder)
    server, key = fake_server(enroller), public_key_of(enroller.deployment)
    code, wrong, token = code_for(folder, "ann"), make_token("invitation"), make_token("user")
    stream = StringIO()
    loggers = [logging.getLogger(name) for name in ("helba.service", *LIBRARIES)]
    before = [(each, each.handlers[:], each.level, each.propagate) for each in loggers]
    configure_logs("debug", stream)
    try:
        with server.serving() as url, serving(enroller, server=url) as client:
            answers = [
                ask(client, "ann", public_key=key, token_hash=hash_token(token), code=wrong),
                ask(client, "ann", public_key=key, token_hash=hash_token(token), code=code),
                ask(client, "ann", public_key=key[:-1], token_hash=hash_token(token), code=code),
                client.get(f"/v1/enrolments/{token}"),
                *(client.get(f"/v1/{part}") for part in ("server", "deployment", "health")),
                client.get("/metrics"),
            ]
            assert [each.status_code for each in answers[:3]] == [403, 201, 400]
    finally:
        for logger, handlers, level, propagate in before:
            logger.handlers[:], logger.level, logger.propagate = handlers, level, propagate
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert {"request", "enrolled", "delivered"} <= {line["event"] for line in lines}
    told = stream.getvalue() + "".join(f"{each.headers} {each.text}" for each in answers)
    hashes = [hash_token(each) for each in (code, token, enroller.token)]
    for secret in (code, wrong, token, enroller.token, WORDS, *hashes):
        assert secret not in told
