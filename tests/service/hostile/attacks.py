"""All attacks on one tenant, from messages that it has seen; the same seed makes the same ones."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, zip_longest
from typing import Any

from helba.reference.engine.wire.envelope import DIGEST_BYTES
from helba.service.protocol.tokens import make_token
from tests.service.hostile.forging import (
    Framed,
    altered_seal,
    boundaries,
    broken_heads,
    broken_seals,
    flip,
    is_framed,
    lying_frames,
)
from tests.service.hostile.player import Sent
from tests.service.hostile.sending import Attack
from tests.service.hostile.stage import Tenancy

BYTES = "application/octet-stream"
TYPES = ("application/json", "text/plain", "", "application/octet-stream\xff", "*/*", "a" * 4000)
USER_ROUTES = ("rounds", "rewards", "tests", "tasks")
TOO_LARGE, ENDLESS, HUGE_HEAD = "http: oversized", "http: oversized, chunked", "http: huge headers"
MAY_CLOSE = (TOO_LARGE, ENDLESS, HUGE_HEAD)
REPLAY = "replay"


def make_attacks(target: Tenancy, others: list[Tenancy], *, count: int, seed: int) -> list[Attack]:
    """Return `count` of them, in no order: systematic ones of every name, then random ones."""
    chance = random.Random(seed)
    maker = _Maker(target, others, chance)
    found = list(maker.systematic())
    chance.shuffle(found)
    found = _names_in_turn(found)[: int(0.8 * count)]
    found += islice(maker.random(), count - len(found))
    chance.shuffle(found)
    return found


def _names_in_turn(attacks: Sequence[Attack]) -> list[Attack]:
    """The first of each name and route, then the second of each, and so on."""
    found: dict[tuple[str, str], list[Attack]] = {}
    for each in attacks:
        found.setdefault((each.name, each.url), []).append(each)
    return [each for turn in zip_longest(*found.values()) for each in turn if each is not None]


class _Maker:
    def __init__(self, target: Tenancy, others: list[Tenancy], chance: random.Random) -> None:
        self.target, self.others, self.chance = target, others, chance
        self.over = [each for each in target.samples if not each.open]

    def attack(self, name: str, sent: Sent, data: bytes, **changes: Any) -> Attack:
        """A request as the sample's, with another body."""
        token = self.target.tokens[changes.pop("caller", sent.caller)]
        if sent.route == "rotation" and name.split(":")[0] != "http":
            name = f"rotation, {name}"  # one that was taken is acknowledged by its public key
        headers = {"Authorization": f"Bearer {token}", "Content-Type": BYTES, **sent.headers}
        return Attack(
            name=name,
            method=sent.method,
            url=f"{self.target.url}/{changes.pop('route', sent.route)}",
            headers={**headers, **changes.pop("headers", {})},
            content=data,
            **changes,
        )

    # -- one of each

    def systematic(self) -> Iterator[Attack]:
        for sent in self.target.samples:
            yield from self.of_sample(sent)
        for tenancy in self.others:
            for sent in tenancy.samples:
                if sent.route in USER_ROUTES:  # authorities' tokens are of their own tenants
                    yield self.attack("other tenant's message", sent, sent.data)
        for data in self.target.answers:
            for route in USER_ROUTES:
                yield self.attack("wrong kind", self.over[0], data, route=route)
        yield from self.foreign()
        yield from self.requests()

    def of_sample(self, sent: Sent) -> Iterator[Attack]:
        data = sent.data
        if not (sent.open and sent.route == "tasks"):  # a share that was not sent yet
            yield self.attack(REPLAY, sent, data)
            yield self.attack(REPLAY, sent, data, chunked=True)
        for place in boundaries(data):
            yield self.attack("truncated", sent, data[:place])
        for route in USER_ROUTES:
            if route != sent.route and sent.caller == "honest":
                yield self.attack("wrong kind", replace(sent, method="POST"), data, route=route)
        yield from self.of_http(sent)
        if not is_framed(data):
            for name, changed in broken_seals(data, self.chance):
                yield self.attack(f"key, {name}", sent, changed)
            return
        framed = Framed.of(data)
        for name, changed in (*lying_frames(data, self.chance), *broken_heads(framed)):
            yield self.attack(name, sent, changed)
        for index, part in enumerate(framed.parts[:3]):
            for name, changed in broken_seals(part, self.chance):
                if not (sent.open and sent.route == "tasks" and self.takes_any(name)):
                    yield self.attack(name, sent, framed.with_part(index, changed))
        for parts in ((), framed.parts[:-1], framed.parts * 2, framed.parts * 40):
            if parts != framed.parts and sent.caller == "honest":
                changed = replace(framed, parts=parts).close()
                yield self.attack("number of parts", sent, changed)
        if sent.caller == "honest":
            yield from self.of_names(sent, framed)

    def takes_any(self, name: str) -> bool:
        """Whether such a payload may be one: in the simulator any words are a share."""
        simulated = self.target.authority.deployment.scheme == "simulate"
        return simulated and name in ("seal: bomb", "seal: residues", "seal: junk")

    def of_names(self, sent: Sent, framed: Framed) -> Iterator[Attack]:
        """Somebody else's name, and rounds, tests and tasks that nobody has heard of."""
        rogue = self.target.rogue.user.id.hex()
        yield self.attack("other user's message", sent, sent.data, caller="rogue")
        yield self.attack("other user's name", sent, framed.with_head(user=rogue))
        yield self.attack("other user's name", sent, framed.with_head(user="0" * 32))
        if sent.route != "tests":  # whoever knows a test's name may have decrypted it
            changed = framed.with_head(user=rogue)
            yield self.attack("other user's subject", sent, changed, caller="rogue")
        for _ in range(4):
            new = secrets.token_hex(16)
            if sent.route == "rounds":
                changed = framed.with_head(round=new, batch=self.chance.randint(100, 1 << 50))
            else:
                name = {"rewards": "round", "tests": "test"}.get(sent.route, "task")
                changed = framed.with_head(**{name: new})
            yield self.attack("unknown subject", sent, changed)
        if sent.route == "rounds":
            for value in (-1, 1 << 40, 1 << 53, (1 << 53) + 1, -(1 << 63), 0.5, True, None):
                if not sent.open:
                    yield self.attack("ask: batch", sent, framed.with_head(batch=value))

    def of_http(self, sent: Sent) -> Iterator[Attack]:
        data = sent.data
        for kind in TYPES:
            headers = {"Content-Type": kind.encode("latin-1")}
            yield self.attack("http: content type", sent, data, headers=headers)
        if sent.caller == "honest" and sent.method == "POST":
            for extra in (1, len(data), 1 << 20):
                yield self.attack(TOO_LARGE, sent, data + bytes(extra + 4 * len(data)))
                yield self.attack(ENDLESS, sent, data + bytes(extra + 4 * len(data)), chunked=True)
        for token in self.bad_tokens(sent):
            headers = {"Authorization": token}
            yield self.attack("http: token", sent, data, headers=headers)

    def bad_tokens(self, sent: Sent) -> Iterator[bytes]:
        good = self.target.tokens
        wrong = "honest" if sent.caller == "authority" else "authority"
        for text in (
            "",
            "Bearer",
            "Bearer " + make_token("user"),
            "Bearer " + make_token("authority"),
            "Bearer " + make_token("invitation"),
            "Bearer " + good[wrong],
            "Basic " + good[sent.caller],
            "Bearer " + good[sent.caller][:-1],
            "Bearer " + good[sent.caller] + "A",
            "Bearer " + good[sent.caller].upper(),
            "Bearer \xff\xfe" + good[sent.caller],
            "Bearer " + "a" * 8000,
            *("Bearer " + each.tokens[sent.caller] for each in self.others),
        ):
            yield text.encode("latin-1")

    def foreign(self) -> Iterator[Attack]:
        """Well-formed messages with ciphertexts and keys of another authority."""
        stranger, rounds = self.target.stranger, self.target.rounds
        guest = stranger.make_user("guest")
        mine = self.target.honest.user
        terms = mine.read_notice(self.target.answers[-1])
        ask = Framed.of(guest.ask(rounds[0].contexts, terms=terms))
        report = Framed.of(
            guest.report(secrets.token_bytes(16), context=rounds[0].contexts[0], reward=0.5)
        )
        for sent in self.target.samples:
            if sent.route in ("rounds", "rewards"):
                made = ask if sent.route == "rounds" else report
                data = replace(made, head=Framed.of(sent.data).head).close()
                yield self.attack("foreign ciphertext", sent, data)
        old = [each for each in self.over if each.route == "tasks" and Framed.of(each.data).parts]
        for sent in self.target.samples:
            if sent.open and sent.route == "tasks":  # a task that waits for another share
                for share in old:
                    data = Framed.of(sent.data).with_part(0, Framed.of(share.data).parts[0])
                    yield self.attack("share of another task", sent, data)
        new = {"user": mine.id.hex(), "round": secrets.token_hex(16)}
        for _ in range(10):
            yield self.attack("foreign ciphertext", self.over[0], ask.with_head(**new))
        put = next(each for each in self.target.samples if each.route.startswith("members/"))
        theirs = stranger.enrolment_of(guest.id)
        yield self.attack("foreign enrolment", put, theirs)
        yield self.attack("foreign enrolment", put, theirs, route=f"members/{guest.id.hex()}")
        rotation = replace(put, route="rotation")
        yield self.attack("foreign", rotation, stranger.rotate())
        yield self.attack("wrong kind", rotation, put.data)
        rogue = self.target.rogue.user.id.hex()
        yield self.attack("other user's enrolment", put, put.data, route=f"members/{rogue}")
        key = replace(put, route="inward-key", caller="honest")
        yield self.attack("foreign inward key", key, guest.inward_key_bytes())

    def requests(self) -> Iterator[Attack]:
        """Requests that are wrong before their bodies are looked at."""
        sent = self.over[0]
        for size in (20_000, 70_000, 200_000):
            yield self.attack(HUGE_HEAD, sent, b"", headers={"X-Much": "a" * size})
        for route in (
            "rounds/%00",
            "rounds/..%2f..",
            "nowhere",
            "rounds/",
            "tasks?a=%ff",
            "rounds",
        ):
            for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
                if (method, route) not in (("GET", "rounds"), ("GET", "tasks?a=%ff")):
                    yield self.attack("http: route", replace(sent, method=method), b"", route=route)
        for name in ("members/zz", "members/" + "0" * 32, "members/" + "g" * 32, "rotation"):
            for hash in (b"", b"\xff", b"0" * 63, b"0" * 64, b"Z" * 64):
                headers = {"Helba-Token-Sha256": hash}
                put = replace(sent, method="PUT", route=name, caller="authority")
                yield self.attack("http: members", put, b"x", headers=headers)
        yield self.attack(
            "http: unknown member", replace(put, method="DELETE"), b"", route="members/" + "0" * 32
        )
        yield self.attack("http: body of terms", sent, b"x", route="terms")
        for minutes in ("-1", "1e9", "NaN", "9" * 400, "%00"):
            route = f"history?minutes={minutes}"
            yield self.attack("http: query", replace(sent, method="GET"), b"", route=route)

    # -- as many as are wanted

    def random(self) -> Iterator[Attack]:
        while True:
            sent = self.chance.choice(self.target.samples)
            yield from self.of_random(sent)

    def of_random(self, sent: Sent) -> Iterator[Attack]:
        data, chance = sent.data, self.chance
        yield self.attack("flip", sent, flip(data, chance))
        yield self.attack("truncated", sent, data[: chance.randrange(len(data))])
        yield self.attack("extended", sent, data + chance.randbytes(chance.randint(1, 99)))
        yield self.attack("noise", sent, chance.randbytes(chance.randint(0, 3000)))
        for name in ("rounds", "rewards", "tests", "tasks"):
            body = data[: chance.randrange(400)] + chance.randbytes(chance.randint(0, 200))
            yield self.attack(
                "noise", replace(sent, method="POST", caller="honest"), body, route=name
            )
        if not is_framed(data):
            return
        start = len(data) - sum(map(len, Framed.of(data).parts)) - DIGEST_BYTES
        yield self.attack("flip at the start", sent, flip(data, chance, high=max(30, start)))
        if not sent.open:
            yield self.attack(REPLAY, sent, data)
            yield from self.of_altered(sent)

    def of_altered(self, sent: Sent) -> Iterator[Attack]:
        framed = Framed.of(sent.data)
        change: Callable[[bytes], bytes] = lambda part: altered_seal(part, self.chance)  # noqa: E731
        for _ in range(3):
            if framed.parts:
                index = self.chance.randrange(len(framed.parts))
                changed = framed.with_part(index, change(framed.parts[index]))
                yield self.attack("altered ciphertext", sent, changed)
        head = flip(framed.head, self.chance)
        if sent.route in ("rewards", "tests"):  # an ask with another id is another ask
            yield self.attack("altered head", sent, replace(framed, head=head).close())
