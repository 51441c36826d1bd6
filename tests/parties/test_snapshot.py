"""The server's state: restored at any moment it goes on as if nothing had happened."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from helba.errors import DamagedData
from helba.learning.exchange import Stack
from helba.server.snapshot import dump_state, load_state
from tests.parties.cheating import deliver_flight, post_report, shifted
from tests.parties.world import (
    World,
    draw_contexts,
    draw_report,
    hold,
    make_deployment,
    make_settings,
    sent,
)


def make_world(opener, *, engine="simulate", **others) -> World:
    told = {"growth": 20.0, "schedule": "trace", "trace_threshold": 1.7} | others
    return World(make_deployment(make_settings(2, 3, **told), engine=engine, opener=opener))


def play(world: World, rng) -> None:
    """An ask, reports that are folded, a test, and an update: put on the way."""
    member = world.users[0]
    world.ask(member, draw_contexts(rng, world.deployment.settings))
    for context in ((0.99, 0.0), (0.0, 0.99), (0.7, 0.7)):
        world.report(member, context, 1.0)


def count_steps(opener) -> int:
    world = make_world(opener)
    play(world, np.random.default_rng(0))
    steps = 0
    while world.step():
        steps += 1
    assert world.status().updates == 1
    assert world.status().tests >= 1
    return steps


@pytest.mark.parametrize("opener", ["users", "authority"])
def test_server_restored_at_any_message_goes_on(opener):
    steps = count_steps(opener)
    assert steps > 30
    for stop in range(steps + 1):
        world = make_world(opener)
        rng = np.random.default_rng(0)
        play(world, rng)
        for _ in range(stop):
            world.step()
        # users' messages get through; what was between server and opener is gone
        users = {member.id for member in world.users}
        kept = [p for p in world.flight if p.kind in ("Ask", "Report", "Receipt")]
        known = world.server.state.samples + len(world.server.state.rows)
        world.restart()
        assert world.server.state.samples + len(world.server.state.rows) == known
        assert not world.conversations
        world.flight += kept
        world.settle()
        assert world.idle
        assert world.status().updates == 1, stop
        assert world.server.state.learned.batch.samples == 3
        world.check_sums()
        contexts = draw_contexts(rng, world.deployment.settings)
        assert world.recommend(world.users[0], contexts) == world.best(contexts)
        assert users


def test_state_is_the_same_when_it_is_saved_again(opener):
    world = make_world(opener)
    play(world, np.random.default_rng(0))
    world.settle()
    saved = world.save()
    world.restart(saved)
    assert world.save() == saved
    model = world.model()
    world.restart(saved)
    assert world.model() == model
    assert world.status().updates == 1


def test_restored_server_decides_like_the_one_that_went_on(opener):
    """Growth, tests and what they cleared are part of the state."""
    world = make_world(opener, trace_threshold=2.0)
    member, rng = world.users[0], np.random.default_rng(1)
    world.report(member, (0.5, 0.0), 1.0)
    world.settle()
    status, cleared = world.status(), world.server.state.cleared
    assert status.tests == cleared == 1
    world.restart()
    assert replace(world.status(), last_trouble="") == replace(status, last_trouble="")
    world.settle()
    assert world.status().tests == 1  # the same count is not tested again
    world.learn(member, rng)
    assert world.status().tests == 2
    world.check_sums()


def test_restored_server_knows_reports_that_it_had_taken(opener):
    world = make_world(opener)
    member = world.users[0]
    message = sent(member.user.report(np.array([0.3, 0.3]), 0.5))
    world.reports[message.name] = world.round_report((0.3, 0.3), 0.5)
    for _ in range(2):
        world.post(member, message)
        world.settle()
        world.restart()
    assert world.server.state.samples == 1
    world.check_sums()


def test_restored_server_remembers_how_often_a_report_was_judged():
    world = make_world("authority", growth=1.0, schedule="public")
    member, rng = world.users[0], np.random.default_rng(2)
    kept = []
    for index in range(20):
        report = draw_report(rng, world.deployment.settings)
        shifts = {0: 1 << 40} if index == 13 else {}
        name = post_report(world, member, *report, lambda r, shifts=shifts: shifted(r, shifts))
        if index != 13:
            kept.append(world.reports[name])
    deliver_flight(world)
    for _ in range(4):  # again and again in the middle of finding it
        for _ in range(12):
            world.step()
        world.restart()
    world.settle()
    assert world.status().dropped_reports == 1
    assert max(world.helper.opener.state.verdicts.values()) <= 3
    assert np.array_equal(world.sums(), world.expected_sums(kept))


# -- what is not in it


def find_secrets(world: World) -> dict[str, list[bytes]]:
    """Bytes of everything that a server must not write: masks, offsets, labels."""
    found: dict[str, list[bytes]] = {"mask": [], "offset": [], "label": []}
    for conversation in world.conversations:
        for mask in conversation.masks:
            found["mask"] += [row.tobytes()[:8] for row in mask._share._residues]
            found["mask"] += [row.tobytes()[-8:] for row in mask._share._residues]
    for session in world.server._conversations._sessions.values():
        found["offset"].append(session._offset.tobytes())
        for opening in session._openings.values():
            found["label"] += [row.tobytes() for row in opening.labels.reshape(-1, 2)]
    return found


@pytest.mark.parametrize("engine", ["simulate", pytest.param("ckks", marks=pytest.mark.ckks)])
@pytest.mark.parametrize(
    ("kind", "secret"), [("Reopened", "mask"), ("Transfer", "mask"), ("Verdict", "label")]
)
def test_state_holds_no_mask_label_or_offset(engine, kind, secret):
    world = make_world("authority", engine=engine, growth=1.0, schedule="public")
    held: list = []
    subject = None if kind == "Reopened" else "update"
    world.rules.append(hold(kind, held, subject=subject))
    for context in ((0.9, 0.0), (0.0, 0.9)):
        world.report(world.users[0], context, 1.0)
    world.settle()
    assert held
    secrets = find_secrets(world)
    assert secrets[secret]
    assert secrets["offset"]
    saved = world.save()
    for name, samples in secrets.items():
        for sample in samples:
            assert len(set(sample)) > 3, name
            assert sample not in saved, name
            assert sample[::-1] not in saved, name
            assert sample in saved + sample  # the search finds what is there


def test_state_holds_no_seed_of_a_user():
    world = make_world("authority")
    member = world.users[0]
    play(world, np.random.default_rng(3))
    deliver_flight(world)
    saved = world.save()
    assert world.server.state.rows
    seeds = [found.seed.seed for found in member.user.state.rounds.values()]
    assert seeds
    for seed in seeds:
        assert seed not in saved
    for row in world.server.state.rows.values():
        assert row.box in saved


# -- damage


@pytest.fixture(scope="module")
def scene():
    world = make_world("authority")
    play(world, np.random.default_rng(4))
    world.settle()
    post_report(world, world.users[0], (0.1, 0.2), 0.3)
    deliver_flight(world)
    return world, world.save()


def load(world: World, data: bytes):
    return load_state(data, deployment=world.deployment, public_key=world.authority.public_key)


def resealed(body: bytes) -> bytes:
    return body + hashlib.sha256(body).digest()


def test_damaged_states_are_damaged_data(scene):
    world, saved = scene
    rng = np.random.default_rng(5)
    for _ in range(300):
        changed = bytearray(saved)
        bit = int(rng.integers(8 * len(saved)))
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedData):
            load(world, bytes(changed))
        with pytest.raises(DamagedData):
            load(world, saved[: int(rng.integers(len(saved)))])
        with pytest.raises(DamagedData):
            load(world, saved + rng.bytes(int(rng.integers(1, 40))))
        with pytest.raises(DamagedData):
            load(world, rng.bytes(int(rng.integers(0, 500))))


def test_states_with_a_right_digest_are_read_or_damaged_data(scene):
    """Whoever can write the digest is the server itself; still nothing else is raised."""
    world, saved = scene
    rng, body = np.random.default_rng(6), saved[:-32]
    refused = 0
    for index in range(400):
        changed = bytearray(body)
        if index % 2:
            bit = int(rng.integers(8 * len(body)))
            changed[bit // 8] ^= 1 << bit % 8
        else:
            del changed[int(rng.integers(len(body))) :]
        try:
            load(world, resealed(bytes(changed)))
        except DamagedData:
            refused += 1
    assert refused > 200  # every one that is cut


def test_stored_reports_and_models_that_do_not_fit_are_refused():
    world = make_world("authority")
    world.rules.append(hold("Verdict", []))
    world.report(world.users[0], (0.5, 0.1), 1.0)
    world.settle()
    state = world.server.state
    ((name, row),) = state.rows.items()
    told = {"deployment": world.deployment, "public_key": world.authority.public_key}
    learned = state.learned
    wrong = [
        {"rows": {name: replace(row, shares=row.shares[:-1])}},
        {"rows": {bytes(16): row}},
        {"names": {}},
        {"learned": replace(learned, design=Stack({}))},
    ]
    assert load_state(dump_state(state, **told), **told).rows.keys() == {name}
    for changes in wrong:
        with pytest.raises(DamagedData):
            load_state(dump_state(replace(state, **changes), **told), **told)


def test_state_of_another_deployment_or_key_is_refused(scene):
    world, saved = scene
    other = World(make_deployment(make_settings(2, 4), opener="authority"))
    again = World(world.deployment)  # other keys
    for stranger in (other, again):
        with pytest.raises(DamagedData, match="another deployment or key"):
            load(stranger, saved)


def test_restored_server_draws_new_names(opener):
    """Two servers from one state never use the same name, mask or offset."""
    world = make_world(opener)
    rng = np.random.default_rng(7)
    member = world.users[0]
    saved = world.save()
    names, masks, offsets, sessions = set(), set(), set(), set()
    for _ in range(3):
        world.restart(saved)
        held: list = []
        world.rules[:] = [hold("CompareTask", held)]
        world.ask(member, draw_contexts(rng, world.deployment.settings))
        world.settle()
        names.add(held[0].task)
        (conversation,) = world.conversations
        masks.add(conversation.masks[0]._share._residues.tobytes())
        session = next(iter(world.server._conversations._sessions.values()))
        offsets.add(session._offset.tobytes())
        sessions.add(session._session)
    assert [len(each) for each in (names, masks, offsets, sessions)] == [3] * 4
