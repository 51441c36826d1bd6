from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helba.errors import DamagedData, InvalidInput, WrongVector
from helba.lab.plan.cost import ciphertext_bytes, opening_bytes
from helba.ring import EvaluationKey, Move, Rearrangement, Recipient, Ring, choose_parameters
from helba.ring.ciphertext import describe_share
from helba.ring.secret import Opener, SecretKey, make_keys
from helba.ring.secret.wire import dump_secret_key, load_secret_key
from helba.ring.sharing.packing import pack_rows, packed_bytes, unpack_rows
from helba.ring.sharing.pad import draw_seed, expand_pad, split
from helba.ring.wire import (
    HEADER,
    dump_ciphertext,
    dump_key,
    dump_opening,
    load_ciphertext,
    load_evaluation_key,
    load_opening,
    load_public_key,
    load_reencryption_key,
)
from tests.reference.engine.processes import run_module
from tests.ring.fuzzing import sealed
from tests.ring.parties import AUTOMORPHISM, around_zero, make_parties, worst


def encrypt(parties, *, primes=2):
    values = np.array([5, -7, 1 << 40])
    made = parties.ring.encrypt(values, places=[0, 9, 200], scale=4.0, peak=2.0**41, primes=primes)
    return values, made


def engine_of(parties):
    return parties.keys.public.backend


@pytest.mark.parametrize("primes", [1, 2, 3])
def test_ciphertexts_survive_bytes(parties, primes):
    values, made = encrypt(parties, primes=primes)
    data = dump_ciphertext(made, backend=engine_of(parties))
    read = load_ciphertext(data, public_key=parties.keys.public)
    assert (read.primes, read.scale, read.bound, read.noise) == (
        made.primes,
        made.scale,
        made.bound,
        made.noise,
    )
    assert worst(parties.read(read, [0, 9, 200]), values) <= made.error_bound
    assert dump_ciphertext(read, backend=engine_of(parties)) == data
    if primes > 1:  # what was read computes like what was made
        product = parties.ring.product(read, made)
        assert product.noise == parties.ring.product(made, made).noise


def test_computed_ciphertexts_survive_bytes(parties):
    _, made = encrypt(parties)
    product = parties.ring.product(made, made)
    data = dump_ciphertext(product, backend=engine_of(parties))
    read = load_ciphertext(data, public_key=parties.keys.public)
    assert read == product
    both = [parties.read(each, np.arange(30)) for each in (read, product)]
    # the simulator draws the error when it reads
    assert worst(*both) <= (2 * product.error_bound if engine_of(parties).name == "simulate" else 0)


@pytest.mark.parametrize("primes", [2, 3])
def test_shares_that_the_opener_encrypted_survive_bytes(parties, primes):
    public, engine = parties.keys.public, engine_of(parties)
    seed = draw_seed()
    share = split([3, -4], seed=seed, context=b"")
    (pads,) = parties.opener.encrypt_pads(
        [(expand_pad(seed, count=2, context=b""), [5, 6])],
        multiple=1 << 30,
        scale=2.0**30,
        primes=primes,
    )
    read = load_ciphertext(dump_ciphertext(pads, backend=engine), public_key=public)
    assert read == describe_share(public, count=2, scale=2.0**30, primes=primes)
    made = parties.ring.add_shares(read, share, places=[5, 6], multiple=1 << 30, peak=8.0)
    found = parties.read(made, [5, 6])
    assert worst(found, [3 << 30, -(4 << 30)]) <= made.error_bound
    # the opener's replies, too
    moves = [Rearrangement([Move([5, 6], [0, 1])], scale=1.0)]
    opening, mask = parties.ring.open(parties.ring.drop(made, primes=2), places=[5, 6])
    opened = parties.opener.receive(opening, places=[5, 6])
    (reply,) = parties.opener.reopen([(opened, each) for each in moves])
    read = load_ciphertext(dump_ciphertext(reply, backend=engine), public_key=public)
    assert read == describe_share(public, count=2)
    (fresh,) = parties.ring.reopen(mask, [read], rearrangements=moves)
    assert worst(parties.read(fresh, [0, 1]), [3 << 30, -(4 << 30)]) <= fresh.error_bound


def test_openings_survive_bytes_and_hold_only_what_is_read(parties):
    values, made = encrypt(parties, primes=1)
    opening, mask = parties.ring.open(made, places=[0, 9, 200])
    engine = engine_of(parties)
    data = dump_opening(opening, backend=engine)
    if engine.name == "openfhe":
        assert len(data) == opening_bytes(parties.parameters, primes=1, count=3)
    read = load_opening(data, backend=engine, key_id=parties.keys.public.key_id, count=3)
    share = parties.opener.receive(read, places=[0, 9, 200])
    found = around_zero(share.modulo(bits=54), mask.take_modulo(bits=54), bits=54)
    unit = parties.parameters.moduli[0] / 2**54
    assert worst(found * unit, values) <= 2 * made.error_bound + unit
    with pytest.raises(DamagedData, match=r"expected count 2 .*, got 3"):
        load_opening(data, backend=engine, key_id=parties.keys.public.key_id, count=2)


def test_keys_survive_bytes_and_work(parties, backend):
    keys, parameters = parties.keys, parties.parameters
    public = load_public_key(dump_key(keys.public), parameters=parameters, backend=backend)
    evaluation = load_evaluation_key(
        dump_key(keys.evaluation), public_key=public, automorphism=AUTOMORPHISM
    )
    secret = load_secret_key(dump_secret_key(keys.secret), public_key=public)
    ring, opener = Ring(public, evaluation_key=evaluation), Opener(secret, public_key=public)
    made = ring.encrypt([1 << 40], places=[1], scale=1.0, peak=2.0**40)
    square = ring.product(made, ring.automorphism(made))
    exact = 2.0**80 / parameters.moduli[2]
    assert abs(float(opener.decrypt(square, places=[10])[0]) - exact) <= square.error_bound
    way, user = parties.to_user.reencryption, parties.user_keys.public
    read = load_reencryption_key(dump_key(way), public_key=public, to=user)
    assert (read.key_id, read.recipient_id) == (way.key_id, way.recipient_id)
    to = Recipient(public=user, reencryption=read)
    low = ring.encrypt([1 << 50], places=[1], scale=1.0, peak=2.0**50, primes=1)
    found = parties.open(low, [1], bits=54, to=to)
    assert worst(found * (parameters.moduli[0] / 2**54), [2.0**50]) <= 3 * low.error_bound


def test_secret_keys_are_not_dumped_by_accident(parties):
    with pytest.raises(InvalidInput, match="public, evaluation or re-encryption"):
        dump_key(parties.keys.secret)


def test_keys_of_others_are_refused(parties, backend):
    other = make_keys(parties.parameters, backend=backend)
    with pytest.raises(DamagedData, match="expected key"):
        load_evaluation_key(dump_key(other.evaluation), public_key=parties.keys.public)
    with pytest.raises(DamagedData, match="expected key"):
        load_secret_key(dump_secret_key(other.secret), public_key=parties.keys.public)
    way = dump_key(parties.to_user.reencryption)
    with pytest.raises(DamagedData, match="expected recipient"):
        load_reencryption_key(way, public_key=parties.keys.public, to=other.public)


@pytest.mark.ckks
def test_bytes_do_not_choose_the_backend():
    # the simulator hides nothing, so a key of its kind must not pass for one of OpenFHE's
    simulated = make_parties("simulate").keys.public
    with pytest.raises(DamagedData, match="another backend"):
        load_public_key(dump_key(simulated), parameters=simulated.parameters)


@pytest.mark.ckks
def test_secret_key_must_decrypt_what_the_public_key_encrypts():
    parties = make_parties("openfhe")
    other = make_keys(parties.parameters)
    relabelled = SecretKey(
        backend=parties.keys.public.backend,
        key_id=parties.keys.public.key_id,
        payload=other.secret.payload,
    )
    with pytest.raises(DamagedData, match="not that of the public key"):
        load_secret_key(dump_secret_key(relabelled), public_key=parties.keys.public)


@pytest.mark.ckks
def test_second_evaluation_key_of_a_name_must_be_the_first():
    parties = make_parties("openfhe")
    keys = make_keys(parties.parameters)
    other = make_keys(parties.parameters, automorphism=AUTOMORPHISM)
    data = dump_key(keys.evaluation)
    assert load_evaluation_key(data, public_key=keys.public).key_id == keys.public.key_id
    relabelled = EvaluationKey(
        backend=keys.public.backend,
        key_id=keys.public.key_id,
        payload=other.evaluation.payload,
    )
    with pytest.raises(DamagedData, match="it is another one"):
        load_evaluation_key(dump_key(relabelled), public_key=keys.public)
    third = make_keys(parties.parameters, automorphism=AUTOMORPHISM + 4)
    relabelled = EvaluationKey(
        backend=other.public.backend,
        key_id=other.public.key_id,
        payload=third.evaluation.payload,
        automorphism=AUTOMORPHISM + 4,
    )
    with pytest.raises(DamagedData, match="another automorphism"):
        load_evaluation_key(
            dump_key(relabelled), public_key=other.public, automorphism=AUTOMORPHISM + 4
        )
    again = load_evaluation_key(
        dump_key(other.evaluation), public_key=other.public, automorphism=AUTOMORPHISM
    )
    assert again.automorphism == AUTOMORPHISM


def test_bounds_that_do_not_fit_are_refused(parties):
    _, made = encrypt(parties, primes=1)
    forged = replace(made, noise=1e300)
    data = dump_ciphertext(forged, backend=engine_of(parties))
    with pytest.raises(DamagedData, match="do not fit its primes"):
        load_ciphertext(data, public_key=parties.keys.public)


@pytest.mark.parametrize("field", ["key", "kind", "ring"])
def test_data_of_another_key_kind_or_ring_is_refused(parties, backend, field):
    _, made = encrypt(parties)
    data = dump_ciphertext(made, backend=engine_of(parties))
    if field == "key":
        other = make_keys(parties.parameters, backend=backend)
        with pytest.raises(DamagedData, match="expected key"):
            load_ciphertext(data, public_key=other.public)
    elif field == "kind":
        with pytest.raises(DamagedData, match="is no opening"):
            load_opening(data, backend=engine_of(parties), key_id=made.key_id, count=1)
    else:
        other = make_parties(backend, 10)
        with pytest.raises(DamagedData, match="another ring"):
            load_ciphertext(data, public_key=other.keys.public)


def test_ciphertext_of_a_strangers_claims_is_unequal_to_what_is_expected(parties):
    _, made = encrypt(parties)
    made_data = dump_ciphertext(made, backend=engine_of(parties))
    data = bytearray(made_data)
    fields = list(HEADER.unpack_from(data))
    fields[9] = fields[9] / 2  # a smaller bound than agreed
    HEADER.pack_into(data, 0, *fields)
    forged = sealed(bytes(data))
    read = load_ciphertext(forged, public_key=parties.keys.public)
    assert read.bound.peak == 2.0**40
    assert read != made
    assert load_ciphertext(made_data, public_key=parties.keys.public) == made


@pytest.mark.ckks
def test_sizes_at_full_security_are_within_their_limits():
    parties = make_parties("openfhe", 13)
    parameters, engine = parties.parameters, parties.keys.public.backend
    values, places = np.arange(10), np.arange(10)
    for primes, limit in ((2, 0.22e6), (3, 0.32e6)):
        made = parties.ring.encrypt(values, places=places, scale=1.0, peak=16.0, primes=primes)
        data = dump_ciphertext(made, backend=engine)
        assert len(data) == ciphertext_bytes(parameters, primes=primes) <= limit
    low = parties.ring.drop(made, primes=1)
    opening, _ = parties.ring.open(low, places=np.arange(256))
    assert len(dump_opening(opening, backend=engine)) <= 0.07e6
    keys = (parties.keys.evaluation, parties.to_user.reencryption)
    assert sum(len(dump_key(each)) for each in keys) <= 4e6


@pytest.mark.ckks
@pytest.mark.parametrize("row", [0, 1, 2])
def test_secret_key_must_be_right_modulo_every_prime(row):
    parties = make_parties("openfhe")
    data = bytearray(dump_secret_key(parties.keys.secret))
    moduli = parties.parameters.moduli
    start = HEADER.size + packed_bytes(moduli[:row], count=parties.parameters.ring_dim)
    data[start + 100] ^= 1  # another residue of that row
    with pytest.raises(DamagedData, match="not that of the public key"):
        load_secret_key(sealed(bytes(data)), public_key=parties.keys.public)


def test_share_whose_claimed_noise_leaves_no_room_is_refused(parties):
    low = parties.ring.drop(encrypt(parties)[1], primes=2)
    opened = parties.opener.receive(parties.ring.open(low, places=[0])[0], places=[0])
    moved = Rearrangement([Move([0], [0])], scale=1.0)
    (share,) = parties.opener.reopen([(opened, moved)])
    forged = dump_ciphertext(replace(share, noise=1e300), backend=engine_of(parties))
    with pytest.raises(DamagedData, match="do not fit its primes"):
        load_ciphertext(forged, public_key=parties.keys.public)


CLAIMS = ("noise", "computed", "failure", "scale")


@pytest.mark.parametrize("claim", CLAIMS)
def test_reply_that_claims_other_bounds_is_refused_and_costs_no_mask(parties, claim):
    low = parties.ring.drop(encrypt(parties)[1], primes=2)
    opening, mask = parties.ring.open(low, places=[0])
    opened = parties.opener.receive(opening, places=[0])
    moved = Rearrangement([Move([0], [0])], scale=1.0)
    (reply,) = parties.opener.reopen([(opened, moved)])
    forged = replace(reply, **{claim: 2.0 * getattr(reply, claim) + 2.0**-30})
    with pytest.raises(WrongVector, match="the opener's encryption"):
        parties.ring.reopen(mask, [forged], rearrangements=[moved])
    parties.ring.reopen(mask, [reply], rearrangements=[moved])


@pytest.mark.parametrize("claim", CLAIMS[:3])
def test_pads_that_claim_other_bounds_are_refused(parties, claim):
    (pads,) = parties.opener.encrypt_pads(
        [(np.array([5], dtype=object), np.array([0]))], multiple=1, scale=1.0
    )
    told = {"places": [0], "multiple": 1, "peak": 8.0}
    parties.ring.add_shares(pads, [7], **told)
    forged = replace(pads, **{claim: 2.0 * getattr(pads, claim) + 2.0**-30})
    with pytest.raises(WrongVector, match="encryption of pads"):
        parties.ring.add_shares(forged, [7], **told)


@pytest.mark.ckks
def test_ciphertext_that_hides_nothing_is_refused():
    parties = make_parties("openfhe")
    _, made = encrypt(parties)
    engine = engine_of(parties)
    nothing = parties.ring.sum([made, parties.ring.negate(made)])
    data = dump_ciphertext(nothing, backend=engine)
    with pytest.raises(DamagedData, match="hides nothing"):
        load_ciphertext(data, public_key=parties.keys.public)


def test_rows_are_packed_to_the_bit():
    rng, moduli = np.random.default_rng(0), choose_parameters().moduli
    for count in (1, 3, 8, 64, 65, 100):
        rows = np.stack([rng.integers(0, q, count, dtype=np.uint64) for q in moduli])
        rows[:, 0] = [q - 1 for q in moduli]
        data = pack_rows(rows, moduli)
        assert len(data) == packed_bytes(moduli, count=count)
        assert len(data) == sum(-(-count * q.bit_length() // 8) for q in moduli)
        assert np.array_equal(unpack_rows(data, moduli, count=count), rows)
    rows[1, 3] = moduli[1]
    with pytest.raises(DamagedData, match="not below its modulus"):
        unpack_rows(pack_rows(rows, moduli), moduli, count=100)
    with pytest.raises(DamagedData, match=r"take \d+ bytes"):
        unpack_rows(data[:-1], moduli, count=100)
    for count in (3, 99):
        odd = bytearray(pack_rows(rows[:1, :count], moduli[:1]))
        odd[-1] |= 0x80
        with pytest.raises(DamagedData, match="after the last residue"):
            unpack_rows(bytes(odd), moduli[:1], count=count)


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend_name", [pytest.param("openfhe", marks=pytest.mark.ckks), "simulate"]
)
def test_ten_thousand_damaged_payloads_of_each_kind_are_refused(backend_name):
    found = run_module("tests.ring.fuzzing", backend_name, "10000", timeout=600)
    assert len(found["kinds"]) == 7
    for kind, counts in found["kinds"].items():
        refused, accepted = counts["refused"], counts["accepted"]
        damaged = sum(refused[each] for each in ("flip", "cut", "extended", "random"))
        assert damaged >= 9990, kind  # now and then three flips cancel out, or bytes are the same
        assert counts["lines"] == [0], kind  # one line each
        # A changed residue is a residue, and any name of an opening is a name: only a signature
        # would tell. What the header claims is held to what is expected.
        assert set(accepted) <= {"ones, sealed"} | (
            {"header flip, sealed"} if kind == "opening" else set()
        ), kind
        if kind != "input shares":
            assert refused["header flip, sealed"] > 500, kind
        assert refused["cut, sealed"] > 500, kind
    assert found["growth_megabytes"] < 30
    if backend_name == "openfhe":
        assert found["contexts"] == 1
        assert found["evaluation_keys"] < 10
