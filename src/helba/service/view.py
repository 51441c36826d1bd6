"""What others may see of a tenant: its state, the terms that are served, and the report on it.

Written by the tenant's thread, when the store has it; read by all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.serving.server import Status
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Receipt
from helba.service.evaluator import Outcome

TROUBLE = "something that the tenant needs is away or has ended: see the server's log"


class View:
    """One tenant, as it was after the last turn; `on_key` is called when the key is another."""

    def __init__(
        self, deployment: Deployment, *, on_key: Callable[[], None] = lambda: None
    ) -> None:
        self.deployment = deployment
        self._on_key = on_key
        self.state = "starting"
        self.last_error: str | None = None
        self.notice: bytes | None = None
        self.key: bytes | None = None
        self.public_key: bytes | None = None
        self.batch = 0
        self.wants_help = False
        self.status: Status | None = None
        self.bits: dict[bytes, int] = {}
        self.open_rounds = 0
        self._codec = Codec(deployment)

    def show(self, outcome: Outcome) -> None:
        """Let others see what a call led to."""
        known = self.key
        self.notice, self.batch, self.key = outcome.notice, outcome.batch, outcome.key
        self.wants_help, self.status = outcome.wants_help, outcome.status
        self.bits = dict(outcome.bits)
        self.last_error = None
        if known != self.key:
            self._on_key()

    def receipt(self, round: bytes, *, counted: bool) -> bytes:
        """Return the receipt for a reward."""
        return self._codec.encode(Receipt(round=round, counted=counted))

    def report(self) -> dict[str, Any]:
        """Return what the tenant's report says of plan and progress."""
        deployment, status = self.deployment, self.status
        settings, parameters = deployment.settings, deployment.parameters
        counts = {
            name: None if status is None else getattr(status, name)
            for name in ("round", "samples", "updates", "rejected", "held", "bits", "bit_budget")
        }
        trouble = None if self.last_error is None else TROUBLE  # what it is, only the log says
        troubles = (trouble, None if status is None else status.last_error)
        return {
            "state": self.state,
            "engine": deployment.scheme,
            "simulated": deployment.scheme != "ckks",
            "fingerprint": deployment.fingerprint,
            "key": None if self.key is None else self.key.hex(),
            "keys": deployment.keys,
            "refresh": deployment.refresh,
            "security": parameters.security,
            "ring_dim": parameters.ring_dim,
            "dim": settings.dim,
            "arms": settings.arms,
            "horizon": settings.horizon,
            **counts,
            "enrolled": None if status is None else status.users,
            "rotation_due": None if status is None else status.rotation_due,
            "batch": self.batch,
            "open_rounds": self.open_rounds,
            "last_error": next((each for each in troubles if each), None),
            "learns": who_learns_what(deployment),
        }


def who_learns_what(deployment: Deployment) -> list[dict[str, str]]:
    """Return what each party sees, and what it does not while all follow the protocol."""
    told = "at most one bit a round: update the model or not"
    if deployment.settings.schedule == "public":
        told = "one bit an update, from its check: models are updated at times known beforehand"
    return [
        {
            "who": "key authority",
            "learns": "who takes part: names, public keys; it has the collective secret key and "
            "receives no ciphertext",
            "never": "contexts, rewards, recommendations, unless the server sends it ciphertexts",
        },
        {
            "who": "server",
            "learns": f"times, addresses, sizes (all of a kind are equal), who takes part, {told}",
            "never": "contexts, rewards, scores, arms, the model, unless it works with a user",
        },
        {
            "who": "user",
            "learns": "its own recommendation, and of the model what the order of its own arms and "
            "the gaps of its own scores say; who helps with a refresh knows of an update",
            "never": "what its answers do not say; if it chooses its contexts, they say the model",
        },
    ]
