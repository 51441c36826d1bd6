"""Routes of the key authority: only its token opens them."""

import pytest

from helba.errors import DamagedData, Refused
from helba.service.protocol.tokens import hash_token, make_token
from tests.service.app.calling import USER_HEADERS, app_of, as_authority, call
from tests.service.app.faking import MOST, OTHER, TOKEN, USER, FakeTenant

HASH = hash_token(TOKEN)
ROUTES = [
    ("GET", "members"),
    ("PUT", f"members/{USER.hex()}"),
    ("DELETE", f"members/{USER.hex()}"),
    ("PUT", "rotation"),
    ("GET", "ledger"),
]


def test_members_are_those_of_the_tenant() -> None:
    answer = as_authority(app_of(FakeTenant()), "GET", "members")
    assert answer.json() == {
        "key": "ab",
        "enrolled": {USER.hex(): HASH},
        "revoked": [OTHER.hex()],
    }


def test_member_is_enrolled_with_the_hash_of_its_token() -> None:
    tenant = FakeTenant()
    answer = as_authority(
        app_of(tenant),
        "PUT",
        f"members/{USER.hex()}",
        content=b"an enrolment",
        headers={"Helba-Token-Sha256": HASH},
    )
    assert (answer.status_code, answer.content) == (204, b"")
    assert tenant.calls == [("enrol", USER, b"an enrolment", HASH)]


@pytest.mark.parametrize("headers", [{}, {"Helba-Token-Sha256": TOKEN}])
def test_member_is_not_enrolled_without_a_hash(headers) -> None:
    tenant = FakeTenant()
    path = f"members/{USER.hex()}"
    answer = as_authority(app_of(tenant), "PUT", path, content=b"x", headers=headers)
    assert answer.status_code == 422
    assert TOKEN not in answer.text
    assert "helba-token-sha256" in answer.json()["detail"].lower()
    assert tenant.calls == []


def test_member_is_revoked() -> None:
    tenant = FakeTenant()
    answer = as_authority(app_of(tenant), "DELETE", f"members/{USER.hex()}")
    assert answer.status_code == 204
    assert tenant.calls == [("revoke", USER)]


def test_rotation_is_handed_on() -> None:
    tenant = FakeTenant()
    answer = as_authority(app_of(tenant), "PUT", "rotation", content=b"new keys")
    assert answer.status_code == 204
    assert tenant.calls == [("rotate", b"new keys")]


def test_rotation_that_is_too_long_is_not_taken() -> None:
    tenant = FakeTenant()
    answer = as_authority(app_of(tenant), "PUT", "rotation", content=bytes(MOST + 1))
    assert answer.status_code == 413
    assert tenant.calls == []


@pytest.mark.parametrize(
    ("error", "status"), [(DamagedData("no rotation"), 400), (Refused("of another key"), 409)]
)
def test_rotation_that_fails_says_why(error: Exception, status: int) -> None:
    tenant = FakeTenant()
    tenant.failing = {"rotate": error}
    answer = as_authority(app_of(tenant), "PUT", "rotation", content=b"x")
    assert (answer.status_code, answer.json()["detail"]) == (status, str(error))


def test_ledger_has_the_bits_of_each_user() -> None:
    answer = as_authority(app_of(FakeTenant()), "GET", "ledger")
    assert answer.json() == {"key": "ab", "total": 11, "budget": 1000, "bits": {USER.hex(): 11}}


@pytest.mark.parametrize(("method", "route"), ROUTES)
@pytest.mark.parametrize(
    "headers", [{}, USER_HEADERS, {"Authorization": f"Bearer {make_token('authority')}"}]
)
def test_nothing_happens_without_the_authoritys_token(method: str, route: str, headers) -> None:
    tenant = FakeTenant()
    whole = {**headers, "Helba-Token-Sha256": HASH}
    answer = call(app_of(tenant), method, f"/v1/tenants/main/{route}", headers=whole)
    assert answer.status_code == 401
    assert tenant.calls == []


@pytest.mark.parametrize(("method", "route"), ROUTES)
def test_authority_waits_until_the_tenant_serves(method: str, route: str) -> None:
    tenant = FakeTenant()
    tenant.state = "starting"
    headers = {"Helba-Token-Sha256": HASH}
    assert as_authority(app_of(tenant), method, route, headers=headers).status_code == 503
    assert tenant.calls == []
