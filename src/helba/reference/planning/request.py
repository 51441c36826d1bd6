"""What a plan is asked for: sizes, bounds of the problem, and who may help to refresh."""

from __future__ import annotations

from dataclasses import dataclass

from helba.bandits.settings import Settings
from helba.errors import InvalidInput, require_between, require_choice, require_whole
from helba.reference.planning.parameters import MOST_SCALE_BITS
from helba.ring.security import RING_DIMS, SECURITY_LEVELS

REFRESHES = ("client", "bootstrap", "none")
ARGMAX_CHOICES = ("auto", "product", "sum")
KEY_MODES = ("own", "shared", "switched")


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """A checked request. Bounds of the problem are those of the synthetic one unless told.

    `refresh` says how levels come back: "client" (masked, by a user who is online), "bootstrap" (by
    the server alone) or "none". `argmax` is "product", "sum", or "auto": the product where it
    stands well above the noise and fits, for it shows the winner only. `keys` says whose keys users
    have: their "own", to which answers are re-encrypted; one that is "shared", as in the paper; or
    their own in both directions, where also what they send is "switched" to the collective key. A
    root, and the paper's profile, take refreshes in a round.
    `ring_dim`, `depth` and `scale_bits` fix what the planner would choose.
    """

    dim: int
    arms: int
    horizon: int
    security: int = 128
    profile: str = "ciphertext"
    refresh: str = "client"
    bonus: str = "quadratic"
    schedule: str = "trace"
    argmax: str = "auto"
    length: float = 1.0
    parameter_bound: float = 1.0
    noise: float = 0.5
    reward_max: float = 4.0
    ridge: float = 1.0
    delta: float = 0.01
    trace_threshold: float = 1.0
    growth: float = 0.1
    keys: str = "own"
    ring_dim: int | None = None
    depth: int | None = None
    scale_bits: int | None = None

    def __post_init__(self) -> None:
        require_choice("refresh", self.refresh, REFRESHES)
        require_choice("argmax", self.argmax, ARGMAX_CHOICES)
        require_choice("keys", self.keys, KEY_MODES)
        if self.security not in SECURITY_LEVELS:
            raise InvalidInput("security", self.security, "one of 128, 192, 256")
        if self.ring_dim is not None and self.ring_dim not in RING_DIMS:
            raise InvalidInput("ring_dim", self.ring_dim, "a power of two from 2^13 to 2^17")
        if self.depth is not None:
            require_whole("depth", self.depth, least=1, most=100)
        if self.scale_bits is not None:
            require_whole("scale_bits", self.scale_bits, least=35, most=MOST_SCALE_BITS)
        if self.profile == "paper" and self.argmax != "auto":
            raise InvalidInput("argmax", repr(self.argmax), "auto in the paper's profile")
        for name, low, high in (("length", 1e-6, 1e6), ("ridge", 1e-9, 1e9)):
            require_between(name, getattr(self, name), low, high)
        self.settings()

    def settings(self) -> Settings:
        """Return the settings of the twin that this plan serves; they check the rest."""
        return Settings(
            dim=self.dim,
            arms=self.arms,
            horizon=self.horizon,
            length=self.length,
            parameter_bound=self.parameter_bound,
            noise=self.noise,
            reward_max=self.reward_max,
            ridge=self.ridge,
            delta=self.delta,
            trace_threshold=self.trace_threshold,
            growth=self.growth,
            profile=self.profile,
            bonus=self.bonus,
            schedule=self.schedule,
        )
