"""An authority at work for a test: its folder, users' public keys, and its HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from helba.reference.engine import get_scheme
from helba.reference.protocol.deployment import Deployment
from helba.service.authority.app import AuthoritySettings
from helba.service.authority.enroller import Enroller
from helba.service.authority.run import ServerAddress, serve_authority
from helba.service.protocol.authorityfiles import SERVER
from helba.service.protocol.authoritystate import collective_id
from helba.service.protocol.invitation import invite
from helba.service.protocol.tokens import hash_token, make_token, read_authority_hash
from tests.reference.protocol.folders import WORDS, insecure_authority
from tests.service.authority.fakeserver import FakeServer, on_air

NOWHERE = "http://127.0.0.1:9"  # the port of discard: nobody listens
PATIENCE_SECONDS = 20.0


def public_key_of(deployment: Deployment) -> bytes:
    """The public key of a new pair."""
    scheme = get_scheme(deployment.scheme)
    return scheme.public_key_to_bytes(scheme.generate_pair(deployment.parameters).public)


def new_hash() -> str:
    return hash_token(make_token("user"))


def open_enroller(folder: Path, *, scheme: str = "simulate", **options: Any) -> Enroller:
    """The enroller of the authority in `folder`, which is made if it is not there."""
    if not folder.exists():
        insecure_authority(folder, scheme=scheme)
    return Enroller(folder, passphrase=WORDS, allow_insecure=True, **options)


def code_for(folder: Path, name: str, *, days: float = 7.0) -> str:
    code, _ = invite(folder, name, days=days)
    return code


def fake_server(enroller: Enroller) -> FakeServer:
    """A server that was given the folder that the enroller wrote for it."""
    text = read_authority_hash(enroller.folder / SERVER)
    assert text is not None
    return FakeServer(enroller.deployment, key=collective_id(enroller.folder), authority_hash=text)


@contextmanager
def serving(
    enroller: Enroller, *, server: str = NOWHERE, **settings: Any
) -> Iterator[httpx.Client]:
    """A client of the authority's HTTP."""
    chosen = AuthoritySettings(server_url=server, tenant="main", **settings)

    def run(**options: Any) -> None:
        serve_authority(enroller, server=ServerAddress(url=server), settings=chosen, **options)

    with on_air(run) as url, httpx.Client(base_url=url, timeout=30.0, trust_env=False) as client:
        yield client


def ask(
    client: httpx.Client,
    name: str,
    *,
    public_key: bytes,
    token_hash: str | None = None,
    code: str | None = None,
) -> httpx.Response:
    """The answer to a request for an enrolment."""
    headers = {"Helba-Token-Sha256": token_hash or new_hash()}
    if code is not None:
        headers["Authorization"] = f"Bearer {code}"
    return client.post("/v1/enrolments", params={"name": name}, content=public_key, headers=headers)


def wait_until(true: Callable[[], bool], *, seconds: float = PATIENCE_SECONDS) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
