"""Measurements: what counts, and under which labels."""

import os

import pytest
from prometheus_client.parser import text_string_to_metric_families

from helba.reference.protocol.wire.messages import Report
from helba.service.meter import BOUNDS
from helba.service.metric import Metrics
from tests.service.app.calling import app_of, as_user, call
from tests.service.app.faking import ASK, FakeTenant, body_of


def values_of(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_count_requests_by_template_and_status() -> None:
    app = app_of(FakeTenant())
    for _ in range(2):
        as_user(app, "GET", "tasks")
    call(app, "GET", "/v1/tenants/nobody/tasks")
    call(app, "GET", "/some/secret/path")
    answer = call(app, "GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    values = values_of(answer.text)
    name, route = "helba_requests_total", "/v1/tenants/{tenant}/tasks"
    assert values[name, (("route", route), ("status", "200"))] == 2
    assert values[name, (("route", route), ("status", "404"))] == 1
    assert values[name, (("route", "unmatched"), ("status", "404"))] == 1
    assert "secret" not in answer.text


def test_metrics_count_rounds_and_rewards_that_were_answered() -> None:
    app = app_of(FakeTenant(), FakeTenant("other"))
    as_user(app, "POST", "rounds", content=ASK)
    as_user(app, "POST", "rounds", content=ASK)
    as_user(app, "POST", "rewards", content=body_of(Report))
    as_user(app, "POST", "rounds", content=b"damaged")
    values = values_of(call(app, "GET", "/metrics").text)
    main, other = (("tenant", "main"),), (("tenant", "other"),)
    assert values["helba_rounds_total", main] == 2
    assert values["helba_rewards_total", main] == 1
    assert values["helba_rounds_total", other] == 0


def test_metrics_say_how_many_rounds_were_within_each_time() -> None:
    values = values_of(Metrics({"main": FakeTenant()}).as_text().decode())
    within = {
        dict(labels)["le"]: value
        for (name, labels), value in values.items()
        if name == "helba_round_seconds_bucket"
    }
    assert within == {"0.01": 0, "0.025": 1, **dict.fromkeys(map(str, BOUNDS[2:]), 2), "+Inf": 2}


@pytest.mark.parametrize(("state", "up"), [("serving", 1), ("starting", 0), ("failed", 0)])
def test_metrics_show_the_report_of_a_tenant(state: str, up: int) -> None:
    tenant = FakeTenant()
    tenant.state = state
    values = values_of(Metrics({"main": tenant}).as_text().decode())
    main = (("tenant", "main"),)
    assert values["helba_tenant_up", main] == up
    for name, value in [
        ("helba_round_seconds_count", 2),
        ("helba_round_seconds_sum", 0.04),
        ("helba_updates_total", 5),
        ("helba_waiting", 6),
        ("helba_open_rounds", 4),
        ("helba_bits_told", 11),
        ("helba_bit_budget", 1000),
    ]:
        assert values[name, main] == value


def test_metrics_show_what_processes_use() -> None:
    tenant = FakeTenant()
    me = os.getpid()
    tenant.processes = lambda: {"evaluator": me, "reader": 1 << 30}  # type: ignore[method-assign]
    values = values_of(Metrics({"main": tenant}).as_text().decode())
    for name in ("front", "evaluator-main"):
        assert values["helba_cpu_seconds_total", (("process", name),)] > 0
        assert values["helba_resident_bytes", (("process", name),)] > 1 << 20
    assert ("helba_resident_bytes", (("process", "reader-main"),)) not in values


def test_metrics_of_a_tenant_that_knows_nothing_yet_are_zero() -> None:
    tenant = FakeTenant()
    tenant.report = lambda: {"updates": None, "bits": None}  # type: ignore[method-assign]
    values = values_of(Metrics({"main": tenant}).as_text().decode())
    assert values["helba_bits_told", (("tenant", "main"),)] == 0
