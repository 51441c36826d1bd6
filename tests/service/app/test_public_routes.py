"""Routes that anybody may call, and what they say of paths and methods that there are not."""

import pytest

from helba.errors import Unavailable
from tests.reference.protocol.parties import TOY, deployment_of
from tests.service.app.calling import app_of, as_user, call
from tests.service.app.faking import FakeTenant

POLICY = "default-src 'self'"


def test_health_is_that_of_all_tenants() -> None:
    one, two = FakeTenant("one"), FakeTenant("two")
    app = app_of(one, two)
    for states, status in [
        (("serving", "serving"), "serving"),
        (("serving", "starting"), "starting"),
        (("failed", "starting"), "degraded"),
        (("stopped", "serving"), "degraded"),
    ]:
        one.state, two.state = states
        answer = call(app, "GET", "/v1/health")
        assert answer.status_code == 200
        assert answer.json() == {"status": status, "tenants": {"one": one.state, "two": two.state}}


def test_server_is_ready_once_every_tenant_serves() -> None:
    one, two = FakeTenant("one"), FakeTenant("two")
    app = app_of(one, two)
    two.state = "starting"
    before = call(app, "GET", "/v1/ready")
    assert before.status_code == 503
    assert int(before.headers["retry-after"]) >= 1
    two.state = "serving"
    assert call(app, "GET", "/v1/ready").status_code == 200


def test_status_reports_every_tenant() -> None:
    tenants = [FakeTenant("one"), FakeTenant("two")]
    status = call(app_of(*tenants), "GET", "/v1/status").json()
    assert status["version"] == "1.2.3"
    assert status["uptime_seconds"] >= 0
    assert status["tenants"] == [each.report() for each in tenants]


def test_report_deployment_and_key_of_a_tenant_are_public() -> None:
    tenant = FakeTenant()
    app = app_of(tenant)
    assert call(app, "GET", "/v1/tenants/main").json() == tenant.report()
    deployment = call(app, "GET", "/v1/tenants/main/deployment").json()
    assert deployment["settings"]["dim"] == deployment_of(TOY, scheme="simulate").settings.dim
    key = call(app, "GET", "/v1/tenants/main/public-key")
    assert key.content == b"the collective key"
    assert key.headers["content-type"] == "application/octet-stream"


def test_history_is_of_the_minutes_that_are_asked_for() -> None:
    app = app_of(FakeTenant())
    assert call(app, "GET", "/v1/tenants/main/history").json()["minutes"] == 60
    assert call(app, "GET", "/v1/tenants/main/history?minutes=5").json()["minutes"] == 5


@pytest.mark.parametrize("minutes", ["0", "-1", "10081", "many", "1e3", ""])
def test_history_of_inadmissible_minutes_does_not_repeat_them(minutes: str) -> None:
    tenant = FakeTenant()
    answer = call(app_of(tenant), "GET", f"/v1/tenants/main/history?minutes={minutes}")
    assert answer.status_code == 422
    assert answer.json()["detail"] == "not admissible: query.minutes"
    assert tenant.calls == []


@pytest.mark.parametrize("what", ["history", "public-key"])
def test_what_costs_much_is_limited_for_an_address(what: str) -> None:
    tenant = FakeTenant()
    app = app_of(tenant, rate_per_second=0.01, burst=2)
    codes = [call(app, "GET", f"/v1/tenants/main/{what}").status_code for _ in range(3)]
    assert codes == [200, 200, 429]
    assert as_user(app, "GET", "tasks").status_code == 200


def test_history_says_that_the_store_is_away() -> None:
    tenant = FakeTenant()
    tenant.failing = {"history": Unavailable("the store is away")}
    assert call(app_of(tenant), "GET", "/v1/tenants/main/history").status_code == 503


@pytest.mark.parametrize(
    "path",
    ["", "/history", "/deployment", "/public-key", "/rounds", "/tasks", "/members", "/ledger"],
)
def test_unknown_tenant_is_not_found(path: str) -> None:
    answer = call(app_of(FakeTenant()), "GET", f"/v1/tenants/nobody{path}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert "nobody" not in answer.text


@pytest.mark.parametrize(
    "path", ["/v1", "/v2/health", "/v1/health/", "/docs", "/redoc", "/openapi.json"]
)
def test_unknown_path_is_a_problem(path: str) -> None:
    answer = call(app_of(FakeTenant()), "GET", path)
    assert answer.status_code == 404
    assert answer.json()["title"] == "Not Found"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PATCH", "/v1/tenants/main/rounds", "GET, POST"),
        ("OPTIONS", "/v1/tenants/main/tasks", "GET, POST"),
        ("HEAD", "/v1/tenants/main/tasks", "GET, POST"),
        ("POST", "/v1/health", "GET, HEAD"),
        ("BREW", "/", "GET, HEAD"),
        ("GET", "/v1/tenants/main/rotation", "PUT"),
    ],
)
def test_method_that_a_path_does_not_take_is_a_problem(method, path, allowed) -> None:
    answer = call(app_of(FakeTenant()), method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == allowed
    assert answer.headers["content-type"] == "application/problem+json"


def test_no_other_origin_may_read_responses() -> None:
    headers = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "GET"}
    for method in ("GET", "OPTIONS"):
        answer = call(app_of(FakeTenant()), method, "/v1/status", headers=headers)
        assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("path", ["/v1/health", "/v1/status", "/", "/metrics"])
def test_head_is_answered_as_get(path: str) -> None:
    app = app_of(FakeTenant())
    assert call(app, "HEAD", path).status_code == call(app, "GET", path).status_code == 200


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/page/page.js", "text/javascript"),
        ("/page/page.css", "text/css"),
    ],
)
def test_page_lets_a_browser_load_nothing_else(path: str, kind: str) -> None:
    answer = call(app_of(FakeTenant()), "GET", path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(kind)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith(POLICY)
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_page_is_sent_again_only_when_it_changed() -> None:
    app = app_of(FakeTenant())
    tag = call(app, "GET", "/").headers["etag"]
    for known in (tag, f'"other", W/{tag}'):
        again = call(app, "GET", "/", headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == tag
    assert call(app, "GET", "/", headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize("name", ["other.js", "..%2Fapp.py", "%2e%2e", "__init__.py"])
def test_page_has_no_other_files(name: str) -> None:
    assert call(app_of(FakeTenant()), "GET", f"/page/{name}").status_code == 404


def test_responses_of_the_interface_are_not_kept_by_caches() -> None:
    answer = call(app_of(FakeTenant()), "GET", "/v1/status")
    assert answer.headers["cache-control"] == "no-store"
