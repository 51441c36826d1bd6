"""How a route says in the OpenAPI document what it takes and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from helba.service.failure import PROBLEM
from helba.service.schema import MODELS

BYTES = "application/octet-stream"
REFERENCE = "#/components/schemas/{model}"
HEADERS_OF_USERS = {
    "Helba-Help": ("1 if an update waits for a user who helps: get the tasks", [0, 1]),
    "Helba-Batch": ("the number of the batch that is served", None),
}
ERRORS = {
    400: (
        "The body is no message of this deployment.",
        "the message belongs to another deployment",
    ),
    401: ("No token, or one that is not known here.", "a token that is known here is needed"),
    403: ("The token does not allow this.", "the message names another user"),
    404: ("There is no such thing here.", "there is no tenant of this name"),
    405: ("The method is not for this path.", "this path does not take the method"),
    408: ("The body stopped arriving.", "the body did not arrive in time"),
    409: ("The protocol says no.", "batch 3 is over: ask under batch 4"),
    413: ("The body is too long.", "the body may have at most 1048576 bytes"),
    415: ("The content type is another.", f"the content type must be {BYTES}"),
    422: ("Something is not admissible.", "not admissible: query.minutes"),
    429: ("Too often, or too many open rounds.", "too many requests: wait before the next"),
    500: ("Something went wrong here.", "something went wrong here; the log has it under 4f1d"),
    503: ("Not at the moment: try again.", "the tenant is starting"),
}
WAITING = (429, 503)
COUNT, TEXT = {"type": "integer", "minimum": 0}, {"type": "string"}


def json_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the content of a response with this JSON."""
    return {"application/json": {"schema": {"$ref": REFERENCE.format(model=model.__name__)}}}


def binary(text: str) -> dict[str, Any]:
    """Return the content of a body of bytes; `text` says what they are."""
    return {BYTES: {"schema": {"type": "string", "format": "binary", "description": text}}}


def binary_body(text: str) -> dict[str, Any]:
    """Return the request body of bytes; `text` says what they are."""
    return {"required": True, "description": text, "content": binary(text)}


def add_route(
    app: FastAPI,
    method: str,
    path: str,
    handler: Callable[..., Any],
    *,
    tag: str,
    success: int = 200,
    content: dict[str, Any] | str | None = None,
    headers: Mapping[str, str] | None = None,
    errors: Sequence[int] = (),
    body: dict[str, Any] | None = None,
    later: str | None = None,
) -> None:
    """Add a route with all that its OpenAPI says; the handler's docstring opens with the summary.

    `content` is a text for bytes, or the content itself. Every route may answer 500, and 202 if
    `later` says when.
    """
    said = {
        name: {"schema": TEXT if name == "Location" else COUNT, "description": text}
        for name, text in (headers or {}).items()
    }
    if tag == "user":
        said |= _headers_of_users()
    good: dict[str, Any] = {"description": "Done."}
    if content is not None:
        good["content"] = binary(content) if isinstance(content, str) else content
    if said:
        good["headers"] = said
    goods: dict[int | str, dict[str, Any]] = {success: good}
    if later is not None:
        goods[202] = {**good, "description": later}
    summary, _, rest = (handler.__doc__ or "").strip().partition("\n")
    app.add_api_route(
        path,
        handler,
        methods=[method],
        status_code=success,
        response_model=None,
        summary=summary,
        description=" ".join(rest.split()) or summary,
        operation_id=handler.__name__,
        tags=[tag],
        responses={**goods, **{each: _error(each) for each in (*errors, 500)}},
        openapi_extra=None if body is None else {"requestBody": body},
    )
    if tag == "public":
        app.add_api_route(
            path, handler, methods=["HEAD"], response_model=None, include_in_schema=False
        )


def _headers_of_users() -> dict[str, Any]:
    return {
        name: {
            "description": text,
            "schema": {"type": "integer", **({"enum": values} if values else {"minimum": 0})},
        }
        for name, (text, values) in HEADERS_OF_USERS.items()
    }


def _error(status: int) -> dict[str, Any]:
    text, detail = ERRORS[status]
    example = {"title": text.rstrip("."), "status": status, "detail": detail}
    error: dict[str, Any] = {
        "description": text,
        "content": {
            PROBLEM: {"schema": {"$ref": REFERENCE.format(model="Problem")}, "example": example}
        },
    }
    if status in WAITING:
        seconds = {"type": "integer", "minimum": 1}
        error["headers"] = {"Retry-After": {"description": "seconds", "schema": seconds}}
    return error


def add_openapi(app: FastAPI, *, models: Sequence[type[BaseModel]] = MODELS) -> None:
    """Let the document have the models that routes refer to, and none that they do not."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
                tags=app.openapi_tags,
            )
            _, schemas = models_json_schema(
                [(model, "serialization") for model in models], ref_template=REFERENCE
            )
            document.setdefault("components", {})["schemas"] = schemas["$defs"]
            _drop_unused(document)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]


def _drop_unused(document: dict[str, Any]) -> None:
    """Delete the 422 that the framework declares where nothing can be inadmissible."""
    for operations in document["paths"].values():
        for operation in operations.values():
            if PROBLEM not in operation["responses"].get("422", {}).get("content", {PROBLEM: 0}):
                del operation["responses"]["422"]
