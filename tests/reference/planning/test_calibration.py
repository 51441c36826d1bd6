from __future__ import annotations

import json

import pytest

from helba.errors import InvalidInput
from helba.reference.planning.cost.calibration import (
    KINDS,
    Measurement,
    calibration_path,
    fit_calibration,
    load_calibration,
    save_calibration,
    shipped_calibration,
)
from helba.reference.planning.parameters import insecure_parameters

SMALL = insecure_parameters(ring_dim=1 << 12, depth=5, digits=3)
LARGE = insecure_parameters(ring_dim=1 << 15, depth=11, scale_bits=35, digits=3)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HELBA_CACHE_DIR", str(tmp_path))


def test_shipped_calibration_predicts_what_was_measured():
    shipped = shipped_calibration()
    where = insecure_parameters(ring_dim=1 << 15, depth=12, scale_bits=40, digits=3)
    measured = {"rotate": 45.8e-3, "relinearise": 52.3e-3, "hoist": 21.5e-3, "multiply": 2.9e-3}
    for kind, seconds in measured.items():
        assert shipped.seconds(kind, parameters=where) == pytest.approx(seconds, rel=0.4)


def test_every_kind_takes_less_with_fewer_primes_left():
    shipped = shipped_calibration()
    for kind in KINDS:
        whole = shipped.seconds(kind, parameters=LARGE)
        half = shipped.seconds(kind, parameters=LARGE, level=5.5)
        assert 0 < half <= whole


def test_fit_returns_what_it_was_given():
    made = [Measurement.of("rotate", seconds=0.5, parameters=SMALL, level=2)]
    fitted = fit_calibration(made, note="here")
    assert fitted.seconds("rotate", parameters=SMALL, level=2) == pytest.approx(0.5)
    # what was not measured stays
    shipped = shipped_calibration()
    assert fitted.seconds("encrypt", parameters=SMALL) == shipped.seconds(
        "encrypt", parameters=SMALL
    )
    with pytest.raises(InvalidInput):
        fit_calibration([], note="")


def test_saved_measurements_come_back():
    assert load_calibration() == shipped_calibration()
    path = save_calibration([Measurement.of("rotate", seconds=0.5, parameters=SMALL)])
    assert path == calibration_path()
    loaded = load_calibration()
    assert loaded.seconds("rotate", parameters=SMALL) == pytest.approx(0.5)
    assert str(path) in loaded.note


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "cannot be read"),
        ("[]", "another version"),
        (json.dumps({"version": 99, "measurements": []}), "another version"),
        (json.dumps({"version": 1}), "damaged"),
        (json.dumps({"version": 1, "measurements": []}), "damaged"),
        (json.dumps({"version": 1, "measurements": [{"kind": "rotate"}]}), "damaged"),
        (json.dumps({"version": 1, "measurements": 3}), "damaged"),
    ],
)
def test_damaged_calibration_falls_back_to_the_shipped_one_and_says_why(text, reason):
    calibration_path().write_text(text, encoding="utf-8")
    loaded = load_calibration()
    assert loaded.coefficients == shipped_calibration().coefficients
    assert reason in loaded.note


@pytest.mark.parametrize(
    "change", [{"kind": "wish"}, {"seconds": -1.0}, {"level": 99}, {"seconds": float("nan")}]
)
def test_measurement_that_cannot_be_is_refused(change):
    fields = {
        "kind": "rotate",
        "seconds": 1.0,
        "ring_dim": 4096,
        "depth": 5,
        "digits": 2,
        "auxiliary_primes": 2,
    }
    with pytest.raises(InvalidInput):
        Measurement(**(fields | change))
    record = {"version": 1, "measurements": [fields | change]}
    calibration_path().write_text(json.dumps(record), encoding="utf-8")
    assert "damaged" in load_calibration().note
