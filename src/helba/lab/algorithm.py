"""The algorithms by name: baselines, and HELBA's twin in every profile."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from helba.errors import require_choice, require_whole

if TYPE_CHECKING:
    from helba.bandits import Policy, Settings

ALGORITHMS = (
    "oful",
    "rsoful",
    "rsoful-tr",
    "helba",
    "helba-sqrt",
    "helba-paper",
    "oful-tuned",
    "ldp",
    "uniform",
)


def make_policy(name: str, *, settings: Settings, seed: int = 0) -> Policy:
    """Return the policy called `name`; `seed` is for those that draw random numbers.

    "helba" follows `settings.profile` and `settings.bonus`; "helba-sqrt" is the ciphertext profile
    with the square-root bonus and "helba-paper" the paper's profile and bonus, whatever the
    settings say. "oful-tuned" is OFUL with whatever `settings.radius_scale` says; tuning is the
    caller's.
    """
    require_choice("algorithm", name, ALGORITHMS)
    require_whole("seed", seed, least=0, most=2**64 - 1)
    if name == "helba-sqrt":
        settings = replace(settings, profile="ciphertext", bonus="sqrt")
    elif name == "helba-paper":
        settings = replace(settings, profile="paper", bonus="sqrt")
    if name.startswith("helba"):
        return _make_twin(settings)
    if name in ("oful", "oful-tuned"):
        from helba.bandits.oful import Oful

        return Oful(settings)
    if name in ("rsoful", "rsoful-tr"):
        from helba.bandits.oful import RarelySwitchingOful

        return RarelySwitchingOful(settings, rule="trace" if name == "rsoful-tr" else "determinant")
    if name == "ldp":
        from helba.bandits.ldp import LdpOful

        return LdpOful(settings, seed=seed)
    from helba.bandits.uniform import Uniform

    return Uniform(settings, seed=seed)


def _make_twin(settings: Settings) -> Policy:
    if settings.profile == "paper":
        from helba.reference.twin.paper import PaperTwin

        return PaperTwin(settings)
    if settings.profile == "shares":
        from helba.bandits.shares import SharesTwin

        return SharesTwin(settings)
    from helba.reference.twin.ciphertext import CiphertextTwin

    return CiphertextTwin(settings)
