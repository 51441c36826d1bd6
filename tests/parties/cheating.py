"""Messages of users who do not follow the protocol, and of servers who do not."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from helba.protocol.box import BOX_BYTES
from helba.protocol.message import Ask, Message, Report, Shared
from helba.ring.sharing.pad import SHARE_MODULUS
from tests.parties.world import Member, Parcel, World, sent


def body_of(message: Ask | Report) -> Shared:
    """The shares of a message."""
    body = message.features if isinstance(message, Ask) else message.report
    assert isinstance(body, Shared)
    return body


def with_body(message: Ask | Report, body: Shared) -> Ask | Report:
    """The same message with other shares."""
    return replace(message, **{"features" if isinstance(message, Ask) else "report": body})


def shifted(message: Ask | Report, shifts: Mapping[int, int]) -> Ask | Report:
    """The message of a user whose numbers are larger by `shifts`, modulo 2^96."""
    body = body_of(message)
    shares = body.shares.copy()
    for place, shift in shifts.items():
        shares[place] = (shares[place] + shift) % SHARE_MODULUS
    return with_body(message, replace(body, shares=shares))


def boxed_badly(message: Ask | Report) -> Ask | Report:
    """The message with a box that nobody can open."""
    return with_body(message, replace(body_of(message), box=secrets.token_bytes(BOX_BYTES)))


def post_report(
    world: World,
    member: Member,
    context: Any,
    reward: float,
    change: Callable[[Any], Any] = lambda report: report,
) -> bytes:
    """Send a report that `change` may have made a wrong one; return its name."""
    message = change(sent(member.user.report(np.asarray(context, dtype=float), reward)))
    world.reports[message.name] = world.round_report(context, reward)
    world.post(member, message)
    return message.name


def deliver_flight(world: World) -> None:
    """Deliver what is on its way; the server does not start anything."""
    while world.flight:
        world.deliver(world.flight.pop(0))


def altering(world: World, kind: str, change: Callable[[Any], Message]) -> Callable[[Parcel], Any]:
    """A rule that changes messages of a kind."""

    def rule(parcel: Parcel):
        if parcel.kind == kind:
            message = change(parcel.message)
            yield replace(parcel, message=message, data=world.codec.encode(message))
        else:
            yield parcel

    return rule
