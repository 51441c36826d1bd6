"""Hostile requests of every kind change nothing, end nothing, and leave an honest user's round."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis

from helba.service.store import Saved
from tests.service.hostile.attacks import MAY_CLOSE, make_attacks
from tests.service.hostile.sending import CLOSED, GARBAGE, Attack, send_all, send_garbage
from tests.service.hostile.stage import Stage, Tenancy, open_stage
from tests.sweep import sweep

pytestmark = pytest.mark.slow

# Requests of the fuzzer, by engine: one at least of every kind to every route of each tenant. What
# the OpenAPI document leads to comes on top.
COUNT = {"simulate": sweep(500, long=3000), "ckks": sweep(500, long=10_000)}
EXAMPLES = sweep(3, long=15)
# Users with keys of their own play as those of "single", and send one message more.
TENANTS = sweep(("cut", "switched"), long=("single", "cut", "switched"))
# Bytes by which a process may grow in the second half, where something rare may come for the
# first time; and in one of the times at least that the same requests come again: what is lost at
# each request shows in all of them, half a kilobyte already in the long form and 5 in the short.
FIRST_MARGIN, MARGIN = 16 << 20, 1 << 20
AGAIN, AGAIN_COUNT = sweep((2, 200), long=(4, 2000))
SEED = 20


# What these must get, where their bodies are not too long for the route (413). Others may also be
# acknowledged, without effect: what is over is over.
STATUSES = {
    "truncated": {400},
    "flip": {400},
    "extended": {400},
    "noise": {400},
    "frame: lying length": {400},
    "foreign deployment": {400},
    "number of parts": {400},
    "other tenant's message": {400},
    "wrong kind": {400, 409},  # 409: a key, where users need none
    "other user's message": {403},
    "other user's name": {403},
    "other user's subject": {400, 409},  # 400: under an old collective key
    "unknown subject": {400, 409},
    "share of another task": {400},
    "foreign enrolment": {400},
    "rotation, foreign": {400},
    "rotation, wrong kind": {400},
    "other user's enrolment": {400},
    "http: token": {401, 400},  # 400: a head that is too long
    "http: content type": {400, 415, 409},
    "http: oversized": {400, CLOSED},  # 400: others of the route are longer
    "http: oversized, chunked": {400, CLOSED},
    "http: huge headers": {400, CLOSED},
    "http: query": {422},
}


def require_harmless(found: Counter[tuple[str, int]]) -> None:
    """No response says that something went wrong in the server, and clear cases are refused."""
    assert not {key: n for key, n in found.items() if key[1] >= 500}
    assert {name for name, status in found if status == CLOSED} <= set(MAY_CLOSE)
    for (name, status), count in found.items():
        assert status in {413, *STATUSES.get(name, {status})}, (name, status, count)


def send_examples(stage: Stage, tenancy: Tenancy) -> Counter[tuple[str, int]]:
    """What the OpenAPI document says that may be sent, and what it says that may not."""
    schema = schemathesis.openapi.from_url(f"{stage.url}/v1/openapi.json")
    found: Counter[tuple[str, int]] = Counter()
    for result in schema.get_all_operations():
        found += _send_examples(result.ok(), stage=stage, tenancy=tenancy)
    return found


def _send_examples(operation: Any, *, stage: Stage, tenancy: Tenancy) -> Counter[tuple[str, int]]:
    tag = operation.definition.raw["tags"][0]
    token = tenancy.tokens["authority" if tag == "authority" else "rogue"]
    found: Counter[tuple[str, int]] = Counter()

    @hypothesis.given(case=operation.as_strategy())
    @hypothesis.settings(
        max_examples=EXAMPLES, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    def send(case: Any) -> None:
        if "tenant" in (case.path_parameters or {}):
            case.path_parameters["tenant"] = tenancy.name
        headers = {"Authorization": f"Bearer {token}"}
        answer = case.call(base_url=stage.url, headers=headers)
        found[f"openapi: {tag}", answer.status_code] += 1

    send()
    return found


def attack(stage: Stage, *, count: int) -> list[list[Attack]]:
    """The attacks in two halves of the same mix."""
    each = -(-count // len(stage.tenancies))
    halves: list[list[Attack]] = [[], []]
    for number, target in enumerate(stage.tenancies):
        others = [tenancy for tenancy in stage.tenancies if tenancy is not target]
        made = make_attacks(target, others, count=each, seed=SEED + number)
        for half, part in zip(halves, (made[: each // 2], made[each // 2 :]), strict=True):
            half += part
    for half in halves:
        random.Random(SEED).shuffle(half)
    return halves


def differences(before: Any, after: Any, *, place: str = "") -> Iterator[str]:
    """Where two states differ; heads of checkpoints are compared by their fields."""
    if isinstance(before, Saved) and isinstance(after, Saved):
        before, after = ({**vars(each), **json.loads(each.head)} for each in (before, after))
        del before["head"], after["head"]  # the number tells if it was written anew
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            at = f"{place}/{name}"
            yield from differences(before.get(name), after.get(name), place=at)
    elif before != after:
        yield f"{place}: {before!r:.80} is now {after!r:.80}"


@pytest.mark.parametrize("scheme", ["simulate", pytest.param("ckks", marks=pytest.mark.ckks)])
def test_hostile_requests_change_nothing(tmp_path: Path, store_url: str, scheme: str) -> None:
    with open_stage(tmp_path, scheme=scheme, store=store_url, tenants=TENANTS) as stage:
        before, processes = stage.state(), stage.children()
        halves = attack(stage, count=COUNT[scheme])
        start = time.monotonic()
        found = send_all(halves[0])
        garbage = {name: send_garbage(stage.url, data) for name, data in GARBAGE.items()}
        for each in stage.tenancies:
            found += send_examples(stage, each)
        memory, names = [stage.resident()], [stage.names()]
        for half in (halves[1], *[halves[1][:AGAIN_COUNT]] * AGAIN):
            found += send_all(half)
            memory.append(stage.resident())
            names.append(stage.names())
        show(found, seconds=time.monotonic() - start, names=names)
        print((tmp_path / "log").read_text())

        assert found.total() >= COUNT[scheme]
        assert list(differences(before, stage.state())) == []
        require_harmless(found)
        assert all(status < 500 for statuses in garbage.values() for status in statuses)
        assert stage.children() == processes  # nothing has ended, and nothing was started
        first, *again = grown(memory)
        assert max(first.values()) < FIRST_MARGIN
        least = {pid: min(each[pid] for each in again) for pid in first}
        assert max(least.values()) < MARGIN

        for each in stage.tenancies:
            each.finish()
            assert each.arms == each.wanted
    events = {json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()}
    assert events <= {"Invalid HTTP request received."}


def grown(memory: list[dict[int, int]]) -> list[dict[int, int]]:
    """The bytes by which each process has grown, from each time to the next."""
    return [{pid: after[pid] - before[pid] for pid in before} for before, after in pairwise(memory)]


def show(found: Counter[tuple[str, int]], *, seconds: float, names: list[dict[str, int]]) -> None:
    """Print what was sent, by kind and status, and the memory of each process."""
    kinds: dict[str, dict[str, int]] = {}
    for (name, status), count in sorted(found.items()):
        kinds.setdefault(name, {})[str(status)] = count
    statuses: Counter[int] = Counter()
    for (_, status), count in found.items():
        statuses[status] += count
    for name, counts in kinds.items():
        print(f"{name:40s} {counts}")
    print(f"{found.total()} requests in {seconds:.0f} s: {dict(sorted(statuses.items()))}")
    for name in names[0]:
        print(f"{name:24s} {[each[name] >> 10 for each in names]} KiB")
