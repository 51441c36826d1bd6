"""Whether the server learnt exactly what was acknowledged: its statistics, opened.

The authority's secret key opens what the store has; that must be the sum over all acknowledged
rewards, each once, and nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import select

from helba.service.protocol.keystore import list_members, open_authority
from helba.service.protocol.tokens import read_token_hashes
from helba.service.store import Store
from helba.service.store.table import round_
from tests.service.soak.service import WORDS, Service

# A reward that is lost or counts twice moves the sums by more, as contexts of the toy problem do.
TOLERANCE = 1e-2


@dataclass(frozen=True, kw_only=True)
class Reward:
    """A reward that was sent, and of whom, where that is known."""

    round: str
    context: Sequence[float]
    reward: float
    user: str | None = None


@dataclass(frozen=True, kw_only=True)
class Notes:
    """What users wrote down: all rewards that were sent, by their rounds, and what became of them.

    `receipts` has one for each that came, `enrolled` the hash of the token of each user.
    """

    sent: Mapping[str, Reward]
    receipts: Sequence[tuple[str, bool]]
    enrolled: Mapping[str, str]
    ends: Sequence[Mapping[str, Any]]
    errors: Sequence[str]
    receipt_times: Sequence[float]

    @property
    def acknowledged(self) -> list[Reward]:
        """Every reward that has a receipt."""
        return [self.sent[round] for round in dict.fromkeys(round for round, _ in self.receipts)]


def read_notes(paths: Iterable[Path]) -> Notes:
    """Read notebooks."""
    lines = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    of = {
        kind: [each for each in lines if each["kind"] == kind]
        for kind in ("reward", "receipt", "enrolled", "end", "error")
    }
    sent = [
        Reward(**{name: each[name] for name in ("round", "context", "reward", "user")})
        for each in of["reward"]
    ]
    return Notes(
        sent={each.round: each for each in sent},
        receipts=[(each["round"], each["counted"]) for each in of["receipt"]],
        enrolled={each["user"]: each["token_hash"] for each in of["enrolled"]},
        ends=of["end"],
        errors=[each["line"] for each in of["error"]],
        receipt_times=sorted(each["at"] for each in of["receipt"]),
    )


def audit(
    service: Service, rewards: Sequence[Reward], *, enrolled: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Compare a server that has stopped with what was acknowledged; `faults` is empty if sound."""
    with Store(service.store_url, create=False) as store:
        design, response, count, settings = _open_statistics(service, store)
        chosen = select(round_.c.round, round_.c.user).where(round_.c.reported_at.is_not(None))
        with store.read() as connection:
            stored = {row.round.hex(): row.user.hex() for row in connection.execute(chosen)}
    wanted_design, wanted_response = settings.ridge * np.eye(settings.dim), np.zeros(settings.dim)
    for each in rewards:
        context = np.asarray(each.context, dtype=float)
        wanted_design += np.outer(context, context)
        wanted_response += each.reward * context
    rounds = {each.round for each in rewards}
    deviation = max(
        float(np.abs(design - wanted_design).max()),
        float(np.abs(response - wanted_response).max()),
    )
    report = {
        "acknowledged_rewards": len(rewards),
        "rewards_in_the_statistics": count,
        "lost": len(rounds - stored.keys()),
        "counted_without_receipt": len(stored.keys() - rounds),
        "largest_deviation": deviation,
        "tolerance": TOLERANCE,
    }
    faults = []
    if len(rounds) != len(rewards):
        faults.append("a round was acknowledged for two rewards")
    if count != len(rewards):
        faults.append(f"{len(rewards)} rewards were acknowledged, the statistics have {count}")
    if rounds != stored.keys():
        faults.append("the rounds that the store has as reported are not those acknowledged")
    if deviation > TOLERANCE:
        faults.append(f"the sums deviate by {deviation:.3g}")
    if all(each.user is not None for each in rewards):
        owed, had = Counter(each.user for each in rewards), Counter(stored.values())
        report["users_with_rewards"] = len(owed)
        if owed != had:
            faults.append("the counts of single users differ")
    if enrolled is not None:
        lost = _lost_enrolments(service, enrolled)
        report |= {"acknowledged_enrolments": len(enrolled), "enrolments_lost": lost}
        if lost:
            faults.append(f"{lost} acknowledged enrolments are lost")
    return {**report, "faults": faults}


def _open_statistics(service: Service, store: Store) -> tuple[Any, Any, int, Any]:
    """Design and response, with what is held for the next batch, and how many rewards they have."""
    saved = store.load("main")
    assert saved is not None
    head = json.loads(saved.head)
    authority = open_authority(
        service.keys, passphrase=WORDS, allow_insecure=service.setting.insecure
    )
    engine = authority._scheme.engine(authority._keys.public)
    matrices = authority.deployment.matrices

    def opened(number: int) -> Any:
        vector = engine.vector_from_bytes(saved.parts[number])
        return engine.decrypt(vector, secret_key=authority._keys.secret)

    held = head["held"]
    design = sum((opened(each[0]) for each in held), opened(head["design"]))
    response = sum((opened(each[1]) for each in held), opened(head["response"]))
    return (
        matrices.unpack(design),
        matrices.unpack(response)[:, 0],
        head["samples"] + sum(each[3] for each in held),
        authority.deployment.settings,
    )


def _lost_enrolments(service: Service, enrolled: Mapping[str, str]) -> int:
    members = {each.id.hex() for each in list_members(service.keys) if not each.revoked}
    hashes = {user.hex(): text for user, text in read_token_hashes(service.keys / "server").items()}
    return sum(user not in members or hashes.get(user) != token for user, token in enrolled.items())
