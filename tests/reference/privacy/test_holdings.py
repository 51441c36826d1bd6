"""What each party holds: keys, bits, and messages that it got, no more than it should.

The last test shows what is conceded: a server and one user together read everything.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import CellType, FrameType, GeneratorType, ModuleType

import numpy as np
import pytest

from helba.errors import DamagedData, EngineError, HelbaError, WrongVector
from helba.reference.engine import EncryptedVector, ReencryptionKey, SecretKey, get_scheme
from helba.reference.engine.vector import Body
from helba.reference.protocol.serving import server as server_module
from helba.reference.protocol.serving.ledger import Ledger
from helba.reference.protocol.wire.messages import TaskReply, TestReply
from helba.service.protocol.process import ServerProcess
from helba.service.protocol.serverfiles import write_server_files
from tests.engines import BOTH
from tests.reference.engine.reading import read_polynomial
from tests.reference.privacy.transcript import AUTHORITY, SERVER, Entry
from tests.reference.privacy.views import Run, record
from tests.reference.protocol.parties import MILD, TOY, Table, authority_of

both = pytest.mark.parametrize("scheme", BOTH)
SHARED, SWITCHED = replace(TOY, keys="shared"), replace(TOY, keys="switched")
KEYS = {"public key", "collective public key"}


# -- objects


def reachable(root: object) -> Iterator[object]:
    """All objects of helba and of OpenFHE that can be reached, through generators and closures too.

    Not through modules: caches of the whole process are of all parties in it.
    """
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type):
            continue
        seen.add(id(thing))
        module = type(thing).__module__
        if module.startswith(("helba", "openfhe")):
            yield thing
        plain = isinstance(thing, (dict, list, tuple, set, frozenset))
        running = callable(thing) or isinstance(thing, (GeneratorType, FrameType, CellType))
        if plain or running or module.startswith(("helba", "collections")):
            waiting += [part for part in gc.get_referents(thing) if not is_module(part)]


def is_module(thing: object) -> bool:
    return isinstance(thing, ModuleType) or (isinstance(thing, dict) and "__builtins__" in thing)


def secret_keys(root: object) -> list[SecretKey]:
    return [thing for thing in reachable(root) if isinstance(thing, SecretKey)]


def raw_secret_keys(root: object) -> list[object]:
    """OpenFHE's own objects, wrapped by nothing of helba's."""
    return [thing for thing in reachable(root) if type(thing).__name__ == "PrivateKey"]


def busy(scheme: str, *, request: object = TOY) -> Table:
    """A table with an update under way."""
    table = Table(authority_of(request, scheme=scheme))  # type: ignore[arg-type]
    if table.deployment.keys == "switched":
        table.server.introduce(table.user.id, table.user.inward_key_bytes())
    table.learn([0.9, -0.4], 0.7)
    played = table.play([[0.3, 0.8]])
    table.report(played.round, context=[0.3, 0.8], reward=0.2)
    assert table.tasks()
    return table


@both
@pytest.mark.parametrize("request_", [TOY, SWITCHED, SHARED], ids=["own", "switched", "shared"])
def test_server_holds_no_secret_key_but_a_throw_away_one(scheme: str, request_: object) -> None:
    table = busy(scheme, request=request_)
    held = list(reachable(table.server))
    assert sum(isinstance(thing, EncryptedVector) for thing in held) > 5
    assert any(isinstance(thing, ReencryptionKey) for thing in held) == (request_ is not SHARED)
    assert secret_keys(table.server) == []
    raw = raw_secret_keys(table.server)
    if scheme == "ckks":  # the refresh rounds its mask with it: a key that decrypts nothing
        assert len(raw) == 1
        assert raw[0] is table.server._engine._throw_away  # type: ignore[attr-defined]
        for key in (table.authority._keys.secret, table.user._secret_key):
            assert raw[0].GetKeyTag() != key._payload.GetKeyTag()  # type: ignore[attr-defined]


@both
def test_walk_finds_a_key_that_was_left_with_the_server(scheme: str) -> None:
    table = busy(scheme)
    table.server.directory.forgotten = {"a": [table.authority._keys.secret]}  # type: ignore[attr-defined]
    assert secret_keys(table.server) == [table.authority._keys.secret]


@both
@pytest.mark.parametrize("request_", [TOY, SWITCHED], ids=["own", "switched"])
def test_user_holds_its_own_secret_key_only(scheme: str, request_: object) -> None:
    table = busy(scheme, request=request_)
    collective = table.authority._keys.secret
    assert secret_keys(table.user) == [table.user._secret_key]
    assert table.user._secret_key is not collective
    assert not table.user._secret_key.belongs_to(collective)
    assert [thing for thing in reachable(table.user) if isinstance(thing, ReencryptionKey)] == []
    with pytest.raises(WrongVector):
        table.user._engine.decrypt(
            table.user._engine.encrypt([1.0]), secret_key=table.user._secret_key
        )


@both
def test_shared_key_is_the_collective_one(scheme: str) -> None:
    """What the walk finds where it should find something."""
    table = busy(scheme, request=SHARED)
    assert secret_keys(table.user) == [table.authority._keys.secret]


@both
def test_authority_holds_no_ciphertext_and_no_key_of_a_user(scheme: str) -> None:
    table = busy(scheme)
    held = list(reachable(table.authority))
    assert not any(isinstance(thing, EncryptedVector) for thing in held)
    assert secret_keys(table.authority) == [table.authority._keys.secret]


# -- what the authority is sent


def received(run: Run, party: str) -> list[Entry]:
    return [entry for entry in run.transcript.view_of(party) if entry.target == party]


def only_keys(run: Run) -> bool:
    """Whether the authority was sent public keys and nothing else."""
    scheme = get_scheme(run.server.deployment.scheme)
    for entry in received(run, AUTHORITY):
        try:
            scheme.public_key_from_bytes(entry.data, parameters=run.server.deployment.parameters)
        except DamagedData:
            return False
        if entry.kind not in KEYS:
            return False
    return True


@both
@pytest.mark.parametrize("request_", [TOY, SWITCHED, SHARED], ids=["own", "switched", "shared"])
def test_authority_is_sent_public_keys_only(scheme: str, request_: object) -> None:
    run = record(authority_of(request_, scheme=scheme)).play(rounds=3, seed=1)  # type: ignore[arg-type]
    assert run.server.updates > 0
    run.bandit.rotate_keys()
    run.play(rounds=1, seed=2)
    assert only_keys(run)
    kinds = Counter(entry.kind for entry in received(run, AUTHORITY))
    assert kinds == ({} if request_ is SHARED else {"public key": 1})
    sent = Counter(entry.kind for entry in received(run, SERVER))
    assert sent["rotation"] == 1
    assert sent["inward key"] == (2 if request_ is SWITCHED else 0)
    told = {entry.kind for entry in received(run, "user 1")}
    assert ("collective secret key" in told) == (request_ is SHARED)


@both
def test_ciphertext_sent_to_the_authority_would_be_seen(scheme: str) -> None:
    run = record(authority_of(TOY, scheme=scheme))
    user = run.bandit.user
    vector = user._engine.vector_to_bytes(user._engine.encrypt([0.5]))
    with pytest.raises(DamagedData):
        run.authority.enrol(vector, name="somebody")
    run.transcript.add(source="user 1", target=AUTHORITY, kind="public key", data=vector)
    assert not only_keys(run)


# -- bits


def bits_that_came(run: Run) -> int:
    """By the transcript: a test is one bit, and so is a check that passes."""
    count = 0
    for entry in received(run, SERVER):
        if entry.kind in ("TestReply", "TaskReply check"):
            count += 1
    return count


def test_ledger_counts_every_bit_of_a_run() -> None:
    run = record(authority_of(MILD, scheme="simulate")).play(rounds=24, seed=1)
    status, user = run.server.status(), run.bandit.user
    came = bits_that_came(run)
    assert came > 10
    assert status.rejected == 0
    assert status.bits == came == run.server.ledger.of(user.id)
    assert not status.rotation_due


def test_count_would_differ_if_a_bit_were_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "TEST_BITS", 0)
    run = record(authority_of(MILD, scheme="simulate")).play(rounds=24, seed=1)
    assert run.server.status().bits != bits_that_came(run)


def test_check_that_fails_counts_all_its_signs() -> None:
    table = busy("simulate")
    while True:
        (task,) = table.tasks()
        if table.decode(task).work == "check":
            break
        table.server.receive(table.user.help(task))
    before = table.server.ledger.of(table.user.id)
    bits = table.decode(table.user.help(task)).bits
    wrong = "".join("-" if bit == "+" else "+" for bit in bits)
    reply = TaskReply(user=table.user.id, task=table.decode(task).task, work="check", bits=wrong)
    table.server.receive(table.encode(reply))
    assert table.server.rejected == 1
    assert table.server.ledger.of(table.user.id) == before + len(wrong) == before + 64


def test_rotation_is_due_past_the_budget_and_not_after_it() -> None:
    run = record(authority_of(MILD, scheme="simulate")).play(rounds=6, seed=1)
    came = run.server.status().bits
    assert came > 2
    run.server.ledger.budget = came
    assert not run.server.status().rotation_due
    run.server.ledger.budget = came - 1
    assert run.server.status().rotation_due
    assert run.server.ledger.spent_keys() == (run.bandit.user.id,)
    run.bandit.rotate_keys()
    status = run.server.status()
    assert (status.bits, status.rotation_due) == (0, False)
    # the user's own key has not changed: its bits stay
    assert run.server.ledger.of(run.bandit.user.id) == came


def test_ledger_is_kept_by_key() -> None:
    ledger = Ledger(budget=5)
    for user, bits in ((b"a", 3), (b"b", 2), (b"a", 1)):
        ledger.add(user, bits)
    assert (ledger.of(b"a"), ledger.of(b"b"), ledger.of(b"c"), ledger.total) == (4, 2, 0, 6)
    assert ledger.spent
    assert ledger.spent_keys() == ()


def late_bits(table: Table) -> int:
    """Bits that a second user sends of a test that a first one has answered."""
    table.learn([0.1, 0.1], 0.1)
    second, replies = table.new_user(), []
    for user in (table.user, second):
        told = table.play([[0.2, 0.1], [0.1, 0.2]], user=user)
        assert told.reply is not None
        replies.append(told.reply)
    tests = [table.decode(reply) for reply in replies]
    assert all(isinstance(test, TestReply) for test in tests)
    assert tests[0].test == tests[1].test
    for reply in replies:
        table.server.receive(reply)
    return table.server.ledger.of(second.id)


def late_signs(table: Table) -> int:
    """Signs that a second user sends of a check that a first one has answered."""
    second = table.new_user()
    while table.decode(table.tasks()[0]).work != "check":
        table.server.receive(table.user.help(table.tasks()[0]))
    replies = [user.help(table.tasks(user)[0]) for user in (table.user, second)]
    for reply in replies:
        table.server.receive(reply)
    return table.server.ledger.of(second.id)


@pytest.mark.parametrize("late", [late_bits, late_signs])
def test_ledger_counts_bits_that_come_too_late(late: Callable[[Table], int]) -> None:
    table = busy("simulate") if late is late_signs else Table(authority_of(MILD, scheme="simulate"))
    assert late(table) > 0


# -- what a server can do with all it has


@pytest.mark.ckks
def test_folder_and_state_of_a_server_decrypt_no_answer(tmp_path: Path) -> None:
    """All that a server's process has, re-encryption keys included: none of it serves as a key."""
    authority = authority_of(TOY, scheme="ckks")
    reader = authority.make_user()
    write_server_files(authority, tmp_path)
    scheme = get_scheme("ckks")
    with ServerProcess(tmp_path, allow_insecure=True) as server:
        table = Table(authority, server=server)  # type: ignore[arg-type]
        table.learn([0.5, 0.2], 0.3)
        terms = reader.read_notice(server.notice())
        (answer,) = server.receive(reader.ask([[0.5, 0.2], [0.1, 0.1]], terms=terms))
        held = [server.save()]
    held += [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(held) >= 5
    part = table.decode(answer).parts[0]
    vector = reader._own.vector_from_bytes(part)
    for data in held:
        with pytest.raises(HelbaError):
            scheme.secret_key_from_bytes(data, allow_insecure=True)
    for key in (scheme.generate_pair(table.deployment.parameters).secret, table.user._secret_key):
        with pytest.raises(WrongVector):
            reader._own.decrypt(vector, secret_key=key)
        forged = SecretKey(
            parameters=key.parameters,
            tag=vector.tag,
            payload=key._payload,
            identity=reader._own.public_key.identity,
        )
        try:
            read = reader._own.decrypt(vector, secret_key=forged)
        except EngineError:
            continue
        assert np.abs(read).mean() > 100.0


def collude(table: Table, vector: EncryptedVector, *, lower_to: int) -> np.ndarray:
    """What a server and its user read of a vector under the collective key."""
    server, user = table.server, table.user
    line = server.directory.line(user.id)
    assert line.recipient is not None
    low = server._engine.lower(vector, lower_to)
    moved = server._engine.reencrypt(low, key=line.recipient.key)
    return user._own.decrypt(moved, secret_key=user._secret_key)


@both
def test_server_and_one_user_together_read_everything(scheme: str) -> None:
    """The collusion that the docs concede: statistics and model, other users' data in them."""
    table = Table(authority_of(TOY, scheme=scheme))
    other, x, reward = table.new_user(), np.array([0.9, -0.4]), 0.7
    played = table.play([x], user=other)
    table.server.receive(other.report(played.round, context=x, reward=reward))
    depth = table.deployment.parameters.depth
    design = table.deployment.matrices.unpack(collude(table, table.server.design, lower_to=depth))
    expected = table.settings.ridge * np.eye(2) + np.outer(x, x)
    np.testing.assert_allclose(design, expected, rtol=0, atol=1e-5)
    side = table.deployment.matrices.side
    response = collude(table, table.server.response, lower_to=depth).reshape(side, side)
    np.testing.assert_allclose(response[:2, 0], reward * x, rtol=0, atol=1e-5)


@both
def test_server_alone_and_user_alone_do_not(scheme: str) -> None:
    """The same without the other's half: the key's owner is asked for, and the way to it."""
    table = Table(authority_of(TOY, scheme=scheme))
    depth = table.deployment.parameters.depth
    low = table.server._engine.lower(table.server.design, depth)
    line = table.server.directory.line(table.user.id)
    assert line.recipient is not None
    moved = table.server._engine.reencrypt(low, key=line.recipient.key)
    stranger = table.new_user()
    for vector, engine in ((low, table.server._engine), (moved, line.engine)):
        with pytest.raises(WrongVector):
            engine.decrypt(vector, secret_key=stranger._secret_key)
    with pytest.raises(WrongVector):  # a user who took a statistic from the server's disk
        table.user._engine.decrypt(low, secret_key=table.user._secret_key)


@pytest.mark.ckks
def test_re_encryption_key_and_the_users_key_are_the_collective_key() -> None:
    """They switch a ciphertext that is the secret key itself: (1, 2^30) decrypts to 2^30 s + 1."""
    from helba.reference.engine.ckks.polynomial import encoder_of

    table = Table(authority_of(TOY, scheme="ckks"))
    parameters, engine = table.deployment.parameters, table.server._engine
    encoder, level = encoder_of(parameters), parameters.depth
    large = np.where(np.arange(parameters.ring_dim) == 0, 2.0**30, 0.0)
    one, constant = (encoder.encode(each, level=level) for each in (large / 2.0**30, large))
    made = encoder.ciphertext(one, constant, level=level, tag=engine.public_key.tag)
    made.SetSlots(parameters.max_slots)
    vector = engine._vector(Body(made, level), slots=parameters.max_slots)
    line = table.server.directory.line(table.user.id)
    assert line.recipient is not None
    moved = engine.reencrypt(vector, key=line.recipient.key)
    read = read_polynomial(table.user._own, moved, secret_key=table.user._secret_key) / 2.0**30
    found = np.round(read)
    assert np.abs(read - found).max() < 0.01
    assert set(found) == {-1.0, 0.0, 1.0}
    true = read_polynomial(engine, vector, secret_key=table.authority._keys.secret) / 2.0**30
    assert np.array_equal(found, np.round(true))
