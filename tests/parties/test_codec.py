"""Messages as bytes: they come back as they were, or as `DamagedData`, and nothing else."""

from __future__ import annotations

import struct
import time
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache

import numpy as np
import pytest

from helba.errors import DamagedData
from helba.learning import update as update_module
from helba.learning.update_certificate import UpdateTerms
from helba.protocol import codec as codec_module
from helba.protocol.codec import Codec
from helba.protocol.message import Abort, Refusal, Work
from tests.parties.world import (
    SERVER,
    World,
    draw_contexts,
    make_deployment,
    make_settings,
    sent,
)

ALL = {kind.__name__ for kind in codec_module._KINDS}
SHARES_ONLY = {"PadTask", "Pads", "Colours"}
_WORK_AT = codec_module._HEAD.size + 16
WITH_WORK = ("PadTask", "ReopenTask", "CompareTask", "Transfer", "Tables", "Verdict")


@lru_cache(maxsize=4)
def collect(opener: str, engine: str = "simulate"):
    """A world that has seen every kind of message, and two parcels of each kind and subject."""
    settings = make_settings(2, 3, growth=0.1, schedule="trace", trace_threshold=0.5)
    few = engine == "ckks"
    world = World(make_deployment(settings, engine=engine, opener=opener), users=1 if few else 2)
    rng = np.random.default_rng(0)
    for _ in range(1 if few else 2):
        for member in world.users:
            world.ask(member, draw_contexts(rng, settings))
        world.learn(world.users[0], rng, count=2)
    member, name = world.users[0], bytes(range(16))
    refusal, abort = Refusal(name=name, reason="no"), Abort(task=name, reason="no", refused=True)
    for message, to in ((refusal, member.id), (abort, SERVER)):
        world.put(_parcel(world, message, to))
    world.settle()
    member.inbox.clear()
    enrol, admission = sent(member.user.enrol(member.key)), sent(world.admit(member))
    world.log += [_parcel(world, enrol, SERVER), _parcel(world, admission, SERVER)]
    found = {}
    for parcel in world.log:
        found.setdefault((parcel.kind, parcel.subject), []).append(parcel)
    return world, {key: parcels[:2] for key, parcels in found.items()}


def _parcel(world, message, to):
    from tests.parties.world import Parcel

    return Parcel(sender=SERVER, to=to, data=world.codec.encode(message), message=message)


def codec_of(world, parcel) -> Codec:
    return world.codec if parcel.to == SERVER else world.members[parcel.to].codec


def same(first, second) -> bool:
    """Whether two messages say the same, field by field."""
    if is_dataclass(first) and type(first) is type(second):
        return all(same(getattr(first, f.name), getattr(second, f.name)) for f in fields(first))
    if isinstance(first, np.ndarray):
        return np.array_equal(first, second)
    if isinstance(first, list | tuple):
        pairs = zip(first, second, strict=True)
        return len(first) == len(second) and all(same(a, b) for a, b in pairs)
    try:
        return bool(first == second)
    except ValueError:
        return True  # a body of a polynomial: the bytes are compared


def test_every_kind_of_message_comes_back(opener):
    world, found = collect(opener)
    seen = {kind for kind, _ in found}
    assert seen == ALL - (set() if opener == "authority" else SHARES_ONLY)
    for parcels in found.values():
        for parcel in parcels:
            codec = codec_of(world, parcel)
            message = codec.decode(parcel.data)
            assert type(message) is type(parcel.message)
            assert codec.encode(message) == parcel.data
            if parcel.kind not in ("Ask", "Report", "Pads", "Reopened"):
                assert same(message, parcel.message)


WIRE = """
Ask name features
Report name report
Answer name task batch decoding sealed
Receipt name
Refusal name reason later
Offer offer
Acceptance answer
PadTask task work boxes
Pads task pads signs
ReopenTask task work step openings
Reopened task step replies
CompareTask task work openings
Transfer task work transfer
Tables task work told tables
Verdict task work returned
Colours task halves
Abort task refused unknown reason
Enrol public_key
Admission user recipient
"""


def test_kinds_and_fields_stand_in_the_order_of_version_1():
    kinds = [[kind.__name__, *(each.name for each in fields(kind))] for kind in codec_module._KINDS]
    assert codec_module.VERSION == 1
    assert kinds == [line.split() for line in WIRE.split("\n")[1:-1]]


def test_length_depends_on_kind_and_public_counts_alone(opener):
    _, found = collect(opener)
    for (kind, _), parcels in found.items():
        sizes = {}
        for parcel in parcels:
            message = parcel.message
            public = [kind, getattr(message, "work", None), getattr(message, "step", None)]
            public += [len(getattr(message, name, ())) for name in ("halves", "pads", "signs")]
            public = tuple(public)
            sizes.setdefault(public, set()).add(len(parcel.data))
        assert all(len(each) == 1 for each in sizes.values()), kind


def test_reasons_are_cut_to_one_length(opener):
    world, _ = collect(opener)
    texts = ("", "no", "x" * 500, "ä" * 300)
    for make in (
        lambda text: Refusal(name=bytes(16), reason=text),
        lambda text: Abort(task=bytes(16), reason=text),
    ):
        data = [world.codec.encode(make(text)) for text in texts]
        assert len({len(each) for each in data}) == 1
        assert world.codec.decode(data[1]).reason == "no"
        assert len(world.codec.decode(data[3]).reason) <= 101


# -- damage


def try_decode(codec: Codec, data: bytes) -> bool:
    """True if it was read; any error but `DamagedData` is the test's."""
    try:
        codec.decode(data)
    except DamagedData:
        return False
    return True


def test_cut_and_extended_messages_are_damaged_data(opener):
    world, found = collect(opener)
    rng = np.random.default_rng(1)
    for parcels in found.values():
        parcel = parcels[0]
        codec, data = codec_of(world, parcel), parcel.data
        sizes = {*range(min(60, len(data))), *rng.integers(0, len(data), 20).tolist()}
        for size in sizes | {len(data) - 1}:
            assert not try_decode(codec, data[:size]), (parcel.kind, size)
        for more in (1, 7, 32, 1000):
            assert not try_decode(codec, data + rng.bytes(more)), (parcel.kind, more)


def test_flipped_bits_are_read_or_damaged_data(opener):
    world, found = collect(opener)
    rng = np.random.default_rng(2)
    for parcels in found.values():
        parcel = parcels[0]
        codec = codec_of(world, parcel)
        head = 8 * min(len(parcel.data), _WORK_AT + 60)
        bits = [*rng.integers(0, head, 60), *rng.integers(0, 8 * len(parcel.data), 20)]
        for bit in bits:
            changed = bytearray(parcel.data)
            changed[bit // 8] ^= 1 << int(bit) % 8
            read = try_decode(codec, bytes(changed))
            if bit < 8 * codec_module._HEAD.size and not 40 <= bit < 48:
                assert not read  # mark, version, deployment; another kind may fit


def test_random_bytes_are_damaged_data(opener):
    world, _ = collect(opener)
    rng = np.random.default_rng(3)
    digest = world.deployment.digest
    for kind in range(len(ALL) + 3):
        for size in (0, 1, 16, 50, 300, 5000):
            head = codec_module._HEAD.pack(codec_module._MARK, codec_module.VERSION, kind, digest)
            data = head + rng.bytes(size)
            read = try_decode(world.codec, data)
            # a name is a name, and a text a text: everything else has a form
            assert not read or kind < len(ALL)
        assert not try_decode(world.codec, rng.bytes(40))


def test_message_of_another_deployment_is_damaged_data(opener):
    _, found = collect(opener)
    others = [
        World(make_deployment(make_settings(2, 4), opener=opener)),
        World(make_deployment(make_settings(2, 3, horizon=499), opener=opener)),
    ]
    for parcels in found.values():
        for other in others:
            with pytest.raises(DamagedData, match="another deployment"):
                other.codec.decode(parcels[0].data)


def test_ciphertexts_of_another_key_are_damaged_data(opener):
    world, found = collect(opener)
    again = World(world.deployment)
    kinds = {kind for kind, _ in found} & {"Pads", "Reopened", "CompareTask", "ReopenTask"}
    kinds |= {"Ask", "Report"} if opener == "users" else set()
    for (kind, subject), parcels in found.items():
        if kind in kinds and subject != "fold":  # a fold opens nothing
            assert not try_decode(again.codec, parcels[0].data), kind


# -- hostile counts


def work_bytes(subject: int, count: int, terms: bytes = b"") -> bytes:
    return codec_module._WORK.pack(subject, count, bool(terms)) + terms


NAN, INF = float("nan"), float("inf")
HOSTILE = {
    "many asks": work_bytes(0, 1 << 16),
    "all asks": work_bytes(0, (1 << 32) - 1),
    "many reports": work_bytes(1, 1 << 16),
    "no report": work_bytes(1, 0),
    "many tests": work_bytes(2, 5, struct.pack("<QQQ", 0, 1, 1)),
    "endless test": work_bytes(2, 1, struct.pack("<QQQ", 0, (1 << 32) - 1, 1)),
    "test of nothing": work_bytes(2, 1, struct.pack("<QQQ", 0, 0, 0)),
    "test without terms": work_bytes(2, 1),
    "ask with terms": work_bytes(0, 1, struct.pack("<QQQ", 0, 1, 1)),
    "unknown": work_bytes(9, 1),
    **{
        f"update {i}": work_bytes(3, 1, struct.pack("<QQddQQB", *terms))
        for i, terms in enumerate(
            [
                (0, 0, 0.0, 0.0, (1 << 32) - 1, 1, 0),
                (0, 0, 0.0, 0.0, 0, 0, 0),
                (0, 5, 0.0, 0.0, 4, 0, 0),
                (0, 0, NAN, 0.0, 2, 2, 0),
                (0, 0, 0.0, NAN, 2, 2, 0),
                (0, 0, INF, 0.0, 2, 2, 0),
                (0, 0, 0.0, INF, 2, 2, 0),
                (0, 0, -1e300, 0.0, 2, 2, 0),
                (0, 0, 1.5, 0.0, 2, 2, 0),
                (0, 0, 0.0, -1.0, 2, 2, 0),
                (0, 0, 0.0, 0.0, 501, 3, 0),
                (0, 0, 0.0, 0.0, 3, 4, 0),
            ]
        )
    },
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_counts_are_damaged_data_at_once(opener, hostile):
    world, found = collect(opener)
    for (kind, _), parcels in found.items():
        if kind not in WITH_WORK:
            continue
        parcel = parcels[0]
        codec = codec_of(world, parcel)
        rest = parcel.data[_WORK_AT + len(codec._dump_work(parcel.message.work)) :]
        data = parcel.data[:_WORK_AT] + HOSTILE[hostile] + rest
        began = time.perf_counter()
        assert not try_decode(codec, data), kind
        assert time.perf_counter() - began < 2.0


def test_terms_of_hostile_counts_are_written_as_the_codec_writes_them():
    """Else they would be damaged for their length alone."""
    world, _ = collect("authority")
    batch = world.plan.first_batch
    update = UpdateTerms(before=batch, samples=2, untested=1)
    terms = (0, 0, batch.residual, batch.estimate_error, 2, 1, 0)
    written = work_bytes(3, 1, struct.pack("<QQddQQB", *terms))
    assert world.codec._dump_work(Work(subject="update", terms=update)) == written
    test = update_module.TestTerms(batch=0, unseen=2, untested=1)
    written = work_bytes(2, 1, struct.pack("<QQQ", 0, 2, 1))
    assert world.codec._dump_work(Work(subject="test", terms=test)) == written


def test_hostile_lists_are_damaged_data(opener):
    world, found = collect(opener)
    for kind in ("Reopened", "Colours"):
        if (kind, "") not in found:
            continue
        data = found[kind, ""][0].data
        start = _WORK_AT + (codec_module.STEP_BYTES if kind == "Reopened" else 0)
        for count in (0xFFFFFFFF, 1 << 16, (1 << 16) + 1, 7):
            changed = data[:start] + count.to_bytes(4, "little") + data[start + 4 :]
            assert not try_decode(world.codec, changed)
        changed = data[: start + 4] + b"\xff\xff\xff\xff" + data[start + 8 :]
        assert not try_decode(world.codec, changed)


def test_work_of_the_largest_groups_is_read():
    world, _ = collect("authority")
    for work in (
        Work(subject="ask", count=world.plan.lanes),
        Work(subject="fold", count=world.plan.group),
    ):
        world.deployment.require_work(work)
        with pytest.raises(ValueError, match="at most"):
            world.deployment.require_work(replace(work, count=work.count + 1))


@pytest.mark.ckks
def test_messages_come_back_on_openfhe(opener):
    world, found = collect(opener, "ckks")
    rng = np.random.default_rng(4)
    for parcels in found.values():
        parcel = parcels[0]
        codec = codec_of(world, parcel)
        assert codec.encode(codec.decode(parcel.data)) == parcel.data
        assert not try_decode(codec, parcel.data[:-1])
        for bit in rng.integers(0, 8 * len(parcel.data), 4):
            changed = bytearray(parcel.data)
            changed[bit // 8] ^= 1 << int(bit) % 8
            try_decode(codec, bytes(changed))


def test_damaged_message_leaves_the_server_as_it_was():
    world, found = collect("authority")
    before = world.save()
    (ask,) = found["Ask", ""][:1]
    with pytest.raises(DamagedData):
        world.handle(world.codec.decode(ask.data[:-1]), sender=ask.sender)
    assert world.save() == before
