"""Views of the parties: each holds what its part of the protocol says, and nothing of the data.

An opener decrypts uniform numbers; a server sees lengths, kinds and an order that the public
schedule decides, and bits that are fair coins; a user gets its arm. Each claim stands beside one
that finds what shows once a protection is off. Draws are new in every run: an honest protocol fails
one of these tests with a probability below 1e-6.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from helba.errors import DamagedData, InvalidInput
from helba.garbling import EvaluatorSession, build_argmax, combine
from helba.garbling.circuits.argmax import name_bits
from helba.learning.plan import NOISE_FACTOR
from helba.protocol import deployment as deployment_module
from helba.protocol.box import SealedSeed
from helba.protocol.message import Shared
from helba.ring import Ring, Share
from helba.ring.secret import Opener
from helba.ring.sharing.pad import SHARE_MODULUS
from helba.user import user as user_module
from tests.parties.cheating import body_of, deliver_flight
from tests.parties.world import World, draw_contexts, hold, make_deployment, make_settings, sent

ALARM = 3.0  # Kolmogorov's statistic times sqrt(n) is above it with probability 3e-8
FALSE_ALARM = 1e-8


def ks_uniform(seen) -> float:
    seen = np.asarray(seen, dtype=float)
    assert len(seen) >= 90, len(seen)
    return kstest(seen, "uniform").statistic * math.sqrt(len(seen))


def ks_two(first, second) -> float:
    sizes = len(first) * len(second) / (len(first) + len(second))
    return kstest(np.array(first), np.array(second)).statistic * math.sqrt(sizes)


def bias(bits) -> float:
    """How far the mean of coins is from 1/2, in units of Hoeffding's bound."""
    bits = np.ravel(bits)
    allowed = math.sqrt(math.log(2.0 / FALSE_ALARM) / (2 * len(bits)))
    return float(abs(np.mean(bits) - 0.5)) / allowed


# -- data: two sets as different as can be


def data_sets(settings):
    """Two ways to play: for each, contexts of a round, and a report."""
    d, k = settings.dim, settings.arms
    flat = np.full((k, d), 1.0 / np.sqrt(d))
    tiny = np.zeros((k, d))
    tiny[:, 0] = np.linspace(-0.01, 0.0, k)
    return [(flat, (flat[0], settings.reward_max)), (tiny, (tiny[0], -settings.reward_max))]


def play(world: World, contexts, report, *, rounds: int) -> None:
    for _ in range(rounds):
        for member in world.users:
            world.ask(member, contexts)
        world.settle()
        world.report(world.users[0], *report)
        world.settle()


# -- the opener


@pytest.fixture
def opened(monkeypatch):
    """What openers decrypt, by the number of primes: residues of q over q."""
    seen: dict[int, list[float]] = {1: [], 2: []}
    receive = Opener.receive

    def record(opener, opening, *, places):
        share = receive(opener, opening, places=places)
        modulus = opener.parameters.modulus(share.primes)
        seen[share.primes] += [int(each) % modulus / modulus for each in share.integers()]
        return share

    monkeypatch.setattr(Opener, "receive", record)
    return seen


def opener_views(engine, opener, opened):
    settings = make_settings(3, 16, growth=0.1, schedule="trace", trace_threshold=4.0)
    views = []
    for contexts, report in data_sets(settings):
        world = World(make_deployment(settings, engine=engine, opener=opener), users=2)
        play(world, contexts, report, rounds=3)
        assert world.server.state.learned.batch.number == 2
        views.append({primes: list(numbers) for primes, numbers in opened.items()})
        for numbers in opened.values():
            numbers.clear()
    return views


def test_opener_decrypts_uniform_numbers_whatever_the_data(engine, opener, opened):
    """Of asks and comparisons (one prime) and of reopenings (two)."""
    first, second = opener_views(engine, opener, opened)
    for primes in (1, 2):
        assert ks_uniform(first[primes]) < ALARM
        assert ks_uniform(second[primes]) < ALARM
        assert ks_two(first[primes], second[primes]) < ALARM


def test_without_the_mask_the_opener_sees_numbers(engine, opener, opened, monkeypatch):
    monkeypatch.setattr(
        "helba.ring.ring.draw_residues",
        lambda moduli, count, **_: np.zeros((len(moduli), count), dtype=np.uint64),
    )
    first, second = opener_views(engine, opener, opened)
    for primes in (1, 2):
        assert ks_uniform(first[primes]) > ALARM
        assert ks_uniform(second[primes]) > ALARM
    assert ks_two(first[1], second[1]) > ALARM


def test_mask_of_half_the_range_is_seen(opener, opened, monkeypatch):
    def draw(moduli, count, draw):  # noqa: ARG001
        rng = np.random.default_rng()
        return np.stack([rng.integers(0, q // 2, count, dtype=np.uint64) for q in moduli])

    monkeypatch.setattr("helba.ring.ring.draw_residues", draw)
    first, _ = opener_views("simulate", opener, opened)
    assert ks_uniform(first[1]) > ALARM


def openings_of_one_ask(world: World) -> list:
    """The second polynomials of two attempts at one ask."""
    held = []
    world.rules += [hold("CompareTask", held, times=2)]
    world.ask(world.users[0], draw_contexts(np.random.default_rng(0), world.deployment.settings))
    for count in (1, 2):
        while len(held) < count:
            world.step()
        world.abandon(held[-1].task, reason="lost")
    return [parcel.message.openings[0].second for parcel in held]


@pytest.mark.ckks
@pytest.mark.parametrize("off", [False, True])
def test_second_polynomial_that_an_opener_gets_is_fresh(off, monkeypatch):
    world = World(make_deployment(make_settings(2, 3), engine="ckks", opener="users"))
    backend, user = world.authority.public_key.backend, world.users[0]
    if off:

        def encrypt_nothing(_public, *, primes):
            nothing = backend._nothing[primes]
            nothing.SetKeyTag(world.server.state.members[user.id].public.key_id.hex())
            return nothing

        monkeypatch.setattr(backend, "encrypt_zero", encrypt_nothing)
    first, second = openings_of_one_ask(world)
    if off:  # it is a function of what the user had encrypted itself
        assert np.array_equal(first, second)
        return
    modulus = world.plan.parameters.moduli[0]
    apart = (first[0].astype(object) - second[0].astype(object)) % modulus / modulus
    assert ks_uniform(apart.astype(float)) < ALARM
    assert not (first == second).any()


class Noise:
    """What openers add, over its deviation, and how that compares with the error it covers."""

    def __init__(self, monkeypatch) -> None:
        self.units: list[float] = []
        self.masks: list = []
        add, open_ = Opener.add_noise, Ring.open
        receive, join = Opener.receive, Share.join

        def record(opener, share, *, deviation):
            noisy = add(opener, share, deviation=deviation)
            modulus = opener.parameters.modulus(share.primes)
            half = modulus // 2
            apart = (noisy.integers() - share.integers() + half) % modulus - half
            self.units += [float(each) / deviation for each in apart]
            self.deviations.append((share.name, deviation))
            return noisy

        def receive_named(opener, opening, *, places):
            share = receive(opener, opening, places=places)
            share.name = opening.name
            return share

        def join_named(shares):
            joined = join(shares)
            joined.name = getattr(next(iter(shares.values())), "name", None)  # the server has none
            return joined

        def keep(ring, ciphertext, *, places, to=None):
            opening, mask = open_(ring, ciphertext, places=places, to=to)
            self.masks.append((opening.name, mask.carried.noise))
            return opening, mask

        self.deviations: list[tuple[bytes, float]] = []
        monkeypatch.setattr(Opener, "add_noise", record)
        monkeypatch.setattr(Opener, "receive", receive_named)
        monkeypatch.setattr(Share, "join", join_named)
        monkeypatch.setattr(Ring, "open", keep)

    def is_gaussian(self) -> bool:
        """The mean of squares is that of standard normal numbers."""
        count = len(self.units)
        low, high = chi2.ppf([FALSE_ALARM / 2, 1.0 - FALSE_ALARM / 2], count)
        return bool(low < np.square(self.units).sum() < high)


def learn_with_noise(opener, monkeypatch) -> tuple[Noise, World]:
    settings = make_settings(2, 3, growth=0.1, schedule="trace")
    world = World(make_deployment(settings, opener=opener))
    noise = Noise(monkeypatch)
    world.learn(world.users[0], np.random.default_rng(0), count=1)
    for _ in range(5):
        world.learn(world.users[0], np.random.default_rng(0), count=1)
    assert world.server.state.learned.batch.number >= 4
    return noise, world


def test_opener_covers_the_noise_of_models_and_comparisons_with_its_own(opener, monkeypatch):
    """Low digits of a model, and what decides a comparison, would else depend on the key."""
    noise, world = learn_with_noise(opener, monkeypatch)
    assert noise.is_gaussian()
    certified = dict(noise.masks)
    covered = [certified[name] * NOISE_FACTOR <= deviation for name, deviation in noise.deviations]
    assert all(covered)
    updates, tests = world.status().updates, world.status().tests
    named = {name for name, _ in noise.deviations}
    # an update: both parts of the model, four values of the check; a test: the trace
    compared = [p for p in world.log if p.kind == "CompareTask" and p.subject in ("test", "update")]
    assert len(compared) == updates + tests
    for parcel in compared:
        assert {opening.name for opening in parcel.message.openings} <= named
    assert len(noise.deviations) >= 6 * updates + tests


def test_noise_that_is_off_is_seen(opener, monkeypatch):
    monkeypatch.setattr(
        "helba.ring.simulate.SimulatedBackend.draw_gaussian",
        lambda _, count, *, deviation: np.zeros(count, dtype=object),  # noqa: ARG005
    )
    noise, _ = learn_with_noise(opener, monkeypatch)
    assert not noise.is_gaussian()


# -- the server


def shapes(world: World) -> list[tuple[str, str, str, int]]:
    """Who sent what to whom, and how long it was."""
    names = {member.id: f"user {i}" for i, member in enumerate(world.users)}
    names[world.helper.id] = "opener"
    return [
        (names.get(p.sender, "server"), names.get(p.to, "server"), p.kind, len(p.data))
        for p in world.log
    ]


def server_views(engine, opener, *, rounds=6, **others):
    settings = make_settings(2, 3, **others)
    worlds = []
    for contexts, report in data_sets(settings):
        world = World(make_deployment(settings, engine=engine, opener=opener), users=2)
        play(world, contexts, report, rounds=rounds)
        worlds.append(world)
    return worlds


def test_server_sees_the_same_messages_whatever_the_data(engine, opener):
    first, second = server_views(engine, opener, rounds=5 if engine == "simulate" else 2)
    assert first.server.state.learned.batch.number >= 1
    assert shapes(first) == shapes(second)
    assert first.status() == second.status()
    # what it keeps has the same length, too
    assert len(first.save()) == len(second.save())


def test_server_sees_update_times_that_depend_on_data_with_the_trace_rule(opener):
    first, second = server_views("simulate", opener, growth=20.0, schedule="trace")
    assert shapes(first) != shapes(second)
    assert first.status().updates != second.status().updates


def test_bits_that_the_server_gets_are_one_a_test_a_check_and_a_group_of_reports(opener):
    world, _ = server_views("simulate", opener, rounds=3, schedule="trace", growth=0.5)
    status = world.status()
    verdicts = [p for p in world.log if p.kind == "Verdict"]
    folds = sum(p.subject == "fold" for p in verdicts)
    assert folds == (3 if opener == "authority" else 0)
    assert len(verdicts) == status.tests + status.updates + folds
    assert world.helper.opener.state.bits_returned == len(verdicts)
    users = [m.opener.state.bits_returned for m in world.users if m.opener is not None]
    assert sum(users) == 0


def test_ask_of_fewer_arms_looks_like_any_other(engine, opener):
    settings = make_settings(2, 3)
    logs = []
    for arms in (1, 3):
        world = World(make_deployment(settings, engine=engine, opener=opener))
        world.recommend(
            world.users[0], draw_contexts(np.random.default_rng(0), settings, arms=arms)
        )
        logs.append(shapes(world))
    assert logs[0] == logs[1]


def shares_sent(contexts, report) -> list[float]:
    """All that a server gets of a user's numbers, in the setting `authority`."""
    settings = make_settings(2, 12)
    world = World(make_deployment(settings, opener="authority"))
    user, seen = world.users[0].user, []
    for _ in range(5):
        made = [user.ask(contexts), user.report(*report), user.report(*report)]
        for message in map(sent, made):
            assert isinstance(body_of(message), Shared)
            seen += [int(each) / SHARE_MODULUS for each in body_of(message).shares]
    return seen


def test_shares_that_a_server_gets_are_uniform_whatever_the_data():
    first, second = (shares_sent(*data) for data in data_sets(make_settings(2, 12)))
    assert ks_uniform(first) < ALARM
    assert ks_uniform(second) < ALARM
    assert ks_two(first, second) < ALARM


def test_without_pads_a_server_sees_numbers(monkeypatch):
    monkeypatch.setattr(SealedSeed, "expand", lambda _, count: np.zeros(count, dtype=object))
    first, second = (shares_sent(*data) for data in data_sets(make_settings(2, 12)))
    assert ks_uniform(first) > ALARM
    assert ks_two(first, second) > ALARM


# -- arms: decoding bits with the server, colours with the opener


def arms_told(engine, contexts, monkeypatch, *, asks=210):
    """Decoding bits, colours and arms of many equal asks, in the setting `authority`."""
    colours = []
    evaluate = EvaluatorSession.evaluate

    def record(session, tables):
        evaluated = evaluate(session, tables)
        if evaluated.returned is None:
            colours.append(evaluated.colours[:, :-1])
        return evaluated

    with monkeypatch.context() as patch:
        patch.setattr(EvaluatorSession, "evaluate", record)
        world = World(make_deployment(make_settings(2, 3), engine=engine, opener="authority"))
        (member,) = world.users
        for _ in range(asks):
            world.ask(member, contexts)
        deliver_flight(world)
        world.settle()
    answers = [p.message for p in world.log if p.kind == "Answer"]
    decoding = np.array([answer.decoding for answer in answers])
    return decoding, np.concatenate(colours), set(member.arms.values()), world


# Before any report the longest context wins: arm 1 of the one, arm 2 of the other.
ARM_1 = np.array([[0.1, 0.0], [0.0, 0.9], [0.2, 0.2]])
ARM_1_TOO = np.array([[-0.5, 0.5], [-0.9, -0.3], [0.0, 0.0]])
ARM_2 = np.array([[0.1, 0.0], [0.0, 0.1], [0.7, 0.7]])


def test_halves_of_an_arm_are_fair_coins(engine, monkeypatch):
    lengths = []
    for contexts, arm in ((ARM_1, 1), (ARM_1_TOO, 1), (ARM_2, 2)):
        decoding, colours, arms, world = arms_told(engine, contexts, monkeypatch)
        assert arms == {arm}
        for half in (decoding, colours):
            for column in half.T:
                assert bias(column) < 1
        # two asks have nothing to do with each other
        assert bias(decoding[1:] ^ decoding[:-1]) < 1
        told = [p for p in world.log if p.to == world.users[0].id]
        lengths.append({(p.kind, len(p.data)) for p in told})
    assert lengths[0] == lengths[1] == lengths[2]
    assert len(lengths[0]) == 1  # an answer is an answer


def test_without_random_colours_the_server_has_the_arm(monkeypatch):
    """In the clear backend: decoding bits are the outputs, unless labels are drawn."""
    monkeypatch.setattr(
        "helba.garbling.clear.expand_labels",
        lambda _seed, *, shape: np.zeros((*shape, 2), dtype=np.uint64),
    )
    decoding, colours, arms, _ = arms_told("simulate", ARM_2, monkeypatch)
    assert arms == {2}
    assert bias(decoding) < 1 < min(bias(column) for column in decoding.T)
    assert {tuple(row) for row in decoding} == {(False, True)}  # arm 2
    assert bias(colours) > 1


def read_halves(opener, monkeypatch, *, horizon):
    """Play rounds; return the bits that the user has when both halves are put together."""
    told = []

    def record(decoding, colours):
        told.append(combine(decoding, colours))
        return told[-1]

    settings, rng = make_settings(2, 5, horizon=horizon), np.random.default_rng(6)
    with monkeypatch.context() as patch:
        patch.setattr(user_module, "combine", record)
        world = World(make_deployment(settings, opener=opener))
        arms = []
        for _ in range(12):
            arms.append(world.recommend(world.users[0], draw_contexts(rng, settings)))
            world.learn(world.users[0], rng)
    return told, arms


def test_user_gets_the_bits_of_its_arm_and_no_other(opener, monkeypatch):
    told, arms = read_halves(opener, monkeypatch, horizon=501)
    assert len(set(arms)) > 2
    for bits, arm in zip(told, arms, strict=True):
        assert bits.shape == (1, name_bits(5))
        assert [int(bit) for bit in bits[0]] == [arm >> i & 1 for i in range(3)]


def test_circuit_that_tells_one_bit_more_reaches_no_user(monkeypatch):
    """Whether the second arm beats the first, say: its answer has not the length of an answer."""

    def build(*arguments, **named):
        circuit = build_argmax(*arguments, **named)
        wires = np.append(circuit.user_outputs, circuit.steps[-1].start)
        return replace(circuit, user_outputs=wires)

    monkeypatch.setattr(deployment_module, "build_argmax", build)
    with pytest.raises((DamagedData, InvalidInput)):
        read_halves("users", monkeypatch, horizon=502)


def test_user_reads_its_arm_and_nothing_of_the_model(opener):
    """Equal arms under other models: what comes back is the same, but for names and coins."""
    settings = make_settings(2, 3)
    received = []
    for seed in (1, 2):
        world = World(make_deployment(settings, opener=opener))
        member = world.users[0]
        world.learn(member, np.random.default_rng(seed), count=4)
        member.inbox.clear()
        world.log.clear()
        contexts = np.array([[0.0, 0.0], [0.7, 0.7], [0.0, 0.0]])
        assert world.recommend(member, contexts) == 1
        world.report(member, contexts[1], 0.5)
        world.settle(until=lambda w=world: any(p.kind == "Receipt" for p in w.log))
        (answer, receipt) = (m for m in member.inbox)
        assert receipt.name not in (answer.name, answer.task)
        parcels = [p for p in world.log if p.kind in ("Answer", "Receipt")]
        received.append([(p.kind, len(p.data)) for p in parcels] + [answer.batch])
    assert received[0] == received[1]
