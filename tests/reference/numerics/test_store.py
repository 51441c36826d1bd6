"""The store: exact when it works, harmless when it does not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from platformdirs import user_cache_dir

from helba.reference.numerics import store
from helba.reference.numerics.composite import CompositeSign, certify
from helba.reference.numerics.store import cache_directory, path_of, remembered

REQUEST = {"kind": "test", "resolution": 0.1, "degrees": (3, 5)}
SIGN = certify(((1.125, -0.125), (0.9, 0.1)), resolution=0.1)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HELBA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> CompositeSign:
        self.calls += 1
        return SIGN


def recall(compute: Callable[[], CompositeSign]) -> CompositeSign:
    return remembered(
        REQUEST,
        compute=compute,
        encode=CompositeSign.to_record,
        decode=CompositeSign.from_record,
    )


def test_second_result_comes_from_the_file_and_is_identical(directory: Path) -> None:
    compute = Counter()
    first, second = recall(compute), recall(compute)
    assert first == second == SIGN
    assert compute.calls == 1
    assert [path.name for path in directory.iterdir()] == [path_of(REQUEST).name]


def damage_truncate(path: Path) -> None:
    path.write_text(path.read_text()[:-20])


def damage_number(path: Path) -> None:
    path.write_text(path.read_text().replace("0x1.2", "0x1.3", 1))


def damage_binary(path: Path) -> None:
    path.write_bytes(b"\xff\x00\xfe")


def damage_empty(path: Path) -> None:
    path.write_text("")


def damage_shape(path: Path) -> None:
    path.write_text("[[]]")


def damage_version(path: Path) -> None:
    stored = json.loads(path.read_text())
    stored["body"]["version"] = -1
    stored["checksum"] = store._checksum(stored["body"])
    path.write_text(json.dumps(stored))


def damage_request(path: Path) -> None:
    stored = json.loads(path.read_text())
    stored["body"]["request"]["kind"] = "another"
    stored["checksum"] = store._checksum(stored["body"])
    path.write_text(json.dumps(stored))


def damage_fields(path: Path) -> None:
    stored = json.loads(path.read_text())
    stored["body"]["result"]["stages"] = None
    stored["checksum"] = store._checksum(stored["body"])
    path.write_text(json.dumps(stored))


@pytest.mark.parametrize(
    "damage",
    [
        damage_truncate,
        damage_number,
        damage_binary,
        damage_empty,
        damage_shape,
        damage_version,
        damage_request,
        damage_fields,
    ],
)
def test_damaged_file_is_recomputed_and_replaced(damage: Callable[[Path], None]) -> None:
    compute = Counter()
    recall(compute)
    whole = path_of(REQUEST).read_text()
    damage(path_of(REQUEST))
    assert path_of(REQUEST).read_bytes() != whole.encode()
    assert recall(compute) == SIGN
    assert compute.calls == 2
    assert path_of(REQUEST).read_text() == whole


def test_unwritable_directory_is_ignored(directory: Path) -> None:
    directory.write_text("a file where the directory should be")
    compute = Counter()
    assert recall(compute) == recall(compute) == SIGN
    assert compute.calls == 2


def test_failed_write_leaves_nothing_behind(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(store.os, "replace", refuse)
    assert recall(Counter()) == SIGN
    assert list(directory.iterdir()) == []


def test_concurrent_writers_leave_one_whole_file(directory: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: recall(Counter()), range(64)))
    assert all(result == SIGN for result in results)
    assert len(list(directory.iterdir())) == 1
    unused = Counter()
    assert recall(unused) == SIGN
    assert unused.calls == 0


def test_requests_that_differ_in_the_last_bit_have_different_files() -> None:
    other = REQUEST | {"resolution": math.nextafter(0.1, 1)}
    assert path_of(other) != path_of(REQUEST)


def test_directory_defaults_to_that_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HELBA_CACHE_DIR")
    assert cache_directory() == Path(user_cache_dir("helba"))
    monkeypatch.setenv("HELBA_CACHE_DIR", "")
    assert cache_directory() == Path(user_cache_dir("helba"))


PLAIN = st.one_of(st.floats(allow_nan=False), st.integers(), st.booleans(), st.text(max_size=5))


@settings(deadline=None, max_examples=50)
@given(
    value=st.dictionaries(st.sampled_from("abcd"), st.one_of(PLAIN, st.lists(PLAIN, max_size=4)))
)
def test_plain_values_survive_the_trip_through_json(value: dict[str, object]) -> None:
    again = store._with_floats(json.loads(store._text(value)))
    assert {key: repr(item) for key, item in again.items()} == {
        key: repr(item) for key, item in value.items()
    }
