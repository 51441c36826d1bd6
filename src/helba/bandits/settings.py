"""The settings of a policy: sizes, bounds on the problem, and its own knobs."""

from __future__ import annotations

from dataclasses import dataclass

from helba.errors import (
    require_at_least,
    require_between,
    require_choice,
    require_positive,
    require_whole,
)

PROFILES = ("shares", "ciphertext", "paper")
BONUSES = ("quadratic", "sqrt")
SCHEDULES = ("trace", "public")

# Far past what any engine can do in a lifetime; a slip of the keyboard is told at once.
MOST_DIM = 4096
MOST_ARMS = 65_536
MOST_ROUNDS = 10**9


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Checked, immutable settings of a policy; every one of them is public.

    The first block bounds the problem (Assumption 1 of the paper): contexts are no longer than
    `length` (L), the parameter no longer than `parameter_bound` (S), rewards are clipped to
    [-reward_max, reward_max] and their noise is `noise`-subgaussian (sigma, a standard deviation:
    erratum 15). The second block is the algorithm's: the ridge lambda, the failure probability
    delta, the trace threshold C and growth eta of the update rules, the factor on the radius. The
    profile says how it is computed where it is encrypted: on shares, on ciphertexts alone, or as
    the paper does.
    """

    dim: int
    arms: int
    horizon: int
    length: float
    parameter_bound: float
    noise: float
    reward_max: float

    ridge: float = 1.0
    delta: float = 0.01
    trace_threshold: float = 1.0
    growth: float = 0.1
    radius_scale: float = 1.0
    profile: str = "shares"
    bonus: str = "quadratic"
    schedule: str = "trace"
    privacy_epsilon: float = 1.0
    privacy_delta: float = 1e-5

    def __post_init__(self) -> None:
        require_whole("dim", self.dim, least=1, most=MOST_DIM)
        require_whole("arms", self.arms, least=2, most=MOST_ARMS)
        require_whole("horizon", self.horizon, least=1, most=MOST_ROUNDS)
        for name in ("length", "parameter_bound", "reward_max", "ridge", "radius_scale"):
            require_positive(name, getattr(self, name))
        for name in ("trace_threshold", "growth"):
            require_positive(name, getattr(self, name))
        require_between("privacy_epsilon", self.privacy_epsilon, 1e-6, 1e6)
        require_at_least("noise", self.noise, 0.0)
        require_between("delta", self.delta, 0.0, 1.0)
        require_between("privacy_delta", self.privacy_delta, 1e-300, 1.0)
        require_choice("profile", self.profile, PROFILES)
        require_choice("bonus", self.bonus, BONUSES)
        require_choice("schedule", self.schedule, SCHEDULES)
