"""Routes of users: what they answer, and that a token speaks for one user only."""

import pytest

from helba.errors import DamagedData, InvalidInput, Refused, RunFailed, Unavailable
from helba.reference.protocol.wire.messages import (
    Answer,
    Ask,
    Receipt,
    Report,
    Task,
    TaskReply,
    TestReply,
)
from helba.service.body import unpack_messages
from helba.service.failure import Forbidden, TooMany
from helba.service.protocol.tokens import make_token
from tests.service.app.calling import AUTHORITY_HEADERS, app_of, as_user, call
from tests.service.app.faking import (
    ASK,
    MOST,
    OTHER,
    OTHER_TOKEN,
    ROUND,
    USER,
    FakeTenant,
    body_of,
    message_bytes,
)

BYTES = {"Content-Type": "application/octet-stream"}


def test_terms_are_a_notice() -> None:
    tenant = FakeTenant()
    answer = as_user(app_of(tenant), "POST", "terms")
    assert (answer.status_code, answer.content) == (200, b"a notice")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert tenant.calls == [("terms",)]


@pytest.mark.parametrize(
    ("route", "kind", "method", "sent"),
    [
        ("rounds", Ask, "ask", [message_bytes(Answer)]),
        ("rewards", Report, "reward", [message_bytes(Receipt)]),
        ("tasks", TaskReply, "task_reply", []),
    ],
)
def test_message_passes_the_reader_before_it_acts(route, kind, method, sent) -> None:
    tenant = FakeTenant()
    answer = as_user(app_of(tenant), "POST", route, content=body_of(kind), headers=BYTES)
    assert answer.status_code == 200
    assert unpack_messages(answer.content) == sent
    assert tenant.calls == [("check", kind, USER), (method, body_of(kind))]


def test_test_reply_has_no_content() -> None:
    tenant = FakeTenant()
    answer = as_user(app_of(tenant), "POST", "tests", content=body_of(TestReply))
    assert (answer.status_code, answer.content) == (204, b"")
    assert tenant.calls[-1] == ("test_reply", body_of(TestReply))


def test_tasks_are_a_list_of_messages() -> None:
    tenant = FakeTenant()
    answer = as_user(app_of(tenant), "GET", "tasks")
    assert unpack_messages(answer.content) == [message_bytes(Task), message_bytes(Task, length=300)]


def test_user_who_does_not_read_its_answers_waits_for_the_next() -> None:
    app = app_of(FakeTenant())
    with app.state.front.share_of("main", USER) as share, share.holding(share.most):
        answer = as_user(app, "GET", "tasks")
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert as_user(app, "GET", "rounds").status_code == 200
    assert as_user(app, "GET", "tasks").status_code == 200


def test_open_rounds_say_when_they_were_asked() -> None:
    answer = as_user(app_of(FakeTenant()), "GET", "rounds")
    assert answer.json() == {"rounds": [{"round": ROUND.hex(), "asked_at": "2026-01-02T03:04:05Z"}]}


def test_round_can_be_given_up() -> None:
    tenant = FakeTenant()
    answer = as_user(app_of(tenant), "DELETE", f"rounds/{ROUND.hex()}")
    assert answer.status_code == 204
    assert tenant.calls == [("drop_round", USER, ROUND)]


@pytest.mark.parametrize("name", ["xyz", ROUND.hex().upper(), ROUND.hex() + "00"])
def test_round_that_is_no_id_is_inadmissible(name: str) -> None:
    tenant = FakeTenant()
    answer = as_user(app_of(tenant), "DELETE", f"rounds/{name}")
    assert answer.status_code == 422
    assert name not in answer.text
    assert tenant.calls == []


def test_inward_key_is_taken_where_keys_are_switched() -> None:
    tenant = FakeTenant(keys="switched")
    answer = as_user(app_of(tenant), "PUT", "inward-key", content=b"a key")
    assert answer.status_code == 204
    assert tenant.calls == [("introduce", USER, b"a key")]


def test_inward_key_is_refused_where_keys_are_not_switched() -> None:
    tenant = FakeTenant()
    answer = as_user(app_of(tenant), "PUT", "inward-key", content=b"a key")
    assert answer.status_code == 409
    assert tenant.calls == []


@pytest.mark.parametrize(("wanted", "shown"), [(False, "0"), (True, "1")])
def test_every_response_to_a_user_says_if_help_is_wanted(wanted: bool, shown: str) -> None:
    tenant = FakeTenant()
    tenant.help_wanted = wanted
    tenant.failing = {"reward": Refused("batch 3 is over")}
    app = app_of(tenant)
    answers = [
        as_user(app, "GET", "rounds"),
        as_user(app, "POST", "rewards", content=body_of(Report)),
        as_user(app, "POST", "tests", content=b"nothing"),
    ]
    assert [each.status_code for each in answers] == [200, 409, 400]
    assert {each.headers["helba-help"] for each in answers} == {shown}
    assert {each.headers["helba-batch"] for each in answers} == {"7"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic dXNlcjp3b3Jk"},
        {"Authorization": f"Bearer {make_token('user')}"},
        {"Authorization": "Bearer helba_u_short"},
        AUTHORITY_HEADERS,
    ],
)
@pytest.mark.parametrize(
    ("method", "route"),
    [
        ("POST", "terms"),
        ("POST", "rounds"),
        ("GET", "rounds"),
        ("DELETE", f"rounds/{ROUND.hex()}"),
        ("POST", "rewards"),
        ("POST", "tests"),
        ("GET", "tasks"),
        ("POST", "tasks"),
        ("PUT", "inward-key"),
    ],
)
def test_nothing_happens_without_a_users_token(headers, method: str, route: str) -> None:
    tenant = FakeTenant()
    answer = call(app_of(tenant), method, f"/v1/tenants/main/{route}", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "helba-help" not in answer.headers
    assert tenant.calls == []


def test_message_in_the_name_of_another_user_is_forbidden() -> None:
    tenant = FakeTenant()
    app = app_of(tenant)
    answer = as_user(app, "POST", "rounds", content=body_of(Ask, user=OTHER))
    assert answer.status_code == 403
    other = {"Authorization": f"Bearer {OTHER_TOKEN}"}
    assert as_user(app, "POST", "rounds", content=ASK, headers=other).status_code == 403
    assert {name for name, *_ in tenant.calls} == {"check"}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DamagedData("the message is none"), 400),
        (Forbidden("revoked"), 403),
        (TooMany(3.2), 429),
        (Unavailable("the reader is being started"), 503),
    ],
)
def test_reader_says_why_a_message_does_not_pass(error: Exception, status: int) -> None:
    tenant = FakeTenant()
    tenant.failing = {"check": error}
    answer = as_user(app_of(tenant), "POST", "rounds", content=ASK)
    assert answer.status_code == status
    assert [name for name, *_ in tenant.calls] == ["check"]


@pytest.mark.parametrize(
    ("error", "status", "headers"),
    [
        (Refused("batch 3 is over: ask under batch 4"), 409, {}),
        (InvalidInput("slot", "secret-value", "below 4"), 422, {}),
        (TooMany(3.2, "64 rounds are open"), 429, {"retry-after": "4"}),
        (Unavailable("the store is away"), 503, {"retry-after": "2"}),
        (RunFailed("cannot read /secret/path"), 500, {}),
        (ValueError("secret-value"), 500, {}),
    ],
)
def test_error_of_an_act_becomes_a_problem(error: Exception, status: int, headers) -> None:
    tenant = FakeTenant()
    tenant.failing = {"ask": error}
    answer = as_user(app_of(tenant), "POST", "rounds", content=ASK)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert set(problem) == {"title", "status", "detail"}
    assert problem["status"] == status
    assert "secret" not in answer.text
    assert headers.items() <= dict(answer.headers).items()


@pytest.mark.parametrize("state", ["starting", "failed", "stopped"])
def test_tenant_that_does_not_serve_reads_no_body(state: str) -> None:
    tenant = FakeTenant()
    tenant.state = state
    answer = as_user(app_of(tenant), "POST", "rounds", content=bytes(MOST + 1))
    assert answer.status_code == 503
    assert "retry-after" in answer.headers
    assert tenant.calls == []


def test_tenants_do_not_share_tokens() -> None:
    other = FakeTenant("other")
    other.tokens = {}
    app = app_of(FakeTenant(), other)
    headers = {"Authorization": f"Bearer {OTHER_TOKEN}"}
    assert call(app, "GET", "/v1/tenants/main/tasks", headers=headers).status_code == 200
    assert call(app, "GET", "/v1/tenants/other/tasks", headers=headers).status_code == 401


def test_body_of_another_content_type_is_not_read() -> None:
    tenant = FakeTenant()
    answer = as_user(
        app_of(tenant), "POST", "rounds", content=ASK, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 415
    assert tenant.calls == []
