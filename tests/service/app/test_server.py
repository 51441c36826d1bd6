"""The routes in front of a tenant with its processes: what one user does, from enrolment on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Answer, Receipt
from helba.service.body import unpack_messages
from helba.service.protocol.serverfiles import write_server_files
from helba.service.protocol.tokens import hash_token, make_token, write_authority_hash
from helba.service.run import TenantSpec
from tests.reference.protocol.parties import TOY, authority_of
from tests.service.app.calling import SECONDS, serving, wait_until

CONTEXTS = [[1.0, 0.5], [0.2, -1.0]]


class Caller:
    """An authority and a user of a server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = authority_of(TOY, scheme="simulate")
        self.codec = Codec(self.authority.deployment)
        self.user = self.authority.make_user("one")
        self.tokens = {kind: make_token(kind) for kind in ("user", "authority")}
        write_server_files(self.authority, folder)
        write_authority_hash(folder, hash_token(self.tokens["authority"]))
        self.url = ""

    def call(self, kind: str, method: str, route: str, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tokens[kind]}", **options.pop("headers", {})}
        url = f"{self.url}/v1/tenants/main/{route}"
        return httpx.request(method, url, headers=headers, timeout=SECONDS, **options)

    def enrol(self) -> httpx.Response:
        return self.call(
            "authority",
            "PUT",
            f"members/{self.user.id.hex()}",
            content=self.authority.enrolment_of(self.user.id),
            headers={"Helba-Token-Sha256": hash_token(self.tokens["user"])},
        )

    def make_ask(self) -> bytes:
        answer = self.call("user", "POST", "terms")
        terms = self.user.read_notice(answer.content)
        return self.user.ask(CONTEXTS, terms=terms)


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    caller = Caller(tmp_path_factory.mktemp("whole") / "server")
    spec = TenantSpec(name="main", folder=caller.folder)
    with serving(spec, allow_insecure=True) as caller.url:
        wait_until(lambda: httpx.get(f"{caller.url}/v1/ready", timeout=SECONDS).status_code == 200)
        assert caller.enrol().status_code == 204
        yield caller


def test_round_and_reward_go_through(caller: Caller) -> None:
    ask = caller.make_ask()
    answers = [caller.call("user", "POST", "rounds", content=ask) for _ in range(2)]
    assert [each.status_code for each in answers] == [200, 200]
    (data,) = unpack_messages(answers[0].content)
    assert isinstance(caller.codec.decode(data), Answer)
    found = caller.user.read(data)
    rounds = caller.call("user", "GET", "rounds").json()["rounds"]
    assert [each["round"] for each in rounds] == [found.round.hex()]
    report = caller.user.report(found.round, context=CONTEXTS[found.arm], reward=0.5)
    counted = []
    for _ in range(2):
        answer = caller.call("user", "POST", "rewards", content=report)
        assert answer.status_code == 200
        receipt = caller.codec.decode(unpack_messages(answer.content)[0])
        assert isinstance(receipt, Receipt)
        counted.append(receipt.counted)
    assert counted == [True, False]
    assert caller.call("user", "GET", "rounds").json() == {"rounds": []}


def test_round_is_given_up(caller: Caller) -> None:
    answer = caller.call("user", "POST", "rounds", content=caller.make_ask())
    found = caller.user.read(unpack_messages(answer.content)[0])
    assert caller.call("user", "DELETE", f"rounds/{found.round.hex()}").status_code == 204
    report = caller.user.report(found.round, context=CONTEXTS[found.arm], reward=0.5)
    assert caller.call("user", "POST", "rewards", content=report).status_code == 409


def test_damaged_message_is_refused(caller: Caller) -> None:
    ask = bytearray(caller.make_ask())
    ask[len(ask) // 2] ^= 1
    assert caller.call("user", "POST", "rounds", content=bytes(ask)).status_code == 400
    assert caller.call("user", "POST", "rounds", content=b"").status_code == 400
    assert caller.call("user", "POST", "rewards", content=caller.make_ask()).status_code in (
        400,
        413,
    )


def test_json_of_a_whole_server_is_as_it_is_described(caller: Caller) -> None:
    document = httpx.get(f"{caller.url}/v1/openapi.json", timeout=SECONDS).json()
    for model, value in [
        ("Status", httpx.get(f"{caller.url}/v1/status", timeout=SECONDS).json()),
        ("History", caller.call("user", "GET", "history").json()),
        ("Rounds", caller.call("user", "GET", "rounds").json()),
        ("Members", caller.call("authority", "GET", "members").json()),
        ("Ledger", caller.call("authority", "GET", "ledger").json()),
    ]:
        schema = {"$ref": f"#/components/schemas/{model}", "components": document["components"]}
        jsonschema_rs.validator_for(schema).validate(value)


def test_revoked_user_is_turned_away(caller: Caller) -> None:
    ask = caller.make_ask()
    answer = caller.call("authority", "DELETE", f"members/{caller.user.id.hex()}")
    assert answer.status_code == 204
    assert caller.call("user", "POST", "rounds", content=ask).status_code in (401, 403)
    members = caller.call("authority", "GET", "members").json()
    assert members["revoked"] == [caller.user.id.hex()]
