"""A user who plays over HTTP and keeps what it sent: the messages that attacks start from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx

from helba.reference.protocol.authority import Authority
from helba.reference.protocol.user import User
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Answer
from helba.service.body import unpack_messages
from helba.service.protocol.tokens import make_token

SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A message that may come again; `open` if what it is about is not over.

    What is made of an open one must be refused: it would count.
    """

    route: str
    data: bytes = field(repr=False)
    method: str = "POST"
    caller: str = "honest"
    headers: dict[str, str] = field(default_factory=dict, repr=False, hash=False)
    open: bool = False


class Player:
    """One user of a tenant at `url` (.../v1/tenants/NAME)."""

    def __init__(self, url: str, authority: Authority, user: User) -> None:
        self.url = url
        self.user = user
        self.token = make_token("user")
        self.codec = Codec(authority.deployment)
        self.sent: list[Sent] = []
        self._client = httpx.Client(timeout=SECONDS)

    def close(self) -> None:
        self._client.close()

    def call(self, method: str, route: str, content: bytes = b"") -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = self._client.request(
            method, f"{self.url}/{route}", content=content, headers=headers
        )
        assert answer.is_success, (answer.status_code, answer.text)
        return answer

    def say(self, route: str, data: bytes) -> list[bytes]:
        """Send a message, keep it, and return what comes back."""
        answer = self.call("POST", route, data)
        self.sent.append(Sent(route=route, data=data))
        return unpack_messages(answer.content)

    def ask(self, contexts: Any) -> list[bytes]:
        """What the server says to a new round."""
        answer = self.call("POST", "terms")
        terms = self.user.read_notice(answer.content)
        return self.say("rounds", self.user.ask(contexts, terms=terms))

    def finish(self, said: list[bytes]) -> Any:
        """The recommendation, after all help that the round needs; its bit is not told."""
        while True:
            (data,) = said
            if isinstance(self.codec.decode(data), Answer):
                return self.user.read(data)
            said = self.say("tasks", self.user.help(data))

    def tell(self, found: Any) -> None:
        """Send the bit of an update test, if there is one."""
        if found.reply is not None:
            self.say("tests", found.reply)

    def earn(self, found: Any, each: Any) -> None:
        """Report the reward of a round, and help with what it leads to."""
        context, reward = each.contexts[found.arm], each.rewards[found.arm]
        self.say("rewards", self.user.report(found.round, context=context, reward=reward))
        while tasks := unpack_messages(self.call("GET", "tasks").content):
            while tasks:
                tasks = self.say("tasks", self.user.help(tasks[0]))

    def play(self, each: Any) -> int:
        """A whole round; the arm."""
        found = self.finish(self.ask(each.contexts))
        self.tell(found)
        self.earn(found, each)
        return int(found.arm)
