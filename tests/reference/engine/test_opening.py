"""The masked opening and masks as bytes: what the server reads, and what anybody else can see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from helba.errors import DamagedData, EngineError, InvalidInput, LevelsExhausted, WrongVector
from helba.reference.engine import PendingOpening, PendingRefresh, get_scheme
from helba.reference.engine.exchanges.opening import OPENING_FLOOD, draw_flood
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, Keyed, new_keyed, open_keyed
from tests.reference.engine.processes import run_module
from tests.reference.engine.tampering import open_sealed
from tests.significance import PLAUSIBLE_ANEW, SHOWN

insecure_small = insecure_parameters(ring_dim=1 << 10, depth=4, scale_bits=40)
SLOTS = 8
FINE = 1e-5  # flooding that lets the values through


@pytest.fixture(params=BOTH)
def keyed(request: pytest.FixtureRequest) -> Keyed:
    return open_keyed(request.param, parameters=insecure_small)


def numbers(slots: int = SLOTS, *, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-3, 3, slots)


@pytest.mark.parametrize("slots", [1, 2, 8, 512])
@pytest.mark.parametrize("level", [0, 2])
def test_opening_shows_the_server_the_values(keyed: Keyed, slots: int, level: int) -> None:
    engine, x = keyed.engine, numbers(slots)
    request, pending = engine.begin_opening(engine.encrypt(x, level=level))
    reply = engine.answer_opening(request, secret_key=keyed.keys.secret, flood=FINE)
    assert np.abs(engine.finish_opening(reply, pending) - x).max() <= 1.1 * FINE


def test_opening_works_over_bytes(keyed: Keyed) -> None:
    engine, x = keyed.engine, numbers()
    request, pending = engine.begin_opening(engine.encrypt(x))
    asked = engine.opening_request_from_bytes(engine.opening_request_to_bytes(request), slots=SLOTS)
    reply = engine.answer_opening(asked, secret_key=keyed.keys.secret)
    got = engine.opening_reply_from_bytes(engine.opening_reply_to_bytes(reply), slots=SLOTS)
    kept = engine.pending_from_bytes(engine.pending_to_bytes(pending))
    assert isinstance(kept, PendingOpening)
    opened = engine.finish_opening(got, kept)
    assert np.abs(opened - x).max() <= 1.001 * OPENING_FLOOD


def shares(keyed: Keyed, *, count: int, value: float) -> np.ndarray:
    """What replies to openings of one value hold, as fractions of their modulus."""
    engine, found = keyed.engine, []
    for _ in range(count):
        request, _ = engine.begin_opening(engine.encrypt(np.full(SLOTS, value)))
        payload = engine.answer_opening(request, secret_key=keyed.keys.secret).payload
        if engine.name == "simulate":
            found.append(payload.integers / 2.0**64)
        else:
            moduli = np.array(engine._last_moduli, dtype=np.float64)  # type: ignore[attr-defined]
            found.append((payload / moduli[:, None]).ravel())
    return np.concatenate(found)


def test_reply_looks_uniform_and_only_because_of_the_mask(
    keyed: Keyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stats.kstest(shares(keyed, count=60, value=2.0), "uniform").pvalue > PLAUSIBLE_ANEW
    apart = [shares(keyed, count=60, value=value) for value in (0.0, 2.0)]
    assert stats.ks_2samp(*apart).pvalue > PLAUSIBLE_ANEW
    engine = keyed.engine

    def unmasked(body: object, *_: object) -> object:
        payload = engine._at_two_towers(body, None)  # type: ignore[attr-defined]
        return payload, None

    def unmasked_numbers(body: object, *_: object) -> object:
        request, mask = engine._begin_refresh(body, None)  # type: ignore[arg-type]
        return replace(request, integers=request.integers - mask), None

    bare = unmasked_numbers if engine.name == "simulate" else unmasked
    monkeypatch.setattr(engine, "_begin_opening", bare)
    assert stats.kstest(shares(keyed, count=60, value=2.0), "uniform").pvalue < SHOWN


def test_flooding_is_uniform_independent_and_within_its_bound() -> None:
    drawn = draw_flood(20_000, bound=1000.0)
    assert drawn.min() == -512
    assert drawn.max() == 511
    assert stats.chisquare(np.bincount(drawn + 512, minlength=1024)).pvalue > PLAUSIBLE_ANEW
    assert not np.array_equal(drawn, draw_flood(20_000, bound=1000.0))
    for bound in (0.5, 2.0**62):
        with pytest.raises(InvalidInput, match="flood"):
            draw_flood(1, bound=bound)


def test_answers_to_one_request_are_flooded_each_anew(keyed: Keyed) -> None:
    # an exact decryption of a ciphertext that the server knows would tell it the secret key
    engine, x, flood = keyed.engine, numbers(), 0.5
    request, pending = engine.begin_opening(engine.encrypt(x))
    kept = engine.pending_to_bytes(pending)
    off = np.array(
        [
            engine.finish_opening(
                engine.answer_opening(request, secret_key=keyed.keys.secret, flood=flood),
                engine.pending_from_bytes(kept),  # type: ignore[arg-type]
            )
            - x
            for _ in range(200)
        ]
    )
    assert np.abs(off).max() <= flood + 1e-6
    # of 2s coefficients, each uniform up to flood/4s at least, or of the slots themselves
    least = flood / (8 * SLOTS) if engine.name == "ckks" else flood / 4
    assert (off.std(axis=0) > least).all()
    assert np.abs(np.corrcoef(off[:-1, 0], off[1:, 0])[0, 1]) < 0.35


@pytest.mark.parametrize("flood", [0.0, -1.0, 1.5, float("nan")])
def test_flooding_out_of_range_is_refused(keyed: Keyed, flood: float) -> None:
    request, _ = keyed.engine.begin_opening(keyed.engine.encrypt(numbers()))
    with pytest.raises(InvalidInput, match="flood"):
        keyed.engine.answer_opening(request, secret_key=keyed.keys.secret, flood=flood)


def test_mask_of_an_opening_serves_once(keyed: Keyed) -> None:
    request, pending = keyed.engine.begin_opening(keyed.engine.encrypt(numbers()))
    reply = keyed.engine.answer_opening(request, secret_key=keyed.keys.secret)
    keyed.engine.finish_opening(reply, pending)
    with pytest.raises(EngineError, match="never serves twice"):
        keyed.engine.finish_opening(reply, pending)
    with pytest.raises(EngineError, match="never serves twice"):
        keyed.engine.pending_to_bytes(pending)


def test_foreign_replies_are_refused(keyed: Keyed) -> None:
    engine = keyed.engine
    request, pending = engine.begin_opening(engine.encrypt(numbers()))
    _, other = engine.begin_opening(engine.encrypt(numbers()))
    reply = engine.answer_opening(request, secret_key=keyed.keys.secret)
    with pytest.raises(WrongVector, match="another opening"):
        engine.finish_opening(reply, other)
    with pytest.raises(DamagedData, match="does not fit its mask"):
        engine.finish_opening(replace(reply, id=other.id), other)
    stranger = new_keyed(engine.name, parameters=insecure_small)
    with pytest.raises(WrongVector, match="another key"):
        stranger.engine.answer_opening(request, secret_key=stranger.keys.secret)
    with pytest.raises(WrongVector, match="another key"):
        stranger.engine.finish_opening(reply, pending)
    with pytest.raises(WrongVector, match="another key"):
        stranger.engine.opening_reply_to_bytes(reply)
    with pytest.raises(DamagedData, match="another key"):
        stranger.engine.pending_from_bytes(engine.pending_to_bytes(pending))


def test_changed_replies_are_refused(keyed: Keyed) -> None:
    engine = keyed.engine
    request, pending = engine.begin_opening(engine.encrypt(numbers()))
    data = engine.opening_reply_to_bytes(
        engine.answer_opening(request, secret_key=keyed.keys.secret)
    )
    with pytest.raises(DamagedData):
        engine.opening_reply_from_bytes(data[:-1])
    with pytest.raises(DamagedData, match="digest"):
        engine.opening_reply_from_bytes(data[:-40] + b"x" + data[-39:])
    for change in ({"slots": 2 * SLOTS}, {"slots": 3}, {"level": 0}, {"kind": 2}, {"kind": 6}):
        with pytest.raises(DamagedData):
            engine.opening_reply_from_bytes(open_sealed(data, **change).seal())
    opened = open_sealed(data)
    opened.payload = opened.payload[:-8]
    with pytest.raises(DamagedData):
        engine.opening_reply_from_bytes(opened.seal())
    opened = open_sealed(data)
    opened.payload = bytes(len(opened.payload))
    if engine.name == "ckks":
        with pytest.raises(DamagedData, match="all zeros"):
            engine.opening_reply_from_bytes(opened.seal())
    opened = open_sealed(data)
    words = np.frombuffer(opened.payload, dtype="<u8").copy()
    words[:SLOTS] = words[:SLOTS][::-1]  # still numbers of the right size
    opened.payload = words.tobytes()
    with pytest.raises(DamagedData, match="does not fit its mask"):
        engine.finish_opening(engine.opening_reply_from_bytes(opened.seal()), pending)


def test_refresh_and_opening_are_never_mistaken_for_one_another(keyed: Keyed) -> None:
    engine, secret = keyed.engine, keyed.keys.secret
    opening, reading = engine.begin_opening(engine.encrypt(numbers()))
    refresh, renewing = engine.begin_refresh(engine.encrypt(numbers()))
    with pytest.raises(WrongVector, match="no RefreshRequest"):
        engine.answer_refresh(opening, secret_key=secret)  # type: ignore[arg-type]
    with pytest.raises(WrongVector, match="no OpeningRequest"):
        engine.answer_opening(refresh, secret_key=secret)  # type: ignore[arg-type]
    opened = engine.answer_opening(opening, secret_key=secret)
    renewed = engine.answer_refresh(refresh, secret_key=secret)
    with pytest.raises(WrongVector, match="does not finish"):
        engine.finish_opening(opened, renewing)  # type: ignore[arg-type]
    with pytest.raises(WrongVector, match="does not finish"):
        engine.finish_refresh(renewed, reading)  # type: ignore[arg-type]
    with pytest.raises(DamagedData, match="no refresh request"):
        engine.request_from_bytes(engine.opening_request_to_bytes(opening))
    with pytest.raises(DamagedData, match="no opening request"):
        engine.opening_request_from_bytes(engine.request_to_bytes(refresh))
    with pytest.raises(DamagedData, match="no opening reply"):
        engine.opening_reply_from_bytes(engine.reply_to_bytes(renewed))
    for data in (engine.reply_to_bytes(renewed), b"", b"x" * 1000):
        with pytest.raises(DamagedData, match="no pending"):
            engine.pending_from_bytes(data)


def test_opening_needs_the_levels_of_a_refresh(keyed: Keyed) -> None:
    keyed.engine.begin_opening(keyed.engine.encrypt(numbers(), level=2))
    with pytest.raises(LevelsExhausted, match="an opening needs 2 levels"):
        keyed.engine.begin_opening(keyed.engine.encrypt(numbers(), level=3))


def test_mask_of_a_refresh_survives_its_file(keyed: Keyed) -> None:
    engine, x = keyed.engine, numbers()
    request, pending = engine.begin_refresh(engine.encrypt(x, level=2))
    data = engine.pending_to_bytes(pending)
    kept = engine.pending_from_bytes(data)
    assert isinstance(kept, PendingRefresh)
    assert engine.pending_to_bytes(kept) == data
    for mask in (kept, pending):  # a copy of the file is as good as the mask
        reply = engine.answer_refresh(request, secret_key=keyed.keys.secret)
        fresh = engine.finish_refresh(reply, mask)
        assert fresh.level == 0
        np.testing.assert_allclose(keyed.open(fresh), x, rtol=0, atol=1e-6)


@pytest.mark.ckks
def test_server_process_finishes_an_opening_without_the_secret_key(tmp_path: Path) -> None:
    scheme = get_scheme("ckks")
    keys = scheme.generate_keys(insecure_small)
    owner, x = scheme.engine(keys.public), numbers()
    (tmp_path / "public").write_bytes(scheme.public_key_to_bytes(keys.public))
    (tmp_path / "evaluation").write_bytes(scheme.evaluation_key_to_bytes(keys.evaluation))
    (tmp_path / "vector").write_bytes(owner.vector_to_bytes(owner.encrypt(x)))

    began = run_module("tests.reference.engine.opening", "begin", str(tmp_path))
    request = owner.opening_request_from_bytes((tmp_path / "request").read_bytes(), slots=SLOTS)
    reply = owner.answer_opening(request, secret_key=keys.secret)
    (tmp_path / "reply").write_bytes(owner.opening_reply_to_bytes(reply))
    finished = run_module("tests.reference.engine.opening", "finish", str(tmp_path))

    assert began["secret_keys"] == finished["secret_keys"] == 0
    assert np.abs(np.array(finished["opened"]) - x).max() <= 1.001 * OPENING_FLOOD
