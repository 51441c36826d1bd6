"""A server in a process of its own plays the same, and holds nothing that decrypts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from helba.errors import DamagedData, Refused, RunFailed
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.bandit import ReferenceBandit
from helba.reference.protocol.wire.messages import Ask
from helba.service.protocol.process import ServerProcess
from helba.service.protocol.serverfiles import write_server_files
from tests.engines import BOTH
from tests.reference.engine.processes import run_module
from tests.reference.protocol.parties import TOY, Table, authority_of, play_toy

both = pytest.mark.parametrize("scheme", BOTH)
ROUNDS = {"simulate": 14, "ckks": 4}
FILES = ("deployment.json", "public.key", "evaluation.key")


@contextmanager
def started(folder: Path, authority: Authority, **options: object) -> Iterator[ServerProcess]:
    write_server_files(authority, folder)
    with ServerProcess(folder, allow_insecure=True, **options) as server:  # type: ignore[arg-type]
        yield server


@both
def test_server_elsewhere_plays_as_one_here(tmp_path: Path, scheme: str) -> None:
    authority = authority_of(TOY, scheme=scheme)
    settings = authority.deployment.settings
    here = ReferenceBandit(settings, authority=authority)
    expected, certain = play_toy(here, rounds=ROUNDS[scheme])
    assert certain
    with started(tmp_path, authority) as server:
        there = ReferenceBandit(settings, authority=authority, server=server)
        assert play_toy(there, rounds=ROUNDS[scheme])[0] == expected
        assert there.updates == here.updates > 2
        assert server.status().rejected == 0


def test_server_process_goes_on_from_a_saved_state(tmp_path: Path) -> None:
    authority = authority_of(TOY, scheme="simulate")
    with started(tmp_path, authority) as server:
        table = Table(authority, server=server)  # type: ignore[arg-type]
        table.learn([0.5, 0.2], 0.3)
        played = table.play([[0.5, 0.7]])
        table.report(played.round, context=[0.5, 0.7], reward=0.1)
        reply = table.user.help(server.tasks(table.user.id)[0])
        state, status = server.save(), server.status()
    with ServerProcess(tmp_path, allow_insecure=True, state=state) as server:
        assert server.status() == status
        table.server = server  # type: ignore[assignment]
        server.receive(reply)
        table.help()
        assert server.status().updates == 1


@pytest.mark.ckks
def test_server_process_holds_no_secret_key(tmp_path: Path) -> None:
    """Its files and its state, walked byte by byte, and all keys that it can make of them."""
    import openfhe as fhe

    authority = authority_of(TOY, scheme="ckks")
    with started(tmp_path, authority) as server:
        table = Table(authority, server=server)  # type: ignore[arg-type]
        table.learn([0.5, 0.2], 0.3)
        played = table.play([[0.5, 0.7]])
        table.report(played.round, context=[0.5, 0.7], reward=0.1)
        (tmp_path / "state").write_bytes(server.save())  # with an update under way
        (answer,) = server.receive(table.ask([[0.5, 0.2], [0.1, 0.1]]))
    enrolled = f"{table.user.id.hex()}.enrolment"
    files = {path.name: path for path in tmp_path.rglob("*") if path.is_file()}
    assert set(files) == {*FILES, "state", "ledger.json", enrolled}
    for secret in (authority._keys.secret, table.user._secret_key):
        whole = fhe.Serialize(secret._payload, fhe.BINARY)
        packed = authority._scheme.secret_key_to_bytes(secret)
        middle = len(whole) // 2
        samples = [whole[place : place + 64] for place in (middle, middle + 512, len(whole) - 128)]
        samples += [packed[len(packed) // 2 : len(packed) // 2 + 64], packed[-96:-32]]
        assert all(len(set(sample)) > 1 for sample in samples)
        for name, path in files.items():
            data = path.read_bytes()
            assert not any(sample in data for sample in samples), name
        # the search finds a key where there is one
        assert all(sample in whole + packed for sample in samples)

    # what a thief of the folder might like to read
    (tmp_path / "answer").write_bytes(table.decode(answer).parts[0])
    found = run_module("tests.reference.protocol.prying", str(tmp_path), table.user.id.hex())
    assert found["secret_keys"] == 0
    assert found["vectors"] > 5
    for vector in ("answer", "design"):
        assert set(found[vector]["attempts"]) == set(files)
        assert set(found[vector]["attempts"].values()) == {"DamagedData"}
        assert found[vector]["own key"] == "WrongVector"
        assert found[vector]["parameter"] == "TypeError"


@pytest.mark.parametrize("name", FILES)
def test_folder_without_a_file_fails_in_one_line(tmp_path: Path, name: str) -> None:
    write_server_files(authority_of(TOY, scheme="simulate"), tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(RunFailed, match="cannot start") as caught:
        ServerProcess(tmp_path, allow_insecure=True)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", FILES)
def test_folder_with_a_damaged_file_fails_in_one_line(tmp_path: Path, name: str) -> None:
    write_server_files(authority_of(TOY, scheme="simulate"), tmp_path)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-9])
    with pytest.raises(RunFailed, match="cannot start"):
        ServerProcess(tmp_path, allow_insecure=True)


def test_folder_without_security_is_refused_unless_allowed(tmp_path: Path) -> None:
    write_server_files(authority_of(TOY, scheme="simulate"), tmp_path)
    with pytest.raises(RunFailed, match="cannot start"):
        ServerProcess(tmp_path)


def test_keys_of_another_deployment_are_refused(tmp_path: Path) -> None:
    authority = authority_of(TOY, scheme="simulate")
    write_server_files(authority, tmp_path)
    data = json.loads((tmp_path / "deployment.json").read_text())
    data["parameters"]["scale_bits"] -= 1
    (tmp_path / "deployment.json").write_text(json.dumps(data))
    with pytest.raises(RunFailed, match="cannot start"):
        ServerProcess(tmp_path, allow_insecure=True)


def test_damaged_state_does_not_start(tmp_path: Path) -> None:
    write_server_files(authority_of(TOY, scheme="simulate"), tmp_path)
    with pytest.raises(RunFailed, match="cannot start"):
        ServerProcess(tmp_path, allow_insecure=True, state=b"nothing")


def test_killed_process_is_told_in_every_call(tmp_path: Path) -> None:
    with started(tmp_path, authority_of(TOY, scheme="simulate")) as server:
        server.process.kill()
        server.process.join()
        for call in (server.notice, partial(server.tasks, bytes(16)), server.status, server.save):
            with pytest.raises(RunFailed, match="has ended"):
                call()
        with pytest.raises(RunFailed, match="has ended"):
            server.receive(b"x" * (1 << 20))


def test_errors_come_back_as_they_are_and_the_process_lives_on(tmp_path: Path) -> None:
    authority = authority_of(TOY, scheme="simulate")
    with started(tmp_path, authority) as server:
        table = Table(authority, server=server)  # type: ignore[arg-type]
        with pytest.raises(DamagedData):
            server.receive(b"no message")
        with pytest.raises(DamagedData):
            server.receive(table.encode(Ask(user=table.user.id, round=bytes(16), batch=0)))
        with pytest.raises(Refused, match="not enrolled"):
            server.tasks(bytes(16))
        assert server.status().round == 0
        table.learn(np.array([0.5, 0.2]), 0.3)
        assert server.status().samples == 1
