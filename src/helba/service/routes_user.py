"""Routes of users: terms, rounds, rewards, update tests, and help with updates.

A body is one message, a response a list of them (`body`). The round's id, which the user makes, is
what makes a request that comes twice count once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Annotated, Any

from fastapi import FastAPI, Path, Response
from fastapi.responses import JSONResponse

from helba.errors import Refused
from helba.reference.protocol.wire.messages import Ask, Report, TaskReply, TestReply
from helba.service.body import pack_messages
from helba.service.front import User, UserCaller, UserResponse
from helba.service.limit import read_body
from helba.service.openapi import add_route, binary_body, json_of
from helba.service.schema import Rounds

ID = "^[0-9a-f]{32}$"
SENDING = (400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 503)
GETTING = (401, 403, 404, 409, 422, 429, 503)
LIST = "Messages, each after its length in four bytes, the lowest first."


def _send(user: User, sent: Sequence[bytes]) -> Response:
    user.front.metrics.count_messages(sent, tenant=user.tenant.name)
    return UserResponse(pack_messages(sent), user=user)


def _iso(at: datetime) -> str:
    return at.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


async def post_terms(user: UserCaller) -> Response:
    """Return the terms of the batch that is served."""
    await read_body(user.request, 0)
    return UserResponse(await user.tenant.terms(), user=user)


async def post_round(user: UserCaller) -> Response:
    """Ask which arm to play: an Ask becomes an Answer, or tasks of this round."""
    async with user.saying("rounds", kind=Ask) as ask:
        return _send(user, await user.tenant.ask(ask))


async def get_rounds(user: UserCaller) -> Response:
    """Return the rounds of this user that have no reward yet."""
    found = await user.tenant.open_rounds(user.id)
    rounds = [{"round": each.round.hex(), "asked_at": _iso(each.asked_at)} for each in found]
    return JSONResponse({"rounds": rounds})


async def delete_round(
    user: UserCaller, round: Annotated[str, Path(pattern=ID, description="its id")]
) -> Response:
    """Give up a round of this user, whose reward will not come."""
    await user.tenant.drop_round(user.id, bytes.fromhex(round))
    return Response(status_code=204)


async def post_reward(user: UserCaller) -> Response:
    """Report the reward of a round: a Report becomes a Receipt, once it is stored."""
    async with user.saying("rewards", kind=Report) as report:
        return _send(user, await user.tenant.reward(report))


async def post_test(user: UserCaller) -> Response:
    """Tell the sign of an update test that rode along with an answer."""
    async with user.saying("tests", kind=TestReply) as reply:
        await user.tenant.test_reply(reply)
    return Response(status_code=204)


async def get_tasks(user: UserCaller) -> Response:
    """Return what this user may help with now; a task of an update is leased to one helper."""
    return _send(user, await user.tenant.tasks(user.id))


async def post_task(user: UserCaller) -> Response:
    """Hand in a share: a TaskReply becomes an Answer, the next tasks, or nothing."""
    async with user.saying("tasks", kind=TaskReply) as reply:
        return _send(user, await user.tenant.task_reply(reply))


async def put_inward_key(user: UserCaller) -> Response:
    """Hand in the key that switches what this user sends, where the deployment has such keys."""
    if user.tenant.deployment.keys != "switched":
        raise Refused("users of this deployment need no inward key")
    async with user.sending("inward-key") as key:
        await user.tenant.introduce(user.id, key)
    return Response(status_code=204)


def add_user_routes(app: FastAPI) -> None:
    """Add them all."""
    one = "/v1/tenants/{tenant}"

    def add(method: str, path: str, handler: Any, **options: Any) -> None:
        add_route(app, method, f"{one}/{path}", handler, tag="user", **options)

    def add_saying(path: str, handler: Any, *, kind: str, **options: Any) -> None:
        body = binary_body(f"A message {kind}.")
        add("POST", path, handler, body=body, errors=SENDING, **options)

    # 413: a body, where none is wanted
    terms = (*GETTING, 400, 408, 413)
    add("POST", "terms", post_terms, content="A message Notice.", errors=terms)
    add_saying("rounds", post_round, kind="Ask", content=LIST)
    add("GET", "rounds", get_rounds, content=json_of(Rounds), errors=GETTING)
    add("DELETE", "rounds/{round}", delete_round, success=204, errors=GETTING)
    add_saying("rewards", post_reward, kind="Report", content=LIST)
    add_saying("tests", post_test, kind="TestReply", success=204)
    add("GET", "tasks", get_tasks, content=LIST, errors=GETTING)
    add_saying("tasks", post_task, kind="TaskReply", content=LIST)
    key = binary_body("A re-encryption key to the collective key.")
    add("PUT", "inward-key", put_inward_key, success=204, body=key, errors=SENDING)
