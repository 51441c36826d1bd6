"""Throughput: what is reported, for answers that were checked."""

from __future__ import annotations

import pytest

from helba.errors import InvalidInput
from helba.experiments.throughput import measure_throughput


@pytest.mark.ckks
@pytest.mark.slow
def test_throughput_counts_all_users_of_a_batch() -> None:
    found = measure_throughput(dim=2, arms=2, users=4, seconds=0.01)
    assert (found["dim"], found["arms"], found["users"]) == (2, 2, 4)
    assert found["batches"] == found["cores"] >= 1
    assert found["parameters"]["security"] == 128
    with_messages = found["recommendations_per_second_with_messages"]
    assert 0.0 < with_messages < found["recommendations_per_second"]
    assert set(found["seconds"]) == {
        "adding",
        "evaluation",
        "clearing",
        "own_keys",
        "reading",
        "writing",
    }
    reencrypted = found["recommendations_per_second_reencrypted"]
    assert 0.0 < reencrypted < found["recommendations_per_second"]
    assert 0.0 < found["recommendations_per_second_with_own_keys"] < with_messages
    assert found["bytes_up"] > found["bytes_down"] > 0


def test_throughput_refuses_what_no_plan_holds() -> None:
    with pytest.raises(InvalidInput, match="users must be a power of two"):
        measure_throughput(dim=2, arms=2, users=3)
    with pytest.raises(InvalidInput, match="seconds"):
        measure_throughput(dim=2, arms=2, users=2, seconds=0.0)
