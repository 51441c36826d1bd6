"""Parties in processes of their own: the server's holds nothing that decrypts."""

from __future__ import annotations

import gc
import math
import multiprocessing
import pickle
import re
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import kstest

from helba.errors import EngineError
from helba.protocol.effects import Effects, Envelope
from helba.ring.secret.wire import dump_secret_key
from helba.ring.wire import dump_key
from tests.parties import serving
from tests.parties.world import SERVER, World, draw_contexts, hold, read_model

pytestmark = pytest.mark.ckks
ALARM = 3.0


@contextmanager
def started(target, *arguments):
    """Start a process that imports nothing of this one; yield a way to call it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *arguments), daemon=True)
    process.start()

    def call(*command):
        ours.send(command)
        while not ours.poll(0.5):
            assert process.is_alive(), "the process has ended"
        return ours.recv()

    try:
        yield call
    finally:
        ours.send(("stop",))
        process.join(20)
        assert process.exitcode == 0


class Elsewhere:
    """A server in another process, for a world."""

    def __init__(self, world: World, call) -> None:
        self.world, self.call = world, call
        self.traffic: list[bytes] = []

    def _read(self, sent) -> list[Envelope]:
        found = []
        for to, data in sent:
            self.traffic.append(data)
            member = self.world.members[to]
            found.append(Envelope(to=to, message=member.codec.decode(data)))
        return found

    def handle(self, message, *, sender, now):  # noqa: ARG002
        data = self.world.codec.encode(message)
        self.traffic.append(data)
        return Effects(replies=tuple(self._read(self.call("handle", data, sender))))

    def work(self, *, now):  # noqa: ARG002
        return Effects(replies=tuple(self._read(self.call("work"))))


def write_files(world: World, folder) -> None:
    public, ring = world.authority.public_key, world.ring
    (folder / "public").write_bytes(dump_key(public))
    (folder / "evaluation").write_bytes(dump_key(ring.evaluation_key))
    (folder / "state").write_bytes(world.save())


def secret_samples(key) -> list[bytes]:
    """Pieces of a secret key as it is stored, and as it is in memory."""
    stored = dump_secret_key(key)
    middle = len(stored) // 2
    pieces = [stored[at : at + 24] for at in (middle, middle + 100, len(stored) - 90)]
    assert all(len(set(piece)) > 3 for piece in pieces)
    return pieces


def test_server_elsewhere_plays_and_cannot_decrypt(tmp_path, opener):
    world = World(serving.make_deployment(opener))
    settings, rng = world.deployment.settings, np.random.default_rng(0)
    write_files(world, tmp_path)
    member = world.users[0]
    with started(serving.serve, str(tmp_path), opener) as call:
        call("helper", world.helper.id)
        here, world.server = world.server, Elsewhere(world, call)
        for _ in range(2):
            contexts = draw_contexts(rng, settings)
            name = world.ask(member, contexts)
            world.settle()
            model = read_model(world.reader, world.plan, here.state.learned.model)  # no update yet
            assert member.arms[name] == world.best(contexts, model)
            world.learn(member, rng)
        found, saved = call("pry"), call("save")
        traffic = world.server.traffic
    (tmp_path / "saved").write_bytes(saved)
    world.server = here
    world.restart(saved)
    assert world.status().updates == 1
    world.check_sums()
    contexts = draw_contexts(rng, settings)
    assert world.recommend(member, contexts) == world.best(contexts)

    assert found["secret_keys"] == found["openers"] == 0
    assert found["loaded"] == []
    assert set(found["attempts"]) >= {"public", "evaluation", "state"}
    assert set(found["attempts"].values()) == {"DamagedData"}
    # 100 bits of noise in place of integers of 60
    assert any(abs(int(each)) > 2**80 for each in found["garbage"])

    keys = [world.authority._keys.secret]
    keys += [m.opener._opener._secret_key for m in world.members.values() if m.opener]
    everything = [path.read_bytes() for path in tmp_path.iterdir()] + traffic
    sealing = bytes(world.authority.private_sealing_key)
    for data in everything:
        assert sealing not in data
        for key in keys:
            assert not any(piece in data for piece in secret_samples(key))
    assert all(piece in dump_secret_key(keys[0]) for piece in secret_samples(keys[0]))


@pytest.mark.parametrize("masked", [True, False])
def test_opener_elsewhere_sees_uniform_numbers(tmp_path, monkeypatch, masked):
    if not masked:
        monkeypatch.setattr(
            "helba.ring.ring.draw_residues",
            lambda moduli, count, **_: np.zeros((len(moduli), count), dtype=np.uint64),
        )
    world = World(serving.make_deployment("authority"), users=20)
    (tmp_path / "public").write_bytes(dump_key(world.authority.public_key))
    (tmp_path / "secret").write_bytes(dump_secret_key(world.authority._keys.secret))
    (tmp_path / "sealing").write_bytes(bytes(world.authority.private_sealing_key))
    flat = np.full((3, 2), math.sqrt(0.5))
    with started(serving.open_, str(tmp_path)) as call:

        def handle(message, *, sender):
            reply = call("handle", world.codec.encode(message))
            if reply is None:
                return Effects()
            return Effects(replies=(Envelope(to=sender, message=world.codec.decode(reply)),))

        world.helper.opener = SimpleNamespace(handle=handle)
        for _ in range(2):
            for member in world.users:
                world.ask(member, flat)
            world.settle()
            world.report(world.users[0], flat[0], 2.0)
            world.settle()
        assert world.status().updates == 1
        seen, parties = call("seen")
    assert parties == []
    for numbers in seen.values():
        assert len(numbers) >= 40
        statistic = kstest(numbers, "uniform").statistic * math.sqrt(len(numbers))
        assert (statistic < ALARM) == masked


# -- nothing that is secret prints, or is pickled

X, REWARD = np.array([0.512345, -0.398765]), 1.765432


def marks(world: World) -> list[str]:
    numbers = [*world.features(X), *world.round_report(X, REWARD)]
    floats = ("0.512345", "0.398765", "1.765432")
    return [*(str(abs(n)) for n in numbers if abs(n) > 999), *floats, "array(", "colours=", "seed="]


def everything(*roots):
    """All objects of helba that can be reached."""
    seen, waiting = set(), list(roots)
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type):
            continue
        seen.add(id(thing))
        if type(thing).__module__.startswith("helba"):
            yield thing
            waiting += [part for part in gc.get_referents(thing) if not callable(part)]
        elif isinstance(thing, dict | list | tuple | set):
            waiting += gc.get_referents(thing)


@pytest.fixture(params=["users", "authority"])
def busy(request):
    """A world in which an ask and an update are under way."""
    world = World(serving.make_deployment(request.param))
    member, held = world.users[0], []
    world.rules.append(hold("Tables", held, subject="ask"))
    world.rules.append(hold("Reopened", held))
    world.ask(member, [X, -X])
    world.settle()
    for _ in range(2):
        world.report(member, X, REWARD)
    world.settle()
    world.ask(member, [X, -X])
    assert world.status().updating
    return world


def test_no_party_or_message_prints_what_it_holds(busy):
    parties = [busy.server, busy.authority]
    parties += [x for m in busy.members.values() for x in (m.user, m.opener) if x is not None]
    messages = [parcel.message for parcel in busy.log]
    public = {"Settings", "SharesPlan", "Rounding", "Grid", "SharesDeployment", "RingParameters"}
    public |= {"Batch", "Weights", "UpdatePlan", "Circuit", "Step", "Comparison"}
    public |= {"Exchange", "Target", "Rearrangement", "Move", "Bound"}
    texts: dict[str, str] = {}
    for thing in everything(*parties, *messages):
        name = type(thing).__name__
        if name not in public:
            texts[name] = texts.get(name, "") + repr(thing) + str(thing)
    assert {"Server", "OpenerParty", "User", "Authority", "Ask", "Report"} <= set(texts)
    assert {"Conversation", "Mask", "Ciphertext", "Transfer", "GarblerSession"} <= set(texts)
    patterns = [rf"(?<![\d.]){re.escape(mark)}" for mark in marks(busy)]
    found = {
        name: [each for each in patterns if re.search(each, text)] for name, text in texts.items()
    }
    assert {name: each for name, each in found.items() if each} == {}


def test_no_secret_is_pickled(busy):
    opener = busy.helper.opener
    holders = [busy.authority, opener, busy.authority._keys.secret, busy.server]
    holders += list(busy.conversations)
    holders += list(busy.server._conversations._sessions.values())
    masks = [mask for c in busy.conversations for mask in c.masks]
    assert masks
    holders += masks
    holders += [busy.users[0].user]
    for holder in holders:
        with pytest.raises((TypeError, EngineError)):
            pickle.dumps(holder)


def test_parcels_hold_no_number_of_a_user(busy):
    numbers = [*X, REWARD, *(-X)]
    for parcel in busy.log:
        if parcel.to != SERVER:
            continue
        for number in numbers:
            assert np.float64(number).tobytes() not in parcel.data
        for number in busy.round_report(X, REWARD):
            assert abs(number).to_bytes(12, "little") not in parcel.data
