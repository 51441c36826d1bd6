"""Tables where several users have keys of their own, and what tests of that share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.user import User
from helba.reference.protocol.wire.messages import Receipt, Refusal
from tests.reference.protocol.parties import TOY, Array, Table, authority_of, draw_contexts

SWITCHED, SHARED = replace(TOY, keys="switched"), replace(TOY, keys="shared")


def table_of(request: PlanRequest = TOY, *, scheme: str = "simulate") -> Table:
    return Table(authority_of(request, scheme=scheme))


def contexts_of(table: Table, *, count: int, seed: int = 0) -> list[Array]:
    generator = np.random.default_rng(seed)
    return [draw_contexts(generator, table.settings) for _ in range(count)]


def refusal(table: Table, replies: tuple[bytes, ...]) -> str:
    (message,) = (table.decode(reply) for reply in replies)
    assert isinstance(message, Refusal)
    return message.reason


def learn(table: Table, user: User, contexts: Array, reward: float) -> int:
    """A whole round of one user, helping included; the arm."""
    played = table.play(contexts, user=user)
    table.send_bit(played)
    report = user.report(played.round, context=contexts[played.arm], reward=reward)
    first, *_ = table.server.receive(report)
    assert isinstance(table.decode(first), Receipt)
    while tasks := table.tasks(user):
        for task in tasks:
            table.server.receive(user.help(task))
    return played.arm


def introduce(table: Table) -> None:
    if table.deployment.keys == "switched":
        table.server.introduce(table.user.id, table.user.inward_key_bytes())


def rotate(table: Table) -> tuple[bytes, ...]:
    replies = table.server.rotate(table.authority.rotate())
    shared = table.deployment.keys == "shared"
    table.user.adopt(
        table.authority.public_key_bytes(),
        secret_key=table.authority.secret_key_bytes() if shared else None,
    )
    introduce(table)
    return replies
