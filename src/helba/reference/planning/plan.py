"""A plan: checked parameters, what they promise, what they cost, and why they were chosen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from helba.reference.numerics.argmax import Disclosure
from helba.reference.numerics.certificate import Certificate
from helba.reference.numerics.composite import CompositeSign
from helba.reference.planning.bounds.flooding import bit_budget
from helba.reference.planning.bounds.noise import NoiseModel
from helba.reference.planning.parameters import Parameters
from helba.reference.planning.request import PlanRequest
from helba.reference.planning.sizes import outward_level, reencryption_key_bytes, working_bytes
from helba.reference.twin.terms import Accuracy
from helba.ring.security import max_log2_qp

MOST_REWARDS = 4096  # past it nobody needs to know


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One choice of the planner, in words, and its reason."""

    name: str
    value: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that is fixed before keys are made.

    An engine starts from `parameters` and `rotations` (and `bootstrap_slots`). `sign` and `method`
    are None in the paper's profile, which has comparisons of its own. Bytes are per round and after
    compression; `refresh_bytes_...` are per refreshed ciphertext. `updates` is how often the growth
    rule alone updates within the horizon; the trace rule may add more. Seconds are predictions for
    the machine that `calibration` names. `accuracy` is that of every update; to an entry of the
    comparison vector CKKS adds up to `comparison_error`, and the server `flood` on purpose.
    """

    request: PlanRequest
    parameters: Parameters
    sign: CompositeSign | None
    method: str | None
    layout: str
    slots: int
    rotations: tuple[int, ...]
    bootstrap_slots: int
    round_levels: int
    update_levels: int
    newton_steps: int
    refreshes_per_round: int
    refreshes_per_update: int
    refresh_points: tuple[str, ...]
    updates: int
    bytes_up: int
    bytes_down: int
    refresh_bytes_up: int
    refresh_bytes_down: int
    switching_key_bytes: int
    seconds_per_round: float
    seconds_per_update: float
    calibration: str
    certificates: dict[str, Certificate]
    estimate_error: float
    accuracy: Accuracy
    comparison_error: float
    flood: float
    score_range: float
    disclosure: Disclosure | None
    reasons: tuple[Choice, ...]

    @property
    def evaluation_key_bytes(self) -> int:
        """Relinearisation key and rotation keys; bootstrapping's own come on top."""
        return (1 + len(self.rotations)) * self.switching_key_bytes

    @property
    def reencryption_key_bytes(self) -> int:
        """What the server keeps for each user: the key to it, and that from it if data switches."""
        level = outward_level(self.parameters)
        outward = reencryption_key_bytes(self.parameters, level=level)
        inward = self.switching_key_bytes if self.request.keys == "switched" else 0
        return 0 if self.request.keys == "shared" else outward + inward

    @property
    def rewards_per_update(self) -> int | None:
        """How many rewards one update takes in, at least, `MOST_REWARDS` if more; None if any."""
        if self.accuracy.inverse_noise.none or self.request.profile != "ciphertext":
            return None
        return self.accuracy.most_bridged(self.request.settings(), most=MOST_REWARDS)

    @property
    def memory_bytes(self) -> int:
        """About what a server takes: evaluation keys, and ciphertexts that it works with."""
        return working_bytes(self.parameters, keys=1 + len(self.rotations))

    @property
    def security(self) -> int:
        """The security level in bits."""
        return self.request.security

    @property
    def max_log2_qp(self) -> int:
        """The largest modulus of this ring at this level."""
        return max_log2_qp(self.parameters.ring_dim, security=self.security)

    @property
    def seconds_per_round_with_updates(self) -> float:
        """A round's seconds and its share of the updates."""
        share = self.updates * self.seconds_per_update / self.request.horizon
        return self.seconds_per_round + share

    def as_json(self) -> dict[str, Any]:
        """Return everything in plain types."""
        request, parameters, sign = self.request, self.parameters, self.sign
        return {
            **{k: v for k, v in asdict(request).items() if k not in _FIXED},
            "ring_dim": parameters.ring_dim,
            "log2_q": parameters.log2_q,
            "log2_p": parameters.log2_p,
            "log2_qp": parameters.log2_qp,
            "max_log2_qp": self.max_log2_qp,
            "depth": parameters.depth,
            "scale_bits": parameters.scale_bits,
            "first_bits": parameters.first_bits,
            "digits": parameters.digits,
            "secret": parameters.secret,
            "covered_by_security_table": parameters.secret == "uniform",
            "fingerprint": parameters.fingerprint,
            "layout": self.layout,
            "slots": self.slots,
            "max_slots": parameters.max_slots,
            "round_levels": self.round_levels,
            "update_levels": self.update_levels,
            "newton_steps": self.newton_steps,
            "refreshes_per_round": self.refreshes_per_round,
            "refreshes_per_update": self.refreshes_per_update,
            "refresh_points": list(self.refresh_points),
            "updates": self.updates,
            "rewards_per_update": self.rewards_per_update,
            "rotation_keys": len(self.rotations),
            "rotations": list(self.rotations),
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "refresh_bytes_up": self.refresh_bytes_up,
            "refresh_bytes_down": self.refresh_bytes_down,
            "evaluation_key_bytes": self.evaluation_key_bytes,
            "estimated_memory_bytes": self.memory_bytes,
            "re_encryption_key_bytes": self.reencryption_key_bytes,
            "estimated_seconds_per_round": self.seconds_per_round,
            "estimated_seconds_per_update": self.seconds_per_update,
            "estimated_seconds_per_round_with_updates": self.seconds_per_round_with_updates,
            "calibration": self.calibration,
            "argmax": self.method or "amax and acomp",
            "sign": None
            if sign is None
            else {
                "degrees": list(sign.degrees),
                "levels": sign.levels,
                "products": sign.products,
                "resolution": sign.resolution,
                "error": sign.error,
            },
            "score_range": self.score_range,
            "disclosure": None
            if self.disclosure is None
            else {
                **asdict(self.disclosure),
                "advantage": self.disclosure.advantage(flood=self.flood),
            },
            "estimate_error": self.estimate_error,
            "comparison_error": self.comparison_error,
            "flood": self.flood,
            "bit_budget": bit_budget(self.comparison_error),
            "reencryption_trace": NoiseModel(parameters).reencryption_trace(level=parameters.depth),
            "certificates": {name: asdict(made) for name, made in self.certificates.items()},
            "reasons": [asdict(choice) for choice in self.reasons],
        }


_FIXED = ("ring_dim", "depth", "scale_bits")
