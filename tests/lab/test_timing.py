import json

import pytest

from helba.errors import InvalidInput
from helba.lab.plan.cost import KINDS, SHIPPED
from helba.lab.plan.timing import load_timing, save_timing


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HELBA_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_timing_that_was_saved_is_loaded(cache):
    assert load_timing().note.startswith("shipped")
    seconds = {kind: 0.5 + number for number, kind in enumerate(KINDS)}
    path = save_timing(seconds)
    assert path.parent == cache
    timing = load_timing()
    assert timing.seconds == seconds
    assert timing.note == "calibrated on this machine"


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "not json", '{"encrypt": 1}', "null", '{"encrypt": "x"}']
)
def test_timing_that_is_damaged_gives_way_to_what_ships(cache, content):
    save_timing(SHIPPED)
    (path,) = cache.iterdir()
    path.write_text(content, encoding="utf-8")
    assert load_timing().seconds == SHIPPED
    path.write_text(json.dumps(dict(SHIPPED) | {"gate": -1.0}), encoding="utf-8")
    assert load_timing().note.startswith("shipped")


@pytest.mark.parametrize("wrong", [{}, {"gate": 1.0}, {**SHIPPED, "product": 0.0}])
def test_timing_that_makes_no_sense_is_not_saved(cache, wrong):
    with pytest.raises(InvalidInput, match="one positive number for each"):
        save_timing(wrong)
    assert list(cache.iterdir()) == []
