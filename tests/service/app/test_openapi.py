"""The OpenAPI document: whole, valid, and true."""

import json
from typing import Any

import hypothesis
import jsonschema_rs
import pytest
import schemathesis
from schemathesis.checks import (
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from tests.service.app.calling import (
    AUTHORITY_HEADERS,
    USER_HEADERS,
    app_of,
    as_authority,
    as_user,
    call,
)
from tests.service.app.faking import FakeTenant

HEADERS = {"user": USER_HEADERS, "authority": AUTHORITY_HEADERS}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found = call(app_of(FakeTenant()), "GET", "/v1/openapi.json").json()
    assert isinstance(found, dict)
    return found


def operations_of(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_document_covers_every_route(document) -> None:
    described = {(path, method.upper()) for path, method, _ in operations_of(document)}
    routes = {
        (route.path, method)
        for route in app_of(FakeTenant()).routes
        for method in route.methods  # type: ignore[attr-defined]
        if method != "HEAD" and route.path != "/v1/openapi.json"  # type: ignore[attr-defined]
    }
    assert described == routes
    assert len(described) == 24


def test_document_is_valid(document) -> None:
    schemathesis.openapi.from_dict(document).validate()


def test_every_reference_leads_somewhere(document) -> None:
    text = json.dumps(document)
    names = set(document["components"]["schemas"])
    used = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert used <= names
    assert "HTTPValidationError" not in text


def test_routes_say_who_may_call_them(document) -> None:
    for _, _, operation in operations_of(document):
        (tag,) = operation["tags"]
        assert operation.get("security", []) == ([] if tag == "public" else [{tag: []}])
        assert operation["summary"].endswith(".")
    schemes = document["components"]["securitySchemes"]
    assert {each["scheme"] for each in schemes.values()} == {"bearer"}
    assert set(schemes) == {"user", "authority"}


def test_bodies_are_declared_as_bytes(document) -> None:
    bodies = {
        (method, path.rpartition("{tenant}/")[2]): operation["requestBody"]["content"]
        for path, method, operation in operations_of(document)
        if "requestBody" in operation
    }
    assert set(bodies) == {
        ("post", "rounds"),
        ("post", "rewards"),
        ("post", "tests"),
        ("post", "tasks"),
        ("put", "inward-key"),
        ("put", "members/{id}"),
        ("put", "rotation"),
    }
    for content in bodies.values():
        assert list(content) == ["application/octet-stream"]
        schema = content["application/octet-stream"]["schema"]
        assert (schema["type"], schema["format"]) == ("string", "binary")


def test_errors_are_declared_as_problems_with_examples(document) -> None:
    for _, _, operation in operations_of(document):
        errors = {code: each for code, each in operation["responses"].items() if code >= "400"}
        assert "500" in errors
        if operation["tags"] != ["public"]:
            assert {"401", "404", "503"} <= set(errors)
        for code, error in errors.items():
            (kind,) = error["content"]
            assert kind == "application/problem+json"
            assert error["content"][kind]["example"]["status"] == int(code)


def test_responses_to_users_declare_their_headers(document) -> None:
    for _, _, operation in operations_of(document):
        if operation["tags"] == ["user"]:
            good = next(each for code, each in operation["responses"].items() if code < "300")
            assert {"Helba-Help", "Helba-Batch"} <= set(good["headers"])


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v1/health", "Health"),
        ("/v1/ready", "Health"),
        ("/v1/status", "Status"),
        ("/v1/tenants/main", "TenantReport"),
        ("/v1/tenants/main/history", "History"),
        ("/v1/tenants/main/rounds", "Rounds"),
        ("/v1/tenants/main/members", "Members"),
        ("/v1/tenants/main/ledger", "Ledger"),
        ("/v1/nowhere", "Problem"),
    ],
)
def test_json_is_as_it_is_described(document, path: str, model: str) -> None:
    app = app_of(FakeTenant())
    name = path.rpartition("/")[2]
    if name in ("members", "ledger"):
        answer = as_authority(app, "GET", name)
    elif name == "rounds":
        answer = as_user(app, "GET", name)
    else:
        answer = call(app, "GET", path)
    schema = {"$ref": f"#/components/schemas/{model}", "components": document["components"]}
    jsonschema_rs.validator_for(schema).validate(answer.json())


server = schemathesis.openapi.from_asgi(
    "/v1/openapi.json", app_of(FakeTenant(), rate_per_second=1e6, burst=1 << 20)
)


@pytest.mark.slow
@server.parametrize()
@hypothesis.settings(max_examples=20, suppress_health_check=list(hypothesis.HealthCheck))
def test_whatever_is_sent_gets_an_answer_that_is_declared(case) -> None:
    case.path_parameters = {**(case.path_parameters or {}), "tenant": "main"}
    tag = case.operation.definition.raw["tags"][0]
    case.headers = {**(case.headers or {}), **HEADERS.get(tag, {})}
    case.call_and_validate(
        checks=[not_a_server_error, status_code_conformance, response_schema_conformance]
    )
