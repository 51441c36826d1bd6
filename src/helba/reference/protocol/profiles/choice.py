"""The choice of a deployment's profile."""

from __future__ import annotations

from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.profiles.ciphertext import CiphertextProfile
from helba.reference.protocol.profiles.ciphertext_root import CiphertextRootProfile
from helba.reference.protocol.profiles.paper import PaperProfile
from helba.reference.protocol.profiles.profile import Profile


def profile_of(deployment: Deployment) -> Profile:
    """Return the packing and the circuits of the deployment's profile and bonus."""
    settings = deployment.settings
    if settings.profile == "paper":
        return PaperProfile(deployment)
    return (
        CiphertextProfile(deployment)
        if settings.bonus == "quadratic"
        else CiphertextRootProfile(deployment)
    )
